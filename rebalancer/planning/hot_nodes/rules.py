"""The policy's rules: which nodes are hot, with the reason, and down to which level each must cool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rebalancer.cluster.arrays import BoolArray, FloatArray
from rebalancer.planning.hot_nodes.levels import Hotness, LevelBuilder
from rebalancer.planning.hot_nodes.reachable_nodes import reachable_nodes
from rebalancer.planning.hot_nodes.scheduler_scores import RuleScore
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.policy import DeviationRule, HotNodes, HotRule, ScoreRule, UtilizationRule


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Nodes that share rules."""

    members: BoolArray  # (nodes,)
    rules: tuple[HotRule, ...]
    may_be_hot: bool = True


def groups_of(rules: HotNodes, labels: Sequence[Mapping[str, str]]) -> list[Group]:
    """The pools of a policy and the nodes outside all of them, by labels; every node is in one group.

    Nodes that are never hot keep the thresholds of all others for what may land on them.
    """
    left: BoolArray = np.ones(len(labels), np.bool_)
    found: list[Group] = []
    for pool in rules.pools:
        selected = np.array([pool.node_selector.selects(item) for item in labels], np.bool_) & left
        left &= ~selected
        found.append(Group(selected, pool.any or rules.any, bool(pool.any)))
    if rules.node_selector is not None:
        chosen = np.array([rules.node_selector.selects(item) for item in labels], np.bool_)
        found.append(Group(left & ~chosen, rules.any, may_be_hot=False))
        left &= chosen
    return [*found, Group(left, rules.any)]


def find_hot_nodes(inputs: PlanningInputs, scores: Mapping[str, RuleScore]) -> Hotness:
    """Apply the policy's rules, each group's to its nodes.

    ``scores`` are by the key of score rules. Only nodes with fresh figures may be hot; the
    means are those of Ready, schedulable nodes among them that an evictable pod could run on.
    """
    nodes, percent, known = inputs.snapshot.nodes, inputs.load.percent, inputs.load.known
    unschedulable = np.array([node.spec.unschedulable for node in nodes.records], np.bool_)
    counted = np.asarray(nodes.ready & known & ~unschedulable & reachable_nodes(inputs), np.bool_)
    names = inputs.load.percent_resources
    shape = percent.shape
    hot_above, cool_to = np.full(shape, np.inf), np.full(shape, np.inf)
    resources: BoolArray = np.zeros(shape, np.bool_)
    because: dict[int, tuple[str, ...]] = {}
    waiting: dict[int, str] = {}
    for group in groups_of(inputs.policy.hot_nodes, [node.metadata.labels or {} for node in nodes.records]):
        rows = group.members
        if not rows.any():
            continue
        levels = LevelBuilder(percent, known & rows & group.may_be_hot, names)
        pressure = inputs.load.pressure
        _apply(levels, group.rules, _mean(percent[counted & rows]), scores, pressure)
        for rule in group.rules:
            if isinstance(rule, UtilizationRule) and rule.pressure:
                waiting |= {
                    row: f"cooled but still waiting: {words}"
                    for row, words in waiting_nodes(rule, pressure).items()
                    if rows[row] and levels.eligible[row] and not levels.resources[row].any()
                }
        hot_above[rows], cool_to[rows] = levels.hot_above[rows], levels.cool_to[rows]
        resources[rows] = levels.resources[rows]
        because |= {row: tuple(sentences) for row, sentences in levels.because.items()}
    hot: BoolArray = np.asarray(resources.any(axis=1), np.bool_)
    return Hotness(hot, resources, hot_above, cool_to, because, names, waiting)


def _apply(
    levels: LevelBuilder,
    rules: tuple[HotRule, ...],
    mean: FloatArray,
    scores: Mapping[str, RuleScore],
    pressure: Mapping[str, FloatArray],
) -> None:
    everywhere = np.ones(len(levels.percent))
    for rule in rules:
        match rule:
            case UtilizationRule():
                waits = waiting_nodes(rule, pressure) if rule.pressure else None
                for resource, level in rule.utilization.items():
                    cool = rule.cool_to[resource]
                    words = "hot above {above} %, cool at {cool_to} %"
                    levels.apply(resource, everywhere * level, everywhere * cool, words, waits)
            case DeviationRule():
                _apply_deviation(levels, rule, mean, everywhere)
            case ScoreRule():
                _apply_score(levels, rule, mean, scores)


def waiting_nodes(rule: UtilizationRule, pressure: Mapping[str, FloatArray]) -> dict[int, str]:
    """Nodes, by row, on which something waits longer than a rule allows; unknown pressure is none."""
    found: dict[int, str] = {}
    for resource, level in rule.pressure.items():
        percent = pressure.get(resource, np.zeros(0))
        for row in np.flatnonzero(np.nan_to_num(percent, nan=0.0) > level).tolist():
            found.setdefault(row, f"{resource} pressure {percent[row]:.1f} % of the time, above {level:g} %")
    return found


def _mean(percent: FloatArray) -> FloatArray:
    """(resources,) the mean of the known percentages of each column; NaN where there is none."""
    known = ~np.isnan(percent)
    count = np.count_nonzero(known, axis=0)
    total = np.where(known, percent, 0.0).sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _apply_deviation(
    levels: LevelBuilder, rule: DeviationRule, mean: FloatArray, everywhere: FloatArray
) -> None:
    for resource, points in rule.deviation.items():
        center = float(mean[levels.names.index(resource)])
        if np.isnan(center):
            continue
        above = max(center + points, float(rule.floor.get(resource, 0.0)))
        cool = min(center + rule.cool_to[resource], above)
        threshold = f"{points:g} points above the mean of {center:.1f} %"
        words = f"hot above {{above}} % ({threshold}), cool at {{cool_to}} %"
        levels.apply(resource, everywhere * above, everywhere * cool, words)


def score_key(rule: ScoreRule) -> str:
    """The key under which the scores of a rule are kept."""
    return ",".join(rule.score.plugins or ())


def _apply_score(
    levels: LevelBuilder, rule: ScoreRule, mean: FloatArray, scores: Mapping[str, RuleScore]
) -> None:
    """Hot where the scheduler scores low and the load that it scores is above the mean; cool at that mean.

    A node that is scored low and has no such load above the mean would be hot above the mean of any. A node
    whose score is unknown is neither.
    """
    found = scores.get(score_key(rule))
    if found is None:
        return
    scored = np.array([name in found.resources for name in levels.names], np.bool_)
    mean = np.where(scored, mean, np.inf)
    excess = np.nan_to_num(levels.percent - mean, nan=-1.0)
    with np.errstate(invalid="ignore"):
        low = levels.eligible & (found.score < rule.score.below)
    above = low & (excess.max(axis=1) > 0)
    levels.hot_above[low & ~above] = np.fmin(levels.hot_above[low & ~above], mean)
    for row in np.flatnonzero(above).tolist():
        column = int(np.argmax(excess[row]))
        levels.resources[row, column] = True
        levels.hot_above[row, column] = min(levels.hot_above[row, column], mean[column])
        levels.cool_to[row, column] = min(levels.cool_to[row, column], mean[column])
        levels.because.setdefault(row, []).append(
            f"score {found.score[row]:.0f} of 100 by {', '.join(found.plugins)}, hot below "
            f"{rule.score.below:g}, with {levels.names[column]} {levels.percent[row, column]:.1f} % above "
            f"the mean of {mean[column]:.1f} %"
        )
