"""A node that took pods within its figures' window is not as idle as it looks."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from rebalancer.planning.inputs import PlanningInputs, RunSoFar
from rebalancer.planning.prepared import PreparedInputs, prepare
from rebalancer.state.run_state import RunState
from tests.builders import a_node
from tests.unit.planning.builders import (
    NOW,
    Workload,
    a_past_move,
    a_workload,
    at,
    because,
    moved,
    plan_of,
    planning_inputs,
)

UNKNOWN = float("nan")


def burst(pods: int, cpu: str = "300m", started: float = -60) -> Workload:
    return a_workload("burst", ["b"] * pods, cpu=cpu, created=at(started))


def inputs(new: Workload, *, shown: float = 5.0, window: float = 900.0, **more: Any) -> PlanningInputs:
    """Node a is hot; b took new pods, of which its figures show little."""
    pod_load = {f"web-{number}": 1.0 for number in range(9)} | dict.fromkeys(
        (pod["metadata"]["name"] for pod in new.pods), 0.05
    )
    return planning_inputs(
        [a_node("a", cpu=10), a_node("b", cpu=10)],
        [a_workload("web", ["a"] * 9, cpu="500m"), new],
        pod_load=pod_load | more.pop("pod_load", {}),
        load={"a": 90.0, "b": shown},
        window=window,
        **more,
    )


def added(prepared: PreparedInputs, node: str) -> float:
    """Points of cpu that are expected beyond the figures."""
    row = prepared.inputs.snapshot.nodes.row[node]
    usage, shown = prepared.usage[row, 0], prepared.inputs.load.usage[row, 0]
    return float(100 * (usage - shown) / prepared.inputs.load.allocatable[row, 0])


def test_a_node_that_took_much_load_within_its_window_is_no_landing() -> None:
    plan = plan_of(inputs(burst(8)))
    assert moved(plan) == {}
    assert because(plan, "web-0").endswith(
        "b has pods that started within its figures' window; 22 points of cpu are yet to show"
    )


def test_what_little_a_node_took_is_added_to_what_is_expected_there() -> None:
    prepared = prepare(inputs(burst(2)))
    assert added(prepared, "b") == pytest.approx(2 * 3 * 840 / 900)
    assert moved(plan_of(inputs(burst(2))))


def test_a_pod_counts_for_what_it_uses_where_that_is_more_than_it_requests() -> None:
    prepared = prepare(inputs(burst(1), pod_load={"burst-0": 0.9}))
    assert added(prepared, "b") == pytest.approx(9 * 840 / 900)


def test_pods_that_ran_through_the_whole_window_are_in_its_figures() -> None:
    assert added(prepare(inputs(burst(8, started=-901))), "b") == 0
    assert added(prepare(inputs(burst(8), window=30)), "b") == 0


def test_a_bound_pod_that_has_yet_to_start_is_in_no_figure() -> None:
    new = burst(3)
    for pod in new.pods:
        pod["status"] = {"phase": "Pending"}
    assert added(prepare(inputs(new, window=30)), "b") == pytest.approx(9)


def test_what_is_added_never_makes_a_node_hot() -> None:
    prepared = prepare(inputs(burst(3), shown=79.0))
    assert prepared.hotness.hot.tolist() == [True, False]
    assert added(prepared, "b") > 1


def test_nothing_is_added_to_a_hot_node_so_that_no_gain_rests_on_an_estimate() -> None:
    new = a_workload("burst", ["a"] * 3, cpu="300m", created=at(-60))
    assert added(prepare(inputs(new)), "a") == 0


def test_a_recent_pod_without_a_figure_or_a_request_leaves_its_node_out() -> None:
    plan = plan_of(inputs(burst(1, cpu="0"), pod_load={"burst-0": UNKNOWN}))
    assert moved(plan) == {}
    assert because(plan, "web-0").endswith("whose load is unknown, e.g. default/burst-0")


def test_pods_that_we_moved_are_corrected_by_the_record_of_the_move_alone() -> None:
    ours = a_past_move(controller_uid="uid-default-ReplicaSet-burst", evicted_at=NOW - 62, landed_at=NOW - 60)
    one = inputs(burst(1), state=RunState(moves=(ours,)))
    two = inputs(burst(2), state=RunState(moves=(ours,)))
    assert added(prepare(one), "b") == 0
    assert added(prepare(two), "b") == pytest.approx(3 * 840 / 900)


def test_moves_of_this_run_are_not_taken_for_load_that_others_brought() -> None:
    ours = a_past_move(controller_uid="uid-default-ReplicaSet-burst", evicted_at=NOW - 62, landed_at=NOW - 60)
    assert added(prepare(inputs(burst(1)), RunSoFar(moved=(ours,))), "b") == 0


@pytest.mark.parametrize("statistic", ["p95", "max"])
def test_a_percentile_or_peak_may_show_nothing_of_a_recent_pod(statistic: str) -> None:
    found = inputs(burst(2, started=-600))
    found = replace(found, load=replace(found.load, statistics=((statistic,) * 2,)))
    assert added(prepare(found), "b") == pytest.approx(6)


def test_figures_that_are_requests_hold_every_pod_already() -> None:
    found = inputs(burst(8))
    found = replace(found, load=replace(found.load, sources=("requests",)))
    assert added(prepare(found), "b") == 0
