"""Puts what the search decided into words and values: the Plan, and the report of every node."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence

import numpy as np

from rebalancer.cluster import times
from rebalancer.cluster.arrays import FloatArray, PodRow
from rebalancer.load.usage import RESOURCES
from rebalancer.planning.builder import PartialPlan, PlannedMove
from rebalancer.planning.cleanups import FinishedPods
from rebalancer.planning.disruption_cost import seconds_to_ready
from rebalancer.planning.hotness import (
    Hotness,
    leaving_load,
    load_of_no_pod,
    never_hot,
    pressure_after_cooling,
)
from rebalancer.planning.inputs import About, PlanningInputs, PlanWarning
from rebalancer.planning.landing.scenarios import LandingDistribution
from rebalancer.planning.plan import (
    CHANCE_DIGITS,
    EVICT,
    PERCENT_DIGITS,
    RESTART,
    UNKNOWN_NODE,
    Change,
    Figure,
    Landing,
    Level,
    Move,
    NodeAfter,
    NodeReport,
    Plan,
    UnmovedPod,
    by_resource,
)
from rebalancer.planning.prepared import PreparedInputs
from rebalancer.planning.reasons import NotMoved
from rebalancer.planning.remedies import remedy
from rebalancer.planning.required_runs import assumed_runs
from rebalancer.planning.strategies.strategy import Strategy
from rebalancer.planning.unmatched_settings import unmatched_protections
from rebalancer.planning.unverified_schedulers import not_acted_on
from rebalancer.planning.warnings import of_landings, of_plan, sentences
from rebalancer.planning.workloads.lookup import grace_period_seconds
from rebalancer.scheduling.state.nodes import zone_key

_USUAL_SECONDS = 60.0  # that a wave is expected to take where no earlier run tells
_MOST_LOADS = 20  # landings of a move whose nodes' loads the plan gives
_WORTH_SAYING = 0.005  # the chance below which a drawback of a landing would be said to be 0 %


def build_plan(prepared: PreparedInputs, decided: PartialPlan, searched: Sequence[Strategy]) -> Plan:
    """The plan of what the strategies decided that have ``searched``."""
    inputs = prepared.inputs
    staying = [_unmoved(prepared, row, reason) for row, reason in decided.staying.items()]
    strategies = {strategy.name: strategy for strategy in searched}
    cleanups, finished_staying = FinishedPods(prepared.eviction, searched).cleanups()
    fields = {
        key: value for strategy in strategies.values() for key, value in strategy.plan_fields(decided).items()
    }
    measured = inputs.state.agreement if inputs.state is not None else None
    moves = tuple(as_move(prepared, move, strategies[move.candidate.wish.strategy]) for move in decided.moves)
    runs = assumed_runs(inputs, moves) if prepared.options.remembers_runs else ""
    warnings = (
        *(*inputs.warnings, *of_plan(prepared, says_runs=bool(runs))),
        *(of_landings(decided.scenarios) if prepared.options.explains else ()),
    )
    refusals = _refusals(prepared, decided, warnings)
    protects_nothing = unmatched_protections(inputs.policy, inputs.snapshot)
    if runs and (refusals or protects_nothing):
        runs = f"run refuses to act on this plan; otherwise {runs}"
    return Plan(
        source=inputs.snapshot.source,
        policy=inputs.policy.metadata.name,
        inputs=inputs.digest,
        now=times.render(inputs.now),
        moves=moves,
        cleanups=cleanups,
        nodes=_node_reports(prepared, _after(prepared, decided)),
        kept=tuple(
            sorted(
                (*staying, *finished_staying),
                key=lambda unmoved: (unmoved.node, unmoved.pod.namespace, unmoved.pod.name),
            )
        ),
        strategies={name: strategy.report(decided) for name, strategy in strategies.items()},
        runs=runs,
        warnings=sentences(warnings),
        refusals=refusals,
        protects_nothing=protects_nothing,
        notes=(measured.sentence(),) if measured is not None and measured.is_known(inputs.now) else (),
        node_count=len(inputs.snapshot.nodes),
        pod_count=len(inputs.snapshot.pods),
        known_count=int(np.count_nonzero(inputs.load.known)),
        expected_seconds=_expected_seconds(prepared, decided),
        **fields,
    )


def _refusals(
    prepared: PreparedInputs, decided: PartialPlan, warnings: Iterable[PlanWarning]
) -> tuple[str, ...]:
    """Why a run would refuse to carry out the plan: what the warnings say, and its schedulers."""
    moved = [prepared.pods.class_of(move.candidate.row) for move in decided.moves]
    return (
        *sentences(warning for warning in warnings if warning.about is About.REFUSAL),
        # Of one whose version is not known a warning tells already.
        *(why for scheduler, why in not_acted_on(prepared.inputs, moved) if scheduler.version),
    )


def _expected_seconds(prepared: PreparedInputs, decided: PartialPlan) -> float:
    """How long the waves take, each as long as the slowest of its replacements took in earlier runs."""
    took = seconds_to_ready(prepared.inputs.state)
    timeout = prepared.policy.execution.wave_timeout
    waves: dict[int, float] = {}
    for move in decided.moves:
        key = move.candidate.workload.key
        seconds = float(np.median(took[key])) if key in took else _USUAL_SECONDS
        waves[move.wave] = max(waves.get(move.wave, 0.0), min(seconds, timeout))
    pauses = prepared.policy.execution.pause_between_waves * (len(waves) - 1)
    return round(sum(waves.values()) + max(pauses, 0.0), 1)


def _node_reports(prepared: PreparedInputs, after: Mapping[int, NodeAfter]) -> tuple[NodeReport, ...]:
    """All nodes, in order of name; ``after`` holds those that the plan concerns."""
    inputs = prepared.inputs
    hotness = prepared.hotness
    scores = prepared.schedulers.node_scores()
    settling = prepared.landing_check.settling
    remarks = (
        load_of_no_pod(inputs, hotness),
        never_hot(inputs, hotness),
        pressure_after_cooling(inputs, hotness),
        leaving_load(inputs, hotness, prepared.eviction.leaving),
    )
    reports = []
    for row, name in enumerate(inputs.snapshot.nodes.names):
        because = hotness.because.get(row, ())
        if not inputs.load.known[row] and hotness.hot[row]:  # by a figure that it has
            because = (*because, f"{_unknown(inputs, row)}: no landing to count on")
        elif not inputs.load.known[row]:
            because = (f"{_unknown(inputs, row)}: {UNKNOWN_NODE}",)
        elif lacking := _without_percentage(inputs, row):
            neither = "" if hotness.hot[row] else f": {UNKNOWN_NODE}"
            because = (*because, f"its {' and '.join(lacking)} in percent is not known{neither}")
        because = (*because, *(words[name] for words in remarks if name in words))
        if row in settling:
            because = (*because, f"settling: {settling[row]}")
        reports.append(
            NodeReport(
                name=name,
                load=by_resource(hotness.names, inputs.load.percent[row]),
                hot=bool(hotness.hot[row]),
                score=None if scores is None else round(float(scores.mean[row]), PERCENT_DIGITS),
                scores={} if scores is None else scores.of(row),
                pulled_down_by="" if scores is None else scores.pulled_down_by(row),
                because=because,
                after=after.get(row),
                figures=_figures(inputs, row),
                levels=_levels(hotness, row),
                of_no_pod=_of_no_pod(inputs, row),
            )
        )
    return tuple(reports)


def _of_no_pod(inputs: PlanningInputs, row: int) -> dict[str, float]:
    """What no pod of a node uses, by resource; pods are counted, so all of them are of pods."""
    percent = by_resource(inputs.load.percent_resources, inputs.load.of_no_pod[row])
    percent.pop("pods", None)
    return percent


def _levels(hotness: Hotness, row: int) -> dict[str, Level]:
    """The levels that the policy sets for a node, by resource."""
    above = by_resource(hotness.names, hotness.hot_above[row])
    cool = by_resource(hotness.names, hotness.cool_to[row])
    return {name: Level(hot_above=level, cool_to=cool[name]) for name, level in above.items() if name in cool}


def _unknown(inputs: PlanningInputs, row: int) -> str:
    """What is not known of a node: its load, or only what a rule names beside cpu and memory."""
    load = inputs.load
    if lacking := load.without_allocatable(row):
        return f"no allocatable {' or '.join(lacking)}"
    missing = [name for name in load.required if np.isnan(load.usage[row, load.resources.index(name)])]
    others = [name for name in missing if name not in RESOURCES]
    return f"no fresh figure of {', '.join(others)}" if missing == others else "no fresh load figure"


def _without_percentage(inputs: PlanningInputs, row: int) -> list[str]:
    """The resources that rules name of which a node has a figure, and has none or nobody knows how much."""
    load = inputs.load
    percent = zip(load.percent_resources, load.percent[row], strict=True)
    return [name for name, value in percent if name in load.required and np.isnan(value)]


def _figures(inputs: PlanningInputs, row: int) -> dict[str, Figure]:
    """Where the loads of a node come from, by resource."""
    load = inputs.load
    figures = {}
    for column, resource in enumerate(load.resources):
        source = int(load.source[row, column])
        if source < 0:
            continue
        spread = np.nan if load.deviation is None else float(load.deviation[row, column])
        whole = float(load.allocatable[row, load.percent_resources.index(resource)])
        figures[resource] = Figure(
            source=load.sources[source],
            age_seconds=round(inputs.now - float(load.measured_at[row, column]), 1),
            window_seconds=float(load.window_seconds[row, column]),
            statistic=load.statistic(row, column),
            deviation=round(100 * spread / whole, PERCENT_DIGITS) if spread >= 0 and whole > 0 else None,
        )
    return figures


def _after(prepared: PreparedInputs, decided: PartialPlan) -> dict[int, NodeAfter]:
    """Percent expected after the plan and whether that is hot, of the nodes the plan concerns."""
    rows: set[int] = {move.candidate.source for move in decided.moves}
    for move in decided.moves:
        rows.update(move.evaluation.landings().rows.tolist())
    rows.update(np.flatnonzero(prepared.hotness.hot).tolist())
    every = np.array(sorted(rows), np.int64)
    if not len(every):
        return {}
    mean = decided.scenarios.mean_percent()[every]
    hot = prepared.hotness.hot_at(every, mean)
    names = prepared.hotness.names
    return {
        row: NodeAfter(load=by_resource(names, load), hot=is_hot)
        for row, load, is_hot in zip(every.tolist(), mean, hot.tolist(), strict=True)
    }


def possible_landings(
    prepared: PreparedInputs,
    landings: LandingDistribution,
    changes: Callable[[Sequence[int]], Sequence[dict[str, Change]]] | None = None,
) -> tuple[Landing, ...]:
    """Where a replacement may land, the likeliest node first.

    ``changes`` gives what the replacement does to some of the nodes of ``landings``, by their indices there;
    it is called for the likeliest ones only.
    """
    names = prepared.inputs.snapshot.nodes.names
    by_chance = np.lexsort((landings.rows, -landings.chance))  # nodes are in order of their names
    by_chance = by_chance[landings.chance[by_chance] > 0]
    rows = landings.rows[by_chance].tolist()
    chances = landings.chance[by_chance].round(CHANCE_DIGITS).tolist()
    loads: Sequence[dict[str, Change]] = ()
    if changes is not None:
        loads = changes(by_chance[:_MOST_LOADS].tolist())
    nothing = dict[str, Change]()
    load_of_each = itertools.chain(loads, itertools.repeat(nothing))
    return tuple(
        Landing(node=names[row], probability=chance, load=load)
        for row, chance, load in zip(rows, chances, load_of_each, strict=False)
    )


def _changes(
    names: Sequence[str], before: FloatArray, after: FloatArray, shown: Container[str]
) -> list[dict[str, Change]]:
    """Percent before and after of each of (nodes, resources), by resource, of those ``shown`` and known."""
    columns = [column for column, name in enumerate(names) if name in shown]
    shown_names = [names[column] for column in columns]
    changes: list[dict[str, Change]] = []
    for befores, afters in zip(before[:, columns].tolist(), after[:, columns].tolist(), strict=True):
        of_node: dict[str, Change] = {}
        for name, was, becomes in zip(shown_names, befores, afters, strict=True):
            if math.isfinite(was) and math.isfinite(becomes):
                of_node[name] = Change(
                    before=round(was, PERCENT_DIGITS), after=round(becomes, PERCENT_DIGITS)
                )
        changes.append(of_node)
    return changes


def as_move(prepared: PreparedInputs, move: PlannedMove, strategy: Strategy) -> Move:
    """A move as plans say it; ``strategy`` is the one that wishes for it."""
    candidate = move.candidate
    names = prepared.hotness.names
    gain = by_resource(names, move.evaluation.gain)
    shown = gain or {"cpu": 0.0}
    effect = move.effect
    (from_load,) = _changes(names, effect.source_before[None], effect.source_after[None], shown)

    def changes(landings: Sequence[int]) -> list[dict[str, Change]]:
        return _changes(names, effect.before[landings], effect.after[landings], shown)

    load = prepared.inputs.load
    pod_class = prepared.pods.class_of(candidate.row)
    other = candidate.wish.makes_room_for
    return Move(
        pod=prepared.eviction.pod_reference(candidate.row),
        from_node=prepared.inputs.snapshot.nodes.names[candidate.source],
        landings=possible_landings(prepared, move.evaluation.landings(), changes),
        from_load=from_load,
        gain=gain,
        wave=move.wave,
        because=f"{strategy.sentence(move)}; {_what_follows(prepared, move, gain)}",
        load={key: round(used, 3) for key, used in load.pod_load(candidate.row).items()},
        load_methods=load.pod_load_methods(candidate.row),
        grace_period_seconds=float(grace_period_seconds(pod_class)),
        action=RESTART if candidate.restarted else EVICT,
        strategy=strategy.name,
        makes_room_for="" if other is None else prepared.pods.uids[other],
        replicas=candidate.workload.desired or 0,
        risk=round(move.evaluation.unacceptable, CHANCE_DIGITS),
        avoids=_avoids(prepared, move),
    )


def _avoids(prepared: PreparedInputs, move: PlannedMove) -> dict[str, str]:
    """The nodes tainted for a move, in order of name, with why its replacement must not land there."""
    reasons: dict[str, str] = {}
    for row, words in move.avoids.items():
        name = prepared.nodes.names[row]
        reasons[name] = words.removeprefix(f"{name} ")
    return dict(sorted(reasons.items()))


def _what_follows(prepared: PreparedInputs, move: PlannedMove, gain: Mapping[str, float]) -> str:
    """Where the replacement goes, and what that gains, in words."""
    landings = move.evaluation.landings()
    likeliest = prepared.inputs.snapshot.nodes.names[landings.likeliest()]
    where = (
        likeliest if len(landings.rows) == 1 else f"one of {len(landings.rows)} nodes, likeliest {likeliest}"
    )
    if landings.likeliest() == move.candidate.source:
        where += ", which it leaves"
    gained = ", ".join(f"{points:.1f} points of {resource}" for resource, points in gain.items())
    evaluation = move.evaluation
    words = ""
    if evaluation.beside >= _WORTH_SAYING:
        words += f"; there it joins another replica{_chance(evaluation.beside)}"
    if evaluation.emptied >= _WORTH_SAYING:
        labels = prepared.labels_of(move.candidate.source)
        zone = "/".join(filter(None, zone_key(labels)))
        words += f"; no replica is left in zone {zone}{_chance(evaluation.emptied)}"
    return (
        f"its replacement will be placed on {where}"
        + (f", a gain of at least {gained}" if gained else "")
        + words
        + ("; restarted by a rolling update, not evicted" if move.candidate.restarted else "")
    )


def _chance(chance: float) -> str:
    return "" if round(chance, CHANCE_DIGITS) >= 1.0 else f" ({chance:.0%})"


def _unmoved(prepared: PreparedInputs, row: PodRow, reason: NotMoved) -> UnmovedPod:
    node = prepared.node_of(row)
    return UnmovedPod(
        pod=prepared.eviction.pod_reference(row),
        node=prepared.nodes.names[node] if node >= 0 else "",
        reason=str(reason.reason),
        because=reason.message,
        setting=reason.setting,
        remedy=remedy(prepared.eviction, row, reason) if prepared.options.explains else "",
    )
