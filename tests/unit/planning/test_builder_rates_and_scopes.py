"""Limits within some time or for some pods, and windows for some of them, as plans obey them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from rebalancer.planning.inputs import PlanningInputs, RunSoFar
from rebalancer.planning.plan import Plan
from rebalancer.state.run_state import RunState
from tests.builders import a_node
from tests.rows import rows
from tests.unit.planning.builders import (
    NOW,
    a_past_move,
    a_policy,
    a_workload,
    because,
    kept,
    moved,
    plan_of,
    planning_inputs,
)


def inputs(state: RunState | None = None, **sections: Mapping[str, Any]) -> PlanningInputs:
    """A hot node of each of two pools, with four pods in shop and in team-a, and room elsewhere."""
    nodes = [a_node("hot-1", labels={"pool": "batch"}), a_node("hot-2"), a_node("free-1"), a_node("free-2")]
    workloads = [
        a_workload(f"{name}{number}", [node], cpu="950m", namespace=namespace)
        for name, node, namespace in (("a", "hot-1", "shop"), ("b", "hot-2", "team-a"))
        for number in range(4)
    ]
    return planning_inputs(nodes, workloads, policy=a_policy(**sections), state=state)


def plan(state: RunState | None = None, **sections: Mapping[str, Any]) -> Plan:
    return plan_of(inputs(state, **sections))


def earlier(*ages: float, namespace: str = "default", node: str = "gone") -> RunState:
    """Moves of other workloads so many seconds ago."""
    moves = [
        a_past_move(
            uid=f"uid-{age}",
            workload="Deployment/other",
            namespace=namespace,
            from_node=node,
            evicted_at=NOW - age,
        )
        for age in ages
    ]
    return RunState(moves=tuple(sorted(moves, key=lambda move: move.evicted_at)))


def test_without_such_limits_both_nodes_are_relieved() -> None:
    assert len(moved(plan())) == 4


@rows(
    "limits, ages, most",
    [
        ({"perHour": 3}, (), 3),
        ({"perHour": 3}, (60, 3500), 1),
        ({"perHour": 3}, (60, 3700), 2),
        ({"perHour": 3}, (60, 70, 80, 90), 0),
        ({"perHour": 3}, (-600,), 2),  # by a clock that goes ahead of ours
        ({"perDay": 3}, (60, 3700, 90_000), 1),
        ({"perDay": 3, "perHour": 1}, (3700,), 1),
    ],
)
def test_evictions_of_earlier_runs_count_within_their_hour_and_day(
    limits: Mapping[str, int], ages: Sequence[float], most: int
) -> None:
    found = plan(earlier(*ages), limits=limits)
    assert len(moved(found)) == most
    assert "Limit" in kept(found).values()


def test_a_rate_says_what_was_used_before_by_earlier_runs_or_by_this_one() -> None:
    found = plan(earlier(60, 70), limits={"perHour": 2})
    assert because(found, "a0-0") == "perHour 2 (2 before this plan) is reached"
    assert "limits.perHour" in str(found.obstacles)
    one = plan(RunState(), limits={"perHour": 3}).moves[0]
    again = plan_of(inputs(RunState(), limits={"perHour": 1}), RunSoFar(made=(one,)))
    assert because(again, "b3-0") == "perHour 1 (1 before this plan) is reached"


def test_nothing_moves_while_it_is_not_known_how_much_did() -> None:
    state = replace(earlier(60), forgotten_until=NOW - 1800)
    unknown = plan(state, limits={"perHour": 100})
    assert moved(unknown) == {}
    assert because(unknown, "a0-0") == (
        "perHour 100 (1 before this plan at least, the state of runs no longer holds all of them) is reached"
    )
    assert moved(plan(replace(state, forgotten_until=NOW - 4000), limits={"perHour": 100}))


def test_without_a_state_a_plan_says_what_it_does_not_count() -> None:
    text = "no state of earlier runs: what they evicted is not counted against perHour"
    assert text in plan(limits={"perHour": 3}).warnings
    assert text not in plan(RunState(), limits={"perHour": 3}).warnings


def test_moves_of_earlier_plans_of_the_run_count_once() -> None:
    first = plan(RunState(), limits={"perHour": 3})
    one = first.moves[0]
    state = RunState(moves=(a_past_move(uid=one.pod.uid, workload="x", evicted_at=NOW),))
    again = plan_of(inputs(state, limits={"perHour": 3}), RunSoFar(made=(one,)))
    assert len(moved(again)) == 2


@rows(
    "scope, moves",
    [
        ({"nodeSelector": {"matchLabels": {"pool": "batch"}}, "perRun": 1}, {"a": 1, "b": 2}),
        ({"namespaces": ["team-*"], "perRun": 0}, {"a": 2, "b": 0}),
        ({"namespaces": ["team-*"], "perDay": 1}, {"a": 2, "b": 1}),
        (
            {"namespaces": ["shop"], "nodeSelector": {"matchLabels": {"pool": "other"}}, "perRun": 0},
            {"a": 2, "b": 2},
        ),
    ],
)
def test_a_limit_for_some_pods_leaves_the_others_alone(
    scope: Mapping[str, Any], moves: Mapping[str, int]
) -> None:
    found = moved(plan(limits={"scoped": [scope]}))
    assert {name: sum(pod.startswith(name) for pod in found) for name in moves} == moves


def test_a_move_from_a_node_that_is_gone_counts_for_every_pool() -> None:
    scope = {"nodeSelector": {"matchLabels": {"pool": "batch"}}, "perHour": 1}
    found = plan(earlier(60), limits={"scoped": [scope]})
    assert set(moved(found)) <= {f"b{number}-0" for number in range(4)}
    assert because(found, "a0-0") == "perHour 1 of pool=batch (1 before this plan) is reached"


ALWAYS = {"from": "00:00", "to": "00:00"}
NEVER_NOW = {"from": "22:00", "to": "23:00"}  # it is 12:00


@rows(
    "evictable, moves",
    [
        ({"windows": [NEVER_NOW]}, ""),
        ({"windows": [NEVER_NOW, {**ALWAYS, "namespaces": ["shop"]}]}, "a"),
        ({"windows": [{**NEVER_NOW, "namespaces": ["shop"]}]}, "b"),
        ({"windows": [ALWAYS, {**NEVER_NOW, "nodeSelector": {"matchLabels": {"pool": "batch"}}}]}, "b"),
        ({"blackouts": [{"from": "06-01", "to": "06-02"}]}, ""),
        ({"blackouts": [{"from": "2026-05-30", "to": "2026-06-01"}]}, ""),
        ({"blackouts": [{"from": "2025-05-30", "to": "2025-06-01"}]}, "ab"),
        ({"blackouts": [{"from": "12-20", "to": "01-02"}]}, "ab"),
        ({"blackouts": [{"from": "06-01", "to": "06-01", "namespaces": ["team-*"]}]}, "a"),
        (
            {"windows": [ALWAYS], "blackouts": [{"from": "06-01", "to": "06-01"}]},
            "",
        ),
    ],
)
def test_windows_and_blackouts_may_be_for_some_pods(evictable: Mapping[str, Any], moves: str) -> None:
    assert {pod[0] for pod in moved(plan(evictable=evictable))} == set(moves)


def test_a_blackout_says_when_it_is_over_and_which_window_opens_then() -> None:
    found = plan(evictable={"windows": [NEVER_NOW], "blackouts": [{"from": "06-01", "to": "06-03"}]})
    assert because(found, "a0-0") == (
        "nothing is evicted 06-01 to 06-03 UTC; the next window opens at 2026-06-04T22:00:00Z"
    )
    assert "evictable.blackouts" in str(found.obstacles)
