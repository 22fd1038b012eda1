"""What each pod uses: measured where there is a figure, else its share of what its node uses beyond those."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from rebalancer.cluster.arrays import BoolArray, FloatArray, IntArray
from rebalancer.cluster.nodes import CPU, MEMORY, NodeTable
from rebalancer.cluster.pods import PodTable
from rebalancer.load.figures.node_figures import RESOURCES, PodFigures, most_plausible


class PodMethod(IntEnum):
    """How a pod's usage is known."""

    UNKNOWN = 0
    MEASURED = 1
    SHARE = 2  # its share, by request, of what its node uses beyond the measured pods and the system
    REQUEST = 3  # its request stands for its usage


@dataclass(frozen=True, slots=True, eq=False)
class PodUsage:
    """Usage of the pods, and how each figure is known."""

    usage: FloatArray  # (pods, resources)
    methods: IntArray  # (pods, resources) PodMethod
    warnings: tuple[str, ...] = ()


def usage_of_requests(requests: FloatArray, resources: Sequence[str]) -> PodUsage:
    """The requests stand for the usage; of what pods do not request nothing is known."""
    usage = np.full((len(requests), len(resources)), np.nan)
    usage[:, : requests.shape[1]] = requests
    methods = np.where(np.isnan(usage), int(PodMethod.UNKNOWN), int(PodMethod.REQUEST))
    return PodUsage(usage, methods.astype(np.int64))


def measured_usage(
    pods: PodTable,
    nodes: NodeTable,
    figures: Sequence[tuple[PodFigures, BoolArray]],
    resources: Sequence[str],
) -> PodUsage:
    """The first figure of each pod and resource; with each source, (pods,) which of its figures are fresh."""
    usage = np.full((len(pods), len(resources)), np.nan)
    warnings: list[str] = []
    for source, fresh in figures:
        plausible = _plausible(source, pods, most_plausible(nodes))
        warnings += plausible.warnings
        for column, resource in enumerate(plausible.resources):
            if resource not in resources:
                continue
            target = resources.index(resource)
            take = fresh & np.isnan(usage[:, target])
            usage[take, target] = plausible.usage[take, column]
    methods = np.where(np.isnan(usage), int(PodMethod.UNKNOWN), int(PodMethod.MEASURED)).astype(np.int64)
    return PodUsage(usage, methods, tuple(warnings))


def with_shares(
    measured: PodUsage, pods: PodTable, nodes: NodeTable, node_usage: FloatArray, requests: FloatArray
) -> PodUsage:
    """Share out what nodes use beyond their measured pods and their system, by request.

    What a node keeps for its system, capacity less allocatable, belongs to no pod. A resource that pods do
    not request is shared out by their cpu requests. ``requests`` is (pods, 2): cpu and memory.
    """
    usage, methods = measured.usage.copy(), measured.methods.copy()
    system = (nodes.capacity - nodes.allocatable)[:, [CPU, MEMORY]].astype(np.float64)
    bound = pods.node >= 0
    for column in range(usage.shape[1]):
        known = (methods[:, column] == PodMethod.MEASURED) & bound
        unmeasured = (methods[:, column] == PodMethod.UNKNOWN) & bound
        if not unmeasured.any():
            continue
        rows = len(node_usage)
        requested = requests[:, column if column < len(RESOURCES) else 0]
        shown = np.bincount(pods.node[known], usage[known, column], rows)
        total = np.bincount(pods.node[unmeasured], requested[unmeasured], rows)
        kept = np.maximum(system[:, column], 0.0) if column < len(RESOURCES) else 0.0
        rest = np.maximum(node_usage[:, column] - shown - kept, 0.0)
        node = pods.node[unmeasured]
        share = np.where(
            total[node] > 0, requested[unmeasured] / np.where(total > 0, total, 1.0)[node], np.nan
        )
        usage[unmeasured, column] = share * rest[node]
        methods[unmeasured & ~np.isnan(usage[:, column]), column] = PodMethod.SHARE
    return PodUsage(usage, methods, measured.warnings)


def _plausible(figures: PodFigures, pods: PodTable, most: FloatArray) -> PodFigures:
    """Forget figures of pods far above what their nodes have: they would make their neighbours look idle."""
    limit = np.full((len(pods), len(figures.resources)), np.inf)
    bound = pods.node >= 0
    for column, resource in enumerate(figures.resources):
        if resource in RESOURCES:
            limit[bound, column] = most[pods.node[bound], RESOURCES.index(resource)]
    with np.errstate(invalid="ignore"):
        broken = np.asarray((figures.usage > limit).any(axis=1), np.bool_)
    if not broken.any():
        return figures
    first = pods.full_name(int(np.flatnonzero(broken)[0]))
    warning = (
        f"figures of {int(broken.sum())} pods far above their node's capacity are not used, e.g. {first}"
    )
    usage = np.where(broken[:, None], np.nan, figures.usage)
    return PodFigures(usage, figures.measured_at, (*figures.warnings, warning), figures.resources)
