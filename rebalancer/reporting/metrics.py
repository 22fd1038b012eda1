"""Prometheus metrics of runs: scraped from a service, or written and pushed by a run that ends.

``METRICS`` is the table of all: name, meaning, labels, kind, and the figures of a plan where it has some. An
alert or a panel of the dashboard goes by each, or it tells an operator what to look at next. The
reference page is made from it. ``RunMetrics`` follows runs as they happen, and is read as a registry.

Gauges describe the last run, and are replaced as a whole: a scrape that comes meanwhile sees the old ones or
the new ones. Counters add up over all runs of the process; every value of their labels that is known
beforehand is there from the beginning, as 0, because a series that comes and goes cannot be alerted on.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum

import msgspec
import prometheus_client
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from rebalancer.errors import ExitCode
from rebalancer.execution.events import MoveEnded, RunEvent, RunFinished
from rebalancer.execution.outcomes import Outcome, Stop
from rebalancer.planning.plan import Plan
from rebalancer.planning.strategies import STRATEGIES, label_of
from rebalancer.reporting.words import plain
from rebalancer.state.results import Result

_STRATEGIES = ", ".join(label_of(strategy.name) for strategy in STRATEGIES)
MAX_NODE_SERIES = 200  # nodes named one by one; the number of hot nodes has a metric of its own
MAX_NAMESPACES = 200  # that have series of their own: some clusters make one for each change under review
NO_PODS = "NoPods"


class MetricKind(StrEnum):
    """What a figure means over time."""

    GAUGE = "gauge"  # of the last run
    COUNTER = "counter"  # since the process began


Samples = Mapping[tuple[str, ...], float]  # by the values of the labels


class Metric(msgspec.Struct, frozen=True):
    """One metric: its name, its help text and its labels.

    ``of_plan`` are its samples by a plan; those of an earlier plan that the next one lacks are withdrawn.
    """

    name: str
    meaning: str
    labels: tuple[str, ...] = ()
    kind: MetricKind = MetricKind.GAUGE
    of_plan: Callable[[Plan], Samples] | None = None


def unlabelled(value: float) -> Samples:
    """The samples of a metric without labels."""
    return {(): value}


def plan_samples(plan: Plan) -> dict[Metric, Samples]:
    """What a plan found and wants."""
    return {metric: metric.of_plan(plan) for metric in METRICS if metric.of_plan is not None}


def _nodes(plan: Plan) -> Samples:
    return {("known",): plan.known_count, ("unknown",): plan.node_count - plan.known_count}


def _unsolved(plan: Plan) -> Samples:
    reasons: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for unmoved in plan.kept:
        reasons[unmoved.node][plain(unmoved.reason)] += 1
    samples: dict[tuple[str, ...], float] = {}
    for node in sorted(plan.unsolved)[:MAX_NODE_SERIES]:
        by_frequency = sorted(reasons[node].items(), key=lambda entry: (-entry[1], entry[0]))
        reason = by_frequency[0][0] if by_frequency else NO_PODS
        samples[plain(node), reason] = 1.0
    return samples


def _unmoved(plan: Plan) -> Samples:
    counts = Counter(unmoved.reason for unmoved in plan.kept)
    return {(plain(reason),): count for reason, count in counts.items()}


NODES = Metric(
    "rebalancer_nodes", "Nodes by whether their load is known: known or unknown.", ("load",), of_plan=_nodes
)
HOT_NODES = Metric(
    "rebalancer_hot_nodes",
    "Nodes that are hot by the policy.",
    of_plan=lambda plan: unlabelled(plan.hot_count),
)
UNSOLVED_NODE = Metric(
    "rebalancer_unsolved_node",
    "1 for a node that stays hot after the plan, with what keeps most of its pods.",
    ("node", "reason"),
    of_plan=_unsolved,
)
PODS_KEPT = Metric(
    "rebalancer_pods_kept", "Pods on hot nodes that are not moved, by reason.", ("reason",), of_plan=_unmoved
)
EXIT_CODE = Metric("rebalancer_run_exit_code", "What the last run left with; see rebalancer --help.")
SUCCESS_TIME = Metric(
    "rebalancer_last_success_timestamp_seconds", "When the last run ended with exit code 0, Unix seconds."
)
RUNS = Metric("rebalancer_runs_total", "Runs, by their exit code.", ("exit_code",), MetricKind.COUNTER)
STOPS = Metric(
    "rebalancer_stops_total",
    f"Runs that stopped early, by the reason ({', '.join(Stop)}).",
    ("stop",),
    MetricKind.COUNTER,
)
EVICTIONS = Metric(
    "rebalancer_evictions_total",
    f"Evictions by result, reason ({_STRATEGIES}) and namespace, of the last {MAX_NAMESPACES} namespaces.",
    ("result", "reason", "namespace"),
    MetricKind.COUNTER,
)
LANDINGS = Metric(
    "rebalancer_landings_total",
    "Replacements by where they landed: Likeliest, Listed, Allowed but not listed, NotAllowed.",
    ("landing",),
    MetricKind.COUNTER,
)
LEADER = Metric("rebalancer_leader", "1 for the replica that acts; in plan mode, for each.")
POLICY_CURRENT = Metric(
    "rebalancer_policy_last_reload_successful",
    "0 while the policy file cannot be used, and nothing is evicted.",
)
DECISIONS = Metric(
    "rebalancer_scheduler_decisions_total",
    "Pods that schedulers bound, by profile and by whether they decided AsComputed; also "
    "InAnotherOrder, Missed, Unpredictable.",
    ("profile", "result"),
    MetricKind.COUNTER,
)
SERVICE_METRICS: tuple[Metric, ...] = (LEADER, POLICY_CURRENT, DECISIONS)
"""Those that only ``rebalancer serve`` has."""

METRICS: tuple[Metric, ...] = tuple(value for value in list(vars().values()) if isinstance(value, Metric))
"""All of them, in the order of their declarations above."""

_LIKELIEST = "Likeliest"
_LISTED = "Listed"
_ALLOWED = "Allowed"
_NOT_ALLOWED = "NotAllowed"
_KNOWN_LABELS: dict[Metric, tuple[str, ...]] = {
    RUNS: tuple(str(int(code)) for code in ExitCode),
    STOPS: tuple(stop.value for stop in Stop),
    LANDINGS: (_LIKELIEST, _LISTED, _ALLOWED, _NOT_ALLOWED),
}


class RunMetrics(Collector):
    """The metrics of all runs of this process so far; ``registry`` is what exporters take."""

    def __init__(self, cluster: str = "") -> None:
        """``cluster`` is a name that every series gets as a label, if there is one."""
        self._cluster = cluster
        self._gauges: Mapping[Metric, Samples] = {}
        self._counters = {
            metric: prometheus_client.Counter(metric.name, metric.meaning, metric.labels, registry=None)
            for metric in METRICS
            if metric.kind is MetricKind.COUNTER
        }
        for metric, values in _KNOWN_LABELS.items():
            for value in values:
                self._counters[metric].labels(value)
        self._evicted_from: dict[str, set[tuple[str, ...]]] = {}  # series by namespace, the latest last
        self.registry = CollectorRegistry()
        self.registry.register(self)

    def collect(self) -> Iterator[Family]:
        """Every metric that has a value, in the order of the table."""
        for family in self._families():
            if self._cluster:
                family.samples = [
                    sample._replace(labels={"cluster": self._cluster, **sample.labels})
                    for sample in family.samples
                ]
            yield family

    def _families(self) -> Iterator[Family]:
        gauges = self._gauges
        for metric in METRICS:
            if metric in gauges:
                gauge = GaugeMetricFamily(metric.name, metric.meaning, labels=metric.labels)
                for labels, value in sorted(gauges[metric].items()):
                    gauge.add_metric(labels, value)
                yield gauge
            elif metric in self._counters:
                for family in self._counters[metric].collect():
                    # When a series began says nothing of the cluster, and doubles their number.
                    family.samples = [
                        sample for sample in family.samples if not sample.name.endswith("_created")
                    ]
                    if family.samples:
                        yield family

    def set(self, metric: Metric, value: float) -> None:
        """Set a gauge without labels."""
        self._gauges = {**self._gauges, metric: unlabelled(value)}

    def planned(self, plan: Plan) -> None:
        """A plan was made; what is known of earlier ones is forgotten."""
        earlier = {metric: samples for metric, samples in self._gauges.items() if metric.of_plan is None}
        self._gauges = {**earlier, **plan_samples(plan)}

    def stands_by(self) -> None:
        """Another process makes the runs now: what the last one here found is no longer how things are.

        Left standing, an exit code of 3 would keep an alert firing for as long as this process lives.
        """
        lasting = {
            metric: samples
            for metric, samples in self._gauges.items()
            if metric in (POLICY_CURRENT, SUCCESS_TIME)
        }
        self._gauges = {**lasting, LEADER: unlabelled(0)}

    def compared(self, added: Counter[tuple[str, str]]) -> None:
        """Decisions of schedulers, by profile and result, were computed."""
        for (profile, result), count in added.items():
            self._counters[DECISIONS].labels(plain(profile), result).inc(count)

    def follow(self, event: RunEvent) -> None:
        """Count what happens in a run."""
        match event:
            case MoveEnded(outcome):
                self._move_ended(outcome)
            case RunFinished(outcomes):
                if outcomes.stop is not None:
                    self._counters[STOPS].labels(outcomes.stop.value).inc()

    def _move_ended(self, outcome: Outcome) -> None:
        if not outcome.result.was_requested:
            return
        namespace = plain(outcome.move.pod.namespace)
        self._evicted(outcome.result.value, label_of(outcome.move.strategy), namespace)
        if outcome.node and outcome.move.landings:
            self._counters[LANDINGS].labels(_landing(outcome, outcome.move.likeliest.node)).inc()

    def _evicted(self, result: str, reason: str, namespace: str) -> None:
        evictions = self._counters[EVICTIONS]
        evictions.labels(result, reason, namespace).inc()
        series = self._evicted_from.pop(namespace, set())
        self._evicted_from[namespace] = series | {(result, reason, namespace)}
        if len(self._evicted_from) > MAX_NAMESPACES:
            for labels in self._evicted_from.pop(next(iter(self._evicted_from))):
                evictions.remove(*labels)

    def ended(self, exit_code: int, now: float) -> None:
        """A run ended, with or without a plan; ``now`` in Unix seconds."""
        self.set(EXIT_CODE, exit_code)
        if exit_code == ExitCode.DONE:
            self.set(SUCCESS_TIME, now)
        self._counters[RUNS].labels(str(exit_code)).inc()


def _landing(outcome: Outcome, likeliest: str) -> str:
    if outcome.result is Result.UNEXPECTED:
        return _NOT_ALLOWED
    if outcome.node == likeliest:
        return _LIKELIEST
    return _LISTED if any(landing.node == outcome.node for landing in outcome.move.landings) else _ALLOWED
