"""The figures of one plan and of one run's outcomes, as samples by metric and label values."""

from __future__ import annotations

import contextlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from rebalancer.cluster import times
from rebalancer.execution.outcomes import Outcomes
from rebalancer.planning.plan import Change, NodeReport, Plan
from rebalancer.reporting.metrics import names
from rebalancer.reporting.metrics.names import Metric
from rebalancer.reporting.words import plain
from rebalancer.state.results import Result

MAX_NODE_SERIES = 200  # nodes named one by one; their number has a metric of its own
NO_PODS = "NoPods"

Samples = Mapping[tuple[str, ...], float]

PLAN_METRICS = frozenset(
    {
        *(names.NODES, names.KNOWN_NODES, names.HOT_NODES, names.UNSOLVED_NODES, names.UNSOLVED_NODE),
        *(names.HIGHEST_LOAD, names.HIGHEST_LOAD_AFTER, names.EXCESS, names.EXCESS_AFTER),
        *(names.DEVIATION, names.DEVIATION_AFTER, names.MOVES_PLANNED, names.WAVES_PLANNED),
        *(names.PODS_KEPT, names.NEUTRAL_PLUGINS, names.WARNINGS, names.PLAN_TIME),
    }
)
"""What a plan has figures for: those of an earlier plan that the next one lacks are withdrawn."""


def one(value: float) -> Samples:
    """The samples of a metric without labels."""
    return {(): value}


def plan_samples(plan: Plan) -> dict[Metric, Samples]:
    """What a plan found and wants."""
    reasons = Counter(plain(item.reason) for item in plan.kept)
    kept: Samples = {(reason,): count for reason, count in reasons.items()}
    samples: dict[Metric, Samples] = {
        names.NODES: one(plan.node_count),
        names.KNOWN_NODES: one(plan.known_count),
        names.HOT_NODES: one(plan.hot_count),
        names.UNSOLVED_NODES: one(len(plan.unsolved)),
        names.UNSOLVED_NODE: _unsolved(plan),
        names.HIGHEST_LOAD: _highest(node.load for node in plan.nodes),
        names.HIGHEST_LOAD_AFTER: _highest(_load_after(node) for node in plan.nodes),
        names.MOVES_PLANNED: one(len(plan.moves)),
        names.WAVES_PLANNED: one(len({move.wave for move in plan.moves})),
        names.PODS_KEPT: kept,
        names.NEUTRAL_PLUGINS: one(len(plan.neutral_plugins)),
        names.WARNINGS: one(len(plan.warnings)),
    }
    if plan.benefit is not None:
        excess, deviation = plan.benefit.excess, plan.benefit.deviation
        samples |= {
            names.EXCESS: one(excess.before),
            names.EXCESS_AFTER: one(excess.after),
            names.DEVIATION: _by_resource(deviation, after=False),
            names.DEVIATION_AFTER: _by_resource(deviation, after=True),
        }
    with contextlib.suppress(ValueError):
        samples[names.PLAN_TIME] = one(times.parse(plan.now))
    return samples


def outcome_samples(outcomes: Outcomes) -> dict[Metric, Samples]:
    """How a run's moves ended."""
    counts = Counter(outcome.result for outcome in outcomes.outcomes)
    return {
        # Every result, the absent ones as 0: a series that comes and goes cannot be alerted on.
        names.MOVES: {(result.value,): float(counts[result]) for result in Result},
        names.STOPPED: one(1 if outcomes.stopped else 0),
    }


def _by_resource(changes: Mapping[str, Change], *, after: bool) -> Samples:
    return {(plain(name),): change.after if after else change.before for name, change in changes.items()}


def _unsolved(plan: Plan) -> Samples:
    reasons: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for kept in plan.kept:
        reasons[kept.node][plain(kept.reason)] += 1
    found: dict[tuple[str, ...], float] = {}
    for node in sorted(plan.unsolved)[:MAX_NODE_SERIES]:
        most = min(reasons[node].items(), key=lambda item: (-item[1], item[0]), default=(NO_PODS, 0))
        found[plain(node), most[0]] = 1.0
    return found


def _load_after(node: NodeReport) -> Mapping[str, float]:
    return node.after.load if node.after else node.load


def _highest(loads: Iterable[Mapping[str, float]]) -> Samples:
    highest: dict[tuple[str, ...], float] = {}
    for load in loads:
        for resource, percent in load.items():
            key = (plain(resource),)
            highest[key] = max(highest.get(key, percent), percent)
    return highest
