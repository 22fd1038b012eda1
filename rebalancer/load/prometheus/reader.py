"""Prometheus as a load source: figures of nodes and pods, and a warning for everything that was not used.

One query a metric answers for all nodes, or all pods. ``PrometheusReader`` finds out which series is whose
and which to believe.

Pressure is for how much of the time something on a node waited for cpu, memory or I/O: the kernel counts the
seconds in which at least one task waited (PSI, "some"). It separates a node that is merely busy from one
whose pods are slowed down. It cannot be added up, because a pod that leaves does not take its part of the
waiting along, so no landing is ever judged by it. Kubelets before 1.36 publish zeros where the kernel has no
PSI. A node all of whose counters are zero since it booted is therefore unknown, not calm.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from urllib.parse import urlsplit

import msgspec
import numpy as np

from rebalancer.cluster import quantities, times
from rebalancer.cluster.arrays import BoolArray, FloatArray, IntArray
from rebalancer.cluster.nodes import CPU, MEMORY, NodeTable
from rebalancer.cluster.pods import PodTable
from rebalancer.errors import RebalancerError, UnreachableError
from rebalancer.load.prometheus import clusters
from rebalancer.load.prometheus.matchers import with_matchers
from rebalancer.load.prometheus.queries import (
    Connection,
    NodeQuery,
    PrometheusQuery,
    QueryFunction,
    lookback_seconds,
    own_query,
    queries_of,
)
from rebalancer.load.prometheus.responses import Latest, Series, decode_answer, decode_latest, failure_words
from rebalancer.load.report import CLOCK_SKEW_SECONDS, named
from rebalancer.load.usage import (
    IMPLAUSIBLE,
    PRESSURE_WINDOW_SECONDS,
    RESOURCES,
    NodePressure,
    NodeUsage,
    PodUsage,
)
from rebalancer.load.windows import PRESENT, MetricWindow, deviation
from rebalancer.policy.load_sources import Prometheus, PromQuery, Signal


class PrometheusQuestions(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """What a policy asks a Prometheus, whatever the cluster holds: one request per metric."""

    settings: Prometheus
    window: MetricWindow = PRESENT
    resources: tuple[str, ...] = RESOURCES
    signals: Mapping[str, Signal] = {}
    pressure: tuple[str, ...] = ()  # cpu, memory and io, as far as rules name their pressure

    @property
    def node_queries(self) -> Mapping[str, NodeQuery]:
        """What the nodes' figures are asked by, by resource."""
        queries = {
            name: query for name, query in queries_of(self.settings).nodes.items() if name in self.resources
        }
        own = {name: self._selected(signal.query) for name, signal in self.signals.items()}
        return queries | {name: own_query(PromQuery(query=query)) for name, query in own.items()}

    @property
    def capacity_queries(self) -> Mapping[str, str]:
        """Of what nodes do not state: their capacity as PromQL, or as a quantity, by resource."""
        own = {
            name: signal.capacity
            if _constant(signal.capacity) is not None
            else self._selected(signal.capacity)
            for name, signal in self.signals.items()
        }
        return {**queries_of(self.settings).capacity, **own}

    @property
    def pod_queries(self) -> Mapping[str, str]:
        """What the pods' figures are asked by, by resource; none where the policy does not want them."""
        if not self.settings.pods:
            return {}
        queries = {
            name: query for name, query in queries_of(self.settings).pods.items() if name in self.resources
        }
        own = {name: signal.pod_query for name, signal in self.signals.items() if signal.pod_query}
        return queries | {name: self._selected(query) for name, query in own.items()}

    def _selected(self, query: str) -> str:
        """A query that selects by the policy's labels."""
        return with_matchers(query, self.settings.labels)

    def requests(self) -> Iterator[PrometheusQuery]:
        """Everything that the figures are read from, so that it can be asked beforehand."""
        yield _SERVER_TIME
        for resource, query in self.node_queries.items():
            capacity = self.capacity_queries.get(resource)
            if capacity is not None and _constant(capacity) is None:
                yield PrometheusQuery(capacity)
            yield PrometheusQuery(query.query.query, self.window.seconds, self.window.step_seconds)
            if query.timestamp:
                yield PrometheusQuery(query.timestamp)
        if self.pressure:
            counters = _PRESETS[self.settings.preset]
            yield PrometheusQuery(self._selected(counters.seconds_since_boot))
            for resource in self.pressure:
                yield PrometheusQuery(self._selected(counters.rate(resource)))
                yield PrometheusQuery(self._selected(counters.timestamp(resource)))
        for resource, text in self.pod_queries.items():
            yield PrometheusQuery(self.window.of_resource(resource).over(text))
        if self.pod_queries:
            queries = queries_of(self.settings)
            for text in filter(None, (queries.pod_timestamp, queries.pod_series)):
                yield PrometheusQuery(text)


def _constant(text: str) -> float | None:
    """A capacity that is a quantity rather than PromQL."""
    try:
        value = float(quantities.parse(text.strip()))
    except ValueError:
        return None
    return value if value > 0 else None


RANGE = f"{PRESSURE_WINDOW_SECONDS // 60}m"


class _Counters(msgspec.Struct, frozen=True):
    prefix: str
    matcher: str
    by: str

    def rate(self, resource: str) -> str:
        """PromQL: percent of the time."""
        counter = f"{self.prefix}_{resource}_waiting_seconds_total{{{self.matcher}}}"
        return f"100 * max by ({self.by}) (rate({counter}[{RANGE}]))"

    @property
    def seconds_since_boot(self) -> str:
        """PromQL: all counters of a node together."""
        name = f'__name__=~"{self.prefix}_(cpu|memory|io)_(waiting|stalled)_seconds_total"'
        return f"sum by ({self.by}) ({{{', '.join(filter(None, (name, self.matcher)))}}})"

    def timestamp(self, resource: str) -> str:
        """PromQL: when a counter was read."""
        return (
            f"max by ({self.by}) "
            f"(timestamp({self.prefix}_{resource}_waiting_seconds_total{{{self.matcher}}}))"
        )


_NODE_EXPORTER = _Counters("node_pressure", "", "instance")
_PRESETS = {
    "nodeExporter": _NODE_EXPORTER,
    "kubePrometheus": _NODE_EXPORTER,  # it has no recording rules of pressure
    "cadvisor": _Counters("container_pressure", 'id="/"', "instance, node"),
}


_SERVER_TIME = PrometheusQuery("time()", dated=False)  # to see by how much its clock differs from ours
DEFAULT_LABELS = ("node", "nodename", "kubernetes_node", "instance")
_PORT = re.compile(r"(.+):\d{1,5}", re.ASCII)
_HOSTNAME_LABEL = "kubernetes.io/hostname"


class NodeNameIndex:
    """Rows of nodes by whatever a metric may call them; what two nodes share finds neither."""

    def __init__(self, nodes: NodeTable) -> None:
        self.names = nodes.names
        self._by_name = nodes.row
        self._by_address: dict[str, int | None] = {}
        for row, node in enumerate(nodes.records):
            hostname = (node.metadata.labels or {}).get(_HOSTNAME_LABEL)
            addresses = {entry.address for entry in node.status.addresses or ()} | {hostname or ""}
            for address in addresses - {"", node.metadata.name}:
                self._by_address[address] = row if address not in self._by_address else None

    def row(self, value: str) -> int | None:
        """The row of the node; None when there is none, or several."""
        match = _PORT.fullmatch(value)
        host = match[1].strip("[]") if match else value
        for text in (value, host):
            row = self._by_name.get(text)
            if row is None:
                row = self._by_address.get(text)
            if row is not None:
                return row
        return None

    def row_of_series(self, labels: Mapping[str, str], node_label: str | None) -> tuple[int | None, str]:
        """The row of the node a series is about, and the label's value; the first label present decides."""
        for label in (node_label,) if node_label else DEFAULT_LABELS:
            value = labels.get(label)
            if value:
                return self.row(value), value
        return None, ""


class PrometheusReader(PrometheusQuestions, frozen=True, eq=False, kw_only=True, dict=True):
    """Reads the answers of one Prometheus once, and knows whose figures they are."""

    ask: QueryFunction
    nodes: NodeTable
    pods: PodTable
    now: float
    asked_at: float | None = None  # by our clock, to compare with the server's; None: not compared
    _warnings: list[str] = []  # of figures of nodes
    _answers: dict[PrometheusQuery, Sequence[Series]] = {}
    _failures: list[RebalancerError] = []

    @cached_property
    def _index(self) -> NodeNameIndex:
        return NodeNameIndex(self.nodes)

    @cached_property
    def _created(self) -> FloatArray:
        created = (node.metadata.creation_timestamp for node in self.nodes.records)
        return np.array([times.parse_if_possible(text) for text in created], np.float64)

    @property
    def name(self) -> str:
        """What reports call the source."""
        return f"prometheus {urlsplit(self.settings.address or '').netloc}"

    def node_figures(self) -> NodeUsage:
        """Figures of every resource that is asked for; RebalancerError when no query was answered."""
        window = self.window
        queries = self.node_queries
        capacity = self._capacities(self.capacity_queries, queries)
        shape = (len(self.nodes), len(self.resources))
        usage = np.full(shape, np.nan)
        spread = np.full(shape, np.nan)
        measured_at = np.full(shape, np.nan)
        windows = np.zeros(shape)
        skew = self._clock_skew()
        for resource, query in queries.items():
            series = self._asked(
                resource, PrometheusQuery(query.query.query, window.seconds, window.step_seconds)
            )
            if series is None:
                continue
            column = self.resources.index(resource)
            values, deviations, last = self._by_node(resource, series)
            factor = self._factor(resource, query, capacity)
            with np.errstate(over="ignore"):  # a figure beyond all numbers is implausible below
                usage[:, column] = values * factor
                spread[:, column] = deviations * factor
            measured_at[:, column] = self._measured_at(resource, query, last) - skew
            windows[:, column] = window.seconds + lookback_seconds(query.query.query)
        if self._failures and not self._answers:
            raise self._failures[0]
        self._forget_implausible(usage, capacity)
        pressure = self._pressure(skew) if self.pressure else None
        return NodeUsage(
            self.name,
            usage,
            measured_at,
            windows,
            tuple(self._warnings),
            self.resources,
            window.statistic,
            spread if window.seconds else None,
            {name: amounts for name, amounts in capacity.items() if name not in RESOURCES},
            pressure,
            window.by_resource,
        )

    def _asked(self, what: str, question: PrometheusQuery) -> Sequence[Series] | None:
        """The answer, each question asked once; None, and a warning, when there is none."""
        if question not in self._answers:
            try:
                self._answers[question] = decode_answer(self.ask(question))
            except (RebalancerError, ValueError, RecursionError) as error:
                words = failure_words(error)
                if not isinstance(error, RebalancerError):
                    error = UnreachableError(words, where=self.settings.address or "")
                self._failures.append(error)
                self._warn(f"{what}: {words}")
                return None
        return self._answers[question]

    def _clock_skew(self) -> float:
        """By how much Prometheus' clock is ahead of ours, when by too much."""
        if self.asked_at is None:
            return 0.0
        try:
            answer = decode_answer(self.ask(_SERVER_TIME))
            skew = float(answer[0].values[-1]) - self.asked_at
        except (RebalancerError, ValueError, RecursionError, IndexError):
            return 0.0  # a server that does not answer this query answers no other
        if not abs(skew) > CLOCK_SKEW_SECONDS:
            return 0.0
        self._warn(f"its clock is {abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} ours")
        return skew

    def _capacities(
        self, queries: Mapping[str, str], node_queries: Mapping[str, NodeQuery]
    ) -> dict[str, FloatArray]:
        """(nodes,) the capacity of the resources asked for; NaN where it is unknown."""
        stated = self.nodes.capacity[:, [CPU, MEMORY]].astype(np.float64)
        capacities = {resource: stated[:, column] for column, resource in enumerate(RESOURCES)}
        for resource, text in queries.items():
            if resource not in node_queries:
                continue
            constant = _constant(text)
            if constant is not None:
                capacities[resource] = np.full(len(self.nodes), constant)
                continue
            series = self._asked(f"capacity of {resource}", PrometheusQuery(text))
            if series is not None:
                amounts = self._last_values(f"capacity of {resource}", series)
                capacities[resource] = np.where(amounts > 0, amounts, np.nan)
                self._warn_about(np.isnan(capacities[resource]), f"no capacity of {resource} for")
        return capacities

    def _factor(
        self, resource: str, query: NodeQuery, capacity: Mapping[str, FloatArray]
    ) -> FloatArray | float:
        """What turns the query's values into amounts."""
        if query.query.unit == "amount":
            return 1000.0 if resource == "cpu" else 1.0
        whole = capacity.get(resource, np.full(len(self.nodes), np.nan))
        whole = np.where(whole > 0, whole, np.nan)
        return whole / 100.0 if query.query.unit == "percent" else whole

    def _measured_at(self, resource: str, query: NodeQuery, last: FloatArray) -> FloatArray:
        """(nodes,) when the figures were measured; NaN where it should be known and is not."""
        if not query.timestamp:
            return last
        series = self._asked(f"age of {resource}", PrometheusQuery(query.timestamp))
        if series is None:
            return np.full(len(self.nodes), np.nan)
        if query.shows_all_labels:
            self._refuse_doubled_nodes(series)
        return self._last_values(f"age of {resource}", series, newest=True)

    def _refuse_doubled_nodes(self, timestamps: Sequence[Series]) -> None:
        figures = []
        for one_series in timestamps:
            row, _ = self._index.row_of_series(one_series.labels, self.settings.node_label)
            if row is not None and len(one_series.values):
                figures.append((self.nodes.names[row], one_series.labels, float(one_series.values[-1])))
        clusters.refuse_doubled_nodes(self.name, figures)

    def _refuse_foreign_pods(self, query: str) -> None:
        try:
            latest = decode_latest(self.ask(PrometheusQuery(query)))
        except (RebalancerError, ValueError, RecursionError):
            return  # the query of the figures themselves says why
        own: list[Mapping[str, str]] = []
        foreign: list[Mapping[str, str]] = []
        for labels in latest.labels:
            row, _ = self._index.row_of_series(labels, self.settings.node_label)
            (foreign if row is None else own).append(labels)
        clusters.refuse_foreign_pods(self.name, own, foreign, self.settings.node_label or "")

    def _rows(
        self, what: str, series: Sequence[Series], current: Callable[[Series], bool], *, newest: bool = False
    ) -> dict[int, Series]:
        """The one series of each node; none where there are two."""
        series_by_row: dict[int, Series] = {}
        twice: set[int] = set()
        strays: set[str] = set()
        for one_series in series:
            if not len(one_series.values):
                continue
            row, label = self._index.row_of_series(one_series.labels, self.settings.node_label)
            if row is None:
                strays.add(label)
                continue
            other = series_by_row.get(row)
            if other is None or (newest and one_series.values[-1] > other.values[-1]):
                series_by_row[row] = one_series
            elif not newest and current(one_series):
                if current(other):
                    twice.add(row)
                else:
                    series_by_row[row] = one_series  # its predecessor, before it was renamed or scraped anew
        if twice:
            names = named([self.nodes.names[row] for row in sorted(twice)])
            self._warn(f"{what}: two series for {names}; neither is used")
        if strays and not newest:
            matches = "matches" if len(strays) == 1 else "match"
            self._warn(
                f"{what}: {len(strays)} series {matches} no node of the cluster, e.g. {min(strays)[:100]!a}"
            )
        return {row: one_series for row, one_series in series_by_row.items() if row not in twice}

    def _by_node(self, resource: str, series: Sequence[Series]) -> FloatArray:
        """(3, nodes) the window's statistic, the deviation, and the time of the last point.

        Impossible figures become NaN and a warning.
        """
        window = self.window.of_resource(resource)
        now = self.now
        figures = np.full((3, len(self.nodes)), np.nan)
        not_numbers, negative, brief = np.zeros((3, len(self.nodes)), np.bool_)
        current = now - 2 * window.step_seconds
        for row, one_series in self._rows(
            resource, series, lambda series: series.times[-1] >= current
        ).items():
            finite = np.isfinite(one_series.values)
            finite &= ~(one_series.times < self._created[row]) | (window.seconds == 0)
            values = one_series.values[finite]
            not_numbers[row] = not len(values)
            if not len(values):
                continue
            negative[row] = values.min() < 0
            brief[row] = window.seconds > 0 and len(values) * 2 * window.step_seconds < window.seconds
            if not negative[row]:
                figures[:, row] = window.of(values), deviation(values), one_series.times[finite][-1]
        self._warn_about(not_numbers, f"{resource} is not a number on")
        self._warn_about(negative, f"{resource} is negative on")
        self._warn_about(brief, f"{resource} is known for less than half the window on")
        return figures

    def _last_values(self, what: str, series: Sequence[Series], *, newest: bool = False) -> FloatArray:
        """(nodes,) the last value of each node's series; a series without labels is about all nodes."""
        if len(series) == 1 and not series[0].labels and len(series[0].values):
            return np.full(len(self.nodes), float(series[0].values[-1]))
        values = np.full(len(self.nodes), np.nan)
        for row, one_series in self._rows(what, series, lambda _: True, newest=newest).items():
            values[row] = one_series.values[-1]
        return np.where(np.isfinite(values), values, np.nan)

    def _forget_implausible(self, usage: FloatArray, capacity: Mapping[str, FloatArray]) -> None:
        for column, resource in enumerate(self.resources):
            whole = capacity.get(resource)
            if whole is None:
                continue
            with np.errstate(invalid="ignore"):
                broken = (usage[:, column] > whole * IMPLAUSIBLE) & (whole > 0) | np.isinf(usage[:, column])
            usage[broken, column] = np.nan
            self._warn_about(broken, f"{resource} is more than {IMPLAUSIBLE:g} times the capacity of")

    def _warn_about(self, rows: BoolArray, what: str) -> None:
        """One warning that names these nodes, if there are any."""
        names = [self.nodes.names[row] for row in np.flatnonzero(rows).tolist()]
        if names:
            self._warn(f"{what} {named(names)}")

    def _warn(self, what: str) -> None:
        self._warnings.append(f"{self.name}: {what}")

    def _pressure(self, skew: float) -> NodePressure:
        """The pressure that is asked for; NaN, and a warning, where it is not known."""
        counters = _PRESETS[self.settings.preset]
        nothing = np.full(len(self.nodes), np.nan)
        percent = dict.fromkeys(self.pressure, nothing)
        seconds = self._asked("pressure", PrometheusQuery(self._selected(counters.seconds_since_boot)))
        if seconds is None:
            return NodePressure(percent, nothing)
        since_boot = self._last_values("pressure", seconds)
        self._warn_about(since_boot == 0, "pressure is zero since boot, so not measured, on")
        oldest = np.full(len(self.nodes), np.inf)
        for resource in self.pressure:
            what = f"pressure of {resource}"
            rates = self._asked(what, PrometheusQuery(self._selected(counters.rate(resource))))
            dates = self._asked(
                f"age of {what}", PrometheusQuery(self._selected(counters.timestamp(resource)))
            )
            if rates is None or dates is None:
                continue
            values = self._last_values(what, rates)
            moments = self._last_values(what, dates, newest=True)
            oldest = np.fmin(oldest, moments)
            dated = ~np.isnan(moments)
            percent[resource] = np.where((values >= 0) & (since_boot > 0) & dated, values, np.nan)
            self._warn_about(np.isnan(percent[resource]) & (since_boot != 0), f"no {what} for")
        return NodePressure(percent, np.where(np.isinf(oldest), np.nan, oldest) - skew)

    def pod_figures(self) -> PodUsage | None:
        """Usage of the pods; None when the policy does not want it, or no query was answered."""
        queries = self.pod_queries
        timestamp = queries_of(self.settings).pod_timestamp
        if not queries:
            return None
        usage = np.full((len(self.pods), len(self.resources)), np.nan)
        measured_at = np.full(len(self.pods), self.now)
        warnings: list[str] = []
        answered = False
        pod_series = queries_of(self.settings).pod_series
        if pod_series:
            self._refuse_foreign_pods(pod_series)
        for resource, query in queries.items():
            try:
                latest = decode_latest(
                    self.ask(PrometheusQuery(self.window.of_resource(resource).over(query)))
                )
            except (RebalancerError, ValueError, RecursionError) as error:
                warnings.append(f"{self.name}: {resource} of pods: {failure_words(error)}")
                continue
            answered = True
            scale = 1000.0 if resource == "cpu" else 1.0
            column = self.resources.index(resource)
            usage[:, column], unused = self._by_pod(latest, scale)
            if resource in _TRAFFIC:  # on the node's network a pod's traffic is the node's
                uses_host_network = np.array(
                    [bool(pod.spec.host_network) for pod in self.pods.classes], np.bool_
                )
                usage[np.asarray(uses_host_network[self.pods.pod_class], np.bool_), column] = np.nan
            warnings += [f"{self.name}: {resource} of pods: {warning}" for warning in unused]
        if timestamp and answered:
            try:
                moments, _ = self._by_pod(decode_latest(self.ask(PrometheusQuery(timestamp))), 1.0)
                measured_at = np.where(np.isnan(moments), measured_at, moments)
            except (RebalancerError, ValueError, RecursionError) as error:
                measured_at[:] = np.nan
                warnings.append(f"{self.name}: the age of figures of pods: {failure_words(error)}")
        if not answered:
            usage[:] = np.nan
        return PodUsage(usage, measured_at, tuple(warnings), self.resources)

    def _by_pod(self, latest: Latest, scale: float) -> tuple[FloatArray, list[str]]:
        """(pods,) the last value of each pod's series, and what was not used."""
        values = np.full(len(self.pods), np.nan)
        row_of = self.pods.row
        namespace = self.settings.namespace_label
        pod = self.settings.pod_label
        row: IntArray = np.array(
            [row_of.get((labels.get(namespace, ""), labels.get(pod, "")), -1) for labels in latest.labels],
            np.int64,
        )
        ours = row >= 0
        rows, first, count = np.unique(row[ours], return_index=True, return_counts=True)
        with np.errstate(invalid="ignore", over="ignore"):
            amounts = latest.values[ours][first] * scale
            broken = ~((amounts >= 0) & (amounts < np.inf))
        values[rows] = np.where(broken | (count > 1), np.nan, amounts)
        unused = []
        for which, number, what in (
            (rows[count > 1], int((count - 1).sum()), "have two series"),
            (rows[broken], int(broken.sum()), "are negative or not a number"),
        ):
            if len(which):
                example = self.pods.full_name(int(which[0]))
                unused.append(f"{number} {what} and are not used, e.g. {example}")
        return values, unused


_TRAFFIC = frozenset({"networkReceive", "networkTransmit"})


def connection_of(settings: Prometheus) -> Connection:
    """Where the policy says a Prometheus is, and how it logs in."""
    basic = settings.basic_auth
    return Connection(
        address=(settings.address or "").rstrip("/"),
        bearer_token_file=settings.bearer_token_file,
        username=basic.username if basic else "",
        password_file=basic.password_file if basic else None,
        ca_file=settings.ca_file,
        insecure_skip_verify=settings.insecure_skip_verify,
        timeout_seconds=settings.timeout,
        headers=tuple(sorted(settings.headers.items())),
    )
