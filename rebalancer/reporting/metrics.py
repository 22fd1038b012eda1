"""Prometheus metrics of a run, as the text a textfile collector reads: a CronJob cannot be scraped.

``METRICS`` is the table of all names, with the help text and labels of each.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Gauge

from rebalancer.cluster import times
from rebalancer.execution.outcomes import Outcomes, Result
from rebalancer.planning.plan import NodeReport, Plan
from rebalancer.reporting.words import plain

Samples = Mapping[tuple[str, ...], float]


@dataclass(frozen=True, slots=True)
class Metric:
    """One gauge: its name, its help text, and its labels."""

    name: str
    meaning: str
    labels: tuple[str, ...] = ()


NODES = Metric("rebalancer_nodes", "Nodes in the snapshot.")
KNOWN_NODES = Metric("rebalancer_known_nodes", "Nodes with a fresh load figure.")
HOT_NODES = Metric("rebalancer_hot_nodes", "Nodes that are hot by the policy.")
UNSOLVED_NODES = Metric("rebalancer_unsolved_nodes", "Hot nodes that stay hot after the plan.")
HIGHEST_LOAD = Metric(
    "rebalancer_highest_load_percent",
    "Highest load of any reported node, percent of allocatable.",
    ("resource",),
)
HIGHEST_LOAD_AFTER = Metric(
    "rebalancer_highest_load_after_percent",
    "Highest load of any reported node expected after the plan, percent of allocatable.",
    ("resource",),
)
MOVES_PLANNED = Metric("rebalancer_moves_planned", "Evictions in the plan.")
WAVES_PLANNED = Metric("rebalancer_waves_planned", "Waves in the plan.")
PODS_KEPT = Metric("rebalancer_pods_kept", "Pods on hot nodes that are not moved, by reason.", ("reason",))
NEUTRAL_PLUGINS = Metric(
    "rebalancer_neutral_plugins", "Plugins of the scheduler that are taken to score all nodes alike."
)
WARNINGS = Metric("rebalancer_plan_warnings", "Warnings of the plan.")
PLAN_TIME = Metric("rebalancer_plan_timestamp_seconds", "The clock the plan was made by, Unix seconds.")
MOVES = Metric("rebalancer_moves", "Moves of the run, by result.", ("result",))
STOPPED = Metric("rebalancer_run_stopped", "1 when the run stopped before the end of its plan.")
RUN_TIME = Metric("rebalancer_run_timestamp_seconds", "When the run ended, Unix seconds.")
EXIT_CODE = Metric("rebalancer_run_exit_code", "What the run left with; see rebalancer --help.")

METRICS: tuple[Metric, ...] = (
    NODES,
    KNOWN_NODES,
    HOT_NODES,
    UNSOLVED_NODES,
    HIGHEST_LOAD,
    HIGHEST_LOAD_AFTER,
    MOVES_PLANNED,
    WAVES_PLANNED,
    PODS_KEPT,
    NEUTRAL_PLUGINS,
    WARNINGS,
    PLAN_TIME,
    MOVES,
    STOPPED,
    RUN_TIME,
    EXIT_CODE,
)


def run_metrics(
    plan: Plan | None, outcomes: Outcomes | None, *, exit_code: int, now: float
) -> CollectorRegistry:
    """All metrics of a run; without a plan or outcomes their metrics are absent, not zero."""
    samples: dict[Metric, Samples] = {EXIT_CODE: _one(exit_code), RUN_TIME: _one(now)}
    samples |= _plan_samples(plan) if plan else {}
    samples |= _outcome_samples(outcomes) if outcomes else {}
    registry = CollectorRegistry()
    for metric in METRICS:
        if metric in samples:
            gauge = Gauge(metric.name, metric.meaning, metric.labels, registry=registry)
            for labels, value in sorted(samples[metric].items()):
                (gauge.labels(*labels) if labels else gauge).set(value)
    return registry


def _one(value: float) -> Samples:
    return {(): value}


def _plan_samples(plan: Plan) -> dict[Metric, Samples]:
    reasons = Counter(plain(item.reason) for item in plan.kept)
    kept: Samples = {(reason,): count for reason, count in reasons.items()}
    samples: dict[Metric, Samples] = {
        NODES: _one(plan.node_count),
        KNOWN_NODES: _one(plan.known_count),
        HOT_NODES: _one(plan.hot_count),
        UNSOLVED_NODES: _one(len(plan.unsolved)),
        HIGHEST_LOAD: _highest(node.load for node in plan.nodes),
        HIGHEST_LOAD_AFTER: _highest(_load_after(node) for node in plan.nodes),
        MOVES_PLANNED: _one(len(plan.moves)),
        WAVES_PLANNED: _one(len({move.wave for move in plan.moves})),
        PODS_KEPT: kept,
        NEUTRAL_PLUGINS: _one(len(plan.neutral_plugins)),
        WARNINGS: _one(len(plan.warnings)),
    }
    with contextlib.suppress(ValueError):
        samples[PLAN_TIME] = _one(times.parse(plan.now))
    return samples


def _load_after(node: NodeReport) -> Mapping[str, float]:
    return node.after.load if node.after else node.load


def _highest(loads: Iterable[Mapping[str, float]]) -> Samples:
    highest: dict[tuple[str, ...], float] = {}
    for load in loads:
        for resource, percent in load.items():
            key = (plain(resource),)
            highest[key] = max(highest.get(key, percent), percent)
    return highest


def _outcome_samples(outcomes: Outcomes) -> dict[Metric, Samples]:
    counts = Counter(outcome.result for outcome in outcomes.outcomes)
    return {
        # Every result, the absent ones as 0: a series that comes and goes cannot be alerted on.
        MOVES: {(result.value,): float(counts[result]) for result in Result},
        STOPPED: _one(1 if outcomes.stopped else 0),
    }
