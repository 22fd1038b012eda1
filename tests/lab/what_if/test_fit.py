from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.prepared import prepare
from rebalancer_lab.what_if.fit import Fit, next_landing, with_asked
from rebalancer_lab.what_if.tables import fit_table
from tests.builders import a_node, a_pod, owned_by
from tests.conftest import examples
from tests.lab.what_if.builders import APART, LABELS, SPREAD, a_manifest, a_pod_spec, asked, fit_of
from tests.unit.planning.builders import a_policy, a_workload, planning_inputs


def nodes_of(answer: Fit) -> dict[str, int]:
    return {item.node: item.pods for item in answer.by_node}


def test_pods_land_one_after_the_other_until_none_has_room() -> None:
    inputs = planning_inputs([a_node("a", cpu=3), a_node("b", cpu=2)], [a_workload("web", ["a"])])

    answer = fit_of(inputs, a_manifest())

    assert answer.fits == 4
    assert nodes_of(answer) == {"a": 2, "b": 2}
    assert (answer.landings[0].number, answer.landings[0].probability) == (1, 1.0)
    assert answer.message == "0/2 nodes are available: 2 Insufficient cpu."
    assert [(item.reason, item.count) for item in answer.stopped] == [
        ("NodeResourcesFit: Insufficient cpu", 2)
    ]


def test_each_plugin_that_stops_the_next_pod_is_counted() -> None:
    taint = {"key": "gpu", "effect": "NoSchedule"}
    nodes = [a_node("a", cpu=1), a_node("b", cpu=8, taints=[taint]), a_node("c", cpu=1, unschedulable=True)]

    answer = fit_of(planning_inputs(nodes), a_manifest())

    assert answer.fits == 1
    assert {item.reason.split(":")[0]: item.count for item in answer.stopped} == {
        "NodeResourcesFit": 1,
        "TaintToleration": 1,
        "NodeUnschedulable": 1,
    }
    assert answer.message == (
        "0/3 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s), "
        "1 node(s) were unschedulable."
    )


def test_a_resource_that_no_node_offers_stops_the_first_pod() -> None:
    spec: dict[str, Any] = {"containers": [{"name": "main", "resources": {"limits": {"example.com/gpu": 1}}}]}

    answer = fit_of(planning_inputs([a_node("a")]), a_manifest(**spec))

    assert (answer.fits, answer.message) == (0, "0/1 nodes are available: 1 Insufficient example.com/gpu.")


def test_pods_that_are_pending_take_their_room_first() -> None:
    waiting = a_pod("early", cpu="3", owner=owned_by("ReplicaSet", "early"))

    answer = fit_of(planning_inputs([a_node("a", cpu=4)], pods=[waiting]), a_manifest())

    assert answer.fits == 1
    assert "of 1 pod that is Pending now, 1 fits and is placed first" in answer.notes


def test_the_search_ends_at_the_number_asked_for() -> None:
    answer = fit_of(planning_inputs([a_node("a", cpu=4)]), a_manifest(), at_most=2)

    assert (answer.fits, answer.stopped, answer.message) == (2, (), "")


def test_a_quota_that_admits_fewer_pods_is_named() -> None:
    quota = {
        "metadata": {"name": "tight", "namespace": "default"},
        "spec": {"hard": {"requests.cpu": "5"}},
        "status": {"hard": {"requests.cpu": "5"}, "used": {"requests.cpu": "3"}},
    }

    answer = fit_of(planning_inputs([a_node("a", cpu=8)], resourcequotas=[quota]), a_manifest())

    assert answer.fits == 8
    assert answer.quota == "quota tight, 3 of 5 requests.cpu used: it admits 2 of the 8"


def test_a_pod_of_higher_priority_is_said_to_preempt() -> None:
    classes = [{"metadata": {"name": "vital"}, "value": 1000}]
    inputs = planning_inputs([a_node("a", cpu=1)], [a_workload("web", ["a"])], priorityclasses=classes)

    answer = fit_of(inputs, a_manifest(priorityClassName="vital"))

    assert (answer.fits, answer.priority) == (0, 1000)
    assert answer.preemption == "it may preempt pods of lower priority on 1 node: on a 1, e.g. default/web-0"


def test_a_pod_whose_priority_class_never_preempts_waits() -> None:
    classes = [{"metadata": {"name": "patient"}, "value": 1000, "preemptionPolicy": "Never"}]
    inputs = planning_inputs([a_node("a", cpu=1)], [a_workload("web", ["a"])], priorityclasses=classes)

    assert fit_of(inputs, a_manifest(priorityClassName="patient")).preemption == ""


def test_where_pods_of_an_unknown_scheduler_land_is_not_guessed() -> None:
    answer = fit_of(planning_inputs([a_node("a")]), a_manifest(schedulerName="other"))

    assert (answer.fits, answer.landings) == (0, ())
    assert "schedulerName other is not in the scheduler's configuration" in answer.unpredictable


def test_what_the_model_does_not_know_is_not_guessed() -> None:
    manifest = a_manifest(resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}])

    answer = fit_of(planning_inputs([a_node("a")]), manifest)

    assert answer.fits == 0
    assert "resource claim gpu, which is not modelled" in answer.unpredictable


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("labels", "scheduling.x-k8s.io/pod-group"),
        ("labels", "pod-group.scheduling.sigs.k8s.io"),
        ("annotations", "gang.scheduling.koordinator.sh/name"),
    ],
)
def test_where_pods_land_that_are_placed_together_is_not_guessed(key: str, name: str) -> None:
    manifest = a_manifest("StatefulSet")
    manifest["spec"]["template"]["metadata"].setdefault(key, {})[name] = "training"

    answer = fit_of(planning_inputs([a_node("a")]), manifest)

    assert answer.fits == 0
    assert "training, whose pods are placed together" in answer.unpredictable


def test_more_pods_of_a_workload_that_runs_are_of_its_class() -> None:
    web = a_workload("new", ["a", "b"], kind="StatefulSet", spec={"affinity": APART})
    inputs = planning_inputs([a_node("a"), a_node("b"), a_node("c")], [web])
    manifest = a_manifest("StatefulSet", affinity=APART)

    changed, (index,) = with_asked(inputs, asked(manifest, inputs.snapshot))

    assert changed is inputs
    assert changed.snapshot.pods.classes[index].owner.kind == "StatefulSet"
    assert nodes_of(fit_of(inputs, manifest)) == {"c": 1}


def test_replicas_that_run_already_are_not_asked_for_again() -> None:
    web = a_workload("new", ["a", "b"], kind="StatefulSet", spec={"affinity": APART})
    inputs = planning_inputs([a_node("a"), a_node("b"), a_node("c")], [web])
    manifest = a_manifest("StatefulSet", affinity=APART)

    def said(replicas: int) -> str:
        answer = fit_of(inputs, manifest | {"spec": manifest["spec"] | {"replicas": replicas}})
        return fit_table(answer).plain.splitlines()[0]

    assert said(2) == "StatefulSet default/new: 1 more pod fits, on 1 node"
    assert said(3) == "StatefulSet default/new: the missing replica fits, and no more, on 1 node"
    assert said(4) == "StatefulSet default/new: 1 of its 2 missing replicas fits, on 1 node"


def test_every_resource_that_a_pod_requests_is_named() -> None:
    limits = {"cpu": "1", "example.com/gpu": 2, "ephemeral-storage": "1Gi"}
    manifest = a_manifest(containers=[{"name": "main", "resources": {"limits": limits}}])

    answer = fit_of(
        planning_inputs([a_node("a", extra={"example.com/gpu": "4", "ephemeral-storage": "4Gi"})]), manifest
    )

    assert answer.requests["example.com/gpu"] == 2
    (first, *_) = answer.landings
    assert first.requested["example.com/gpu"] == 50.0
    assert "requests 1000m cpu and 1024 MiB of ephemeral-storage and 2 example.com/gpu" in " ".join(
        fit_table(answer).plain.split()
    )


def test_pods_of_a_new_controller_spread_by_its_selector() -> None:
    """The scheduler's default constraints prefer nodes without pods of the same ReplicaSet."""
    nodes = [a_node("a", cpu=100), a_node("b", cpu=100)]
    inputs = planning_inputs(nodes, services=[])

    answer = fit_of(inputs, a_manifest("Deployment", **a_pod_spec(cpu="10m")), at_most=4)

    assert nodes_of(answer) == {"a": 2, "b": 2}


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[dict[str, Any]], dict[str, Any]]:
    """Nodes in zones, pods on some of them, and a pod to ask about."""
    count = draw(st.integers(1, 4))
    nodes = [
        a_node(
            f"n{number}",
            cpu=draw(st.integers(1, 3)),
            pods=draw(st.integers(1, 5)),
            labels={"zone": draw(st.sampled_from("xyz"))},
        )
        for number in range(count)
    ]
    owner = owned_by("ReplicaSet", "old")
    pods = [
        a_pod(
            f"old-{number}",
            node=draw(st.sampled_from([f"n{at}" for at in range(count)])),
            cpu=draw(st.sampled_from(["0", "250m", "500m"])),
            labels=draw(st.sampled_from([{}, LABELS])),
            owner=owner,
        )
        for number in range(draw(st.integers(0, 3)))
    ]
    spec: dict[str, Any] = a_pod_spec(cpu=draw(st.sampled_from(["500m", "1", "1500m"])))
    spec["affinity"] = draw(st.sampled_from([None, APART]))
    spec["topologySpreadConstraints"] = draw(st.sampled_from([None, SPREAD]))
    return nodes, pods, a_manifest(**spec)


def with_pods_on(
    nodes: Sequence[dict[str, Any]],
    pods: Sequence[dict[str, Any]],
    manifest: dict[str, Any],
    names: Sequence[str],
) -> PlanningInputs:
    """The cluster when the pods asked about have really landed there."""
    content = {key: value for key, value in manifest["spec"].items() if value is not None}
    landed = [a_pod(f"new-{at}", node=name, labels=LABELS, **content) for at, name in enumerate(names)]
    return planning_inputs(nodes, pods=[*pods, *landed])


@settings(max_examples=examples(60), deadline=None)
@given(clusters())
def test_every_landing_is_that_of_a_cluster_where_those_before_it_have_landed(
    cluster: tuple[list[dict[str, Any]], list[dict[str, Any]], dict[str, Any]],
) -> None:
    nodes, pods, manifest = cluster
    answer = fit_of(planning_inputs(nodes, pods=pods), manifest, at_most=10)
    landed = [item.node for item in answer.landings]
    assert answer.fits == len(landed) == sum(nodes_of(answer).values())

    for number in range(answer.fits + 1):
        inputs = with_pods_on(nodes, pods, manifest, landed[:number])
        inputs, (index,) = with_asked(inputs, asked(manifest, inputs.snapshot))
        prepared = prepare(inputs)
        found = next_landing(prepared.schedulers, prepared.state, index)
        if number == answer.fits:
            assert found.landings is None or answer.fits == answer.at_most
            continue
        assert found.landings is not None
        assert found.node is not None
        assert inputs.snapshot.nodes.names[found.node] == landed[number]
        assert float(np.max(found.landings.chance)) == pytest.approx(
            answer.landings[number].probability, abs=1e-6
        )


def test_pods_are_placed_as_if_no_run_had_given_hot_nodes_its_taint() -> None:
    nodes = [a_node("a", cpu=16), a_node("b", cpu=4)]
    steering = a_policy(execution={"steer": "softTaint"})
    inputs = planning_inputs(nodes, [a_workload("web", ["a", "b"])], load={"a": 90.0}, policy=steering)

    assert [item.node for item in fit_of(inputs, a_manifest(), 1).landings] == ["a"]
