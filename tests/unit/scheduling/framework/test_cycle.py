"""What one scheduling cycle does beside filters and scores: nominated pods, uncertain scores, failures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalancer.cluster.snapshot import Snapshot
from rebalancer.load.scheduler_view import EMPTY_VIEW
from rebalancer.scheduling.framework.cycle import Placement, Scheduler
from rebalancer.scheduling.framework.plugin import PluginInputs
from rebalancer.scheduling.framework.preemption import Preemptions
from rebalancer.scheduling.plugins.node_properties import image_locality
from rebalancer.scheduling.registry import load_configuration, make_scheduler
from rebalancer.scheduling.state.cluster_state import ClusterState
from rebalancer.scheduling.versions.release import Release
from tests.builders import a_node, a_pod, a_snapshot
from tests.conftest import examples

V1 = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
GIBIBYTE = 1 << 30
ZONE_1 = {
    "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {
                "weight": 1,
                "preference": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["1"]}]},
            }
        ]
    }
}
CLAIM = [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]


def _scheduler(snapshot: Snapshot, profiles: str = "") -> Scheduler:
    configuration = load_configuration(V1 + profiles, "test")
    return make_scheduler(configuration, configuration.profiles[0], PluginInputs.of(snapshot, EMPTY_VIEW))


def _landings(snapshot: Snapshot, placement: Placement) -> dict[str, float]:
    return {
        snapshot.nodes.names[row]: float(chance)
        for row, chance in zip(placement.feasible.tolist(), placement.chance.tolist(), strict=True)
        if chance
    }


def _placed(snapshot: Snapshot, release: str = "1.35") -> dict[str, float]:
    """The landings of the pod named ``p``."""
    state = ClusterState.of(snapshot, Release.of(release))
    row = snapshot.pods.row["default", "p"]
    return _landings(snapshot, _scheduler(snapshot).place(state, state.pod_class[row], row))


def _nominated(name: str, node: str, **spec: Any) -> dict[str, Any]:
    pod = a_pod(name, cpu="1", **spec)
    pod["status"] = {**pod.get("status", {}), "phase": "Pending", "nominatedNodeName": node}
    return pod


@pytest.mark.parametrize(("priority", "passes"), [(5, False), (10, False), (20, True)])
def test_room_is_kept_for_nominated_pods_of_the_same_priority_or_a_higher_one(
    priority: int, passes: bool
) -> None:
    pods = [_nominated("waiting", "a", priority=10), a_pod("p", cpu="1", priority=priority)]
    snapshot = a_snapshot(nodes=[a_node("a", cpu="1")], pods=pods)
    assert bool(_placed(snapshot)) is passes
    state, row = ClusterState.of(snapshot), snapshot.pods.row["default", "p"]
    reasons = _scheduler(snapshot).rejections(state, state.pod_class[row], row)
    assert reasons == ({} if passes else {0: "NodeResourcesFit: Insufficient cpu"})


def test_the_node_a_pod_is_nominated_to_is_taken_although_another_scores_higher() -> None:
    nodes = [a_node("a", cpu="2"), a_node("b", cpu="64")]
    assert _placed(a_snapshot(nodes=nodes, pods=[_nominated("p", "a")])) == {"a": 1.0}
    assert _placed(a_snapshot(nodes=nodes, pods=[a_pod("p", cpu="1")])) == {"b": 1.0}


def test_a_nominated_pod_that_is_placed_keeps_no_room_elsewhere() -> None:
    nodes = [a_node("a", cpu="1"), a_node("b", cpu="1")]
    snapshot = a_snapshot(nodes=nodes, pods=[_nominated("waiting", "a"), a_pod("p", cpu="1")])
    state = ClusterState.of(snapshot)
    state.bind(snapshot.pods.row["default", "waiting"], snapshot.nodes.row["b"])
    row = snapshot.pods.row["default", "p"]
    placement = _scheduler(snapshot).place(state, state.pod_class[row], row)
    assert _landings(snapshot, placement) == {"a": 1.0}


def _holding(name: str, size: int | None) -> dict[str, Any]:
    node = a_node(name)
    if size is not None:
        node["status"]["images"] = [{"names": ["web:1"], "sizeBytes": size}]
    return node


def test_where_nodes_report_several_sizes_of_an_image_all_they_lead_to_are_possible() -> None:
    """By the large size b, which holds the image, outweighs its soft taint; by the small one it does not."""
    web = {"name": "c", "image": "web:1"}

    def landings(first: int, second: int) -> dict[str, float]:
        nodes = [_holding("a", None), _holding("b", first), _holding("c", second)]
        nodes[2]["spec"]["unschedulable"] = True
        return _placed(a_snapshot(nodes=nodes, pods=[a_pod("p", containers=[web])]))

    assert landings(GIBIBYTE, GIBIBYTE) == {"b": 1.0}
    assert landings(1, 1) == pytest.approx({"a": 0.65, "b": 0.35})  # c, from which a comes next, is closed
    assert landings(1, GIBIBYTE) == landings(GIBIBYTE, 1) == pytest.approx({"a": 0.325, "b": 0.675})


def _with_images(nodes: int, sizes: Sequence[Sequence[int]], holds: Sequence[int], **spec: Any) -> Snapshot:
    """Nodes with images of several sizes, and a pod that names all images; ``holds`` are bits by image."""
    names = [f"image-{number}:1" for number in range(len(sizes))]
    built = []
    for row in range(nodes):
        node = a_node(f"n{row:03}", cpu=str(8 + row % 3), labels={"zone": str(row % 2)})
        held = [number for number in range(len(sizes)) if holds[row % len(holds)] >> number & 1]
        node["status"]["images"] = [
            {"names": [names[number]], "sizeBytes": sizes[number][row % len(sizes[number])]}
            for number in held
        ]
        built.append(node)
    containers = [{"name": f"c-{number}", "image": name} for number, name in enumerate(names)]
    return a_snapshot(nodes=built, pods=[a_pod("p", cpu="1", containers=containers, **spec)])


def test_more_sizes_than_can_be_tried_leave_the_nodes_that_some_sizes_lead_to() -> None:
    """Of two nodes with the same images of many sizes either may be chosen, and one with none is not."""
    sizes = [[GIBIBYTE // 10, GIBIBYTE]] * 11
    assert _placed(_with_images(2, sizes, [(1 << 11) - 1])).keys() == {"n000", "n001"}
    assert _placed(_with_images(2, sizes, [0, (1 << 11) - 1])) == {"n001": 1.0}


@settings(max_examples=examples(60))
@given(data=st.data(), nodes=st.sampled_from([2, 5, 12, 130]), release=st.sampled_from(["1.34", "1.35"]))
def test_bounds_of_scores_never_rule_out_a_node_that_some_sizes_lead_to(
    data: st.DataObject, nodes: int, release: str
) -> None:
    size = st.integers(1, 12).map(lambda tenth: tenth * GIBIBYTE // 10)
    sizes = data.draw(st.lists(st.lists(size, min_size=1, max_size=3), min_size=1, max_size=4))
    holds = data.draw(st.lists(st.integers(0, (1 << len(sizes)) - 1), min_size=1, max_size=7))
    snapshot = _with_images(nodes, sizes, holds, affinity=ZONE_1)
    exact = _placed(snapshot, release)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(image_locality, "MAX_SIZE_COMBINATIONS", 1)
        bounded = _placed(snapshot, release)
    assert exact.keys() <= bounded.keys()
    assert sum(bounded.values()) == pytest.approx(1.0)
    if len(bounded) == 1:
        assert exact == bounded


def test_a_preferred_node_affinity_that_does_not_parse_fails_the_cycle_where_nodes_are_scored() -> None:
    term = {"matchExpressions": [{"key": "gen", "operator": "Gt", "values": ["-1"]}]}
    preferred = [{"weight": 1, "preference": term}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    pods = [a_pod("p", affinity=affinity)]
    assert _placed(a_snapshot(nodes=[a_node("a"), a_node("b")], pods=pods)) == {}
    assert _placed(a_snapshot(nodes=[a_node("a")], pods=pods)) == {"a": 1.0}


def test_a_claim_that_a_placed_pod_uses_is_provisioned_on_its_node() -> None:
    lazy = {"metadata": {"name": "lazy"}, "provisioner": "d", "volumeBindingMode": "WaitForFirstConsumer"}
    claim = {"metadata": {"name": "c", "namespace": "default"}, "spec": {"storageClassName": "lazy"}}
    pods = [a_pod("first", volumes=CLAIM), a_pod("p", volumes=CLAIM)]
    snapshot = a_snapshot(
        nodes=[a_node("a"), a_node("b")],
        pods=pods,
        persistentvolumeclaims=[claim],
        storageclasses=[lazy],
    )
    state, scheduler = ClusterState.of(snapshot), _scheduler(snapshot)
    kind = state.pod_class[snapshot.pods.row["default", "p"]]
    assert scheduler.feasible(state, kind).tolist() == [True, True]
    first = snapshot.pods.row["default", "first"]
    state.bind(first, 1)
    assert scheduler.feasible(state, kind).tolist() == [False, True]
    state.remove(first)
    assert scheduler.feasible(state, kind).tolist() == [True, True]


def test_what_is_summed_over_bound_pods_is_kept_up_to_date_in_every_copy() -> None:
    snapshot = a_snapshot(nodes=[a_node("a"), a_node("b")], pods=[a_pod("p"), a_pod("q")])
    state = ClusterState.of(snapshot)
    assert state.bound_sum("owner", lambda _: 3).tolist() == [0, 0]
    state.bind(0, 1)
    other = state.copy()
    other.bind(1, 0)
    other.remove(0)
    assert state.bound_sum("owner", lambda _: 3).tolist() == [0, 3]
    assert other.bound_sum("owner", lambda _: 3).tolist() == [3, 0]
    assert other.bound_sum("another", lambda _: 1).tolist() == [1, 0]


@pytest.mark.parametrize(("release", "score"), [("1.35", 100), ("1.36", 75)])
def test_balanced_allocation_compares_with_the_node_as_it_is_since_1_36(release: str, score: int) -> None:
    pods = [a_pod("p", cpu="500m", memory="1Gi")]
    snapshot = a_snapshot(nodes=[a_node(name, cpu="4", memory="8Gi") for name in "ab"], pods=pods)
    placement = _scheduler(snapshot).place(ClusterState.of(snapshot, Release.of(release)), 0)
    assert placement.scores["NodeResourcesBalancedAllocation"].tolist() == [score, score]


# As the README of scheduler-plugins has it.
TOLERATION = (
    "profiles: [{plugins: {postFilter: {enabled: [{name: PreemptionToleration}], "
    "disabled: [{name: DefaultPreemption}]}}}]\n"
)


@pytest.mark.parametrize("profiles", ["", TOLERATION])
def test_pods_are_preempted_where_there_are_some_of_lower_priority(profiles: str) -> None:
    # A plan asks of the cluster before its moves, where "free" admits the pod.
    snapshot = a_snapshot(
        nodes=[a_node("free", cpu="4"), a_node("taken", cpu="4")],
        pods=[a_pod("low", node="taken", cpu="3"), a_pod("p", cpu="2", priority=100)],
    )
    state = ClusterState.of(snapshot, Release.of("1.35"))
    pods, nodes = snapshot.pods.row, snapshot.nodes.row

    found = Preemptions(state).of(_scheduler(snapshot, profiles), state.pod_class[pods["default", "p"]])

    assert (found.nodes.tolist(), found.victims) == ([nodes["taken"]], (pods["default", "low"],))


@settings(max_examples=examples(100))
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(1, 9)), min_size=1, max_size=12))
def test_a_node_that_none_of_the_best_of_each_kind_is_preferred_to_has_none_preferred_to_it(
    nodes: list[tuple[int, int, int]],
) -> None:
    """Nodes have soft taints, a label that the pod prefers, and so many cores."""
    items = [
        a_node(
            f"n{at}",
            cpu=cores,
            labels={"rank": str(rank)},
            taints=[{"key": f"t{number}", "effect": "PreferNoSchedule"} for number in range(taints)],
        )
        for at, (taints, rank, cores) in enumerate(nodes)
    ]
    terms = [{"weight": rank, "preference": {"matchExpressions": [_is("rank", rank)]}} for rank in (1, 2)]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}
    snapshot = a_snapshot(nodes=items, pods=[a_pod("p", cpu="100m", affinity=affinity)])
    state = ClusterState.of(snapshot)
    placement = _scheduler(snapshot).place(state, state.pod_class[0])
    every = np.arange(len(nodes))
    for plugins in (["TaintToleration"], ["TaintToleration", "NodeAffinity"], []):
        best = placement.best_of_each_kind(plugins, placement.feasible)
        preferred = placement.preferred(plugins, every, placement.feasible).any(axis=1)
        assert placement.preferred(plugins, every, best).any(axis=1).tolist() == preferred.tolist()


def _is(key: str, value: int) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": [str(value)]}
