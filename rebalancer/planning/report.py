"""Puts what the planner decided into words and values: the Plan, and the report of every node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from rebalancer.cluster import times
from rebalancer.cluster.arrays import FloatArray
from rebalancer.load.figures.node_figures import RESOURCES
from rebalancer.load.report import percent_of_allocatable
from rebalancer.planning.hot_nodes.rules import Hotness
from rebalancer.planning.hot_nodes.scheduler_scores import NodeScores
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.landing.evaluation import LandingDistribution
from rebalancer.planning.plan import Figure, Kept, Landing, Move, NodeAfter, NodeReport, Plan, PodReference
from rebalancer.planning.planner import Planner
from rebalancer.planning.reasons import KeptReason
from rebalancer.planning.search.plan_builder import PlannedMove

_PERCENT_DIGITS = 2
_CHANCE_DIGITS = 6
_DEFAULT_GRACE_SECONDS = 30


def build_plan(planner: Planner) -> Plan:
    """The plan of a planner that has planned."""
    inputs = planner.inputs
    hot = planner.hotness.hot
    after = _after(planner)
    kept = [_kept(planner, row, protection) for row, protection in planner.kept.items()]
    return Plan(
        source=inputs.snapshot.source,
        policy=inputs.policy.metadata.name,
        inputs=inputs.digest,
        now=times.render(inputs.now),
        moves=tuple(_move(planner, move) for move in planner.moves),
        nodes=node_reports(
            inputs, planner.hotness, planner.model.node_scores(), after, planner.landing_check.settling
        ),
        kept=tuple(sorted(kept, key=lambda item: (item.node, item.pod.namespace, item.pod.name))),
        unsolved=_unsolved(planner),
        warnings=(*inputs.warnings, *_warnings(planner)),
        neutral_plugins=planner.model.neutral,
        node_count=len(hot),
        hot_count=int(np.count_nonzero(hot)),
        known_count=int(np.count_nonzero(inputs.load.known)),
    )


def _percent_map(resources: tuple[str, ...], percent: FloatArray) -> dict[str, float]:
    """Percent by resource; what is unknown is absent."""
    return {
        resource: round(float(value), _PERCENT_DIGITS)
        for resource, value in zip(resources, percent, strict=True)
        if not np.isnan(value)
    }


def node_reports(
    inputs: PlanningInputs,
    hotness: Hotness,
    scores: NodeScores | None,
    after: Mapping[int, tuple[FloatArray, bool]],
    settling: Mapping[int, str],
) -> tuple[NodeReport, ...]:
    """All nodes, in order of name; ``after`` holds those the plan changes, ``settling`` why some settle."""
    percent = inputs.load.percent
    reports = []
    for row, name in enumerate(inputs.snapshot.nodes.names):
        because = hotness.because.get(row, ())
        if not inputs.load.known[row]:
            because = (f"{_unknown(inputs, row)}: neither hot nor a landing to count on",)
        if row in settling:
            because = (*because, f"settling: {settling[row]}")
        changed = after.get(row)
        reports.append(
            NodeReport(
                name=name,
                load=_percent_map(hotness.names, percent[row]),
                hot=bool(hotness.hot[row]),
                score=None if scores is None else round(float(scores.mean[row]), _PERCENT_DIGITS),
                scores={} if scores is None else scores.of(row),
                pulled_down_by="" if scores is None else scores.pulled_down_by(row),
                because=because,
                after=NodeAfter(load=_percent_map(hotness.names, changed[0]), hot=changed[1])
                if changed
                else None,
                figures=_figures(inputs, row),
            )
        )
    return tuple(reports)


def _unknown(inputs: PlanningInputs, row: int) -> str:
    """What is not known of a node: its load, or only what a rule names beside cpu and memory."""
    load = inputs.load
    missing = [name for name in load.required if np.isnan(load.usage[row, load.resources.index(name)])]
    others = [name for name in missing if name not in RESOURCES]
    return f"no fresh figure of {', '.join(others)}" if missing == others else "no fresh load figure"


def _figures(inputs: PlanningInputs, row: int) -> dict[str, Figure]:
    """Where the loads of a node come from, by resource."""
    load = inputs.load
    found = {}
    for column, resource in enumerate(load.resources):
        source = int(load.source[row, column])
        if source < 0:
            continue
        spread = np.nan if load.deviation is None else float(load.deviation[row, column])
        whole = float(load.allocatable[row, load.percent_resources.index(resource)])
        found[resource] = Figure(
            source=load.sources[source],
            age_seconds=round(inputs.now - float(load.measured_at[row, column]), 1),
            window_seconds=float(load.window_seconds[row, column]),
            statistic=load.statistics[source] if source < len(load.statistics) else "mean",
            deviation=round(100 * spread / whole, _PERCENT_DIGITS) if spread >= 0 and whole > 0 else None,
        )
    return found


def _after(planner: Planner) -> dict[int, tuple[FloatArray, bool]]:
    """Percent expected after the plan and whether that is hot, of the nodes the plan concerns."""
    rows = {move.evaluation.candidate.source for move in planner.moves}
    for move in planner.moves:
        rows.update(move.evaluation.landings().rows.tolist())
    rows.update(np.flatnonzero(planner.hotness.hot).tolist())
    every = np.array(sorted(rows), np.int64)
    if not len(every):
        return {}
    scenarios = planner.scenarios.all
    allocatable = planner.inputs.load.allocatable[every]
    percents = [
        percent_of_allocatable(
            scenario.usage[every], scenario.after_termination.pod_count[every], allocatable
        )
        for scenario in scenarios
    ]
    mean = np.mean(percents, axis=0)
    hot = planner.hotness.hot_at(every, mean)
    return {int(row): (mean[position], bool(hot[position])) for position, row in enumerate(every)}


def _reference(planner: Planner, row: int) -> PodReference:
    pods = planner.pods
    facts = planner.protections.workload(row)
    owner = facts.owner
    return PodReference(
        namespace=pods.namespaces[row],
        name=pods.names[row],
        uid=pods.uids[row],
        workload=facts.name if owner.kind else "",
        controller_kind=owner.kind,
        controller_name=owner.name,
        controller_uid=owner.uid,
    )


def possible_landings(planner: Planner, landings: LandingDistribution) -> tuple[Landing, ...]:
    """Where a replacement may land, the likeliest node first."""
    names = planner.inputs.snapshot.nodes.names
    pairs = sorted(
        zip(landings.rows.tolist(), landings.chance.tolist(), strict=True),
        key=lambda pair: (-pair[1], names[pair[0]]),
    )
    return tuple(Landing(node=names[row], probability=round(chance, _CHANCE_DIGITS)) for row, chance in pairs)


def _move(planner: Planner, move: PlannedMove) -> Move:
    candidate = move.evaluation.candidate
    names = planner.inputs.snapshot.nodes.names
    spec = planner.pods.class_of(candidate.row).spec
    grace = spec.termination_grace_period_seconds
    gain = {
        resource: round(float(value), _PERCENT_DIGITS)
        for resource, value in zip(planner.hotness.names, move.evaluation.gain, strict=True)
        if np.isfinite(value)
    }
    return Move(
        pod=_reference(planner, candidate.row),
        from_node=names[candidate.source],
        landings=possible_landings(planner, move.evaluation.landings()),
        gain=gain,
        wave=move.wave,
        because=_because(planner, move, gain),
        load={name: round(used, 3) for name, used in planner.inputs.load.pod_load(candidate.row).items()},
        load_methods=planner.inputs.load.pod_load_methods(candidate.row),
        grace_period_seconds=float(_DEFAULT_GRACE_SECONDS if grace is None else grace),
    )


def _because(planner: Planner, move: PlannedMove, gain: Mapping[str, float]) -> str:
    """Why this pod moves, in one sentence."""
    candidate = move.evaluation.candidate
    node = planner.inputs.snapshot.nodes.names[candidate.source]
    hot = planner.hotness.resources[candidate.source]
    cool_to = planner.hotness.cool_to[candidate.source]
    levels = ", ".join(
        f"{move.before[column]:.1f} % {resource} (cool at {cool_to[column]:.1f} %)"
        for column, resource in enumerate(planner.hotness.names)
        if hot[column]
    )
    gained = ", ".join(f"{points:.1f} points of {resource}" for resource, points in gain.items())
    landings = move.evaluation.landings()
    likeliest = planner.inputs.snapshot.nodes.names[int(landings.rows[int(np.argmax(landings.chance))])]
    where = (
        likeliest if len(landings.rows) == 1 else f"one of {len(landings.rows)} nodes, likeliest {likeliest}"
    )
    if move.misplaced:
        return f"{node} would not admit it any more ({move.misplaced}); it will be placed on {where}"
    return f"{node} is at {levels}; its replacement will be placed on {where}, a gain of at least {gained}"


def _kept(planner: Planner, row: int, protection: KeptReason) -> Kept:
    node = int(planner.pods.node[row])
    return Kept(
        pod=_reference(planner, row),
        node=planner.inputs.snapshot.nodes.names[node],
        reason=str(protection.reason),
        because=protection.because,
    )


def _unsolved(planner: Planner) -> dict[str, str]:
    """Hot nodes that stay above their coolTo, with what keeps each of their pods."""
    found: dict[str, str] = {}
    names = planner.inputs.snapshot.nodes.names
    kept_on: dict[int, Counter[str]] = {}
    for row, protection in planner.kept.items():
        kept_on.setdefault(int(planner.pods.node[row]), Counter())[str(protection.reason)] += 1
    for node in np.flatnonzero(planner.hotness.hot).tolist():
        percent = planner.expected_percent(node)
        if planner.hotness.is_cool(node, percent):
            continue
        counts = kept_on.get(node, Counter())
        reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(counts.items(), key=_most_first))
        above = ", ".join(
            f"{percent[column]:.1f} % {resource}"
            for column, resource in enumerate(planner.hotness.names)
            if percent[column] > planner.hotness.cool_to[node, column]
        )
        found[names[node]] = f"stays at {above}; its pods: {reasons or 'none left'}"
    return found


def _most_first(item: tuple[str, int]) -> tuple[int, str]:
    return -item[1], item[0]


def _warnings(planner: Planner) -> tuple[str, ...]:
    inputs = planner.inputs
    found: list[str] = []
    if planner.model.neutral:
        found.append(
            "not modelled, taken to pass and score all nodes alike: " + ", ".join(planner.model.neutral)
        )
    if inputs.state is None and inputs.policy.hot_nodes.for_runs > 1:
        found.append(
            f"no state of earlier runs: hotNodes.forRuns {inputs.policy.hot_nodes.for_runs} is taken as met"
        )
    if planner.model.has_idle_score_rule():
        found.append("hotNodes: a score rule names no plugins, and no profile has one that looks at load")
    if planner.pending.unplaced:
        found.append(f"{planner.pending.unplaced} Pending pods fit nowhere and will retry when room is freed")
    if planner.pods.nominated:
        found.append(f"{len(planner.pods.nominated)} Pending pods are nominated to a node by preemption")
    unknown = int(np.count_nonzero(~inputs.load.known))
    if unknown:
        found.append(f"{unknown} nodes have no fresh load figure: neither hot nor a landing to count on")
    return tuple(found)
