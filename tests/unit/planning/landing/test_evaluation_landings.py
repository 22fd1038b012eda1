"""Promise 2: no eviction without a better landing, in every state the cluster may be in."""

from __future__ import annotations

from typing import Any

import pytest

from rebalancer.scheduling.registry import load_configuration
from rebalancer.state.run_state import RunState
from tests.builders import a_node, a_pod
from tests.rows import rows
from tests.unit.planning.builders import (
    NOW,
    a_past_move,
    a_policy,
    a_workload,
    at,
    kept,
    moved,
    plan_of,
    planning_inputs,
    with_scheduler,
)
from tests.unit.planning.landing.hot_pods import UNKNOWN, hot_pod, only, with_cool

SPREADING = load_configuration(
    """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint: {disabled: [{name: "*"}], enabled: [{name: PrioritySort}, {name: DefaultBinder}]}
    preFilter: {enabled: [{name: NodeResourcesFit}]}
    filter: {enabled: [{name: NodeUnschedulable}, {name: NodeAffinity}, {name: NodeResourcesFit}]}
    score: {enabled: [{name: NodeResourcesFit}]}
""",
    "test",
)
PACKING = load_configuration(
    """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint: {disabled: [{name: "*"}], enabled: [{name: PrioritySort}, {name: DefaultBinder}]}
    preFilter: {enabled: [{name: NodeResourcesFit}]}
    filter: {enabled: [{name: NodeResourcesFit}]}
    score: {enabled: [{name: NodeResourcesFit}]}
  pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}
""",
    "test",
)


def just_ready(seconds: float) -> dict[str, Any]:
    node = a_node("cool", cpu=8)
    node["status"]["conditions"][0]["lastTransitionTime"] = at(-seconds)
    return node


def being_deleted() -> dict[str, Any]:
    node = a_node("cool", cpu=8)
    node["metadata"]["deletionTimestamp"] = at(-1)
    return node


def tainted(key: str) -> dict[str, Any]:
    return a_node("cool", cpu=8, taints=[{"key": key, "value": "x", "effect": "PreferNoSchedule"}])


def test_a_pod_moves_to_a_node_that_stays_cool() -> None:
    plan = with_cool(a_node("cool", cpu=8))
    assert moved(plan) == {"web-0": "cool"}
    assert plan.moves[0].gain == {"cpu": 43.75}


def test_the_node_left_is_no_landing() -> None:
    nodes = [a_node("hot", cpu=10), a_node("small", cpu=1)]
    plan = plan_of(planning_inputs(nodes, [hot_pod()], load={"hot": 90}))
    only("NoBetterLanding", "hot is the node it leaves", plan)


@rows(
    "cool, words",
    [
        (a_node("cool", cpu=8, ready=False), "cool is not Ready"),
        (just_ready(119), "cool became Ready only just now"),
        (being_deleted(), "cool is being deleted"),
        (tainted("ToBeDeletedByClusterAutoscaler"), "cool is about to be removed"),
        (tainted("DeletionCandidateOfClusterAutoscaler"), "cool is about to be removed"),
        (tainted("karpenter.sh/disrupted"), "cool is about to be removed"),
        (a_node("cool"), "cool would be at 87.5 % cpu, hot above 80.0 %"),
    ],
)
def test_no_pod_is_sent_to_a_node_to_avoid(cool: dict[str, Any], words: str) -> None:
    only("NoBetterLanding", words, with_cool(cool))


def test_a_node_ready_for_long_enough_is_a_landing() -> None:
    assert moved(with_cool(just_ready(121))) == {"web-0": "cool"}


def test_a_node_without_figures_is_never_a_landing() -> None:
    only(
        "NoBetterLanding",
        "cool has no fresh load figure",
        with_cool(a_node("cool", cpu=8), load={"cool": UNKNOWN}),
    )


def test_a_node_holding_a_pod_that_could_not_be_read_is_never_a_landing() -> None:
    unread = a_pod("odd", node="cool", cpu="-1")
    plan = with_cool(a_node("cool", cpu=8), pods=[unread])
    only("NoBetterLanding", "cool runs a pod that could not be read", plan)


def test_a_settling_node_is_never_a_landing() -> None:
    past = a_past_move(to_node="cool", workload="ReplicaSet/x", controller_uid="x", result="Unknown", load={})
    plan = with_cool(a_node("cool", cpu=8), state=RunState(moves=(past,)), window=900.0)
    only("NoBetterLanding", "whose load is unknown", plan)


def test_the_load_of_past_moves_counts_where_figures_do_not_show_it_yet() -> None:
    past = a_past_move(
        to_node="cool",
        workload="ReplicaSet/x",
        controller_uid="x",
        load={"cpu": 4000.0, "memory": 0.0},
        landed_at=NOW - 10,
    )
    state = RunState(moves=(past,))
    assert moved(with_cool(a_node("cool", cpu=8), load={"cool": 10})) == {"web-0": "cool"}
    only(
        "NoBetterLanding",
        "cool would be at",
        with_cool(a_node("cool", cpu=8), load={"cool": 10}, state=state, window=900.0),
    )


@pytest.mark.parametrize(("load", "moves"), [(38.7, True), (38.8, False)])
def test_a_move_must_gain_min_gain_points(load: float, moves: bool) -> None:
    nodes = [a_node("hot", cpu=10), a_node("cool", cpu=10)]
    pods = [a_workload("web", ["hot"], cpu="3760m"), a_workload("rest", ["hot"], kind="DaemonSet", cpu="5")]
    policy = a_policy(
        hotNodes={"any": [{"utilization": {"cpu": 80}, "coolTo": {"cpu": 50}}]}, planning={"minGain": 5}
    )
    plan = plan_of(planning_inputs(nodes, pods, policy=policy, load={"hot": 81.34, "cool": load}))
    assert bool(moved(plan)) is moves


def test_a_move_gains_in_one_resource_that_its_node_is_hot_in_and_is_worse_in_no_other() -> None:
    """Of memory it gains less than minGain, which another rule asks for, and does not stay for that."""
    policy = a_policy(hotNodes={"any": [{"utilization": {"cpu": 80, "memory": 80}}]})
    nodes = [a_node("hot"), a_node("cool", cpu=40, memory="8Gi")]
    pods = [a_workload("web", ["hot"], cpu="1", memory="1Gi")]
    load = {"hot": (90.0, 83.0), "cool": (1.0, 66.0)}
    plan = plan_of(planning_inputs(nodes, pods, policy=policy, load=load))
    assert [move.gain for move in plan.moves] == [{"cpu": 86.5, "memory": 4.5}]


def test_a_landing_fuller_in_another_resource_that_must_cool_is_refused() -> None:
    """A pool with higher levels: its nodes may be at 78.5 % memory, which is more than where the pod is."""
    pool = {
        "name": "large",
        "nodeSelector": {"matchLabels": {"pool": "large"}},
        "any": [{"utilization": {"cpu": 80, "memory": 90}}],
    }
    policy = a_policy(hotNodes={"any": [{"utilization": {"cpu": 80, "memory": 70}}], "pools": [pool]})
    nodes = [a_node("hot"), a_node("cool", cpu=40, memory="8Gi", labels={"pool": "large"})]
    pods = [a_workload("web", ["hot"], cpu="1", memory="1Gi")]
    load = {"hot": (90.0, 77.0), "cool": (1.0, 66.0)}
    plan = plan_of(planning_inputs(nodes, pods, policy=policy, load=load))
    only(
        "NoBetterLanding", "cool would be at 78.5 % memory, above the 77.0 % of the node that it leaves", plan
    )


def test_what_earlier_moves_have_cooled_need_not_gain_again() -> None:
    policy = a_policy(hotNodes={"any": [{"utilization": {"cpu": 80, "memory": 80}}]})
    nodes = [a_node("hot", cpu=10, memory="10Gi"), a_node("cool", cpu=10, memory="100Gi")]
    pods = [
        a_workload("cpu", ["hot"], cpu="3500m", memory="1Mi"),
        a_workload("memory", ["hot"], cpu="0", memory="5Gi"),
        a_workload("rest", ["hot"], kind="DaemonSet", cpu="5", memory="4Gi"),
        a_workload("other", ["cool"], kind="DaemonSet", cpu="1450m", memory="1Gi"),
    ]
    plan = plan_of(planning_inputs(nodes, pods, policy=policy))
    assert moved(plan) == {"cpu-0": "cool", "memory-0": "cool"}
    assert [set(move.gain) for move in plan.moves] == [{"memory"}, {"cpu"}]


def test_every_tied_node_must_be_acceptable() -> None:
    nodes = [a_node("hot"), a_node("a", cpu=8), a_node("b", cpu=8)]
    plan = plan_of(planning_inputs(nodes, [hot_pod()], configuration=SPREADING))
    assert moved(plan) == {"web-0": "a,b"}
    plan = plan_of(planning_inputs(nodes, [hot_pod()], configuration=SPREADING, load={"b": 60}))
    only("NoBetterLanding", "may land (35%) where it must not: b would be at", plan)


def test_where_ties_are_drawn_their_chances_are_equal_and_sum_to_one() -> None:
    nodes = [a_node("hot"), *(a_node(name, cpu=8) for name in "abc")]
    inputs = planning_inputs(nodes, [hot_pod()], configuration=SPREADING)
    plan = plan_of(with_scheduler(inputs, version="1.34"))
    assert [landing.probability for landing in plan.moves[0].landings] == pytest.approx([1 / 3] * 3, abs=1e-6)


def test_where_the_start_index_decides_a_node_has_the_chance_of_the_indices_that_lead_to_it() -> None:
    """Of the list a b c hot, a search that starts at hot comes to a first; a tenth of searches is a race."""
    nodes = [a_node("hot"), *(a_node(name, cpu=8) for name in "abc")]
    plan = plan_of(planning_inputs(nodes, [hot_pod()], configuration=SPREADING))
    chances = {landing.node: landing.probability for landing in plan.moves[0].landings}
    raced = 0.1 / 3
    assert chances == pytest.approx({"a": 0.45 + raced, "b": 0.225 + raced, "c": 0.225 + raced}, abs=1e-6)


def test_a_scheduler_that_packs_says_where_it_would_put_the_pod() -> None:
    nodes = [a_node("hot", cpu=10), a_node("full", cpu=10), a_node("empty", cpu=10)]
    pods = [
        a_workload("web", ["hot"] * 3, cpu="3"),
        a_workload("other", ["full"], kind="DaemonSet", cpu="6"),
    ]
    plan = plan_of(planning_inputs(nodes, pods, configuration=PACKING))
    only("NoBetterLanding", "full would be at 90.0 % cpu", plan)


def test_a_scheduler_that_packs_is_used_where_its_landing_is_acceptable() -> None:
    nodes = [a_node("hot", cpu=10), a_node("half", cpu=10), a_node("empty", cpu=10)]
    pods = [
        a_workload("web", ["hot"] * 3, cpu="2"),
        a_workload("other", ["half"], kind="DaemonSet", cpu="6500m"),
    ]
    used = {f"web-{number}": 3.0 for number in range(3)} | {"other-0": 1.0}
    plan = plan_of(planning_inputs(nodes, pods, configuration=PACKING, pod_load=used))
    assert moved(plan) == {"web-0": "half"}


def test_a_replacement_that_fits_nowhere_is_not_evicted() -> None:
    nodes = [a_node("hot"), a_node("cool", cpu=40, unschedulable=True)]
    only("NoLanding", "no node is feasible", plan_of(planning_inputs(nodes, [hot_pod()])))


def test_what_the_scheduler_cannot_score_is_not_evicted() -> None:
    pod = hot_pod(spec={"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "missing"}}]})
    plan = plan_of(planning_inputs([a_node("hot"), a_node("cool", cpu=8)], [pod]))
    assert kept(plan) == {"web-0": "NoLanding"}
