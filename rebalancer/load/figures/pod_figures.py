"""metrics-server's figures of pods: straight from what was read into columns, as many as there are pods."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from rebalancer.cluster import times
from rebalancer.cluster.arrays import IntArray
from rebalancer.cluster.metrics import PackedPodMetrics
from rebalancer.cluster.pods import PodTable
from rebalancer.load.figures.node_figures import PodFigures, exact, nothing_measured

_MAX_NAMED = 5


class _Usage(msgspec.Struct, gc=False):
    cpu: str | None = None
    memory: str | None = None


class _Container(msgspec.Struct, gc=False):
    usage: _Usage | None = None


_NOTHING = _Usage()
_containers = msgspec.json.Decoder(list[_Container] | None)


def pod_figures_of_metrics(metrics: PackedPodMetrics, pods: PodTable) -> PodFigures:
    """metrics-server's pod figures, containers summed; one that does not parse leaves its pod unknown."""
    usage = nothing_measured(len(pods))
    measured_at = np.full(len(pods), np.nan)
    rows: list[int] = []
    amounts: list[float] = []  # cpu and memory of each row
    moments: list[float] = []
    unusable: list[str] = []
    row_of = pods.row
    for namespace, name, timestamp, _, written in metrics.packed:
        row = row_of.get((namespace, name))
        containers = None if row is None else _containers.decode(written)
        if row is None or not containers:
            continue
        try:
            moment = times.parse(timestamp)
            cpu, memory = _sums(containers)
        except ValueError as error:
            unusable.append(f"{pods.full_name(row)}: {error}")
            continue
        rows.append(row)
        amounts += cpu, memory
        moments.append(moment)
    found: IntArray = np.array(rows, np.int64)
    usage[found] = np.array(amounts).reshape(-1, 2)
    measured_at[found] = moments
    return PodFigures(usage, measured_at, _warnings(unusable))


def _sums(containers: Sequence[_Container]) -> tuple[float, float]:
    cpu = memory = 0.0
    for container in containers:
        usage = container.usage or _NOTHING
        cpu += exact(usage.cpu, "cpu")
        memory += exact(usage.memory, "memory")
    return cpu, memory


def _warnings(unusable: list[str]) -> tuple[str, ...]:
    """One warning however many pods it is about."""
    if not unusable:
        return ()
    more = f", and of {len(unusable) - _MAX_NAMED} more" if len(unusable) > _MAX_NAMED else ""
    return (
        f"metrics-server: figures of pods are not used: {'; '.join(sorted(unusable)[:_MAX_NAMED])}{more}",
    )
