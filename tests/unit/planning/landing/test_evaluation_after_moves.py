"""Where a pod may land once earlier moves of the same plan have made room, and in which wave."""

from __future__ import annotations

import pytest

from tests.builders import a_node
from tests.unit.planning.builders import (
    a_workload,
    because,
    kept,
    moved,
    plan_of,
    planning_inputs,
)


def test_a_pod_goes_to_a_node_that_was_hot_only_once_it_has_cooled() -> None:
    """a is cooled first; then b's pod, which only a can take, lands there, a wave later."""
    nodes = [a_node("a", cpu=10), a_node("b"), a_node("c", cpu=20, labels={"disk": "c"})]
    on_c = {"nodeSelector": {"disk": "c"}}
    pods = [
        a_workload("first", ["a"], cpu="9", spec=on_c),
        a_workload("web", ["b"], cpu="3500m", spec={"nodeSelector": {"pool": "x"}}),
    ]
    for node in nodes[:2]:
        node["metadata"]["labels"]["pool"] = "x"
    plan = plan_of(planning_inputs(nodes, pods))
    assert moved(plan) == {"first-0": "c", "web-0": "a"}
    assert [move.wave for move in plan.moves] == [1, 2]


@pytest.mark.parametrize(("rest", "moves"), [(3.2, {"first-0": "c", "web-0": "a"}), (4.8, {"first-0": "c"})])
def test_a_node_that_was_hot_takes_no_pod_beyond_its_threshold(rest: float, moves: dict[str, str]) -> None:
    nodes = [a_node("a", cpu=10), a_node("b"), a_node("c", cpu=20, labels={"disk": "c"})]
    pods = [
        a_workload("first", ["a"], cpu="5", spec={"nodeSelector": {"disk": "c"}}),
        a_workload("rest", ["a"], kind="DaemonSet", cpu="100m"),
        a_workload("web", ["b"], cpu="3500m", spec={"nodeSelector": {"pool": "x"}}),
    ]
    for node in nodes[:2]:
        node["metadata"]["labels"]["pool"] = "x"
    plan = plan_of(planning_inputs(nodes, pods, pod_load={"rest-0": rest}))
    assert moved(plan) == moves
    if "web-0" not in moves:
        assert "% cpu, hot above 80.0 %" in because(plan, "web-0")


def test_what_could_not_move_is_tried_again_once_others_have_left_room() -> None:
    """hotter's pod fits only where the pod of hot is; hot is cooled after hotter was tried."""
    nodes = [a_node("hotter"), a_node("hot", cpu=10), a_node("c", cpu=20, labels={"disk": "c"})]
    pods = [
        a_workload("first", ["hot"], cpu="8100m", spec={"nodeSelector": {"disk": "c"}}),
        a_workload("web", ["hotter"], cpu="3900m", spec={"nodeSelector": {"pool": "x"}}),
    ]
    for node in nodes[:2]:
        node["metadata"]["labels"]["pool"] = "x"
    plan = plan_of(planning_inputs(nodes, pods))
    assert moved(plan) == {"first-0": "c", "web-0": "hot"}
    assert kept(plan) == {}


def test_a_landing_that_needs_evicted_pods_to_be_gone_waits_for_the_next_wave() -> None:
    nodes = [a_node("a", labels={"pool": "x"}), a_node("b", labels={"pool": "x"}, cpu=9), a_node("c", cpu=16)]
    pods = [
        a_workload("big", ["b"], cpu="8", spec={"nodeSelector": {"kubernetes.io/hostname": "c"}}),
        a_workload("web", ["a"], cpu="3500m", spec={"nodeSelector": {"pool": "x"}}),
    ]
    plan = plan_of(planning_inputs(nodes, pods))
    assert [(move.pod.name, move.wave) for move in plan.moves] == [("big-0", 1), ("web-0", 2)]


def test_load_that_is_still_where_it_was_makes_a_landing_wait_for_the_next_wave() -> None:
    """By requests there is room for web on a at once; by load only when first is gone."""
    pool = {"pool": "x"}
    nodes = [
        a_node("a", cpu=10, labels=pool),
        a_node("b", labels=pool),
        a_node("c", cpu=20, labels={"disk": "c"}),
    ]
    pods = [
        a_workload("first", ["a"], cpu="100m", spec={"nodeSelector": {"disk": "c"}}),
        a_workload("web", ["b"], cpu="100m", spec={"nodeSelector": pool}),
    ]
    plan = plan_of(planning_inputs(nodes, pods, pod_load={"first-0": 9.0, "web-0": 3.5}))
    assert moved(plan) == {"first-0": "c", "web-0": "a"}
    assert [move.wave for move in plan.moves] == [1, 2]


def test_a_landing_beside_which_an_evicted_pod_still_ends_waits_for_the_next_wave() -> None:
    """web must not share a zone with first, which leaves zone one in the same run."""
    first_stays_away = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "first"}}, "topologyKey": "zone"}
            ]
        }
    }
    nodes = [
        a_node("a", labels={"zone": "one"}),
        a_node("b", labels={"zone": "three"}),
        a_node("c", cpu=8, labels={"zone": "one"}),
        a_node("d", cpu=8, labels={"zone": "two"}),
    ]
    pods = [
        a_workload("first", ["a"], cpu="3900m", spec={"nodeSelector": {"zone": "two"}}),
        a_workload(
            "web", ["b"], cpu="3500m", spec={"nodeSelector": {"zone": "one"}, "affinity": first_stays_away}
        ),
    ]
    plan = plan_of(planning_inputs(nodes, pods))
    assert moved(plan) == {"first-0": "d", "web-0": "c"}
    assert [move.wave for move in plan.moves] == [1, 2]
