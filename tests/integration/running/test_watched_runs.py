"""A run whose cluster is kept up to date by watches does what a run does that lists everything again."""

from __future__ import annotations

from collections import Counter

import pytest

from rebalancer.cluster.changes import ChangeLog
from rebalancer.cluster.live import RawApi
from rebalancer.cluster.live.watching import LiveCluster
from rebalancer_demo import Fault
from tests.conftest import some_of
from tests.integration.running.hot_clusters import LANDED, HotCluster, cluster, results
from tests.waiting import HANG_SECONDS

__all__ = ["cluster"]


def watch_everything(monkeypatch: pytest.MonkeyPatch, max_wait_seconds: float) -> None:
    """Let runs watch every kind, however few objects it has."""

    def everything_watched(api: RawApi, log: ChangeLog | None = None) -> LiveCluster:
        return LiveCluster(api, watch_above=0, large=0, max_wait_seconds=max_wait_seconds, log=log)

    monkeypatch.setattr("rebalancer.cluster.live.watching.LiveCluster", everything_watched)


def test_every_wave_of_a_run_sees_the_cluster_through_watches_and_lists_nothing_again(
    cluster: HotCluster, listed: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    watch_everything(monkeypatch, HANG_SECONDS)
    result, outcomes = cluster.run()

    assert (result.exit_code, outcomes["stopped"]) == (0, ""), result.stderr
    assert set(results(outcomes)) <= LANDED
    assert max(cluster.sandbox.node_utilisation().values()) < 80
    assert listed["nodemetrics"] >= 2, "it was read more than once"
    assert (listed["pods"], listed["nodes"], listed["replicasets"]) == (1, 1, 1)


@pytest.mark.many_cases
@pytest.mark.parametrize("status", some_of([403, 404, 503]))
def test_a_run_whose_watches_are_refused_lists_everything_again_and_lands_as_well(
    cluster: HotCluster, listed: Counter[str], monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    watch_everything(monkeypatch, 0.1)
    cluster.sandbox.faults.add(Fault("status", path="watch=", code=status, times=0))
    result, outcomes = cluster.run()

    assert (result.exit_code, outcomes["stopped"]) == (0, ""), result.stderr
    assert set(results(outcomes)) <= LANDED
    assert listed["pods"] == listed["nodemetrics"] >= 2
