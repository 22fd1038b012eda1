"""Hot nodes: above a threshold of the policy, each with its because, and the level at which it is cool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rebalancer.cluster.arrays import BoolArray, FloatArray, IntArray
from rebalancer.load.report import PERCENT_RESOURCES
from rebalancer.policy import DeviationRule, HotNodes, HotRule, ScoreRule, UtilizationRule


@dataclass(frozen=True, slots=True, eq=False)
class Hotness:
    """Which nodes are hot, why, and how far they must cool; percent of allocatable by resource."""

    hot: BoolArray  # (nodes,)
    resources: BoolArray  # (nodes, resources) in what a node is hot
    hot_above: FloatArray  # (nodes, resources) the level above which a node is hot, inf where no rule speaks
    cool_to: FloatArray  # (nodes, resources) the level at which no eviction is worth it any more
    because: Mapping[int, tuple[str, ...]]  # by node row
    names: tuple[str, ...] = PERCENT_RESOURCES  # of the resources, by column

    def is_cool(self, row: int, percent: FloatArray) -> bool:
        """Whether (resources,) percent are above no level to cool to; what cannot be said is not above."""
        return not np.any(percent > self.cool_to[row])

    def hot_at(self, rows: IntArray, percent: FloatArray) -> BoolArray:
        """(rows,) whether nodes with (rows, resources) percent would be hot; the unknown is not."""
        return np.asarray(np.any(percent > self.hot_above[rows], axis=1), np.bool_)

    def most(self, rows: IntArray) -> FloatArray:
        """(rows, resources) up to where a landing may bring each: a node that was hot, to its coolTo."""
        return np.where(self.hot[rows, None], self.cool_to[rows], self.hot_above[rows])


class _Levels:
    """Collects the rules' levels, the lowest one of each node and resource."""

    def __init__(self, percent: FloatArray, eligible: BoolArray, names: tuple[str, ...]) -> None:
        self.names = names
        self.percent = percent
        self.eligible = eligible  # (nodes,) may be hot at all: known
        shape = percent.shape
        self.hot_above = np.full(shape, np.inf)
        self.cool_to = np.full(shape, np.inf)
        self.resources = np.zeros(shape, np.bool_)
        self.because: dict[int, list[str]] = {}

    def apply(self, resource: str, above: FloatArray, cool_to: FloatArray, words: str) -> None:
        """One rule on one resource: levels are (nodes,), ``words`` says what the threshold is."""
        column = self.names.index(resource)
        hot = self.eligible & (self.percent[:, column] > above)
        self.hot_above[:, column] = np.minimum(self.hot_above[:, column], above)
        self.cool_to[:, column] = np.minimum(self.cool_to[:, column], cool_to)
        self.resources[:, column] |= hot
        for row in np.flatnonzero(hot).tolist():
            sentence = f"{resource} {self.percent[row, column]:.1f} % of allocatable, {words}"
            self.because.setdefault(row, []).append(sentence.format(above=above[row], cool_to=cool_to[row]))


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Nodes that share rules."""

    members: BoolArray  # (nodes,)
    rules: tuple[HotRule, ...]
    may_be_hot: bool = True


def groups_of(rules: HotNodes, labels: Sequence[Mapping[str, str]]) -> list[Group]:
    """The pools of a policy and the nodes of none, by the labels of each node; every node is in one group.

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


def find_hot_nodes(
    groups: Sequence[Group],
    percent: FloatArray,
    *,
    known: BoolArray,
    counted: BoolArray,
    scores: Mapping[str, FloatArray],
    names: tuple[str, ...] = PERCENT_RESOURCES,
) -> Hotness:
    """Apply the policy's rules, each group's to its nodes.

    ``percent`` is (nodes, resources), by ``names``; ``known`` nodes have fresh figures; ``counted`` ones
    (ready, known, schedulable) make up the means; ``scores`` are (nodes,) 0..100 by the key of score rules.
    """
    shape = percent.shape
    hot_above, cool_to = np.full(shape, np.inf), np.full(shape, np.inf)
    resources: BoolArray = np.zeros(shape, np.bool_)
    because: dict[int, tuple[str, ...]] = {}
    for group in groups:
        rows = group.members
        if not rows.any():
            continue
        levels = _Levels(percent, known & rows & group.may_be_hot, names)
        _apply(levels, group.rules, _mean(percent[counted & rows]), scores)
        hot_above[rows], cool_to[rows] = levels.hot_above[rows], levels.cool_to[rows]
        resources[rows] = levels.resources[rows]
        because |= {row: tuple(sentences) for row, sentences in levels.because.items()}
    hot: BoolArray = np.asarray(resources.any(axis=1), np.bool_)
    return Hotness(hot, resources, hot_above, cool_to, because, names)


def _apply(
    levels: _Levels, rules: tuple[HotRule, ...], mean: FloatArray, scores: Mapping[str, FloatArray]
) -> None:
    everywhere = np.ones(len(levels.percent))
    for rule in rules:
        match rule:
            case UtilizationRule():
                for resource, level in rule.utilization.items():
                    cool = rule.cool_to[resource]
                    words = "hot above {above:.1f} %, cool at {cool_to:.1f} %"
                    levels.apply(resource, everywhere * level, everywhere * cool, words)
            case DeviationRule():
                _apply_deviation(levels, rule, mean, everywhere)
            case ScoreRule():
                _apply_score(levels, rule, mean, scores)


def _mean(percent: FloatArray) -> FloatArray:
    """(resources,) the mean of each column, of the rows where it can be said; NaN where there is none."""
    said = ~np.isnan(percent)
    count = np.count_nonzero(said, axis=0)
    total = np.where(said, percent, 0.0).sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _apply_deviation(levels: _Levels, rule: DeviationRule, mean: FloatArray, everywhere: FloatArray) -> None:
    for resource, points in rule.deviation.items():
        center = float(mean[levels.names.index(resource)])
        if np.isnan(center):
            continue
        above = max(center + points, float(rule.floor.get(resource, 0.0)))
        cool = min(center + rule.cool_to[resource], above)
        threshold = f"{points:g} points above the mean of {center:.1f} %"
        words = f"hot above {{above:.1f}} % ({threshold}), cool at {{cool_to:.1f}} %"
        levels.apply(resource, everywhere * above, everywhere * cool, words)


def score_key(rule: ScoreRule) -> str:
    """What the scores of a rule are kept under."""
    return ",".join(rule.score.plugins or ())


def _apply_score(
    levels: _Levels, rule: ScoreRule, mean: FloatArray, scores: Mapping[str, FloatArray]
) -> None:
    """Hot where the scheduler scores low and a load is above the mean; cool at the mean of that load.

    A node that is scored low and has no load above the mean would be hot above the mean of any.
    """
    score = scores.get(score_key(rule))
    if score is None:
        return
    excess = np.nan_to_num(levels.percent - mean, nan=-1.0)
    low = levels.eligible & (score < rule.score.below)
    above = low & (excess.max(axis=1) > 0)
    levels.hot_above[low & ~above] = np.fmin(levels.hot_above[low & ~above], mean)
    plugins = ", ".join(rule.score.plugins or ()) or "the plugins that look at load"
    for row in np.flatnonzero(above).tolist():
        column = int(np.argmax(excess[row]))
        levels.resources[row, column] = True
        levels.hot_above[row, column] = min(levels.hot_above[row, column], mean[column])
        levels.cool_to[row, column] = min(levels.cool_to[row, column], mean[column])
        levels.because.setdefault(row, []).append(
            f"score {score[row]:.0f} of 100 by {plugins}, hot below {rule.score.below:g}, "
            f"with {levels.names[column]} {levels.percent[row, column]:.1f} % above the mean of "
            f"{mean[column]:.1f} %"
        )
