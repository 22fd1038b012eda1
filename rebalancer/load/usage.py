"""What nodes and pods use according to one source, each figure with the moment it was measured.

The sources are metrics-server, load-watcher, the pods' requests and, in a package of its own, Prometheus. A
pod without a figure of its own gets its share, by request, of what its node uses beyond the measured pods:

    n1 uses 5.0 cores, 0.5 of them reserved for its system; a is measured at 2.0 cores
    b requests 1 core, c requests 4: b gets 0.5 of the remaining 2.5 cores, c gets 2.0
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum

import msgspec
import numpy as np

from rebalancer.cluster import quantities, times
from rebalancer.cluster.arrays import BoolArray, FloatArray, IntArray
from rebalancer.cluster.dumps.listing import PackedPodMetrics
from rebalancer.cluster.nodes import CPU, MEMORY, NodeTable
from rebalancer.cluster.pods import PodTable
from rebalancer.cluster.quantities import MAX_AMOUNT
from rebalancer.cluster.records import NodeMetrics
from rebalancer.counting import counted
from rebalancer.load.scheduler_view import (
    AVERAGE,
    CPU_TYPE,
    DEVIATION,
    LATEST,
    MEMORY_TYPE,
    WatcherMetrics,
)

PRESSURE_WINDOW_SECONDS = 300  # of rates of pressure: so long that one slow start of a pod is no pressure
RESOURCES = ("cpu", "memory")  # what every source measures; pods are counted
# A figure this far above capacity is a broken counter, not a busy node.
IMPLAUSIBLE = 2.0


class NodePressure(msgspec.Struct, frozen=True, eq=False):
    """For how much of the time something on each node waited; NaN where that is not known."""

    percent: Mapping[str, FloatArray]  # by resource, (nodes,) percent of the time
    measured_at: FloatArray  # (nodes,) Unix seconds


class NodeUsage(msgspec.Struct, frozen=True, eq=False):
    """Usage of the nodes according to one source; NaN where it has no figure."""

    source: str
    # (nodes, resources) thousandths of a core, bytes, bytes a second, or a signal's own unit
    usage: FloatArray
    measured_at: FloatArray  # (nodes, resources) Unix seconds
    window_seconds: FloatArray  # (nodes,) or (nodes, resources) over how long the figures are taken
    warnings: tuple[str, ...] = ()
    resources: tuple[str, ...] = RESOURCES  # the columns
    statistic: str = "mean"  # what of the window the figures are
    deviation: FloatArray | None = None  # (nodes, resources) standard deviation in the window, NaN unknown
    capacity: Mapping[str, FloatArray] = {}  # of what nodes do not state: (nodes,)
    pressure: NodePressure | None = None
    statistics: Mapping[str, str] = {}  # by resource, where not ``statistic``


class PodUsage(msgspec.Struct, frozen=True, eq=False):
    """Usage of the pods according to one source; NaN where it has no figure."""

    usage: FloatArray  # (pods, resources) in the units of the nodes
    measured_at: FloatArray  # (pods,) Unix seconds
    warnings: tuple[str, ...] = ()
    resources: tuple[str, ...] = RESOURCES  # the columns


def exact(text: str | None, resource: str) -> float:
    """A quantity in thousandths of a core or bytes, rounded once; NaN for none, ValueError for a bad one."""
    if text is None:
        return float("nan")
    # Integers divide to the nearest float, and at a fraction of what multiplying fractions costs.
    numerator, denominator = quantities.ratio(text)
    if not 0 <= numerator <= MAX_AMOUNT * denominator:
        raise ValueError(
            f"{resource} is {'negative' if numerator < 0 else 'too large for any machine'}: {text}"
        )
    return numerator * (1000 if resource == "cpu" else 1) / denominator


def possible(amounts: FloatArray) -> BoolArray:
    """Which figures something that exists can have."""
    return np.asarray(np.isfinite(amounts) & (amounts >= 0), np.bool_)


def nothing_measured(rows: int) -> FloatArray:
    """(rows, 2) of NaN."""
    return np.full((rows, len(RESOURCES)), np.nan)


def node_usage_of_metrics(metrics: Iterable[NodeMetrics], nodes: NodeTable) -> NodeUsage:
    """metrics-server's node figures; one that does not parse is a warning and its node unknown."""
    usage = nothing_measured(len(nodes))
    measured_at = nothing_measured(len(nodes))
    window = np.zeros(len(nodes))
    warnings: list[str] = []
    seen: set[int] = set()
    twice: set[int] = set()
    strays: set[str] = set()
    for node_metrics in metrics:
        row = nodes.row.get(node_metrics.metadata.name)
        if row is None:
            strays.add(node_metrics.metadata.name)
            continue
        (twice if row in seen else seen).add(row)
        try:
            moment = times.parse(node_metrics.timestamp)
            window[row] = times.parse_duration(node_metrics.window) if node_metrics.window else 0.0
            usage[row] = [exact((node_metrics.usage or {}).get(resource), resource) for resource in RESOURCES]
            measured_at[row] = moment
        except ValueError as error:
            usage[row] = np.nan
            warnings.append(f"metrics-server: node {node_metrics.metadata.name}: {error}")
    usage[sorted(twice)] = np.nan
    warnings += [
        f"metrics-server: node {nodes.names[row]}: has two figures; neither is used" for row in sorted(twice)
    ]
    warnings += [*_strays("metrics-server", strays), *_plausible("metrics-server", usage, nodes)]
    return NodeUsage("metrics-server", usage, measured_at, window, tuple(warnings))


def _strays(source: str, names: set[str]) -> list[str]:
    """One warning for names that no node of the cluster has: one was renamed or is gone."""
    if not names:
        return []
    noun = "node" if len(names) == 1 else "nodes"
    return [
        f"{source}: reports {len(names)} {noun} that the cluster does not have, e.g. {min(names)[:100]!a}"
    ]


def most_plausible(nodes: NodeTable) -> FloatArray:
    """(nodes, 2) the largest usage of a node, or of a pod on it, that may be believed."""
    room = np.where(nodes.capacity > 0, nodes.capacity, nodes.allocatable)
    return np.asarray(room[:, [CPU, MEMORY]] * IMPLAUSIBLE, np.float64)


def _plausible(source: str, usage: FloatArray, nodes: NodeTable) -> list[str]:
    """Forget figures far above what a node has; one warning per node."""
    with np.errstate(invalid="ignore"):
        broken = usage > most_plausible(nodes)
    usage[broken] = np.nan
    return [
        f"{source}: node {nodes.names[row]}: a figure beyond {IMPLAUSIBLE:g} times its capacity is not used"
        for row in np.flatnonzero(broken.any(axis=1)).tolist()
    ]


def node_usage_of_watcher(metrics: WatcherMetrics, nodes: NodeTable) -> NodeUsage:
    """load-watcher's averages (else its latest figures), turned from percent of capacity into amounts."""
    usage = nothing_measured(len(nodes))
    measured_at = nothing_measured(len(nodes))
    spread = nothing_measured(len(nodes))
    warnings: list[str] = []
    capacity = nodes.capacity[:, [CPU, MEMORY]].astype(np.float64)
    for name, figures in metrics.nodes.items():
        row = nodes.row.get(name)
        if row is None:
            continue
        figures_by_kind: dict[tuple[str, str], list[float]] = {}
        for figure in figures:
            figures_by_kind.setdefault((figure.type, figure.operator), []).append(figure.value)
        for column, kind in enumerate((CPU_TYPE, MEMORY_TYPE)):
            levels = ((kind, operator) for operator in (AVERAGE, LATEST, ""))
            percents = next((figures_by_kind[level] for level in levels if level in figures_by_kind), [])
            if len(percents) > 1:
                warnings.append(f"load-watcher: node {name}: has two figures of {kind}; neither is used")
            if len(percents) != 1:
                continue
            percent = percents[0]
            if percent < 0:
                warnings.append(f"load-watcher: node {name}: {kind} is negative ({percent:g} %)")
                continue
            if capacity[row, column] <= 0:
                warnings.append(f"load-watcher: node {name}: its {kind} capacity is unknown")
                continue
            usage[row, column] = percent / 100 * capacity[row, column]
            measured_at[row, column] = metrics.window_end or metrics.timestamp or np.nan
            deviation = max(figures_by_kind.get((kind, DEVIATION), ()), default=np.nan)
            spread[row, column] = deviation / 100 * capacity[row, column] if deviation >= 0 else np.nan
    averaged = any(figure.operator == AVERAGE for figures in metrics.nodes.values() for figure in figures)
    # metrics-server's latest figures look back a few seconds, whatever window stands beside them.
    window = max(0.0, metrics.window_end - metrics.window_start) if averaged else 0.0
    windows = np.full(len(nodes), window)
    warnings += [*_strays("load-watcher", set(metrics.nodes) - set(nodes.row))]
    warnings += _plausible("load-watcher", usage, nodes)
    return NodeUsage("load-watcher", usage, measured_at, windows, tuple(warnings), deviation=spread)


def node_usage_of_requests(requested: FloatArray, now: float) -> NodeUsage:
    """The pods' requests stand for their load: always fresh, never measured."""
    return NodeUsage("requests", requested, np.full_like(requested, now), np.zeros(len(requested)))


def node_usage_of_extended(
    nodes: NodeTable, pods: PodTable, requests: Mapping[str, FloatArray], now: float
) -> NodeUsage:
    """Extended resources, such as GPUs, as pods request them; a node has what it states as allocatable.

    ``requests`` is (pods,) by resource.
    """
    bound = pods.node >= 0
    used = np.zeros((len(nodes), len(requests)))
    capacity: dict[str, FloatArray] = {}
    for column, (resource, amounts) in enumerate(requests.items()):
        np.add.at(used[:, column], pods.node[bound], amounts[bound])
        capacity[resource] = np.zeros(len(nodes))
        if resource in nodes.resources:
            stated = nodes.allocatable[:, nodes.resources.index(resource)]
            capacity[resource] = stated.astype(np.float64)
    return NodeUsage(
        "requests",
        used,
        np.full_like(used, now),
        np.zeros(len(nodes)),
        resources=tuple(requests),
        capacity=capacity,
    )


_MAX_NAMED = 5


class _Usage(msgspec.Struct, gc=False):
    cpu: str | None = None
    memory: str | None = None


class _Container(msgspec.Struct, gc=False):
    usage: _Usage | None = None


_NOTHING = _Usage()
_containers = msgspec.json.Decoder(list[_Container] | None)


def pod_usage_of_metrics(metrics: PackedPodMetrics, pods: PodTable) -> PodUsage:
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
    rows_read: IntArray = np.array(rows, np.int64)
    usage[rows_read] = np.array(amounts).reshape(-1, 2)
    measured_at[rows_read] = moments
    return PodUsage(usage, measured_at, _warnings(unusable))


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


class PodMethod(IntEnum):
    """How a pod's usage is known."""

    UNKNOWN = 0
    MEASURED = 1
    SHARE = 2  # its share, by request, of what its node uses beyond the measured pods and the system
    REQUEST = 3  # its request stands for its usage


class EstimatedPodUsage(msgspec.Struct, frozen=True, eq=False):
    """Usage of the pods, and how each figure is known."""

    usage: FloatArray  # (pods, resources)
    methods: IntArray  # (pods, resources) PodMethod
    warnings: tuple[str, ...] = ()


def usage_of_requests(requests: FloatArray, resources: Sequence[str]) -> EstimatedPodUsage:
    """The requests stand for the usage; of what pods do not request nothing is known."""
    usage = np.full((len(requests), len(resources)), np.nan)
    usage[:, : requests.shape[1]] = requests
    methods = np.where(np.isnan(usage), int(PodMethod.UNKNOWN), int(PodMethod.REQUEST))
    return EstimatedPodUsage(usage, methods.astype(np.int64))


def measured_usage(
    pods: PodTable,
    nodes: NodeTable,
    figures: Sequence[tuple[PodUsage, BoolArray]],
    resources: Sequence[str],
) -> EstimatedPodUsage:
    """The first figure of each pod and resource; with each source, (pods,) which of its figures are fresh."""
    usage = np.full((len(pods), len(resources)), np.nan)
    warnings: list[str] = []
    for source, fresh in figures:
        plausible = plausible_for_pods(source, pods, most_plausible(nodes))
        warnings += plausible.warnings
        for column, resource in enumerate(plausible.resources):
            if resource not in resources:
                continue
            target = resources.index(resource)
            take = fresh & np.isnan(usage[:, target])
            usage[take, target] = plausible.usage[take, column]
    methods = np.where(np.isnan(usage), int(PodMethod.UNKNOWN), int(PodMethod.MEASURED)).astype(np.int64)
    return EstimatedPodUsage(usage, methods, tuple(warnings))


# What the scheduler counts a container as that requests nothing: thousandths of a core, bytes
# (pkg/scheduler/util/pod_resources.go, DefaultMilliCPURequest and DefaultMemoryRequest).
_WITHOUT_REQUEST = (100.0, 200.0 * (1 << 20))


def with_shares(
    measured: EstimatedPodUsage,
    pods: PodTable,
    nodes: NodeTable,
    node_usage: FloatArray,
    requests: FloatArray,
    by_requests: BoolArray,
) -> EstimatedPodUsage:
    """Share out what nodes use beyond their measured pods and their system, by request.

    What a node keeps for its system, capacity less allocatable, belongs to no pod. A resource that no pod can
    request is shared out by their cpu requests. A pod without a request uses something too, or it would be as
    good as idle wherever it lands: it counts as the scheduler counts a container without one. What pods of a
    node without a figure use stays unknown.

        a node uses 3 cores beyond measured pods and system; web requests 500m, two others nothing
        web has 500 of 700 parts, 2.1 cores; the others 100 parts each, 0.43 cores

    ``requests`` is (pods, 2): cpu and memory. ``by_requests`` is (nodes, resources): the figure of a node is
    the sum of what its pods request, so each of them uses just that.
    """
    usage = measured.usage.copy()
    methods = measured.methods.copy()
    system = (nodes.capacity - nodes.allocatable)[:, [CPU, MEMORY]].astype(np.float64)
    bound = pods.node >= 0
    for column in range(usage.shape[1]):
        is_measured = (methods[:, column] == PodMethod.MEASURED) & bound
        unmeasured = (methods[:, column] == PodMethod.UNKNOWN) & bound
        if not unmeasured.any():
            continue
        rows = len(node_usage)
        parts = requests[:, column if column < len(RESOURCES) else 0]
        requested = np.where(parts > 0, parts, _WITHOUT_REQUEST[column if column < len(RESOURCES) else 0])
        shown = np.bincount(pods.node[is_measured], usage[is_measured, column], rows)
        total = np.bincount(pods.node[unmeasured], requested[unmeasured], rows)
        of_system = np.maximum(system[:, column], 0.0) if column < len(RESOURCES) else 0.0
        not_shown = np.maximum(node_usage[:, column] - shown - of_system, 0.0)
        node = pods.node[unmeasured]
        shares = requested[unmeasured] / total[node] * not_shown[node]
        as_requested = by_requests[node, column]
        usage[unmeasured, column] = np.where(as_requested, parts[unmeasured], shares)
        methods[unmeasured, column] = np.where(as_requested, int(PodMethod.REQUEST), int(PodMethod.SHARE))
        methods[unmeasured & np.isnan(usage[:, column]), column] = PodMethod.UNKNOWN
    return EstimatedPodUsage(usage, methods, measured.warnings)


def plausible_for_pods(figures: PodUsage, pods: PodTable, most_of_node: FloatArray) -> PodUsage:
    """Forget figures that no pod can have: far above its node's they would make its neighbours look idle."""
    limit = np.full((len(pods), len(figures.resources)), np.inf)
    bound = pods.node >= 0
    for column, resource in enumerate(figures.resources):
        if resource in RESOURCES:
            limit[bound, column] = most_of_node[pods.node[bound], RESOURCES.index(resource)]
    with np.errstate(invalid="ignore"):
        impossible = ~np.isnan(figures.usage) & ~possible(figures.usage)
        broken = np.asarray(((figures.usage > limit) | impossible).any(axis=1), np.bool_)
    if not broken.any():
        return figures
    first = pods.full_name(int(np.flatnonzero(broken)[0]))
    warning = (
        f"figures of {counted(int(broken.sum()), 'pod')}, negative or far above their node's capacity, are "
        f"not used, e.g. {first}"
    )
    usage = np.where(broken[:, None], np.nan, figures.usage)
    return PodUsage(usage, figures.measured_at, (*figures.warnings, warning), figures.resources)
