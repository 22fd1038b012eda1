"""Prometheus metrics of runs: scraped from a service, or written and pushed by a run that ends.

``METRICS`` is the table of all: name, meaning, labels, kind, and the figures of a plan where it has some. The
reference page is made from it. ``RunMetrics`` follows runs as they happen, from their events and their spans,
and is read as a registry.

Gauges describe the last run, and are replaced as a whole: a scrape that comes meanwhile sees the old ones or
the new ones. Counters and histograms add up over all runs of the process; every value of their labels that
is known beforehand is there from the beginning, as 0, because a series that comes and goes cannot be alerted
on.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum

import msgspec
import prometheus_client
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from rebalancer.cluster import times
from rebalancer.errors import ExitCode
from rebalancer.execution.events import MoveEnded, RunEvent, RunFinished
from rebalancer.execution.outcomes import Outcome, Stop
from rebalancer.planning.plan import Plan
from rebalancer.planning.strategies import STRATEGIES, label_of
from rebalancer.reporting.words import plain
from rebalancer.state.results import Result
from rebalancer.telemetry import Span

_STRATEGIES = ", ".join(label_of(strategy.name) for strategy in STRATEGIES)
MAX_NODE_SERIES = 200  # nodes named one by one; their number has a metric of its own
MAX_NAMESPACES = 200  # that have series of their own: some clusters make one for each change under review
NO_PODS = "NoPods"
_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
_REQUEST_SECONDS = (0.005, 0.025, 0.1, 0.5, 1, 5, 10, 60)  # fewer: there are many kinds of requests


class MetricKind(StrEnum):
    """What a figure means over time."""

    GAUGE = "gauge"  # of the last run
    COUNTER = "counter"  # since the process began
    HISTOGRAM = "histogram"  # since the process began


Samples = Mapping[tuple[str, ...], float]  # by the values of the labels


class Metric(msgspec.Struct, frozen=True):
    """One metric: its name, its help text, its labels, and its buckets if it is a histogram.

    ``of_plan`` are its samples by a plan; those of an earlier plan that the next one lacks are withdrawn.
    """

    name: str
    meaning: str
    labels: tuple[str, ...] = ()
    kind: MetricKind = MetricKind.GAUGE
    buckets: tuple[float, ...] = ()
    of_plan: Callable[[Plan], Samples | float | None] | None = None


def one(value: float) -> Samples:
    """The samples of a metric without labels."""
    return {(): value}


def plan_samples(plan: Plan) -> dict[Metric, Samples]:
    """What a plan found and wants."""
    found = {metric: metric.of_plan(plan) for metric in METRICS if metric.of_plan is not None}
    return {
        metric: samples if isinstance(samples, Mapping) else one(samples)
        for metric, samples in found.items()
        if samples is not None
    }


def _deviation(plan: Plan, *, after: bool) -> Samples | None:
    if plan.benefit is None:
        return None
    changes = plan.benefit.deviation.items()
    return {(plain(name),): change.after if after else change.before for name, change in changes}


def _unsolved(plan: Plan) -> Samples:
    reasons: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for kept in plan.kept:
        reasons[kept.node][plain(kept.reason)] += 1
    found: dict[tuple[str, ...], float] = {}
    for node in sorted(plan.unsolved)[:MAX_NODE_SERIES]:
        most = min(reasons[node].items(), key=lambda item: (-item[1], item[0]), default=(NO_PODS, 0))
        found[plain(node), most[0]] = 1.0
    return found


def _highest(loads: Iterable[Mapping[str, float]]) -> Samples:
    highest: dict[tuple[str, ...], float] = {}
    for load in loads:
        for resource, percent in load.items():
            key = (plain(resource),)
            highest[key] = max(highest.get(key, percent), percent)
    return highest


def _planned(
    name: str, meaning: str, of_plan: Callable[[Plan], Samples | float | None], *labels: str
) -> Metric:
    return Metric(name, meaning, labels, of_plan=of_plan)


def _counter(name: str, meaning: str, *labels: str) -> Metric:
    return Metric(name, meaning, labels, MetricKind.COUNTER)


def _seconds(name: str, meaning: str, *labels: str) -> Metric:
    return Metric(name, meaning, labels, MetricKind.HISTOGRAM, _SECONDS)


NODES = _planned("rebalancer_nodes", "Nodes in the snapshot.", lambda plan: plan.node_count)
KNOWN_NODES = _planned(
    "rebalancer_known_nodes", "Nodes with a fresh load figure.", lambda plan: plan.known_count
)
HOT_NODES = _planned("rebalancer_hot_nodes", "Nodes that are hot by the policy.", lambda plan: plan.hot_count)
UNSOLVED_NODES = _planned(
    "rebalancer_unsolved_nodes", "Hot nodes that stay hot after the plan.", lambda plan: len(plan.unsolved)
)
UNSOLVED_NODE = _planned(
    "rebalancer_unsolved_node",
    "1 for a hot node that stays hot after the plan, with what keeps most of its pods, else NoPods.",
    _unsolved,
    "node",
    "reason",
)
HIGHEST_LOAD = _planned(
    "rebalancer_highest_load_percent",
    "Highest load of any reported node, percent of allocatable.",
    lambda plan: _highest(node.load for node in plan.nodes),
    "resource",
)
HIGHEST_LOAD_AFTER = _planned(
    "rebalancer_highest_load_after_percent",
    "Highest load of any reported node expected after the plan, percent of allocatable.",
    lambda plan: _highest(node.after.load if node.after else node.load for node in plan.nodes),
    "resource",
)
EXCESS = _planned(
    "rebalancer_excess_points",
    "Points above coolTo, as planning.overload counts them, over all hot nodes.",
    lambda plan: plan.benefit.excess.before if plan.benefit else None,
)
EXCESS_AFTER = _planned(
    "rebalancer_excess_after_points",
    "The same, as expected after the plan.",
    lambda plan: plan.benefit.excess.after if plan.benefit else None,
)
DEVIATION = _planned(
    "rebalancer_load_deviation_points",
    "Standard deviation of the load of nodes, in points.",
    lambda plan: _deviation(plan, after=False),
    "resource",
)
DEVIATION_AFTER = _planned(
    "rebalancer_load_deviation_after_points",
    "The same, as expected after the plan.",
    lambda plan: _deviation(plan, after=True),
    "resource",
)
MOVES_PLANNED = _planned("rebalancer_moves_planned", "Evictions in the plan.", lambda plan: len(plan.moves))
WAVES_PLANNED = _planned(
    "rebalancer_waves_planned", "Waves in the plan.", lambda plan: len({move.wave for move in plan.moves})
)
MOVES_QUEUED = Metric("rebalancer_moves_queued", "Moves of the run at work that have no outcome yet.")
PODS_KEPT = _planned(
    "rebalancer_pods_kept",
    "Pods on hot nodes that are not moved, by reason.",
    lambda plan: {
        (plain(reason),): count for reason, count in Counter(item.reason for item in plan.kept).items()
    },
    "reason",
)
NEUTRAL_PLUGINS = _planned(
    "rebalancer_neutral_plugins",
    "Plugins of the scheduler that are assumed to score all nodes alike.",
    lambda plan: len(plan.neutral_plugins),
)
VERIFIED = Metric(
    "rebalancer_scheduler_verified", "1 when the scheduler's version was compared with the model."
)
UNVERIFIED_RULES = Metric(
    "rebalancer_unverified_rules",
    "Rules in which the scheduler's version differs from the nearest one that was compared.",
)
WARNINGS = _planned("rebalancer_plan_warnings", "Warnings of the plan.", lambda plan: len(plan.warnings))
PLAN_TIME = _planned(
    "rebalancer_plan_timestamp_seconds",
    "The clock the plan was made by, Unix seconds.",
    lambda plan: times.parse(plan.now),
)
MOVES = Metric("rebalancer_moves", "Moves of the run, by result.", ("result",))
STATE_BYTES = Metric("rebalancer_state_bytes", "Size of the state that the run left for later ones.")
STOPPED = Metric("rebalancer_run_stopped", "1 when the run stopped before the end of its plan.")
RUN_TIME = Metric("rebalancer_run_timestamp_seconds", "When the run ended, Unix seconds.")
SUCCESS_TIME = Metric(
    "rebalancer_last_success_timestamp_seconds", "When the last run ended with exit code 0, Unix seconds."
)
EXIT_CODE = Metric("rebalancer_run_exit_code", "What the run left with; see rebalancer --help.")
RUNS = _counter("rebalancer_runs_total", "Runs, by their exit code.", "exit_code")
STOPS = _counter(
    "rebalancer_stops_total",
    f"Runs that stopped before the end of their plan, by the reason ({', '.join(Stop)}).",
    "stop",
)
EVICTIONS = _counter(
    "rebalancer_evictions_total",
    f"Evictions that were requested, by result, reason ({_STRATEGIES}) and namespace, for "
    f"the {MAX_NAMESPACES} namespaces evicted from last.",
    *("result", "reason", "namespace"),
)
LANDINGS = _counter(
    "rebalancer_landings_total",
    "Replacements that landed: on the node the plan held likeliest, on another it "
    "listed, on one it did not list but allows, or on one it does not allow.",
    "landing",
)
LANDINGS_EXPECTED = _counter(
    "rebalancer_landings_likeliest_expected_total",
    "How many of these should have landed on the likeliest node, by the plan's chances for it.",
)
RUN_SECONDS = _seconds(
    "rebalancer_run_duration_seconds", "How long runs took, from reading to the last landing."
)
STAGE_SECONDS = _seconds(
    "rebalancer_stage_duration_seconds",
    "How long stages took: gather, plan, wave, eviction, landing (until the replacement was ready) and check "
    "(of the load between two runs).",
    "stage",
)
REQUEST_SECONDS = Metric(
    "rebalancer_api_request_duration_seconds",
    "How long requests to the API server took, by what was asked and the result.",
    ("request", "result"),
    MetricKind.HISTOGRAM,
    _REQUEST_SECONDS,
)
LEADER = Metric("rebalancer_leader", "1 for the replica that acts; in plan mode, for each.")
POLICY_CURRENT = Metric(
    "rebalancer_policy_last_reload_successful",
    "0 while the policy file cannot be used and the one before it is in force.",
)
NEXT_RUN = Metric("rebalancer_next_run_timestamp_seconds", "When the next run is due, Unix seconds.")
CHECKS = _counter(
    "rebalancer_load_checks_total",
    "Looks at the load between two runs: NothingNew; EarlyRun, a node had turned hot, come or gone, and the "
    "next run began at once; Unknown, too little of the load is known.",
    "result",
)

COMPARISONS = _counter(
    "rebalancer_watch_comparisons_total",
    "Comparisons of what watches brought with a LIST, each hour or after a watch was cut: Same; Differs, and "
    "the kind is read anew, as after a restore of etcd.",
    "result",
)
DECISIONS = _counter(
    "rebalancer_scheduler_decisions_total",
    "Pods that schedulers bound, by profile (the first 64) and by what was computed: AsComputed; "
    "InAnotherOrder of what happened within two seconds; Missed; Unpredictable. Pods left out of a storm are "
    "not counted.",
    *("profile", "result"),
)
AGREEMENT = Metric(
    "rebalancer_scheduler_agreement_ratio",
    "Share of the decisions computed in this process that landed as computed.",
)
AGREEMENT_SECONDS = Metric(
    "rebalancer_scheduler_agreement_processor_seconds",
    "Processor time that comparing decisions took in this process.",
)
SERVICE_METRICS: tuple[Metric, ...] = (
    *(LEADER, POLICY_CURRENT, NEXT_RUN, CHECKS, COMPARISONS),
    *(DECISIONS, AGREEMENT, AGREEMENT_SECONDS),
)
"""Those that only ``rebalancer serve`` has."""

METRICS: tuple[Metric, ...] = tuple(item for item in list(vars().values()) if isinstance(item, Metric))
"""All of them, in the order of their declarations above."""

_LIKELIEST, _LISTED, _ALLOWED, _NOT_ALLOWED = "Likeliest", "Listed", "Allowed", "NotAllowed"
_STAGES = frozenset({"gather", "plan", "wave", "eviction", "landing", "check"})
_SAME, _DIFFERS = "Same", "Differs"
NOTHING_NEW, EARLY_RUN, UNKNOWN_LOAD = "NothingNew", "EarlyRun", "Unknown"
_KNOWN_LABELS: dict[Metric, tuple[str, ...]] = {
    RUNS: tuple(str(int(code)) for code in ExitCode),
    STOPS: tuple(stop.value for stop in Stop),
    LANDINGS: (_LIKELIEST, _LISTED, _ALLOWED, _NOT_ALLOWED),
}
_KNOWN_TO_A_SERVICE: dict[Metric, tuple[str, ...]] = {
    CHECKS: (NOTHING_NEW, EARLY_RUN, UNKNOWN_LOAD),
    COMPARISONS: (_SAME, _DIFFERS),
}

# Gauges that are read from spans: by the span's name, its fields.
_FROM_FIELDS: Mapping[str, Mapping[str, Metric]] = {
    "gather": {"verified": VERIFIED, "unverified_rules": UNVERIFIED_RULES},
    "save-state": {"bytes": STATE_BYTES},
}


class RunMetrics(Collector):
    """The metrics of all runs of this process so far; ``registry`` is what exporters take."""

    def __init__(self, cluster: str = "", *, of_a_service: bool = False) -> None:
        """``cluster`` is a name that every series gets as a label, if there is one."""
        self._cluster = cluster
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
        for family in self._families():
            if self._cluster:
                family.samples = [
                    item._replace(labels={"cluster": self._cluster, **item.labels}) for item in family.samples
                ]
            yield family

    def _families(self) -> Iterator[Family]:
        gauges = self._gauges
        for metric in METRICS:
            if metric.kind is MetricKind.GAUGE:
                if metric in gauges:
                    gauge = GaugeMetricFamily(metric.name, metric.meaning, labels=metric.labels)
                    for labels, value in sorted(gauges[metric].items()):
                        gauge.add_metric(labels, value)
                    yield gauge
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
        earlier = {metric: found for metric, found in self._gauges.items() if metric.of_plan is None}
        self._gauges = {**earlier, **plan_samples(plan), MOVES_QUEUED: one(len(plan.moves))}

    def stands_by(self) -> None:
        """Another process makes the runs now: what the last one here found is no longer how things are.

        Left standing, an exit code of 3 would keep an alert firing for as long as this process lives.
        """
        kept = (POLICY_CURRENT, SUCCESS_TIME)
        found = {metric: samples for metric, samples in self._gauges.items() if metric in kept}
        self._gauges = {**found, LEADER: one(0)}

    def checked(self, result: str) -> None:
        """The load was looked at between two runs."""
        self._counters[CHECKS].labels(result).inc()

    def compared(self, added: Counter[tuple[str, str]], share: float | None, seconds: float) -> None:
        """Decisions of schedulers, by profile and result, were computed; ``seconds`` of all so far."""
        for (profile, result), count in added.items():
            self._counters[DECISIONS].labels(plain(profile), result).inc(count)
        self.set(AGREEMENT_SECONDS, seconds)
        if share is not None:
            self.set(AGREEMENT, share)

    def follow(self, event: RunEvent) -> None:
        """Count what happens in a run."""
        match event:
            case MoveEnded(outcome):
                self._move_ended(outcome)
            case RunFinished(outcomes):
                counts = Counter(outcome.result for outcome in outcomes.outcomes)
                # Every result, the absent ones as 0: a series that comes and goes cannot be alerted on.
                results: Samples = {(result.value,): float(counts[result]) for result in Result}
                found: dict[Metric, Samples] = {
                    MOVES: results,
                    STOPPED: one(1 if outcomes.stopped else 0),
                    MOVES_QUEUED: one(0),
                }
                self._gauges = {**self._gauges, **found}
                if outcomes.stop is not None:
                    self._counters[STOPS].labels(outcomes.stop.value).inc()

    def _move_ended(self, outcome: Outcome) -> None:
        queued = self._gauges.get(MOVES_QUEUED, one(1))[()]
        self.set(MOVES_QUEUED, max(0.0, queued - 1))
        if not outcome.result.was_requested:
            return
        namespace, reason = plain(outcome.move.pod.namespace), label_of(outcome.move.strategy)
        self._evicted(outcome.result.value, reason, namespace)
        if outcome.node and outcome.move.landings:
            likeliest = outcome.move.likeliest
            self._counters[LANDINGS].labels(_landing(outcome, likeliest.node)).inc()
            self._counters[LANDINGS_EXPECTED].inc(min(max(likeliest.probability, 0.0), 1.0))

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
        found = {EXIT_CODE: one(exit_code), RUN_TIME: one(now)}
        if exit_code == ExitCode.DONE:
            found[SUCCESS_TIME] = one(now)
        self._gauges = {**self._gauges, **found}
        self._counters[RUNS].labels(str(exit_code)).inc()

    def span_began(self, span: Span) -> None:
        """See Listener."""

    def span_ended(self, span: Span) -> None:
        """See Listener."""
        seconds = span.seconds or 0.0
        if span.name in _STAGES:
            self._histograms[STAGE_SECONDS].labels(span.name).observe(seconds)
        elif span.name == "compare":
            result = _DIFFERS if span.error or span.fields.get("differing") else _SAME
            self._counters[COMPARISONS].labels(result).inc()
        elif span.name == "run":
            self._histograms[RUN_SECONDS].observe(seconds)
        elif span.name == "request":
            refused = "refused" if "status" in span.fields else "failed"
            result = refused if span.error else "answered"
            verb, *rest = plain(str(span.fields.get("what", ""))).split(maxsplit=2) or ["other"]
            asked = f"{verb} {rest[0]}" if verb == "list" and rest else verb
            self._histograms[REQUEST_SECONDS].labels(asked, result).observe(seconds)
        for field, metric in _FROM_FIELDS.get(span.name, {}).items():
            if field in span.fields:
                self.set(metric, float(span.fields[field]))


def _landing(outcome: Outcome, likeliest: str) -> str:
    if outcome.result is Result.UNEXPECTED:
        return _NOT_ALLOWED
    if outcome.node == likeliest:
        return _LIKELIEST
    return _LISTED if any(landing.node == outcome.node for landing in outcome.move.landings) else _ALLOWED
