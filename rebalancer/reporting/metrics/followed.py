"""Metrics of runs as they happen, from their events and their spans, read as one registry.

Gauges describe the last run, and are replaced as a whole: a scrape that comes meanwhile sees the old ones or
the new ones. Counters and histograms add up over all runs of the process; every value of their labels that
is known beforehand is there from the beginning, as 0, because a series that comes and goes cannot be alerted
on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import prometheus_client
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from rebalancer.errors import ExitCode
from rebalancer.execution.events import MoveEnded, RunEvent, RunFinished
from rebalancer.execution.outcomes import Outcome, Outcomes, Stop
from rebalancer.planning.plan import Plan
from rebalancer.planning.strategies import label_of
from rebalancer.reporting.metrics import names
from rebalancer.reporting.metrics.figures import PLAN_METRICS, Samples, one, outcome_samples, plan_samples
from rebalancer.reporting.metrics.names import METRICS, Metric, MetricKind
from rebalancer.reporting.words import plain
from rebalancer.state.results import Result
from rebalancer.telemetry import Span

_LIKELIEST, _LISTED, _ALLOWED, _NOT_ALLOWED = "Likeliest", "Listed", "Allowed", "NotAllowed"
_STAGES = frozenset({"gather", "plan", "wave", "eviction", "landing", "check"})
_SAME, _DIFFERS = "Same", "Differs"
NOTHING_NEW, EARLY_RUN, UNKNOWN_LOAD = "NothingNew", "EarlyRun", "Unknown"
_KNOWN_LABELS: dict[Metric, tuple[str, ...]] = {
    names.RUNS: tuple(str(int(code)) for code in ExitCode),
    names.STOPS: tuple(stop.value for stop in Stop),
    names.LANDINGS: (_LIKELIEST, _LISTED, _ALLOWED, _NOT_ALLOWED),
}
_KNOWN_TO_A_SERVICE: dict[Metric, tuple[str, ...]] = {
    names.CHECKS: (NOTHING_NEW, EARLY_RUN, UNKNOWN_LOAD),
    names.COMPARISONS: (_SAME, _DIFFERS),
}

# Gauges that are read from spans: by the span's name, its fields.
_FROM_FIELDS: Mapping[str, Mapping[str, Metric]] = {
    "gather": {"verified": names.VERIFIED, "unverified_rules": names.UNVERIFIED_RULES},
    "save-state": {"bytes": names.STATE_BYTES},
}


class RunMetrics(Collector):
    """The metrics of all runs of this process so far; ``registry`` is what exporters take."""

    def __init__(self, *, of_a_service: bool = False) -> None:
        self._gauges: Mapping[Metric, Samples] = {}
        self._counters = {
            metric: prometheus_client.Counter(metric.name, metric.meaning, metric.labels, registry=None)
            for metric in METRICS
            if metric.kind is MetricKind.COUNTER
        }
        self._histograms = {
            metric: prometheus_client.Histogram(
                metric.name, metric.meaning, metric.labels, buckets=metric.buckets, registry=None
            )
            for metric in METRICS
            if metric.kind is MetricKind.HISTOGRAM
        }
        known = {**_KNOWN_LABELS, **(_KNOWN_TO_A_SERVICE if of_a_service else {})}
        for metric, values in known.items():
            for value in values:
                self._counters[metric].labels(value)
        self._evicted_from: dict[str, set[tuple[str, ...]]] = {}  # series by namespace, the latest last
        self.registry = CollectorRegistry()
        self.registry.register(self)

    def collect(self) -> Iterator[Family]:
        """Every metric that has a value, in the order of the table."""
        gauges = self._gauges
        for metric in METRICS:
            if metric.kind is MetricKind.GAUGE:
                if metric in gauges:
                    yield _family(metric, gauges[metric])
                continue
            recorded = self._counters if metric.kind is MetricKind.COUNTER else self._histograms
            for family in recorded[metric].collect():
                # When a series began says nothing of the cluster, and doubles their number.
                family.samples = [item for item in family.samples if not item.name.endswith("_created")]
                if family.samples:
                    yield family

    def set(self, metric: Metric, value: float) -> None:
        """Set a gauge without labels."""
        self._gauges = {**self._gauges, metric: one(value)}

    def planned(self, plan: Plan) -> None:
        """A plan was made; what is known of earlier ones is forgotten."""
        plan_metrics = plan_samples(plan)
        earlier = {metric: found for metric, found in self._gauges.items() if metric not in PLAN_METRICS}
        self._gauges = {**earlier, **plan_metrics, names.MOVES_QUEUED: one(len(plan.moves))}

    def only_planned(self) -> None:
        """Nobody carries the plan out: nothing is queued."""
        self.set(names.MOVES_QUEUED, 0)

    def stands_by(self) -> None:
        """Another process makes the runs now: what the last one here found is no longer how things are.

        Left standing, an exit code of 3 would keep an alert firing for as long as this process lives.
        """
        kept = (names.POLICY_CURRENT, names.SUCCESS_TIME)
        found = {metric: samples for metric, samples in self._gauges.items() if metric in kept}
        self._gauges = {**found, names.LEADER: one(0)}

    def checked(self, result: str) -> None:
        """The load was looked at between two runs."""
        self._counters[names.CHECKS].labels(result).inc()

    def follow(self, event: RunEvent) -> None:
        """Count what happens in a run."""
        match event:
            case MoveEnded(outcome):
                self._move_ended(outcome)
            case RunFinished(outcomes):
                self._run_finished(outcomes)

    def _move_ended(self, outcome: Outcome) -> None:
        queued = self._gauges.get(names.MOVES_QUEUED, one(1))[()]
        self.set(names.MOVES_QUEUED, max(0.0, queued - 1))
        if not outcome.result.was_requested:
            return
        namespace, reason = plain(outcome.move.pod.namespace), label_of(outcome.move.strategy)
        self._evicted(outcome.result.value, reason, namespace)
        if outcome.node and outcome.move.landings:
            likeliest = outcome.move.likeliest
            self._counters[names.LANDINGS].labels(_landing(outcome, likeliest.node)).inc()
            self._counters[names.LANDINGS_EXPECTED].inc(min(max(likeliest.probability, 0.0), 1.0))

    def _evicted(self, result: str, reason: str, namespace: str) -> None:
        evictions = self._counters[names.EVICTIONS]
        evictions.labels(result, reason, namespace).inc()
        series = self._evicted_from.pop(namespace, set())
        self._evicted_from[namespace] = series | {(result, reason, namespace)}
        if len(self._evicted_from) > names.MAX_NAMESPACES:
            for labels in self._evicted_from.pop(next(iter(self._evicted_from))):
                evictions.remove(*labels)

    def _run_finished(self, outcomes: Outcomes) -> None:
        self._gauges = {**self._gauges, **outcome_samples(outcomes), names.MOVES_QUEUED: one(0)}
        if outcomes.stop is not None:
            self._counters[names.STOPS].labels(outcomes.stop.value).inc()

    def ended(self, exit_code: int, now: float) -> None:
        """A run ended, with or without a plan; ``now`` in Unix seconds."""
        found = {names.EXIT_CODE: one(exit_code), names.RUN_TIME: one(now)}
        if exit_code == ExitCode.DONE:
            found[names.SUCCESS_TIME] = one(now)
        self._gauges = {**self._gauges, **found}
        self._counters[names.RUNS].labels(str(exit_code)).inc()

    def span_began(self, span: Span) -> None:
        """See Listener."""

    def span_ended(self, span: Span) -> None:
        """See Listener."""
        seconds = span.seconds or 0.0
        if span.name in _STAGES:
            self._histograms[names.STAGE_SECONDS].labels(span.name).observe(seconds)
        elif span.name == "compare":
            result = _DIFFERS if span.error or span.fields.get("differing") else _SAME
            self._counters[names.COMPARISONS].labels(result).inc()
        elif span.name == "run":
            self._histograms[names.RUN_SECONDS].observe(seconds)
        elif span.name == "request":
            refused = "refused" if "status" in span.fields else "failed"
            result = refused if span.error else "answered"
            asked = _request(str(span.fields.get("what", "")))
            self._histograms[names.REQUEST_SECONDS].labels(asked, result).observe(seconds)
        for field, metric in _FROM_FIELDS.get(span.name, {}).items():
            if field in span.fields:
                self.set(metric, float(span.fields[field]))


def run_metrics(
    plan: Plan | None, outcomes: Outcomes | None, *, exit_code: int, now: float
) -> CollectorRegistry:
    """The metrics of one run that is over; without a plan or outcomes their gauges are absent, not zero."""
    metrics = RunMetrics()
    if plan is not None:
        metrics.planned(plan)
    for outcome in outcomes.outcomes if outcomes else ():
        metrics.follow(MoveEnded(outcome))
    if outcomes is not None:
        metrics.follow(RunFinished(outcomes))
    metrics.ended(exit_code, now)
    return metrics.registry


def _family(metric: Metric, samples: Samples) -> Family:
    family = GaugeMetricFamily(metric.name, metric.meaning, labels=metric.labels)
    for labels, value in sorted(samples.items()):
        family.add_metric(labels, value)
    return family


def _landing(outcome: Outcome, likeliest: str) -> str:
    if outcome.result is Result.UNEXPECTED:
        return _NOT_ALLOWED
    if outcome.node == likeliest:
        return _LIKELIEST
    return _LISTED if any(landing.node == outcome.node for landing in outcome.move.landings) else _ALLOWED


def _request(what: str) -> str:
    """What was asked without the names in it: ``list pods``, ``evict``, ``read``."""
    verb, *rest = plain(what).split(maxsplit=2) or ["other"]
    return f"{verb} {rest[0]}" if verb == "list" and rest else verb
