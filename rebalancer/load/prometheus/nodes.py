"""Reads the nodes' figures out of Prometheus' series: which series is whose, and which to believe."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rebalancer.cluster import quantities, times
from rebalancer.cluster.arrays import BoolArray, FloatArray
from rebalancer.cluster.columns.nodes import CPU, MEMORY
from rebalancer.errors import RebalancerError, UnreachableError
from rebalancer.load.figures.metric_windows import deviation
from rebalancer.load.figures.node_figures import RESOURCES, NodeFigures
from rebalancer.load.figures.node_index import NodeNameIndex
from rebalancer.load.prometheus.inputs import PrometheusInputs
from rebalancer.load.prometheus.queries import NodeQuery, lookback_seconds, own_query, queries_of
from rebalancer.load.prometheus.questions import Question
from rebalancer.load.prometheus.wire import Series, failure_words
from rebalancer.load.report import CLOCK_SKEW_SECONDS, named
from rebalancer.policy.load_sources import PromQuery, Signal

_IMPLAUSIBLE = 2.0  # this many times the capacity is a broken counter, not a busy node


@dataclass(slots=True, eq=False)
class _Column:
    """The figures of one resource, by node."""

    values: FloatArray  # (nodes,)
    deviation: FloatArray  # (nodes,)
    last: FloatArray  # (nodes,) time of the last point


class NodeReading:
    """One reading of all nodes."""

    def __init__(self, inputs: PrometheusInputs) -> None:
        self.inputs = inputs
        self.nodes = inputs.nodes
        self.index = NodeNameIndex(inputs.nodes)
        self.warnings: list[str] = []
        self.skew = 0.0  # seconds by which Prometheus' clock is ahead of ours, once the figures are read
        self._answers: dict[Question, Sequence[Series]] = {}
        self._failures: list[Exception] = []
        created = (node.metadata.creation_timestamp for node in inputs.nodes.records)
        self._created = np.array([_moment(text) for text in created], np.float64)

    def figures(self) -> NodeFigures:
        """Figures of every resource; RebalancerError when no query was answered."""
        inputs, window = self.inputs, self.inputs.window
        queries = queries_of(inputs.settings)
        wanted = {name: query for name, query in queries.nodes.items() if name in inputs.resources}
        wanted |= {name: own_query(PromQuery(query=item.query)) for name, item in inputs.signals.items()}
        capacity = self._capacities({**queries.capacity, **_constants(inputs.signals)}, wanted)
        shape = (len(self.nodes), len(inputs.resources))
        usage, spread = np.full(shape, np.nan), np.full(shape, np.nan)
        measured_at, windows = np.full(shape, np.nan), np.zeros(shape)
        self.skew = self._clock_skew()
        for resource, query in wanted.items():
            series = self.ask(resource, Question(query.query.query, window.seconds, window.step_seconds))
            if series is None:
                continue
            column = inputs.resources.index(resource)
            figures = self._by_node(resource, series)
            factor = self._factor(resource, query, capacity)
            usage[:, column], spread[:, column] = figures.values * factor, figures.deviation * factor
            measured_at[:, column] = self._measured_at(resource, query, figures) - self.skew
            windows[:, column] = window.seconds + lookback_seconds(query.query.query)
        if len(self._failures) and np.isnan(usage).all() and not self._answers:
            raise self._failure()
        self._forget_implausible(usage, capacity)
        return NodeFigures(
            inputs.name,
            usage,
            measured_at,
            windows,
            tuple(self.warnings),
            inputs.resources,
            window.statistic,
            spread if window.seconds else None,
            {name: amounts for name, amounts in capacity.items() if name not in RESOURCES},
            statistics=window.by_resource,
        )

    def _failure(self) -> RebalancerError:
        first = self._failures[0]
        if isinstance(first, RebalancerError):
            return first
        return UnreachableError(failure_words(first), where=self.inputs.settings.address)

    def ask(self, what: str, question: Question) -> Sequence[Series] | None:
        """The answer, each question asked once; None, and a warning, when there is none."""
        if question not in self._answers:
            try:
                self._answers[question] = self.inputs.series(question)
            except (RebalancerError, ValueError, RecursionError) as error:
                self._failures.append(error)
                self.warnings.append(f"{self.inputs.name}: {what}: {failure_words(error)}")
                return None
        return self._answers[question]

    def _clock_skew(self) -> float:
        """By how much Prometheus' clock is ahead of ours, when by too much."""
        if self.inputs.asked_at is None:
            return 0.0
        try:
            found = self.inputs.series(Question("time()", dated=False))
            skew = float(found[0].values[-1]) - self.inputs.asked_at
        except (RebalancerError, ValueError, RecursionError, IndexError):
            return 0.0  # a server that does not answer this query answers no other
        if not abs(skew) > CLOCK_SKEW_SECONDS:
            return 0.0
        self.warnings.append(
            f"{self.inputs.name}: its clock is {abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} ours"
        )
        return skew

    def _capacities(
        self, queries: Mapping[str, str], wanted: Mapping[str, NodeQuery]
    ) -> dict[str, FloatArray]:
        """(nodes,) the capacity of the resources asked for; NaN where it is unknown."""
        stated = self.nodes.capacity[:, [CPU, MEMORY]].astype(np.float64)
        found = {resource: stated[:, column] for column, resource in enumerate(RESOURCES)}
        for resource, text in queries.items():
            if resource not in wanted:
                continue
            constant = _constant(text)
            if constant is not None:
                found[resource] = np.full(len(self.nodes), constant)
                continue
            series = self.ask(f"capacity of {resource}", Question(text))
            if series is not None:
                amounts = self.last_values(f"capacity of {resource}", series)
                found[resource] = np.where(amounts > 0, amounts, np.nan)
                self.warn_about(np.isnan(found[resource]), f"no capacity of {resource} for")
        return found

    def _factor(
        self, resource: str, query: NodeQuery, capacity: Mapping[str, FloatArray]
    ) -> FloatArray | float:
        """What turns the query's values into amounts."""
        if query.query.unit == "amount":
            return 1000.0 if resource == "cpu" else 1.0
        whole = capacity.get(resource, np.full(len(self.nodes), np.nan))
        whole = np.where(whole > 0, whole, np.nan)
        return whole / 100.0 if query.query.unit == "percent" else whole

    def _measured_at(self, resource: str, query: NodeQuery, figures: _Column) -> FloatArray:
        """(nodes,) when the figures were measured; NaN where it should be known and is not."""
        if not query.timestamp:
            return figures.last
        series = self.ask(f"age of {resource}", Question(query.timestamp))
        if series is None:
            return np.full(len(self.nodes), np.nan)
        return self.last_values(f"age of {resource}", series, newest=True)

    # Series to nodes

    def _rows(
        self, what: str, series: Sequence[Series], current: Callable[[Series], bool], *, newest: bool = False
    ) -> dict[int, Series]:
        """The one series of each node; none where there are two."""
        found: dict[int, Series] = {}
        twice: set[int] = set()
        strays: set[str] = set()
        for item in series:
            if not len(item.values):
                continue
            row, label = self.index.row_of_series(item.labels, self.inputs.settings.node_label)
            if row is None:
                strays.add(label)
                continue
            other = found.get(row)
            if other is None or (newest and item.values[-1] > other.values[-1]):
                found[row] = item
            elif not newest and current(item):
                if current(other):
                    twice.add(row)
                else:
                    found[row] = item  # its predecessor, before it was renamed or scraped anew
        if twice:
            names = named([self.nodes.names[row] for row in sorted(twice)])
            self.warnings.append(f"{self.inputs.name}: {what}: two series for {names}; neither is used")
        if strays and not newest:
            matches = "matches" if len(strays) == 1 else "match"
            self.warnings.append(
                f"{self.inputs.name}: {what}: {len(strays)} series {matches} no node of the cluster, "
                f"e.g. {min(strays)[:100]!a}"
            )
        return {row: item for row, item in found.items() if row not in twice}

    def _by_node(self, resource: str, series: Sequence[Series]) -> _Column:
        """The window's statistic of each node; impossible figures become NaN and a warning."""
        window, now = self.inputs.window.of_resource(resource), self.inputs.now
        nothing = np.full(len(self.nodes), np.nan)
        found = _Column(nothing.copy(), nothing.copy(), nothing.copy())
        not_numbers, negative, brief = np.zeros((3, len(self.nodes)), np.bool_)
        current = now - 2 * window.step_seconds
        for row, item in self._rows(resource, series, lambda item: item.times[-1] >= current).items():
            finite = np.isfinite(item.values)
            finite &= ~(item.times < self._created[row]) | (window.seconds == 0)
            values = item.values[finite]
            not_numbers[row] = not len(values)
            if not len(values):
                continue
            negative[row] = values.min() < 0
            brief[row] = window.seconds > 0 and len(values) * 2 * window.step_seconds < window.seconds
            if not negative[row]:
                found.values[row], found.deviation[row] = window.of(values), deviation(values)
                found.last[row] = item.times[finite][-1]
        self.warn_about(not_numbers, f"{resource} is not a number on")
        self.warn_about(negative, f"{resource} is negative on")
        self.warn_about(brief, f"{resource} is known for less than half the window on")
        return found

    def last_values(self, what: str, series: Sequence[Series], *, newest: bool = False) -> FloatArray:
        """(nodes,) the last value of each node's series; a series without labels is about all nodes."""
        if len(series) == 1 and not series[0].labels and len(series[0].values):
            return np.full(len(self.nodes), float(series[0].values[-1]))
        values = np.full(len(self.nodes), np.nan)
        for row, item in self._rows(what, series, lambda _: True, newest=newest).items():
            values[row] = item.values[-1]
        return np.where(np.isfinite(values), values, np.nan)

    def _forget_implausible(self, usage: FloatArray, capacity: Mapping[str, FloatArray]) -> None:
        for column, resource in enumerate(self.inputs.resources):
            whole = capacity.get(resource)
            if whole is None:
                continue
            with np.errstate(invalid="ignore"):
                broken = (usage[:, column] > whole * _IMPLAUSIBLE) & (whole > 0)
            usage[broken, column] = np.nan
            self.warn_about(broken, f"{resource} is more than {_IMPLAUSIBLE:g} times the capacity of")

    def warn_about(self, rows: BoolArray, what: str) -> None:
        """One warning that names these nodes, if there are any."""
        found = [self.nodes.names[row] for row in np.flatnonzero(rows).tolist()]
        if found:
            self.warnings.append(f"{self.inputs.name}: {what} {named(found)}")


def _constants(signals: Mapping[str, Signal]) -> dict[str, str]:
    return {name: item.capacity for name, item in signals.items()}


def _constant(text: str) -> float | None:
    """A capacity that is a quantity rather than PromQL."""
    try:
        value = float(quantities.parse(text.strip()))
    except ValueError:
        return None
    return value if value > 0 else None


def _moment(text: str | None) -> float:
    try:
        return times.parse_optional(text)
    except ValueError:
        return float("nan")
