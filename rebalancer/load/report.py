"""The load report: what we measure of nodes and pods, each figure with its source and age.

Unknown is not favourable: a figure that is missing, stale or from the future stays missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from rebalancer.cluster.nodes import CPU, MEMORY, PODS_COLUMN, BoolArray, FloatArray, IntArray, NodeTable
from rebalancer.cluster.pods import PodTable
from rebalancer.load.figures import NodeFigures, PodFigures, most_plausible

# Clocks of nodes and metrics servers differ; a figure further ahead than this is not to be trusted.
CLOCK_SKEW_SECONDS = 60.0
PERCENT_RESOURCES = ("cpu", "memory", "pods")


class PodMethod(IntEnum):
    """How a pod's usage is known."""

    UNKNOWN = 0
    MEASURED = 1
    SHARE = 2  # its share, by request, of what its node uses beyond the measured pods
    REQUEST = 3  # its request stands for its usage


@dataclass(frozen=True, eq=False)
class LoadReport:
    """Usage of nodes and pods; NaN is unknown."""

    usage: FloatArray  # (nodes, 2) thousandths of a core, bytes
    measured_at: FloatArray  # (nodes, 2) Unix seconds
    source: IntArray  # (nodes, 2) index into sources, -1 unknown
    sources: tuple[str, ...]
    window_seconds: FloatArray  # (nodes, 2) over how long each figure is averaged
    pod_usage: FloatArray  # (pods, 2)
    pod_method: IntArray  # (pods,) PodMethod
    allocatable: FloatArray  # (nodes, 3) cpu, memory, pods
    pod_count: IntArray  # (nodes,)
    warnings: tuple[str, ...] = ()

    @property
    def percent(self) -> FloatArray:
        """(nodes, 3) cpu, memory and pods in percent of allocatable; NaN where it cannot be said."""
        return percent_of_allocatable(self.usage, self.pod_count, self.allocatable)

    @property
    def known(self) -> BoolArray:
        """(nodes,) has a fresh figure for cpu and for memory."""
        return np.asarray(~np.isnan(self.usage).any(axis=1), np.bool_)

    @property
    def coverage(self) -> float:
        """The share of the nodes that are known; 1 for a cluster without nodes."""
        return float(np.mean(self.known)) if len(self.usage) else 1.0


def percent_of_allocatable(usage: FloatArray, pod_count: IntArray, allocatable: FloatArray) -> FloatArray:
    """(nodes, 3) percent of allocatable from usage and pod counts; NaN where it cannot be said."""
    amounts = np.column_stack([usage, pod_count.astype(np.float64)])
    return np.where(allocatable > 0, 100.0 * amounts / np.where(allocatable > 0, allocatable, 1.0), np.nan)


def _fresh(measured_at: FloatArray, now: float, max_age: float) -> BoolArray:
    with np.errstate(invalid="ignore"):
        age = now - measured_at
        return (age <= max_age) & (age >= -CLOCK_SKEW_SECONDS)


def build_report(
    nodes: NodeTable,
    pods: PodTable,
    node_figures: Sequence[NodeFigures],
    pod_figures: PodFigures | None,
    requests: FloatArray,
    *,
    now: float,
    max_age_seconds: float,
) -> LoadReport:
    """Join the sources: the first fresh figure wins, node by node and resource by resource.

    ``requests`` is (pods, 2): what each pod requests of cpu and memory.
    """
    shape = (len(nodes), 2)
    usage, measured_at, window = np.full(shape, np.nan), np.full(shape, np.nan), np.zeros(shape)
    source: IntArray = np.full(shape, -1, np.int64)
    warnings: list[str] = []
    for index, figures in enumerate(node_figures):
        fresh = _fresh(figures.measured_at, now, max_age_seconds) & ~np.isnan(figures.usage)
        take = fresh & (source < 0)
        usage[take] = figures.usage[take]
        measured_at[take] = figures.measured_at[take]
        window[take] = np.broadcast_to(figures.window_seconds[:, None], shape)[take]
        source[take] = index
        warnings += figures.warnings
        stale = int(np.count_nonzero((~fresh & ~np.isnan(figures.usage)).any(axis=1)))
        if stale:
            warnings.append(
                f"{figures.source}: figures of {stale} nodes are older than {max_age_seconds:g} s "
                "or from the future, and were not used"
            )
    only_requests = bool(node_figures) and all(figures.source == "requests" for figures in node_figures)
    if pod_figures is not None:
        pod_figures = _plausible_pods(pod_figures, pods, most_plausible(nodes))
        warnings += pod_figures.warnings
    pod_usage, pod_method = _pod_usage(
        pods,
        usage,
        pod_figures,
        requests,
        now=now,
        max_age_seconds=max_age_seconds,
        only_requests=only_requests,
    )
    bound = pods.node[pods.node >= 0]
    return LoadReport(
        usage=usage,
        measured_at=measured_at,
        source=source,
        sources=tuple(figures.source for figures in node_figures),
        window_seconds=window,
        pod_usage=pod_usage,
        pod_method=pod_method,
        allocatable=nodes.allocatable[:, [CPU, MEMORY, PODS_COLUMN]].astype(np.float64),
        pod_count=np.bincount(bound, minlength=len(nodes)).astype(np.int64),
        warnings=tuple(warnings),
    )


def _plausible_pods(figures: PodFigures, pods: PodTable, most: FloatArray) -> PodFigures:
    """Forget figures of pods far above what their nodes have: they would make their neighbours look idle."""
    limit = np.full((len(pods), 2), np.inf)
    bound = pods.node >= 0
    limit[bound] = most[pods.node[bound]]
    with np.errstate(invalid="ignore"):
        broken = np.asarray((figures.usage > limit).any(axis=1), np.bool_)
    if not broken.any():
        return figures
    first = pods.full_name(int(np.flatnonzero(broken)[0]))
    told = f"figures of {int(broken.sum())} pods far above their node's capacity were not used, e.g. {first}"
    usage = np.where(broken[:, None], np.nan, figures.usage)
    return PodFigures(usage, figures.measured_at, (*figures.warnings, told))


def _pod_usage(
    pods: PodTable,
    node_usage: FloatArray,
    figures: PodFigures | None,
    requests: FloatArray,
    *,
    now: float,
    max_age_seconds: float,
    only_requests: bool,
) -> tuple[FloatArray, IntArray]:
    """Measured where there is a fresh figure; else the pod's share of what its node uses beyond those."""
    if only_requests:
        return requests.copy(), np.full(len(pods), int(PodMethod.REQUEST), np.int64)
    usage = np.full((len(pods), 2), np.nan)
    method = np.full(len(pods), int(PodMethod.UNKNOWN), np.int64)
    if figures is not None:
        fresh = _fresh(figures.measured_at, now, max_age_seconds) & ~np.isnan(figures.usage).any(axis=1)
        usage[fresh] = figures.usage[fresh]
        method[fresh] = PodMethod.MEASURED
    unmeasured = (method == PodMethod.UNKNOWN) & (pods.node >= 0)
    if not unmeasured.any():
        return usage, method
    for column in range(2):
        measured = (method == PodMethod.MEASURED) & (pods.node >= 0)
        rows = len(node_usage)
        shown = np.bincount(pods.node[measured], usage[measured, column], rows)
        asked = np.bincount(pods.node[unmeasured], requests[unmeasured, column], rows)
        rest = np.maximum(node_usage[:, column] - shown, 0.0)
        share = np.where(asked > 0, rest / np.where(asked > 0, asked, 1.0), np.nan)
        usage[unmeasured, column] = requests[unmeasured, column] * share[pods.node[unmeasured]]
    known = unmeasured & ~np.isnan(usage).any(axis=1)
    method[known] = PodMethod.SHARE
    return usage, method
