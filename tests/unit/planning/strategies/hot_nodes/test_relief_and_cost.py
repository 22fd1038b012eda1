"""Which pods of a node are moved, and what moving each costs."""

from __future__ import annotations

from typing import Any

import msgspec

from rebalancer.cluster.arrays import PodRow
from rebalancer.planning.disruption_cost import Disruption
from rebalancer.planning.plan import Plan
from rebalancer.planning.workloads.lookup import Workloads
from rebalancer.state.run_state import RunState
from tests.builders import a_node
from tests.rows import rows
from tests.unit.planning.builders import (
    NOW,
    a_past_move,
    a_policy,
    a_workload,
    at,
    because,
    kept,
    moved,
    plan_of,
    planning_inputs,
)


def costs(aspect: str, *workloads: Any, state: RunState | None = None) -> list[float]:
    inputs = planning_inputs([a_node("hot")], list(workloads), state=state)
    rows = [PodRow(row) for row in range(len(inputs.snapshot.pods))]
    found = Disruption(inputs, Workloads(inputs.snapshot)).aspects(rows)[aspect]
    return [round(float(cost), 3) for cost in found]


CLAIM = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
SCRATCH = {"name": "scratch", "emptyDir": {}}


def eviction_cost(value: str) -> dict[str, dict[str, str]]:
    return {"annotations": {"scheduling.koordinator.sh/eviction-cost": value}}


def deletion_cost(value: str) -> dict[str, dict[str, str]]:
    return {"annotations": {"controller.kubernetes.io/pod-deletion-cost": value}}


@rows(
    "aspect, first, second, told",
    [
        ("priority", {"spec": {"priority": 10}}, {"spec": {"priority": 20}}, [0.0, 1.0]),
        ("pod_deletion_cost", deletion_cost("-5"), deletion_cost("5"), [0.0, 1.0]),
        ("pod_deletion_cost", deletion_cost("-05"), deletion_cost("05"), [0.0, 1.0]),  # −5 and 0
        ("pod_deletion_cost", deletion_cost("05"), deletion_cost("+5"), [0.0, 0.0]),
        ("pod_deletion_cost", deletion_cost("-" + "0" * 5000 + "5"), deletion_cost("-0"), [0.0, 1.0]),
        ("pod_deletion_cost", deletion_cost("none"), {}, [0.0, 0.0]),
        ("pod_deletion_cost", deletion_cost("9" * 400), {}, [0.0, 0.0]),
        ("pod_deletion_cost", deletion_cost("9" * 5000), {}, [0.0, 0.0]),
        ("age", {"created": at(0)}, {"created": at(-3.5 * 86400)}, [0.0, 0.5]),
        ("replicas", {"replicas": 10}, {"replicas": 1}, [0.1, 1.0]),
        ("readiness", {}, {"ready": False}, [0.0, 0.0]),
        ("eviction_cost", eviction_cost("-5"), eviction_cost("5"), [0.0, 1.0]),
        ("eviction_cost", eviction_cost("much"), {}, [0.0, 0.0]),
        ("eviction_cost", eviction_cost(str(1 << 31)), {}, [0.0, 0.0]),
        ("eviction_cost", eviction_cost("9" * 400), {}, [0.0, 0.0]),
        ("volumes", {}, {"spec": {"volumes": [CLAIM]}}, [0.0, 0.5]),
        ("volumes", {"spec": {"volumes": [CLAIM] * 3}}, {"spec": {"volumes": [SCRATCH]}}, [1.0, 0.0]),
    ],
)
def test_each_cost_of_moving_a_pod_is_weighed(
    aspect: str, first: dict[str, Any], second: dict[str, Any], told: list[float]
) -> None:
    assert costs(aspect, a_workload("a", ["hot"], **first), a_workload("b", ["hot"], **second)) == told


@rows("later", [0.0, 1.0, 59.0, 3599.0, 3600.0, 86_400.0])
def test_which_of_two_pods_is_dearer_by_its_age_does_not_change_from_plan_to_plan(later: float) -> None:
    pods = [
        a_workload("a", ["hot"], created=at(-5000)),
        a_workload("b", ["hot"], created=at(-5000 + later)),
    ]
    inputs = planning_inputs([a_node("hot")], pods)
    first, second = PodRow(0), PodRow(1)
    dearer = set()
    for moment in range(200):
        now = msgspec.structs.replace(inputs, now=inputs.now + 86_400.0 + 3.7 * moment)
        found = Disruption(now, Workloads(inputs.snapshot)).costs([first, second])
        dearer.add(round(float(found[0]), 6) > round(float(found[1]), 6))
    assert len(dearer) == 1


def test_a_workload_short_of_ready_pods_is_dearer() -> None:
    short = a_workload("b", ["hot"], replicas=4)
    short.item["status"]["readyReplicas"] = 3
    assert costs("readiness", a_workload("a", ["hot"]), short) == [0.0, 0.25]


def test_a_workload_whose_replacements_were_slow_to_be_ready_is_dearer() -> None:
    landed = [a_past_move(landed_at=NOW - 600 + seconds, uid=str(seconds)) for seconds in (30, 60, 600)]
    never = a_past_move(workload="ReplicaSet/other", landed_at=None, result="Pending")
    state = RunState(moves=(*landed, never))
    assert costs("time_to_ready", a_workload("web", ["hot"]), a_workload("other", ["hot"]), state=state) == [
        0.0,
        0.2,
    ]


def test_a_workload_that_a_recent_run_moved_to_the_node_is_dearer() -> None:
    week = 7 * 86_400.0
    arrived = [
        a_past_move(workload="ReplicaSet/here", from_node="cool", to_node="hot"),
        a_past_move(workload="ReplicaSet/left", from_node="hot", to_node="cool", uid="left"),
        a_past_move(
            workload="ReplicaSet/nowhere", to_node="", landed_at=None, result="Pending", uid="nowhere"
        ),
        a_past_move(workload="ReplicaSet/long-ago", to_node="hot", evicted_at=NOW - week, uid="long-ago"),
    ]
    workloads = [a_workload(name, ["hot"]) for name in ("here", "left", "nowhere", "long-ago", "other")]
    found = costs("moved_here", *workloads, state=RunState(moves=tuple(arrived)))
    assert found == [1.0, 0.0, 0.0, 0.0, 0.0]


def test_a_pod_that_an_earlier_run_moved_to_a_node_stays_there_where_another_would_do() -> None:
    def taken(since_hours: float) -> set[str]:
        at = NOW - since_hours * 3600
        moved_here = a_past_move(from_node="cool", to_node="hot", evicted_at=at, landed_at=at)
        workloads = [a_workload("other", ["hot"], cpu="2500m"), a_workload("web", ["hot"], cpu="2")]
        nodes = [a_node("hot"), a_node("cool", cpu=16)]
        state = RunState(moves=(moved_here,))
        return set(moved(plan_of(planning_inputs(nodes, workloads, state=state))))

    assert taken(since_hours=10) == {"other-0"}
    assert taken(since_hours=1000) == {"web-0"}


def test_weights_decide_between_sets_of_the_same_size() -> None:
    def taken(**weights: float) -> set[str]:
        workloads = [
            a_workload("dear", ["hot"], cpu="1100m", spec={"priority": 100}),
            a_workload("cheap", ["hot"], cpu="2400m"),
        ]
        policy = a_policy(planning={"weights": weights})
        inputs = planning_inputs([a_node("hot"), a_node("cool", cpu=16)], workloads, policy=policy)
        return set(moved(plan_of(inputs)))

    assert taken() == {"cheap-0"}
    assert taken(priority=0) == {"dear-0"}


def test_two_pods_go_where_the_one_that_would_do_has_no_landing() -> None:
    workloads = [
        a_workload("big", ["hot"], cpu="2", spec={"nodeSelector": {"kubernetes.io/hostname": "hot"}}),
        a_workload("one", ["hot"], cpu="800m"),
        a_workload("two", ["hot"], cpu="700m"),
    ]
    plan = plan_of(planning_inputs([a_node("hot"), a_node("cool", cpu=16)], workloads))
    assert set(moved(plan)) == {"one-0", "two-0"}


def test_a_node_whose_only_landing_another_would_take_goes_first() -> None:
    """The hotter node's pod would go to the ssd too, and leave no room for the one that needs it."""
    workloads = [
        a_workload("free", ["hotter"], cpu="3500m"),
        a_workload("pinned", ["hot"], cpu="3400m", spec={"nodeSelector": {"disk": "ssd"}}),
        a_workload("other", ["hdd"], cpu="400m"),
    ]
    nodes = [
        a_node("hotter"),
        a_node("hot"),
        a_node("ssd", cpu=8, labels={"disk": "ssd"}),
        a_node("hdd", cpu=8),
    ]
    assert moved(plan_of(planning_inputs(nodes, workloads))) == {"free-0": "hdd", "pinned-0": "ssd"}


def test_by_default_no_pod_is_restarted_for_less_than_a_point_of_excess() -> None:
    """A node that stays hot whatever moves: fourteen restarts would remove a point each."""
    pinned = a_workload(
        "pinned", ["a"], cpu="8500m", annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
    )
    small, larger = a_workload("small", ["a"] * 14, cpu="100m"), a_workload("larger", ["a"] * 7, cpu="200m")
    nodes = [a_node(name, cpu=10) for name in "abc"]
    assert moved(plan_of(planning_inputs(nodes, [pinned, small]))) == {}
    assert len(moved(plan_of(planning_inputs(nodes, [pinned, larger])))) == 7
    eager = a_policy(planning={"aggressiveness": 4})
    assert moved(plan_of(planning_inputs(nodes, [pinned, small], policy=eager)))


HELD = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
NO_LIMITS = {"perRun": 1000, "perNode": 1000, "perNamespace": 1000, "perWorkload": "100%"}


def small_pods(pods: int, points: float, held: float = 0.0, **planning: Any) -> Plan:
    """A node of 100 cores with small pods, and a protected one; three idle nodes."""
    nodes = [a_node(name, cpu=100, pods=2000) for name in "abcd"]
    workloads = [a_workload("small", ["a"] * pods, cpu=f"{round(points * 1000)}m")]
    if held:
        workloads.append(a_workload("held", ["a"], cpu=f"{round(held * 1000)}m", annotations=HELD))
    policy = a_policy(limits=NO_LIMITS, planning=planning)
    return plan_of(planning_inputs(nodes, workloads, policy=policy))


@rows(
    "pods, points, held, cools",
    [(9, 10, 0, True), (100, 0.9, 0, True), (100, 0.1, 75, False), (14, 0.8, 79, True), (9, 0.7, 84, False)],
)
def test_small_pods_are_moved_where_together_they_cool_their_node(
    pods: int, points: float, held: float, cools: bool
) -> None:
    plan = small_pods(pods, points, held)
    assert bool(plan.moves) == cools
    assert plan.benefit is not None
    assert plan.benefit.hot_nodes.after == (0 if cools else 1)


@rows("level", [1, 2, 3, 4, 5])
@rows("most", [60, 110])
def test_a_rule_of_pods_per_node_cools_a_node_at_every_position_of_the_dial(level: int, most: int) -> None:
    rule = {"utilization": {"pods": 85}, "coolTo": {"pods": 70}}
    policy = a_policy(
        hotNodes={"forRuns": 1, "any": [rule]}, limits=NO_LIMITS, planning={"aggressiveness": level}
    )
    nodes = [a_node(name, cpu=100, pods=most) for name in "abcd"]
    crowd = [a_workload(f"web{number}", ["a"] * (most // 10), cpu="200m") for number in range(9)]
    plan = plan_of(planning_inputs(nodes, crowd, policy=policy))
    assert plan.benefit is not None
    assert plan.benefit.hot_nodes.after == 0


def test_pods_that_are_small_beside_the_others_of_their_node_stay() -> None:
    crumbs = a_workload("crumb", ["a"] * 40, cpu="100m")
    nodes = [a_node(name, cpu=100, pods=2000) for name in "abcd"]
    plan = plan_of(planning_inputs(nodes, [a_workload("web", ["a"] * 9, cpu="9.7"), crumbs]))
    assert {name.split("-")[0] for name in moved(plan)} == {"web"}


def test_a_pod_that_is_not_worth_its_cost_keeps_no_other_from_moving() -> None:
    """The larger one would be tried first, and is too dear for what it removes."""
    dear = a_workload("dear", ["a"], cpu="160m", spec={"priority": 100})
    pinned = a_workload("held", ["a"], cpu="8500m", annotations=HELD)
    nodes = [a_node(name, cpu=10) for name in "abc"]
    plan = plan_of(planning_inputs(nodes, [dear, pinned, a_workload("cheap", ["a"] * 3, cpu="150m")]))
    assert set(moved(plan)) == {"cheap-0", "cheap-1", "cheap-2"}
    assert "planning.aggressiveness 3 asks for" in because(plan, "dear-0")


def test_moves_that_a_later_one_makes_needless_are_left_out() -> None:
    """The large pod of a finds room only once b has lost its own; until then small pods relieve a."""
    nodes = [a_node("a", cpu=10), a_node("b", cpu=10), a_node("idle", cpu=20)]

    def only_on(node: str) -> dict[str, Any]:
        return {"nodeSelector": {"kubernetes.io/hostname": node}}

    workloads = [
        a_workload("large", ["a"], cpu="3", spec=only_on("b")),
        a_workload("small", ["a", "a"], cpu="500m"),
        a_workload("held-a", ["a"] * 4, cpu="1300m", spec=only_on("a")),
        a_workload("loading", ["b"], cpu="6"),
        a_workload("held-b", ["b"] * 2, cpu="1100m", spec=only_on("b")),
    ]
    plan = plan_of(planning_inputs(nodes, workloads, policy=a_policy()))

    assert moved(plan) == {"loading-0": "idle", "large-0": "b"}
    assert {kept(plan)[f"small-{number}"] for number in range(2)} == {"NotNeeded"}
    assert plan.benefit is not None
    assert plan.benefit.excess.after == 0
