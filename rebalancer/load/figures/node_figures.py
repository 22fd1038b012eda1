"""Figures of one source: usage by node and resource, each with the moment it was measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from rebalancer.cluster import quantities, times
from rebalancer.cluster.arrays import FloatArray
from rebalancer.cluster.nodes import CPU, MEMORY, NodeTable
from rebalancer.cluster.quantities import MAX_AMOUNT
from rebalancer.cluster.records import NodeMetrics
from rebalancer.load.load_watcher.document import AVERAGE, DEVIATION, LATEST, Metric, WatcherMetrics
from rebalancer.load.load_watcher.document import CPU as CPU_TYPE
from rebalancer.load.load_watcher.document import MEMORY as MEMORY_TYPE

PRESSURE_WINDOW_SECONDS = 300  # of rates of pressure: so long that one slow start of a pod is no pressure
RESOURCES = ("cpu", "memory")  # what every source measures; pods are counted
# A figure this far above capacity is a broken counter, not a busy node.
_IMPLAUSIBLE = 2.0


@dataclass(frozen=True, slots=True, eq=False)
class PressureFigures:
    """For how much of the time something on each node waited; NaN where that is not known."""

    percent: Mapping[str, FloatArray]  # by resource, (nodes,) percent of the time
    measured_at: FloatArray  # (nodes,) Unix seconds


@dataclass(frozen=True, slots=True, eq=False)
class NodeFigures:
    """Usage of the nodes according to one source; NaN where it has no figure."""

    source: str
    usage: (
        FloatArray  # (nodes, resources) thousandths of a core, bytes, bytes a second, or a signal's own unit
    )
    measured_at: FloatArray  # (nodes, resources) Unix seconds
    window_seconds: FloatArray  # (nodes,) or (nodes, resources) over how long the figures are taken
    warnings: tuple[str, ...] = ()
    resources: tuple[str, ...] = RESOURCES  # the columns
    statistic: str = "mean"  # what of the window the figures are
    deviation: FloatArray | None = None  # (nodes, resources) standard deviation in the window, NaN unknown
    capacity: Mapping[str, FloatArray] = field(default_factory=dict)  # of what nodes do not state: (nodes,)
    pressure: PressureFigures | None = None
    statistics: Mapping[str, str] = field(default_factory=dict)  # by resource, where not ``statistic``


@dataclass(frozen=True, slots=True, eq=False)
class PodFigures:
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


def nothing_measured(rows: int) -> FloatArray:
    """(rows, 2) of NaN."""
    return np.full((rows, len(RESOURCES)), np.nan)


def node_figures_of_metrics(metrics: Iterable[NodeMetrics], nodes: NodeTable) -> NodeFigures:
    """metrics-server's node figures; one that does not parse is a warning and its node unknown."""
    usage, measured_at = nothing_measured(len(nodes)), nothing_measured(len(nodes))
    window = np.zeros(len(nodes))
    warnings: list[str] = []
    seen: set[int] = set()
    twice: set[int] = set()
    strays: set[str] = set()
    for item in metrics:
        row = nodes.row.get(item.metadata.name)
        if row is None:
            strays.add(item.metadata.name)
            continue
        (twice if row in seen else seen).add(row)
        try:
            moment = times.parse(item.timestamp)
            window[row] = times.parse_duration(item.window) if item.window else 0.0
            usage[row] = [exact((item.usage or {}).get(resource), resource) for resource in RESOURCES]
            measured_at[row] = moment
        except ValueError as error:
            usage[row] = np.nan
            warnings.append(f"metrics-server: node {item.metadata.name}: {error}")
    usage[sorted(twice)] = np.nan
    warnings += [
        f"metrics-server: node {nodes.names[row]}: has two figures; neither is used" for row in sorted(twice)
    ]
    warnings += [*_strays("metrics-server", strays), *_plausible("metrics-server", usage, nodes)]
    return NodeFigures("metrics-server", usage, measured_at, window, tuple(warnings))


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
    return np.asarray(room[:, [CPU, MEMORY]] * _IMPLAUSIBLE, np.float64)


def _plausible(source: str, usage: FloatArray, nodes: NodeTable) -> list[str]:
    """Forget figures far above what a node has; one warning per node."""
    with np.errstate(invalid="ignore"):
        broken = usage > most_plausible(nodes)
    usage[broken] = np.nan
    return [
        f"{source}: node {nodes.names[row]}: a figure beyond {_IMPLAUSIBLE:g} times its capacity is not used"
        for row in np.flatnonzero(broken.any(axis=1)).tolist()
    ]


def node_figures_of_watcher(metrics: WatcherMetrics, nodes: NodeTable) -> NodeFigures:
    """load-watcher's averages (else its latest figures), turned from percent of capacity into amounts."""
    usage, measured_at = nothing_measured(len(nodes)), nothing_measured(len(nodes))
    spread = nothing_measured(len(nodes))
    warnings: list[str] = []
    capacity = nodes.capacity[:, [CPU, MEMORY]].astype(np.float64)
    for name, figures in metrics.nodes.items():
        row = nodes.row.get(name)
        if row is None:
            continue
        for column, kind in enumerate((CPU_TYPE, MEMORY_TYPE)):
            percent = _preferred(figures, kind)
            if percent is None:
                continue
            if percent < 0:
                warnings.append(f"load-watcher: node {name}: {kind} is negative ({percent:g} %)")
                continue
            if capacity[row, column] <= 0:
                warnings.append(f"load-watcher: node {name}: its {kind} capacity is unknown")
                continue
            usage[row, column] = percent / 100 * capacity[row, column]
            measured_at[row, column] = metrics.window_end or metrics.timestamp or np.nan
            deviation = next(
                (item.value for item in figures if (item.type, item.operator) == (kind, DEVIATION)),
                np.nan,
            )
            spread[row, column] = deviation / 100 * capacity[row, column] if deviation >= 0 else np.nan
    averaged = any(item.operator == AVERAGE for figures in metrics.nodes.values() for item in figures)
    # metrics-server's latest figures look back a few seconds, whatever window stands beside them.
    window = max(0.0, metrics.window_end - metrics.window_start) if averaged else 0.0
    windows = np.full(len(nodes), window)
    warnings += [*_strays("load-watcher", set(metrics.nodes) - set(nodes.row))]
    warnings += _plausible("load-watcher", usage, nodes)
    return NodeFigures("load-watcher", usage, measured_at, windows, tuple(warnings), deviation=spread)


def _preferred(figures: tuple[Metric, ...], kind: str) -> float | None:
    found = {figure.operator: figure.value for figure in figures if figure.type == kind}
    for operator in (AVERAGE, LATEST, ""):
        if operator in found:
            return found[operator]
    return None


def node_figures_of_requests(requested: FloatArray, now: float) -> NodeFigures:
    """The pods' requests stand for their load: always fresh, never measured."""
    return NodeFigures("requests", requested, np.full_like(requested, now), np.zeros(len(requested)))
