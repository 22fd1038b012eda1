"""The load report: what we measure of nodes and pods, each figure with its source and age.

Unknown is not favourable: a figure that is missing, stale or from the future stays missing, and so does one
that no machine can have, such as an infinite one.

A node and its pods are measured by different means, at other moments and over other windows, so pods may add
up to more than their node. Then the node's own figure says whether it is hot, for it is the one that is held
to the policy's levels, and each pod takes its share of that figure along when it leaves. Where a pod may land
the larger figure counts: a node uses at least what its pods use.

    n1 reports 9.0 cores, its pods 12.0: hot by 9.0; a pod of 2.0 cores takes 1.5 along, and all of them 9.0
    n2 reports 0.5 cores, its pods 6.0:  not hot; a pod of 2.0 cores that lands there makes that 8.0
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property

import msgspec
import numpy as np

from rebalancer.cluster import times
from rebalancer.cluster.arrays import BoolArray, FloatArray, IntArray
from rebalancer.cluster.nodes import CPU, MEMORY, PODS_COLUMN, NodeTable
from rebalancer.cluster.pods import PodTable
from rebalancer.load.usage import (
    RESOURCES,
    EstimatedPodUsage,
    NodeUsage,
    PodMethod,
    PodUsage,
    measured_usage,
    most_plausible,
    plausible_for_pods,
    possible,
    usage_of_requests,
    with_shares,
)
from rebalancer.policy.units import format_duration

# Clocks of nodes and metrics servers differ; a figure further ahead than this is not to be trusted.
CLOCK_SKEW_SECONDS = 60.0
PERCENT_RESOURCES = ("cpu", "memory", "pods")  # what percentages begin with, in this order
_PODS_AFTER = len(RESOURCES)  # where pods stand among the percentages
_ROUNDING = 1e-9  # by which sums of the same figures differ
_MAX_NAMED = 5


class LoadReport(msgspec.Struct, frozen=True, eq=False, dict=True):
    """Usage of nodes and pods; NaN is unknown.

    Columns are ``resources``: cpu, memory, then what else the policy names. Percentages have one more,
    pods, in the third place.
    """

    usage: FloatArray  # (nodes, resources) thousandths of a core, bytes, then units of their own
    measured_at: FloatArray  # (nodes, resources) Unix seconds
    source: IntArray  # (nodes, resources) index into sources, -1 unknown
    sources: tuple[str, ...]
    window_seconds: FloatArray  # (nodes, resources) over how long each figure is taken
    pod_usage: FloatArray  # (pods, resources)
    pod_methods: IntArray  # (pods, resources) PodMethod
    pod_node: IntArray  # (pods,) row of the node that each pod is on, -1 where on none
    allocatable: FloatArray  # (nodes, resources + 1) cpu, memory, pods, then the capacity of the others
    warnings: tuple[str, ...] = ()
    resources: tuple[str, ...] = RESOURCES
    required: tuple[str, ...] = RESOURCES  # without a fresh figure of these a node is unknown
    statistics: tuple[tuple[str, ...], ...] = ()  # by source and resource: what of their window figures are
    deviation: FloatArray | None = None  # (nodes, resources) standard deviation in the window, NaN unknown
    pressure: Mapping[str, FloatArray] = {}  # (nodes,) percent of time, NaN unknown

    @cached_property
    def percent(self) -> FloatArray:
        """(nodes, resources + 1) cpu, memory, pods, … in percent of allocatable; NaN where unknown."""
        values = percent_of_allocatable(self.usage, self.pod_count, self.allocatable)
        values.flags.writeable = False  # computed once for everybody
        return values

    @cached_property
    def pod_count(self) -> IntArray:
        """(nodes,) how many pods are on each."""
        return self.count_of(np.ones(len(self.pod_node), np.bool_))

    def _on_nodes(self, amounts: FloatArray) -> FloatArray:
        """(nodes, …) the sum of (pods, …) amounts over the pods on each node; unknown ones add nothing."""
        bound, total = self.pod_node >= 0, np.zeros((len(self.usage), *amounts.shape[1:]))
        np.add.at(total, self.pod_node[bound], np.nan_to_num(amounts[bound], nan=0.0))
        return total

    @cached_property
    def least_usage(self) -> FloatArray:
        """(nodes, resources) what each node uses at least: what its measured pods use.

        0 where its figure is no mean: peaks and percentiles of pods add up to more than those of their node.
        """
        measured = np.where(self.pod_methods == PodMethod.MEASURED, self.pod_usage, 0.0)
        unknown = [False] * self.usage.shape[1]  # of the source -1
        means = np.array([*([name == "mean" for name in item] for item in self.statistics), unknown])
        return np.where(means[self.source, np.arange(len(unknown))], self._on_nodes(measured), 0.0)

    @cached_property
    def relief(self) -> FloatArray:
        """(pods, resources) by how much the figure of its node falls when a pod leaves; NaN unknown."""
        pods = self._on_nodes(self.pod_usage)
        more = pods > self.usage * (1.0 + _ROUNDING)
        share = np.where(more, self.usage / np.where(more, pods, 1.0), 1.0)
        relief, bound = self.pod_usage.copy(), self.pod_node >= 0
        relief[bound] *= share[self.pod_node[bound]]
        return relief

    def usage_of(self, pods: BoolArray) -> FloatArray:
        """(nodes, resources) by how much the figure of each node falls when some of the (pods,) leave."""
        return self._on_nodes(np.where(pods[:, None], self.relief, 0.0))

    def percent_without(self, pods: BoolArray) -> FloatArray:
        """``percent`` once some of the (pods,) are gone."""
        if not pods.any():
            return self.percent
        usage = np.maximum(self.usage - self.usage_of(pods), 0.0)
        return percent_of_allocatable(usage, self.pod_count - self.count_of(pods), self.allocatable)

    def count_of(self, pods: BoolArray) -> IntArray:
        """(nodes,) how many of some of the (pods,) are on each."""
        return self._on_nodes(pods.astype(np.float64)).astype(np.int64)

    @property
    def percent_resources(self) -> tuple[str, ...]:
        """The columns of percentages: cpu, memory, pods, then what else is measured."""
        return (*self.resources[:_PODS_AFTER], "pods", *self.resources[_PODS_AFTER:])

    @cached_property
    def known(self) -> BoolArray:
        """(nodes,) has a fresh figure of every resource that is required, and allocatable cpu and memory."""
        columns = [self.resources.index(resource) for resource in self.required]
        values = np.asarray(~np.isnan(self.usage[:, columns]).any(axis=1), np.bool_)
        values &= (self.allocatable[:, : len(RESOURCES)] > 0.0).all(axis=1)
        values.flags.writeable = False  # computed once for everybody
        return values

    def without_allocatable(self, row: int) -> list[str]:
        """Which of cpu and memory a node has none of, so that no load is a percentage of it."""
        return [name for column, name in enumerate(RESOURCES) if not self.allocatable[row, column] > 0]

    def statistic(self, row: int, column: int) -> str:
        """What of its window the figure of a node and resource is."""
        source = int(self.source[row, column])
        return self.statistics[source][column] if 0 <= source < len(self.statistics) else "mean"

    def pod_load(self, row: int) -> dict[str, float]:
        """What a pod uses by resource; what is unknown is absent."""
        amounts = zip(self.resources, self.pod_usage[row].tolist(), strict=True)
        return {resource: amount for resource, amount in amounts if not np.isnan(amount)}

    def pod_load_methods(self, row: int) -> dict[str, str]:
        """How each figure of ``pod_load`` is known: measured, share or request."""
        methods = zip(self.resources, self.pod_methods[row].tolist(), strict=True)
        return {resource: PodMethod(method).name.lower() for resource, method in methods if method}


def with_pods(usage: FloatArray, pod_count: FloatArray | IntArray | float) -> FloatArray:
    """(…, resources + 1) amounts with the number of pods, (…), in its place, at the latest as the last."""
    usage = np.asarray(usage, np.float64)
    amounts = np.empty((*usage.shape[:-1], usage.shape[-1] + 1))
    after = min(_PODS_AFTER, usage.shape[-1])
    amounts[..., :after] = usage[..., :after]
    amounts[..., after] = pod_count
    amounts[..., after + 1 :] = usage[..., after:]
    return amounts


def percent_of_allocatable(usage: FloatArray, pod_count: IntArray, allocatable: FloatArray) -> FloatArray:
    """(nodes, resources + 1) percent of allocatable of usage and pod counts; NaN where unknown."""
    amounts, known = with_pods(usage, pod_count), allocatable > 0
    if known.all():
        return 100.0 * amounts / allocatable
    return np.where(known, 100.0 * amounts / np.where(known, allocatable, 1.0), np.nan)


def _fresh(measured_at: FloatArray, now: float, max_age: float) -> BoolArray:
    with np.errstate(invalid="ignore"):
        age = now - measured_at
        return (age <= max_age) & (age >= -CLOCK_SKEW_SECONDS)


def usable_of_pods(
    figures: PodUsage, pods: PodTable, nodes: NodeTable, *, now: float, max_age_seconds: float
) -> PodUsage:
    """The figures of pods without those that a report would not use; it is the report that warns of them."""
    believed = plausible_for_pods(figures, pods, most_plausible(nodes))
    fresh = _fresh(figures.measured_at, now, max_age_seconds)
    return msgspec.structs.replace(figures, usage=np.where(fresh[:, None], believed.usage, np.nan))


def build_report(
    nodes: NodeTable,
    pods: PodTable,
    node_figures: Sequence[NodeUsage],
    pod_figures: PodUsage | Sequence[PodUsage] | None,
    requests: FloatArray,
    *,
    now: float,
    max_age_seconds: float,
    resources: tuple[str, ...] = RESOURCES,
    required: Collection[str] = RESOURCES,
    failures: Iterable[str] = (),
) -> LoadReport:
    """Join the sources: the first fresh figure wins, node by node and resource by resource.

    ``requests`` is (pods, 2): what each pod requests of cpu and memory. ``resources`` begins with these
    two; a node without a fresh figure of those that are ``required`` is unknown. ``failures`` are
    warnings about sources that gave nothing.
    """
    joined = _Join(nodes, resources, now, max_age_seconds, failures)
    for figures in node_figures:
        joined.take(figures)
    if node_figures and all(figures.source == "requests" for figures in node_figures):
        pod_usage = usage_of_requests(requests, resources)
    else:
        sources = [pod_figures] if isinstance(pod_figures, PodUsage) else list(pod_figures or ())
        fresh = [(item, _fresh(item.measured_at, now, max_age_seconds)) for item in sources]
        pod_usage = with_shares(
            measured_usage(pods, nodes, fresh, resources), pods, nodes, joined.usage, requests
        )
    return joined.report(pods, pod_usage, required)


class _Join:
    def __init__(
        self,
        nodes: NodeTable,
        resources: tuple[str, ...],
        now: float,
        max_age: float,
        failures: Iterable[str],
    ) -> None:
        shape = (len(nodes), len(resources))
        self._nodes = nodes
        self._resources = resources
        self._now = now
        self._max_age = max_age
        self.usage = np.full(shape, np.nan)
        self._measured_at, self._deviation = np.full(shape, np.nan), np.full(shape, np.nan)
        self._window = np.zeros(shape)
        self._source: IntArray = np.full(shape, -1, np.int64)
        self._sources: list[str] = []
        self._statistics: list[tuple[str, ...]] = []
        self._capacity: dict[str, FloatArray] = {}
        self._pressure: dict[str, FloatArray] = {}
        self._warnings: list[str] = list(failures)

    def take(self, figures: NodeUsage) -> None:
        # Prometheus may answer that figures were measured at infinity: then it is not known when.
        moments = np.where(np.isfinite(figures.measured_at), figures.measured_at, np.nan)
        figures = msgspec.structs.replace(figures, measured_at=moments)
        windows = figures.window_seconds
        windows = np.broadcast_to(windows[:, None] if windows.ndim == 1 else windows, figures.usage.shape)
        fresh = _fresh(figures.measured_at, self._now, self._max_age) & possible(figures.usage)
        for column, resource in enumerate(figures.resources):
            if resource not in self._resources:
                continue
            target = self._resources.index(resource)
            take = fresh[:, column] & (self._source[:, target] < 0)
            self.usage[take, target] = figures.usage[take, column]
            self._measured_at[take, target] = figures.measured_at[take, column]
            self._window[take, target] = windows[take, column]
            self._source[take, target] = len(self._sources)
            if figures.deviation is not None:
                self._deviation[take, target] = figures.deviation[take, column]
        for resource, amounts in figures.capacity.items():
            known = self._capacity.get(resource, np.full(len(self._nodes), np.nan))
            self._capacity[resource] = np.where(np.isnan(known), amounts, known)
        if figures.pressure is not None:
            recent = _fresh(figures.pressure.measured_at, self._now, self._max_age)
            for resource, percent in figures.pressure.percent.items():
                earlier = self._pressure.get(resource, np.full(len(self._nodes), np.nan))
                self._pressure[resource] = np.where(recent & np.isnan(earlier), percent, earlier)
        self._sources.append(figures.source)
        self._statistics.append(
            tuple(figures.statistics.get(name, figures.statistic) for name in self._resources)
        )
        self._warnings += figures.warnings
        self._warn_about_unused(figures, fresh)

    def _warn_about_unused(self, figures: NodeUsage, fresh: BoolArray) -> None:
        there = possible(figures.usage)
        with np.errstate(invalid="ignore"):
            ahead = there & (figures.measured_at - self._now > CLOCK_SKEW_SECONDS)
        self._warn_about(
            figures,
            (there & ~fresh & ~ahead).any(axis=1),
            f"are older than load.maxAge ({format_duration(self._max_age)}) and are not used"
            f"{self._age_of_newest(figures)}",
        )
        self._warn_about(figures, ahead.any(axis=1), "are from the future and are not used; check the clocks")
        measured: BoolArray = np.asarray(there.any(axis=0), np.bool_)
        missing: BoolArray = np.asarray(~there & measured[None, :], np.bool_)
        if measured.any() and missing.any():
            rows = np.flatnonzero(missing.any(axis=1)).tolist()
            which = [figures.resources[column] for column in np.flatnonzero(missing.any(axis=0)).tolist()]
            self._warnings.append(
                f"{figures.source}: has no figure for {', '.join(which)} on {named(self._names(rows))}"
            )

    def _age_of_newest(self, figures: NodeUsage) -> str:
        """How old the newest figure is, where that alone makes all of them useless."""
        ages = self._now - figures.measured_at[~np.isnan(figures.measured_at)]
        if not len(ages) or ages.min() <= self._max_age:
            return ""
        return (
            f"; the newest was {format_duration(round(float(ages.min())))} old at {times.render(self._now)}"
        )

    def _warn_about(self, figures: NodeUsage, rows: BoolArray | np.bool_, what: str) -> None:
        found = np.flatnonzero(np.asarray(rows)).tolist()
        if found:
            names = self._names(found)
            self._warnings.append(f"{figures.source}: figures of {named(names)} {what}")

    def _names(self, rows: Iterable[int]) -> list[str]:
        return [self._nodes.names[row] for row in rows]

    def report(self, pods: PodTable, pod_usage: EstimatedPodUsage, required: Collection[str]) -> LoadReport:
        return LoadReport(
            usage=self.usage,
            measured_at=self._measured_at,
            source=self._source,
            sources=tuple(self._sources),
            window_seconds=self._window,
            pod_usage=pod_usage.usage,
            pod_methods=pod_usage.methods,
            pod_node=pods.node,
            allocatable=allocatable_of(self._nodes, self._resources, self._capacity),
            warnings=(*self._warnings, *pod_usage.warnings),
            resources=self._resources,
            required=tuple(name for name in self._resources if name in required),
            statistics=tuple(self._statistics),
            deviation=self._deviation,
            pressure=self._pressure,
        )


def allocatable_of(
    nodes: NodeTable, resources: Sequence[str], capacity: Mapping[str, FloatArray]
) -> FloatArray:
    """(nodes, resources + 1) what nodes have of each; NaN where it is not known."""
    stated = nodes.allocatable[:, [CPU, MEMORY, PODS_COLUMN]].astype(np.float64)
    unknown = np.full(len(nodes), np.nan)
    others = [capacity.get(resource, unknown) for resource in resources[len(RESOURCES) :]]
    return np.column_stack([stated, *others])


def named(names: Sequence[str]) -> str:
    """``node a``, ``nodes a, b and 7 more``: as many names as fit on a line."""
    shown = ", ".join(names[:_MAX_NAMED])
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return f"{'node' if len(names) == 1 else 'nodes'} {shown}{more}"
