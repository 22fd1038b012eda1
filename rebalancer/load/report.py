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

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import msgspec
import numpy as np
from msgspec.structs import replace

from rebalancer.cluster import times
from rebalancer.cluster.arrays import BoolArray, FloatArray, IntArray
from rebalancer.cluster.nodes import CPU, MEMORY, PODS_COLUMN, NodeTable
from rebalancer.cluster.pods import PodTable
from rebalancer.load.usage import (
    RESOURCES,
    NodeUsage,
    PodMethod,
    PodUsage,
    measured_usage,
    most_plausible,
    node_usage_of_extended,
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
    why_stale: str = ""  # where all figures are too old: how old the newest is

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
        bound = self.pod_node >= 0
        total = np.zeros((len(self.usage), *amounts.shape[1:]))
        np.add.at(total, self.pod_node[bound], np.nan_to_num(amounts[bound], nan=0.0))
        return total

    @cached_property
    def least_usage(self) -> FloatArray:
        """(nodes, resources) what each node uses at least: what its measured pods use.

        0 where its figure is no mean: peaks and percentiles of pods add up to more than those of their node.
        """
        measured = np.where(self.pod_methods == PodMethod.MEASURED, self.pod_usage, 0.0)
        unknown = [""] * self.usage.shape[1]  # of the source -1
        statistics = np.array([*self.statistics, unknown], np.str_)
        means = (statistics == "mean")[self.source, np.arange(len(unknown))]
        return np.where(means, self._on_nodes(measured), 0.0)

    @cached_property
    def relief(self) -> FloatArray:
        """(pods, resources) by how much the figure of its node falls when a pod leaves; NaN unknown."""
        pods = self._on_nodes(self.pod_usage)
        more = pods > self.usage * (1.0 + _ROUNDING)
        share = np.where(more, self.usage / np.where(more, pods, 1.0), 1.0)
        relief = self.pod_usage.copy()
        bound = self.pod_node >= 0
        relief[bound] *= share[self.pod_node[bound]]
        return relief

    @cached_property
    def points(self) -> FloatArray:
        """(pods, resources + 1) percent of its node that leave it with each pod; NaN where that is not known.

        Of a pod that is on no node they mean nothing.
        """
        one_each = np.ones(len(self.relief), np.int64)
        values = percent_of_allocatable(self.relief, one_each, self.allocatable[self.pod_node])
        values.flags.writeable = False  # computed once for everybody
        return values

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

    @cached_property
    def of_no_pod(self) -> FloatArray:
        """(nodes, resources + 1) percent of allocatable that processes outside pods use; NaN where unknown.

        It is known where every pod of a node is measured, and the node's figure is a mean as theirs are.
        """
        not_measured = self._on_nodes((self.pod_methods != PodMethod.MEASURED).astype(np.float64))
        means = np.zeros(self.usage.shape, np.bool_)
        for row, column in np.argwhere(self.source >= 0).tolist():
            means[row, column] = self.statistic(row, column) == "mean"
        usage = np.where(means & (not_measured == 0), self.usage - self._on_nodes(self.relief), np.nan)
        return percent_of_allocatable(usage, np.zeros(len(usage), np.int64), self.allocatable)

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
    amounts = with_pods(usage, pod_count)
    has_room = allocatable > 0
    if np.count_nonzero(has_room) == has_room.size:
        return np.asarray(100.0 * amounts / allocatable, np.float64)
    return np.where(has_room, 100.0 * amounts / np.where(has_room, allocatable, 1.0), np.nan)


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
    return replace(figures, usage=np.where(fresh[:, None], believed.usage, np.nan))


def _statistics(figures: NodeUsage, resources: Sequence[str]) -> tuple[str, ...]:
    """Which statistic the figures of each resource are."""
    return tuple(figures.statistics.get(name, figures.statistic) for name in resources)


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
    extended: Mapping[str, FloatArray] = {},
) -> LoadReport:
    """Join the sources: the first fresh figure wins, node by node and resource by resource.

    ``requests`` is (pods, 2): what each pod requests of cpu and memory. ``resources`` begins with these
    two; a node without a fresh figure of those that are ``required`` is unknown. ``failures`` are
    warnings about sources that gave nothing. ``extended`` is (pods,) what each requests of resources that
    nothing measures: those requests are their load, whatever the sources.
    """
    by_requests_alone = bool(node_figures) and all(figures.source == "requests" for figures in node_figures)
    if extended:
        node_figures = [*node_figures, node_usage_of_extended(nodes, pods, extended, now)]
    # Prometheus may answer that figures were measured at infinity: then it is not known when.
    dated = [
        replace(figures, measured_at=np.where(np.isfinite(figures.measured_at), figures.measured_at, np.nan))
        for figures in node_figures
    ]
    fresh = [_fresh(figures.measured_at, now, max_age_seconds) & possible(figures.usage) for figures in dated]
    joined, source = _joined(dated, fresh, resources, len(nodes))
    usage, measured_at, window, deviation = joined
    capacity: dict[str, FloatArray] = {}
    pressure: dict[str, FloatArray] = {}
    warnings = list(failures)
    for figures, used in zip(dated, fresh, strict=True):
        for resource, amounts in figures.capacity.items():
            capacity[resource] = _first_known(capacity.get(resource), amounts)
        if figures.pressure is not None:
            recent = _fresh(figures.pressure.measured_at, now, max_age_seconds)
            for resource, percent in figures.pressure.percent.items():
                pressure[resource] = _first_known(pressure.get(resource), np.where(recent, percent, np.nan))
        warnings += [*figures.warnings, *_unused(figures, used, nodes.names, now, max_age_seconds)]
    if by_requests_alone:
        pod_usage = usage_of_requests(requests, resources)
    else:
        sources = [pod_figures] if isinstance(pod_figures, PodUsage) else list(pod_figures or ())
        of_pods = [(figures, _fresh(figures.measured_at, now, max_age_seconds)) for figures in sources]
        measured = measured_usage(pods, nodes, of_pods, resources)
        by_requests = np.array([*(figures.source == "requests" for figures in dated), False])[source]
        pod_usage = with_shares(measured, pods, nodes, usage, requests, by_requests)
    for resource, amounts in extended.items():
        pod_usage.usage[:, resources.index(resource)] = amounts
        pod_usage.methods[:, resources.index(resource)] = PodMethod.REQUEST
    return LoadReport(
        usage=usage,
        measured_at=measured_at,
        source=source,
        sources=tuple(figures.source for figures in dated),
        window_seconds=window,
        pod_usage=pod_usage.usage,
        pod_methods=pod_usage.methods,
        pod_node=pods.node,
        allocatable=allocatable_of(nodes, resources, capacity),
        warnings=(*warnings, *pod_usage.warnings),
        resources=resources,
        required=tuple(name for name in resources if name in required),
        statistics=tuple(_statistics(figures, resources) for figures in dated),
        deviation=deviation,
        pressure=pressure,
        why_stale=_why_stale(dated, now, max_age_seconds),
    )


def _why_stale(figures: Sequence[NodeUsage], now: float, max_age: float) -> str:
    """How old the newest figure of any source is, where that is too old; else empty."""
    newest = -np.inf
    for usage in figures:
        measured = usage.measured_at[~np.isnan(usage.measured_at)]
        newest = max(newest, float(measured.max(initial=-np.inf)))
    age = now - newest
    if not max_age < age < np.inf:
        return ""
    return (
        f"the newest load figure is {format_duration(round(age))} old at {times.render(now)}, and "
        f"load.maxAge is {format_duration(max_age)}"
    )


def _first_known(amounts_before: FloatArray | None, amounts: FloatArray) -> FloatArray:
    return amounts if amounts_before is None else np.where(np.isnan(amounts_before), amounts, amounts_before)


def _joined(
    figures: Sequence[NodeUsage], fresh: Sequence[BoolArray], resources: tuple[str, ...], count: int
) -> tuple[FloatArray, IntArray]:
    """Of the first source with a fresh figure, (nodes, resources) its index, and -1 where there is none.

    Before it (4, nodes, resources): its figure, when it was measured, over how long, and its deviation.
    """
    tables = np.full((len(figures) + 1, 4, count, len(resources)), np.nan)  # the last is that of no source
    tables[-1, 2] = 0.0
    for table, usage, used in zip(tables, figures, fresh, strict=False):
        windows = usage.window_seconds[:, None] if usage.window_seconds.ndim == 1 else usage.window_seconds
        deviation = np.nan if usage.deviation is None else usage.deviation
        parts = np.stack(np.broadcast_arrays(usage.usage, usage.measured_at, windows, deviation))
        for column, resource in enumerate(usage.resources):
            if resource in resources:
                table[:, :, resources.index(resource)] = np.where(used[:, column], parts[..., column], np.nan)
    is_known = ~np.isnan(tables[:, 0])
    source: IntArray = np.where(is_known.any(axis=0), is_known.argmax(axis=0), -1)
    return np.take_along_axis(tables, source[None, None], axis=0)[0], source


def _unused(
    figures: NodeUsage, fresh: BoolArray, names: Sequence[str], now: float, max_age: float
) -> Iterator[str]:
    """A warning for each reason for which figures are not used."""
    there = possible(figures.usage)
    with np.errstate(invalid="ignore"):
        ahead = there & (figures.measured_at - now > CLOCK_SKEW_SECONDS)
    # How old the newest figure is, where that alone makes all of them useless.
    ages = now - figures.measured_at[~np.isnan(figures.measured_at)]
    newest = ""
    if len(ages) and ages.min() > max_age:
        age = format_duration(round(float(ages.min())))
        newest = f"; the newest was {age} old at {times.render(now)}"
    old = f"are older than load.maxAge ({format_duration(max_age)}) and are not used{newest}"
    future = "are from the future and are not used; check the clocks"
    for wrong, what in (there & ~fresh & ~ahead, old), (ahead, future):
        if wrong.any():
            which = [names[row] for row in np.flatnonzero(wrong.any(axis=1)).tolist()]
            yield f"{figures.source}: figures of {named(which)} {what}"
    missing = ~there & there.any(axis=0)
    if missing.any():
        which = [names[row] for row in np.flatnonzero(missing.any(axis=1)).tolist()]
        lacking = [figures.resources[column] for column in np.flatnonzero(missing.any(axis=0)).tolist()]
        yield f"{figures.source}: has no figure for {', '.join(lacking)} on {named(which)}"


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
