"""Searches are divided by how many nodes an extender leaves of what they find, where scores depend on it."""

from __future__ import annotations

import numpy as np

from rebalancer.cluster.arrays import IntArray
from rebalancer.scheduling.framework.draws import ONE_WORKER, Workers
from rebalancer.scheduling.framework.sampling import Search
from rebalancer.scheduling.framework.scores import RawScores
from rebalancer.scheduling.framework.unknown_scores import MAX_KINDS, by_size, outcome_by_size
from rebalancer.scheduling.state.cluster_state import ClusterState
from rebalancer.scheduling.versions.release import Release
from tests.builders import a_node, a_snapshot
from tests.unit.scheduling.framework.plain_plugins import Plain

NODES, LIMIT = 130, 100
STATE = ClusterState.of(a_snapshot(nodes=[a_node("a")], pods=[]), Release.of("1.35"))


class BySize(Plain):
    """The first node scores by steps of how many nodes are compared."""

    def __init__(self, step: int) -> None:
        self._step = step

    def raw_scores_of_sample(
        self, state: ClusterState, pod_class: int, feasible: IntArray, sample_size: int
    ) -> IntArray:
        return np.where(feasible == feasible[0], sample_size // self._step, 0)


def searched(rejected: int, workers: Workers = ONE_WORKER) -> Search:
    """One of all nodes, of which an extender rejects the last."""
    every = np.arange(NODES)
    return Search(every[: NODES - rejected], every, LIMIT, workers, found=every)


def divided(search: Search, step: int) -> list[tuple[float, int]]:
    """Each kind's chance, and what the first node scores."""
    plugin = BySize(step)
    raw = plugin.raw_scores_of_sample(STATE, 0, search.feasible, search.sizes[-1])
    kinds = by_size(STATE, 0, search, [RawScores(plugin, 1, raw)])
    if kinds:
        assert abs(outcome_by_size(STATE, 0, kinds)[0].sum() - 1.0) < 1e-9
    return [(round(share, 6), int(scored[0].raw[0])) for share, _, scored in kinds]


def test_without_a_rejected_node_all_searches_are_alike() -> None:
    assert divided(searched(0), 1) == [(1.0, 100)]


def test_one_worker_has_each_kind_as_often_as_there_are_starts_for_it() -> None:
    shares = divided(searched(4), 98)
    assert [score for _, score in shares] == [1, 0]
    windows = [
        sum(start <= node < start + LIMIT or node < start + LIMIT - NODES for node in range(126, 130))
        for start in range(NODES)
    ]
    few = sum(4 >= held > 2 for held in windows) / NODES
    assert [share for share, _ in shares] == [round(1 - few, 6), round(few, 6)]


def test_several_workers_have_a_chance_of_every_kind() -> None:
    shares = divided(searched(4, Workers(16, 4)), 98)
    assert [score for _, score in shares] == [1, 0]
    assert abs(sum(share for share, _ in shares) - 1.0) < 1e-6
    assert all(share > 0 for share, _ in shares)


def test_too_many_kinds_are_none() -> None:
    assert len(divided(searched(MAX_KINDS - 1), 1)) == MAX_KINDS
    assert divided(searched(40), 1) == []
