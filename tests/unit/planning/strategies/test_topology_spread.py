"""The strategy that spreads pods again where their topology spread constraints do not hold any more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.planning.explanation import PodExplanation
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.landing.spread import SpreadConstraints
from rebalancer.planning.plan import Plan
from rebalancer.planning.planner import Planner
from rebalancer.planning.prepared import prepare
from rebalancer.planning.subjects import SubjectName, find_subject
from tests.builders import a_budget, a_node
from tests.rows import rows
from tests.unit.planning.builders import (
    Workload,
    a_policy,
    a_workload,
    because,
    kept,
    moved,
    plan_of,
    planning_inputs,
    searched,
)

ZONE = "topology.kubernetes.io/zone"
HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"
BOTH = {"topologySpread": {"constraints": [HARD, SOFT]}}


def spread(when: str = HARD, *, app: str = "web", skew: int = 1, **more: Any) -> dict[str, Any]:
    """A constraint over zones."""
    selector = {"matchLabels": {"app": app}}
    found = {"maxSkew": skew, "topologyKey": ZONE, "whenUnsatisfiable": when, "labelSelector": selector}
    return {"topologySpreadConstraints": [{**found, **more}]}


def zones(count: int = 3, **more: Any) -> list[dict[str, Any]]:
    """A node in each zone: a1 in a, b1 in b, c1 in c."""
    return [a_node(f"{zone}1", labels={ZONE: zone}, cpu="64", **more) for zone in "abcdef"[:count]]


def inputs(
    on: str,
    spec: dict[str, Any],
    *,
    nodes: list[dict[str, Any]] | None = None,
    strategies: dict[str, Any] | None = None,
    others: Sequence[Workload] = (),
    **more: Any,
) -> PlanningInputs:
    """Pods of web in these zones, a letter each."""
    web = a_workload("web", [f"{zone}1" for zone in on], spec=spec)
    policy = a_policy(strategies=strategies or {"topologySpread": True})
    return planning_inputs(nodes or zones(), [web, *others], policy=policy, **more)


def planned(on: str, spec: dict[str, Any], **case: Any) -> Plan:
    return plan_of(inputs(on, spec, **case))


def after(on: str, spec: dict[str, Any], **case: Any) -> set[tuple[int, ...]]:
    """How many pods the zones have once the plan is carried out, the fullest first, in every scenario."""
    found = searched(inputs(on, spec, **case)).scenarios.all
    return {tuple(sorted(item.after_termination.pod_count.tolist(), reverse=True)) for item in found}


def test_it_is_off_unless_asked_for() -> None:
    assert planned("aaaa", spread(), strategies={"topologySpread": False}).moves == ()


@rows(
    "on, moves",
    [("aaabbc", 1), ("abc", 0), ("aabc", 0), ("aaaaabbcc", 2), ("aaaabbbbc", 2), ("aaaaaa", 4)],
)
def test_the_fewest_moves_bring_it_within_max_skew(on: str, moves: int) -> None:
    assert len(planned(on, spread()).moves) == moves
    assert {max(found) - min(found) <= 1 for found in after(on, spread())} == {True}


def test_a_plan_says_which_constraint_it_is() -> None:
    plan = planned("aaabbc", spread())

    assert plan.moves[0].because == (
        f"{ZONE} a has 3 pods of its constraint, c 1, maxSkew 1; its replacement will be placed on c1"
    )


@rows(
    "on, more, limits, says",
    [
        ("abc", {}, {}, ""),
        ("aaaa", {}, {}, "constraints that do not hold: 1, after the plan 0"),
        ("aaaa", {}, {"perRun": 1}, "constraints that do not hold: 1, after the plan 1; perRun 1 is reached"),
        ("aaaa", {}, {"perRun": 0}, "constraints that do not hold: 1, after the plan 1; perRun 0 is reached"),
        (
            "aabbcc",
            {"minDomains": 4},
            {},
            f"constraints that do not hold: 1, after the plan 1; pods of default have 3 domains of {ZONE}, "
            "minDomains 4",
        ),
    ],
)
def test_a_plan_says_which_constraints_it_leaves_as_they_are_and_why(
    on: str, more: dict[str, Any], limits: dict[str, Any], says: str
) -> None:
    web = a_workload("web", [f"{zone}1" for zone in on], spec=spread(**more))
    policy = a_policy(strategies={"topologySpread": True}, limits=limits)
    assert (
        plan_of(planning_inputs(zones(), [web], policy=policy)).strategies["topologySpread"].message == says
    )


def test_soft_constraints_count_only_if_asked_for() -> None:
    assert planned("aaaa", spread(SOFT)).moves == ()
    assert after("aaaa", spread(SOFT), strategies=BOTH) == {(2, 1, 1)}


def test_protected_pods_and_pods_without_the_constraint_count_as_they_do_for_the_scheduler() -> None:
    bare = a_workload("bare", ["b1", "b1", "c1", "c1"], labels={"app": "web"})
    budget = a_budget("bare", labels={"app": "web"}, allowed=0)

    assert moved(planned("aaa", spread(), others=[bare])) == {}
    assert moved(planned("aaa", spread(), others=[bare], poddisruptionbudgets=[budget])) == {}


def test_a_pod_moves_that_counts_without_a_constraint_of_its_own() -> None:
    bare = a_workload("bare", ["a1", "a1", "a1"], labels={"app": "web"}, spec={"nodeSelector": {ZONE: "b"}})
    plan = planned("c", spread(), others=[bare])

    assert moved(plan) == {"bare-0": "b1"}


def test_a_domain_without_room_makes_no_loop() -> None:
    nodes = [*zones(2), a_node("c1", labels={ZONE: "c"}, cpu="100m")]
    plan = planned("aabb", spread(), nodes=nodes)

    assert plan.moves == ()
    assert set(kept(plan).values()) == {"NoLanding"}


@rows("on, left", [("aaaabb", (3, 3)), ("aaaaa", (3, 2)), ("aaabb", (3, 2)), ("aaaaaaaab", (5, 4))])
def test_where_the_emptiest_domain_has_no_room_the_others_are_spread_by_the_fewest_moves(
    on: str, left: tuple[int, int]
) -> None:
    nodes = [*zones(2), a_node("c1", labels={ZONE: "c"}, cpu="100m")]
    case = {"nodes": nodes, "strategies": BOTH}

    assert after(on, spread(SOFT), **case) == {(*left, 0)}
    assert len(planned(on, spread(SOFT), **case).moves) == on.count("a") - left[0]


def test_before_a_later_wave_pods_may_still_move_to_where_they_are_spread_more_evenly() -> None:
    nodes = [*zones(2), a_node("c1", labels={ZONE: "c"}, cpu="100m")]
    case = inputs("aaaaaaaab", spread(SOFT), nodes=nodes, strategies=BOTH)
    moves = plan_of(case).moves

    assert [str(item) for item in Planner(case).recheck(moves[2:]).values() if isinstance(item, str)] == []


def test_min_domains_asks_for_domains_that_are_not_there() -> None:
    assert planned("aabb", spread(minDomains=3), nodes=zones(2)).moves == ()
    assert after("aaab", spread(minDomains=3, maxSkew=2), nodes=zones(2)) == {(2, 2)}


def test_nodes_that_its_affinity_excludes_are_no_domains() -> None:
    only = {"nodeSelector": {"kubernetes.io/os": "linux"}}
    nodes = [
        a_node(f"{z}1", labels={ZONE: z, **({"kubernetes.io/os": "linux"} if z != "c" else {})})
        for z in "abc"
    ]

    assert planned("aabb", {**spread(), **only}, nodes=nodes).moves == ()
    everywhere = planned("aabb", {**spread(nodeAffinityPolicy="Ignore"), **only}, nodes=nodes)
    assert set(kept(everywhere).values()) == {"NoLanding"}


def test_tainted_nodes_are_no_domains_where_the_constraint_honors_taints() -> None:
    taint = [{"key": "dedicated", "value": "", "effect": "NoSchedule"}]
    nodes = [*zones(2), a_node("c1", labels={ZONE: "c"}, taints=taint)]

    assert planned("aabb", spread(nodeTaintsPolicy="Honor"), nodes=nodes).kept == ()
    assert set(kept(planned("aabb", spread(), nodes=nodes)).values()) == {"NoLanding"}


def test_revisions_are_spread_by_themselves_where_the_constraint_says_so() -> None:
    old = a_workload(
        "old", ["a1", "a1"], labels={"app": "web", "rev": "1"}, spec=spread(matchLabelKeys=["rev"])
    )
    new = a_workload(
        "new", ["b1", "c1"], labels={"app": "web", "rev": "2"}, spec=spread(matchLabelKeys=["rev"])
    )
    inputs = planning_inputs(zones(), [old, new], policy=a_policy(strategies={"topologySpread": True}))

    assert len(plan_of(inputs).moves) == 1
    assert set(moved(plan_of(inputs))) <= {"old-0", "old-1"}


def test_no_move_serves_one_constraint_at_the_expense_of_another() -> None:
    hosts = {**spread()["topologySpreadConstraints"][0], "topologyKey": "kubernetes.io/hostname"}
    both = {"topologySpreadConstraints": [*spread()["topologySpreadConstraints"], hosts]}

    assert after("aaab", both) == {(2, 1, 1)}


def test_other_strategies_do_not_skew_what_it_spreads() -> None:
    """A pod of the node without a label may land in zone b only, where there are enough."""
    app, count = spread(SOFT), {"app": "web"}
    lone = a_workload("lone", ["a1"], labels=count, spec={"nodeSelector": {"disk": "ssd"}})
    nodes = [*zones(1), a_node("b1", labels={ZONE: "b", "disk": "ssd"})]
    others = {"misplaced": True}
    alone = planned("bb", app, nodes=nodes, others=[lone], strategies=others)
    both = planned("bb", app, nodes=nodes, others=[lone], strategies={**others, **BOTH})

    assert moved(alone) == {"lone-0": "b1"}
    assert "lone-0" not in moved(both)
    assert "b1 would bring a topology spread constraint further from its maxSkew" in because(both, "lone-0")


@pytest.mark.parametrize("skew", [-(2**31), -1, 0])
def test_a_skew_below_any_that_the_api_admits_keeps_pods_and_ends_no_plan(skew: int) -> None:
    assert planned("aabbcc", spread(skew=skew)).moves == ()
    assert set(kept(planned("aaabbc", spread(skew=skew))).values()) == {"NoLanding"}


@given(st.lists(st.integers(0, 7), min_size=1, max_size=5), st.integers(1, 3))
def test_moves_left_are_the_fewest_that_any_order_of_moves_needs(counts: list[int], skew: int) -> None:
    on = [f"{'abcdef'[zone]}1" for zone, number in enumerate(counts) for _ in range(number)]
    web = a_workload("web", on or [""], spec=spread(skew=skew))
    prepared = prepare(planning_inputs(zones(len(counts)), [web]))
    (constraint,) = SpreadConstraints(prepared.schedulers, prepared.pods, [HARD], defaults=False).all()
    passing = constraint.counter.counts(prepared.state, keep=False)
    left, reached = 0, {tuple(sorted(counts))}
    while not any(max(each) - min(each) <= skew for each in reached):
        left += 1
        reached = {
            tuple(sorted(np.array(each) - np.eye(len(each), dtype=int)[a] + np.eye(len(each), dtype=int)[b]))
            for each in reached
            for a in range(len(each))
            for b in range(len(each))
            if each[a] and a != b
        }

    assert constraint.moves_left(constraint.counter.counts(prepared.state)) == left
    assert constraint.moves_left(passing) == left


def test_a_terminating_pod_counts_for_no_constraint_and_is_not_looked_at() -> None:
    found = a_workload("web", ["a1", "a1", "a1", "b1"], spec=spread())
    found.pods[3]["metadata"]["deletionTimestamp"] = "2026-06-01T11:59:00Z"
    policy = a_policy(strategies={"topologySpread": True})
    plan = plan_of(planning_inputs(zones(2), [found], policy=policy))
    assert moved(plan) == {"web-0": "b1"}, "b has none that stays"


def test_an_explanation_of_a_terminating_pod_does_not_take_it_away_from_its_domain_once_more() -> None:
    found = a_workload("web", ["a1", "b1"], spec=spread())
    found.pods[0]["metadata"]["deletionTimestamp"] = "2026-06-01T11:59:00Z"
    policy = a_policy(strategies={"topologySpread": True})
    of = planning_inputs(zones(), [found], policy=policy)
    told = Planner(of).explain(find_subject(of.snapshot, SubjectName("pod", "default/web-0")))
    assert isinstance(told, PodExplanation)
    assert told.table is not None
    assert {item.node: item.unacceptable for item in told.table.nodes} == {
        "a1": "a1 is the node it leaves",
        "c1": "",
    }
