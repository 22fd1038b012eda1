"""Half a day of runs, and what counts as moved back."""

from __future__ import annotations

from bench.half_days import KINDS, changing_inputs, half_day, moved_back, policies
from rebalancer_lab.simulation.report import SimulatedMove


def _move(workload: str, from_node: str, node: str) -> SimulatedMove:
    return SimulatedMove(
        pod=f"default/{workload}-1", workload=workload, from_node=from_node, node=node, result="Landed"
    )


def test_a_pod_that_leaves_a_node_to_which_its_workload_was_moved_is_moved_back() -> None:
    there, back, again = _move("web", "a", "b"), _move("web", "b", "a"), _move("web", "a", "c")

    assert moved_back([[there], [], [back], [again]]) == [2, 1]


def test_another_workload_another_node_and_the_same_run_are_not_moved_back() -> None:
    first = _move("web", "a", "b")
    others = [_move("api", "b", "a"), _move("web", "c", "a")]

    assert moved_back([[first], others]) == []
    assert moved_back([[first, _move("web", "b", "c")]]) == []


def test_a_cluster_is_the_same_for_its_seed_and_another_for_each_kind() -> None:
    policy = policies()["default"]

    digests = [changing_inputs(kind, 3, policy).digest for kind in KINDS]

    assert len(set(digests)) == len(KINDS)
    assert digests == [changing_inputs(kind, 3, policy).digest for kind in KINDS]


def test_runs_cool_hot_nodes() -> None:
    found = half_day(changing_inputs("over", 3, policies()["default"]), 3)

    assert found.hot_first > 0
    assert found.evictions > 0
