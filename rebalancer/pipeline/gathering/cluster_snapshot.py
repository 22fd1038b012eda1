"""Reads the cluster itself: through the API server, or from what was recorded of it.

What reads a live cluster is imported where it is needed, because a recorded one is read without a network.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rebalancer.cluster.dumps.listing import Recording
from rebalancer.cluster.dumps.reader import DumpReader
from rebalancer.cluster.snapshot import Snapshot, build_snapshot
from rebalancer.errors import InputError
from rebalancer.pipeline.run_settings import PipelineOptions

if TYPE_CHECKING:
    from rebalancer.cluster.live import RawApi
    from rebalancer.cluster.live.watching import LiveCluster


def open_api(options: PipelineOptions) -> RawApi | None:
    """The connection to a live cluster; None when a recorded one is read."""
    if options.source is not None:
        return None
    from rebalancer.cluster.live import open_api as connect  # noqa: PLC0415 - not for a recorded cluster

    return connect(options.kubeconfig, options.context, options.request_seconds)


def open_cluster(api: RawApi) -> LiveCluster:
    """A live cluster that is read again and again, whose changes alone are read."""
    from rebalancer.cluster.live.watching import LiveCluster  # noqa: PLC0415 - imports kubernetes

    return LiveCluster.open(api)


def read_snapshot(
    options: PipelineOptions,
    api: RawApi | None,
    clock: Callable[[], float],
    cluster: LiveCluster | None = None,
) -> Snapshot:
    """Every kind of the cluster, as columns; InputError when it has no node."""
    snapshot = build_snapshot(_read(options, api, clock, cluster))
    if not len(snapshot.nodes):
        broken = [str(item) for item in snapshot.malformed if item.kind == "Node"]
        raise InputError(
            f"no node could be read: {broken[0]}" if broken else "holds no nodes",
            where=snapshot.source,
            hint="is this the cluster you meant?",
        )
    return snapshot


def _read(
    options: PipelineOptions,
    api: RawApi | None,
    clock: Callable[[], float],
    cluster: LiveCluster | None,
) -> Recording:
    if cluster is not None:
        assert api is not None
        return cluster.current(api.retries.run, options.progress)
    if api is None:
        assert options.source is not None
        return DumpReader(options.source, options.max_dump_bytes).read(progress=options.progress)
    from rebalancer.cluster.live.reader import LiveReader  # noqa: PLC0415 - imports kubernetes

    return LiveReader(api, clock).read(progress=options.progress)
