"""A run without watches is measured as it runs with them."""

from __future__ import annotations

from typing import cast

from bench.live import without_watches
from rebalancer.cluster.changes import ChangeLog
from rebalancer.cluster.live import RawApi
from rebalancer.cluster.live.watching import LiveCluster
from rebalancer.observe.read import open_cluster


def test_a_run_opens_a_cluster_without_watches_as_it_opens_any() -> None:
    with without_watches():
        cluster = open_cluster(cast("RawApi", None), cast("ChangeLog", None))
    assert isinstance(cluster, LiveCluster)
    assert not cluster.feeds
