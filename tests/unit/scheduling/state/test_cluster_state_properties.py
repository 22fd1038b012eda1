"""Whatever happens to its pods, a state is what one built from scratch would be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalancer.cluster.snapshot import Snapshot
from rebalancer.load.scheduler_view import EMPTY_VIEW
from rebalancer.scheduling.framework.cycle import Placement, Scheduler
from rebalancer.scheduling.framework.plugin import PluginInputs
from rebalancer.scheduling.registry import load_configuration, make_scheduler
from rebalancer.scheduling.state.cluster_state import GONE, UNBOUND, ClusterState
from tests.builders import a_node, a_pod, a_replica_set, a_snapshot, owned_by
from tests.conftest import examples

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
APP = {"matchLabels": {"app": "web"}}


def _term(labels: Mapping[str, Any], key: str, **more: Any) -> dict[str, Any]:
    return {"labelSelector": labels, "topologyKey": key, **more}


def _required(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}


def _preferred(weight: int, term: dict[str, Any]) -> dict[str, Any]:
    preferred = [{"weight": weight, "podAffinityTerm": term}]
    return {"preferredDuringSchedulingIgnoredDuringExecution": preferred}


def _spread(when: str, key: str) -> dict[str, Any]:
    return {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": APP}


# What a pod of each kind is; the state must keep every count that any of them brings.
KINDS: list[dict[str, Any]] = [
    {"labels": {"app": "web"}, "cpu": "100m"},
    {"labels": {"app": "web"}, "owner": owned_by("ReplicaSet", "web"), "memory": "64Mi"},
    {
        "labels": {"app": "web"},
        "topologySpreadConstraints": [_spread("DoNotSchedule", ZONE), _spread("ScheduleAnyway", HOSTNAME)],
    },
    {"labels": {"app": "db"}, "affinity": {"podAntiAffinity": _required(_term(APP, HOSTNAME))}},
    {"labels": {"app": "web"}, "affinity": {"podAffinity": _required(_term(APP, ZONE))}},
    {
        "labels": {"app": "db"},
        "namespace": "other",
        "affinity": {
            "podAffinity": _preferred(7, _term(APP, ZONE, namespaceSelector={})),
            "podAntiAffinity": _preferred(3, _term({}, HOSTNAME, namespaces=["default", "other"])),
        },
    },
    {
        "labels": {},
        "containers": [{"name": "c", "image": "i:v1", "ports": [{"containerPort": 1, "hostPort": 80}]}],
    },
    {
        "labels": {},
        "cpu": "50m",
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "shared"}}],
    },
    {"labels": {}, "volumes": [{"name": "v", "gcePersistentDisk": {"pdName": "disk"}}]},
]
NODES = 5
PODS = 14


def _snapshot(kinds: list[int], nodes: list[int], terminating: list[bool]) -> Snapshot:
    pods = []
    for index, (kind, node, going) in enumerate(zip(kinds, nodes, terminating, strict=True)):
        pod = a_pod(f"p-{index:02}", node=f"n-{node}" if node >= 0 else "", **KINDS[kind])
        if going:
            pod["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z"
        pods.append(pod)
    claim = {
        "metadata": {
            "name": "shared",
            "namespace": "default",
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
        },
        "spec": {"volumeName": "pv", "accessModes": ["ReadWriteMany"]},
    }
    volume = {"metadata": {"name": "pv"}, "spec": {"csi": {"driver": "d", "volumeHandle": "h"}}}
    limits = [
        {
            "metadata": {"name": f"n-{node}"},
            "spec": {"drivers": [{"name": "d", "allocatable": {"count": node % 2}}]},
        }
        for node in range(NODES)
    ]
    return a_snapshot(
        nodes=[
            a_node(f"n-{node}", cpu=2, pods=6, labels={ZONE: f"z-{node % 2}"} if node < 4 else {})
            for node in range(NODES)
        ],
        pods=pods,
        namespaces=[{"metadata": {"name": name}} for name in ("default", "other")],
        replicasets=[a_replica_set("web", labels={"app": "web"})],
        services=[],
        persistentvolumeclaims=[claim],
        persistentvolumes=[volume],
        csinodes=limits,
    )


def _scheduler(snapshot: Snapshot) -> Scheduler:
    text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    configuration = load_configuration(text, "test")
    inputs = PluginInputs.of(snapshot, EMPTY_VIEW)
    return make_scheduler(configuration, configuration.profiles[0], inputs)


def _contents(placement: Placement) -> tuple[Any, ...]:
    scores = {name: values.tolist() for name, values in placement.scores.items()}
    return (
        placement.feasible.tolist(),
        scores,
        placement.totals.tolist(),
        placement.chance.tolist(),
        placement.rejected,
    )


def _decisions(scheduler: Scheduler, state: ClusterState) -> list[tuple[Any, ...]]:
    classes = range(len(state.classes))
    return [
        (_contents(scheduler.place(state, index)), scheduler.rejections(state, index)) for index in classes
    ]


def _counts(state: ClusterState) -> list[list[Any]]:
    return [state.requested.tolist(), state.scored.tolist(), state.pod_count.tolist()]


def _do(state: ClusterState, action: str, pod: int, node: int) -> None:
    """An action on a pod, if the pod allows it."""
    if action == "bind" and state.node[pod] == UNBOUND:
        state.bind(pod, node)
    elif action == "evict" and state.node[pod] >= 0:
        state.evict(pod)
    elif action == "remove" and state.node[pod] != GONE:
        state.remove(pod)
    elif action == "add":
        state.add(state.pod_class[pod])


def _from_scratch(kinds: list[int], state: ClusterState) -> tuple[Snapshot, ClusterState]:
    """A state built from where the pods are now; pods that are gone or were added are told apart by class."""
    classes_of_kinds = {state.pod_class[index]: kind for index, kind in enumerate(kinds)}
    everyone = [classes_of_kinds[index] for index in state.pod_class]
    gone = [pod for pod, node in enumerate(state.node) if node == GONE]
    nodes = [UNBOUND if node == GONE else node for node in state.node]
    snapshot = _snapshot(everyone, nodes, [bool(flag) for flag in state.terminating])
    fresh = ClusterState.of(snapshot)
    for pod in gone:
        namespace = KINDS[everyone[pod]].get("namespace", "default")
        fresh.remove(snapshot.pods.row[namespace, f"p-{pod:02}"])
    return snapshot, fresh


clusters = st.tuples(
    st.lists(st.integers(0, len(KINDS) - 1), min_size=PODS, max_size=PODS),
    st.lists(st.integers(-1, NODES - 1), min_size=PODS, max_size=PODS),
    st.lists(st.booleans(), min_size=PODS, max_size=PODS),
)
actions = st.lists(
    st.tuples(
        st.sampled_from(("bind", "evict", "remove", "add")),
        st.integers(0, PODS - 1),
        st.integers(0, NODES - 1),
    ),
    max_size=30,
)


def _ordered(kinds: list[int]) -> list[int]:
    """Kinds in the order of the pods' rows: by namespace, then by name."""
    return sorted(kinds, key=lambda kind: KINDS[kind].get("namespace", "default"))


def _by_spec(scheduler: Scheduler, state: ClusterState) -> dict[tuple[Any, ...], Any]:
    """Decisions by what the pod is: two states number their classes differently."""
    decisions = _decisions(scheduler, state)
    return {
        (pod.namespace, tuple(sorted(pod.labels.items())), pod.owner, repr(pod.spec)): decision
        for pod, decision in zip(state.classes, decisions, strict=True)
    }


@settings(max_examples=examples(40), deadline=None)
@given(clusters, actions)
def test_after_any_changes_a_state_decides_as_one_built_from_scratch(
    cluster: tuple[list[int], list[int], list[bool]], steps: list[tuple[str, int, int]]
) -> None:
    kinds, nodes, terminating = cluster
    kinds = _ordered(kinds)
    snapshot = _snapshot(kinds, nodes, terminating)
    scheduler, state = _scheduler(snapshot), ClusterState.of(snapshot)
    _decisions(scheduler, state)  # from here on every count is kept up to date rather than made
    for action, pod, node in steps:
        _do(state, action, pod, node)
    fresh_snapshot, fresh = _from_scratch(kinds, state)
    assert _counts(state) == _counts(fresh)
    found = _by_spec(scheduler, state)
    expected = _by_spec(_scheduler(fresh_snapshot), fresh)
    assert {key: expected[key] for key in found} == found


@settings(max_examples=examples(40), deadline=None)
@given(clusters, actions)
def test_a_copy_is_independent(
    cluster: tuple[list[int], list[int], list[bool]], steps: list[tuple[str, int, int]]
) -> None:
    kinds, nodes, terminating = cluster
    snapshot = _snapshot(_ordered(kinds), nodes, terminating)
    scheduler, state = _scheduler(snapshot), ClusterState.of(snapshot)
    before = _decisions(scheduler, state), _counts(state)
    twin = state.copy()
    for action, pod, node in steps:
        _do(twin, action, pod, node)
    after_twin = _decisions(scheduler, twin), _counts(twin)
    assert (_decisions(scheduler, state), _counts(state)) == before
    for action, pod, node in steps:
        _do(state, action, pod, node)
    assert (_decisions(scheduler, state), _counts(state)) == after_twin
    assert (_decisions(scheduler, twin), _counts(twin)) == after_twin


@settings(max_examples=examples(40), deadline=None)
@given(clusters, st.integers(0, PODS - 1), st.integers(0, NODES - 1))
def test_binding_and_removing_a_pod_leaves_no_trace(
    cluster: tuple[list[int], list[int], list[bool]], pod: int, node: int
) -> None:
    kinds, nodes, terminating = cluster
    snapshot = _snapshot(_ordered(kinds), nodes, terminating)
    scheduler, state = _scheduler(snapshot), ClusterState.of(snapshot)
    before = _decisions(scheduler, state), _counts(state)
    added = state.add(state.pod_class[pod])
    state.bind(added, node)
    state.remove(added)
    assert (_decisions(scheduler, state), _counts(state)) == before
    np.testing.assert_array_equal(state.requested >= 0, np.True_)


@settings(max_examples=examples(40), deadline=None)
@given(clusters, actions, actions, st.sets(st.integers(0, PODS - 1), max_size=3))
def test_pods_that_are_away_for_a_while_leave_no_trace(
    cluster: tuple[list[int], list[int], list[bool]],
    before: list[tuple[str, int, int]],
    afterwards: list[tuple[str, int, int]],
    pods: set[int],
) -> None:
    kinds, nodes, terminating = cluster
    snapshot = _snapshot(_ordered(kinds), nodes, terminating)
    scheduler, state = _scheduler(snapshot), ClusterState.of(snapshot)
    _decisions(scheduler, state)
    for action, pod, node in before:
        _do(state, action, pod, node)
    away = [pod for pod in sorted(pods) if state.node[pod] >= 0 and pod not in state.bound_here]
    twin, without = state.copy(), state.copy()
    for pod in away:
        without.remove(pod)
    with state.without(away):
        assert (_decisions(scheduler, state), _counts(state)) == (
            _decisions(scheduler, without),
            _counts(without),
        )
    assert (_decisions(scheduler, state), _counts(state)) == (_decisions(scheduler, twin), _counts(twin))
    for action, pod, node in afterwards:
        _do(state, action, pod, node)
        _do(twin, action, pod, node)
    assert _decisions(scheduler, state) == _decisions(scheduler, twin)


def test_moves_in_another_order_and_of_another_pod_of_a_class_lead_to_the_same_decisions() -> None:
    snapshot = _snapshot([0, 0, 3], [0, 0, 1], [False] * 3)
    scheduler, state = _scheduler(snapshot), ClusterState.of(snapshot)
    other = state.copy()
    for item, moves in ((state, ((0, 1), (2, 3))), (other, ((2, 3), (1, 1)))):
        for pod, node in moves:
            item.evict(pod)
            item.bind(item.add(item.pod_class[pod]), node)
            item.remove(pod)
    assert (_decisions(scheduler, state), _counts(state)) == (_decisions(scheduler, other), _counts(other))
