"""Which nodes are hot, why, and down to which level each must cool, by the rules of the policy.

Several rules may set a level for the same node and resource; the lowest one counts, and the highest one is
what a plan reaches for that cannot come to the lowest.

A rule by deviation compares a node with the mean of the nodes that load could be spread to. Three idle
control-plane nodes beside three workers at 60 % would otherwise put the mean at 30 %, and all three workers
would be hot although there is nowhere to go.

A rule by score asks the scheduler's plugins. Each gives every node some score, one without figures too:
TargetLoadPacking gives it 0. A rule that took that for load would find an idle cluster hot wherever
load-watcher names its nodes by address. So the score of such a node is unknown, and an unknown score makes no
node hot.

How far pressure falls when a pod leaves cannot be predicted, so it is looked at by the next run. Pressure is
a rate over some minutes and its figure may be a little old, so a node is only judged once its figure holds
nothing of the time before the move:

    12:00 web-1 leaves n1; the figures of 12:04 are over 11:59 to 12:04      not judged yet
    12:15 n1 is at 60 % cpu, below its threshold; pressure 33 %, above 20 %  cooled but still waiting

A run may plan again, by the cluster as its first plan has left it. What nodes were hot in then counts as it
did, so that its plans do not undo each other: what a landing adds above coolTo is excess, although the node
is hot no longer.

    first plan     n1 is at 92 % cpu, hot above 80 %, cool at 65 %; web-1 leaves it
    second plan    n1 is at 70 %, and not hot: no more leaves it
                   a pod of 8 points from n2 at 84 % would add 8 there and take 12 away: it has to pay

A run that knows the load of too few nodes refuses to act. A node matters when a pod may leave it or land on
it; a virtual node without metrics, on which no pod of ours can run, must not stop every run.

    n1, n2, n3   workers with fresh figures          counted, known
    virtual-1    tainted, nothing tolerates it       not counted
    n4           tainted, a pod there tolerates it   counted: 3 of 4 are known
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType

import msgspec
import numpy as np

from rebalancer.cluster.arrays import BoolArray, FloatArray, IntArray
from rebalancer.cluster.leaving_nodes import why_leaving
from rebalancer.cluster.nodes import NodeTable
from rebalancer.cluster.pod_classes import OF_THEIR_NODE, PodClass
from rebalancer.cluster.records import Node, Taint
from rebalancer.load.report import PERCENT_RESOURCES
from rebalancer.load.usage import PRESSURE_WINDOW_SECONDS
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.plan import OUT_OF_REACH
from rebalancer.policy.hotness import DeviationRule, HotNodes, HotRule, ScoreRule, UtilizationRule
from rebalancer.scheduling.matching import Tolerations


class Hotness(msgspec.Struct, frozen=True, eq=False, dict=True):
    """Which nodes are hot, why, and how far they must cool; percent of allocatable by resource."""

    hot: BoolArray  # (nodes,)
    resources: BoolArray  # (nodes, resources) in what a node is hot
    # (nodes, resources) the same, or in what it was hot at an earlier plan of the run: points there count
    hot_in_run: BoolArray
    hot_above: FloatArray  # (nodes, resources) the level above which a node is hot, inf without a rule
    cool_to: FloatArray  # (nodes, resources) the level at which no further eviction is worth it
    # (nodes, resources) the highest of the levels above which rules find the node hot; -inf where none does
    highest: FloatArray
    because: Mapping[int, tuple[str, ...]]  # by node row
    names: tuple[str, ...] = PERCENT_RESOURCES  # of the resources, by column
    waiting: Mapping[int, str] = {}  # nodes that are not hot, yet pods wait there
    # (nodes, resources) hot_above where a node may be hot by it: no rule leaves the node out, and pods wait
    # there where a rule asks for that; else inf
    makes_hot: FloatArray = np.zeros((0, 0))

    def is_cool(self, row: int, percent: FloatArray) -> bool:
        """Whether no (resources,) percent is above its level to cool to; an unknown one is not above."""
        return not np.any(percent > self.cool_to[row])

    def to_cool(self, row: int, percent: FloatArray) -> BoolArray:
        """(resources,) above coolTo: those in which the node is hot, or all where it is hot in none of them.

        A pod that was to leave a hot node still leaves where the node is only above its coolTo by then.
        """
        above = np.asarray(percent > self.cool_to[row], np.bool_)
        hot = above & self.resources[row]
        return hot if hot.any() else above

    def above(self, rows: int | IntArray, percent: FloatArray) -> FloatArray:
        """(…, resources) points above coolTo, in what nodes are hot or were in this run; 0 in all else.

        ``rows`` is one node, or (nodes,) where ``percent`` is (nodes, resources).
        """
        return np.where(self.hot_in_run[rows], _beyond(percent, self.cool_to[rows]), 0.0)

    def excess(self, rows: int | IntArray, percent: FloatArray) -> FloatArray:
        """(…, resources) the same points, those that hurt pods more counted more: what plans reduce.

        A point above coolTo counts 1, one above the threshold 2, one above 100 % 4, and one above the
        threshold of a further rule 1 more. So a point off the hotter of two nodes never counts
        less, and a plan that cannot reach the lowest of several thresholds reaches for the next.
        """
        return np.where(self.hot_in_run[rows], self._points(rows, percent), 0.0)

    def excess_by_now(self, rows: int | IntArray, percent: FloatArray) -> FloatArray:
        """(…, resources) the same for a plan that is made then, which also sees what has become hot since."""
        counts = self.hot_in_run[rows] | (percent > self.hot_above[rows])
        return np.where(counts, self._points(rows, percent), 0.0)

    def _points(self, rows: int | IntArray, percent: FloatArray) -> FloatArray:
        levels = self.steps[:, rows]
        levels = levels[:, None] if percent.ndim == levels.ndim else levels  # many percentages of one node
        above, hot, further, starving = _beyond(percent, levels)
        # Each step above another level counts on top of the steps below it.
        return np.asarray(above + hot + further + 2.0 * starving, np.float64)

    @cached_property
    def steps(self) -> FloatArray:
        """(4, nodes, resources) levels at which excess becomes steeper: coolTo, thresholds, starving."""
        starving = np.maximum(self.cool_to, _STARVING)
        return np.stack([self.cool_to, self.hot_above, self.further_threshold, starving])

    @cached_property
    def further_threshold(self) -> FloatArray:
        """(nodes, resources) the highest threshold of several by which a node is hot; inf where it is one."""
        return np.where(self.highest > self.hot_above, self.highest, np.inf)

    def removed(self, rows: int | IntArray, percent: FloatArray, relief: FloatArray) -> FloatArray:
        """(pods,) points of excess that leave with each pod alone.

        ``relief`` is (pods, resources) points of allocatable, ``rows`` one node or that of each pod, and
        ``percent`` theirs.
        """
        left = self.excess(rows, percent - relief)
        return np.asarray((self.excess(rows, percent) - left).sum(axis=1), np.float64)

    def hot_at(self, rows: IntArray, percent: FloatArray) -> BoolArray:
        """(rows,) whether nodes with (rows, resources) percent would be hot; an unknown percentage is not."""
        return np.asarray(np.any(percent > self.hot_above[rows], axis=1), np.bool_)

    def times_hot(self, rows: IntArray, percent: FloatArray) -> IntArray:
        """(…,) how often nodes of (…, rows, resources) percent are hot: by resource and by threshold."""
        still_hot = self.resources[rows] & (percent > self.hot_above[rows])
        by_further = still_hot & (percent > self.further_threshold[rows])
        both = np.count_nonzero(still_hot, axis=(-2, -1)) + np.count_nonzero(by_further, axis=(-2, -1))
        return np.asarray(both, np.int64)

    def landing_limit(self, rows: IntArray) -> FloatArray:
        """(rows, resources) up to which a landing may fill each node; one hot in this run, to its coolTo."""
        hot_above = self.hot_above[rows]
        return np.where(self.was_hot[rows, None], np.minimum(self.cool_to[rows], hot_above), hot_above)

    @cached_property
    def was_hot(self) -> BoolArray:
        """(nodes,) whether a node is hot, or was when this run made an earlier plan."""
        return np.asarray(self.hot_in_run.any(axis=1), np.bool_)

    def levels_in_run(self, names: Sequence[str]) -> dict[str, dict[str, float]]:
        """By node that was hot in this run and by the resource in which: its coolTo; ``names`` of nodes."""
        levels: dict[str, dict[str, float]] = {}
        for row, column in np.argwhere(self.hot_in_run).tolist():
            levels.setdefault(names[row], {})[self.names[column]] = float(self.cool_to[row, column])
        return levels


_STARVING = 100.0  # percent of allocatable above which pods get less than they ask for


def _beyond(percent: FloatArray, level: FloatArray) -> FloatArray:
    """Points above a level; 0 where either is unknown or there is no level."""
    with np.errstate(invalid="ignore"):
        gap = percent - level
    return np.where((gap > 0.0) & (gap < np.inf), gap, 0.0)


def short_level(percent: float) -> str:
    """``80`` or ``62.5``."""
    return f"{percent:.1f}".removesuffix(".0")


class LevelBuilder:
    """Collects the levels that rules set, of one group of nodes after the other."""

    def __init__(self, percent: FloatArray, names: tuple[str, ...]) -> None:
        self.names = names
        self.percent = percent
        self.members: BoolArray  # (nodes,) of the group
        self.eligible: BoolArray  # (nodes,) those of them that may be hot at all
        self.hot_above, self.makes_hot, self.cool_to = (np.full(percent.shape, np.inf) for _ in range(3))
        self.highest = np.full(percent.shape, -np.inf)
        self.resources = np.zeros(percent.shape, np.bool_)
        self.because: dict[int, list[str]] = {}

    def apply(
        self,
        resource: str,
        above: float,
        cool_to: float,
        words: str,
        waits: Mapping[int, str] | None = None,
    ) -> None:
        """One rule on one resource; ``words`` describes the threshold.

        ``waits`` are, by row and with what they wait for, the only nodes that may be hot; None: all may.
        Landings are held to the threshold on every node: whether pods will wait there cannot be predicted.
        """
        column = self.names.index(resource)
        may_be = self.eligible.copy()
        if waits is not None:
            may_be &= np.isin(np.arange(len(may_be)), list(waits))
        hot = may_be & (self.percent[:, column] > above)
        for levels, rows, level in (
            (self.makes_hot, may_be, above),
            (self.hot_above, self.members, above),
            (self.cool_to, self.members, cool_to),
        ):
            levels[rows, column] = np.minimum(levels[rows, column], level)
        self.highest[hot, column] = np.maximum(self.highest[hot, column], above)
        self.resources[:, column] |= hot
        for row in np.flatnonzero(hot).tolist():
            sentence = f"{resource} {self.percent[row, column]:.1f} %: {words}"
            sentence += f"; {waits[row]}" if waits else ""
            self.because.setdefault(row, []).append(
                sentence.format(above=short_level(above), cool_to=short_level(cool_to))
            )


_HARD_EFFECTS = ("NoSchedule", "NoExecute")


def _tolerate_all(tolerations: Tolerations, taints: Iterable[Taint]) -> bool:
    return all(tolerations.tolerate(taint) for taint in taints)


def tolerated(nodes: NodeTable, movable: Sequence[PodClass]) -> BoolArray:
    """(nodes,) which pods of one of these classes may land on in spite of the taints of each."""
    tolerations = [Tolerations(pod.spec.tolerations) for pod in movable]
    verdicts: dict[tuple[Taint, ...], bool] = {(): True}
    is_tolerated: list[bool] = []
    for node in nodes.records:
        hard = tuple(taint for taint in node.spec.taints or () if taint.effect in _HARD_EFFECTS)
        if hard not in verdicts:
            verdicts[hard] = any(_tolerate_all(own, hard) for own in tolerations)
        is_tolerated.append(verdicts[hard])
    return np.array(is_tolerated, np.bool_)


def reachable_nodes(inputs: PlanningInputs) -> BoolArray:
    """(nodes,) has no taint that would keep every pod away that the policy lets move."""
    pods = inputs.snapshot.pods
    policy = inputs.policy
    bound = np.flatnonzero(np.bincount(pods.pod_class[pods.node >= 0]))  # classes that a bound pod has
    of_bound_pods = [pods.classes[index] for index in bound.tolist()]
    movable = [
        pod
        for pod in of_bound_pods
        if pod.owner.kind
        and pod.owner.kind not in OF_THEIR_NODE
        and policy.evictable.namespaces.allows(pod.namespace)
        and pod.scheduler_name in inputs.acts_on
    ]
    return tolerated(inputs.snapshot.nodes, movable)


class Coverage(msgspec.Struct, frozen=True):
    """How many of the nodes that matter have a fresh figure."""

    has_figure: BoolArray  # (nodes,)
    counts: BoolArray  # (nodes,) that matter, those with a figure among them

    @property
    def with_figure(self) -> int:
        """How many have a fresh figure."""
        return int(np.count_nonzero(self.has_figure))

    @property
    def counted(self) -> int:
        """How many matter."""
        return int(np.count_nonzero(self.counts))

    @property
    def share(self) -> float:
        """The share that is known; 1 where no node matters."""
        return self.with_figure / self.counted if self.counted else 1.0


def coverage_of(inputs: PlanningInputs) -> Coverage:
    """Count the nodes that pods may leave or land on, and those of them whose load is known."""
    nodes = inputs.snapshot.nodes
    pods = inputs.snapshot.pods
    has_figure = inputs.load.known
    counts = has_figure.copy()
    if not has_figure.all():
        stays = np.array([pod.owner.kind in OF_THEIR_NODE for pod in pods.classes], np.bool_)
        usable = tolerated(nodes, [pod for pod in pods.classes if pod.owner.kind not in OF_THEIR_NODE])
        usable[pods.node[(pods.node >= 0) & ~stays[pods.pod_class]]] = True
        counts |= usable & np.array([not why_leaving(node) for node in nodes.records], np.bool_)
    return Coverage(has_figure, counts)


def is_virtual(node: Node) -> bool:
    """Whether a node stands for machines that Kubernetes does not see, so that no eviction relieves it.

    A virtual kubelet hands each pod to a cloud, or to another cluster, which gives it room of its own; a node
    of Fargate is made for the one pod on it.
    """
    labels = node.metadata.labels or {}
    if any(labels.get(key) == value for key, value in _VIRTUAL_LABELS):
        return True
    keys = (*labels, *(taint.key for taint in node.spec.taints or ()))
    return any(key.startswith("virtual-kubelet.io/") for key in keys)


_VIRTUAL_LABELS = (
    ("type", "virtual-kubelet"),
    ("type", "virtual-node"),
    ("liqo.io/type", "virtual-node"),
    ("eks.amazonaws.com/compute-type", "fargate"),
)
_LEAST = 0.5  # points, of a mean score or of load: less is not worth a word


class RuleScore(msgspec.Struct, frozen=True, eq=False):
    """What a score rule goes by."""

    plugins: tuple[str, ...]  # those of the rule that are enabled
    score: FloatArray  # (nodes,) their weighted mean, 0..100; NaN where one of them lacks a figure
    resources: frozenset[str]  # that they score: a node is hot in these only, and cools in these only


class NodeScores:
    """The scores of a profile's plugins over all nodes, and their weighted mean."""

    def __init__(
        self,
        by_plugin: Mapping[str, IntArray],
        weights: Mapping[str, int],
        has_figures: Mapping[str, BoolArray],
    ) -> None:
        """``by_plugin`` are (nodes,) scores in 0..100; plugins absent from ``has_figures`` need none."""
        self.by_plugin = by_plugin
        self.has_figures = has_figures
        self.weights = weights
        self.mean: FloatArray = self._mean(tuple(by_plugin))
        total = sum(weights[name] for name in by_plugin) or 1
        # (plugins, nodes) points of the mean score that a plugin takes, compared with the mean of the nodes.
        self._taken = [
            (float(values.mean()) - values) * weights[name] / total for name, values in by_plugin.items()
        ]

    def _mean(self, plugins: Sequence[str]) -> FloatArray:
        total = sum(self.weights[name] for name in plugins)
        if not total:
            return np.zeros(0)
        weighted = sum(self.weights[name] * self.by_plugin[name].astype(np.float64) for name in plugins)
        return np.asarray(weighted / total, np.float64)

    def known_mean_of(self, plugins: Sequence[str]) -> FloatArray:
        """(nodes,) the weighted mean of some plugins; NaN where one of them lacks a figure."""
        mean = self._mean(plugins)
        for name in plugins:
            if name in self.has_figures and len(mean):
                mean = np.where(self.has_figures[name], mean, np.nan)
        return mean

    def of(self, row: int) -> dict[str, int]:
        """A node's score by plugin."""
        return {name: int(values[row]) for name, values in self.by_plugin.items()}

    def pulled_down_by(self, row: int) -> str:
        """The plugin that takes most from a node's score; empty when none takes half a point."""
        taken = [float(points[row]) for points in self._taken]
        worst = int(np.argmax(taken)) if taken else 0
        return list(self.by_plugin)[worst] if taken and taken[worst] >= _LEAST else ""


class Group(msgspec.Struct, frozen=True, eq=False):
    """Nodes that share rules."""

    members: BoolArray  # (nodes,)
    rules: tuple[HotRule, ...]
    may_be_hot: bool = True


def groups_of(rules: HotNodes, labels: Sequence[Mapping[str, str]]) -> list[Group]:
    """The pools of a policy and the nodes outside all of them, by labels; every node is in one group.

    Nodes that are never hot keep the thresholds of all others for what may land on them.
    """
    left: BoolArray = np.ones(len(labels), np.bool_)
    groups: list[Group] = []
    for pool in rules.pools:
        selected = np.array([pool.node_selector.selects(of_node) for of_node in labels], np.bool_) & left
        left &= ~selected
        groups.append(Group(selected, pool.any or rules.any, bool(pool.any)))
    if rules.node_selector is not None:
        chosen = np.array([rules.node_selector.selects(of_node) for of_node in labels], np.bool_)
        groups.append(Group(left & ~chosen, rules.any, may_be_hot=False))
        left &= chosen
    return [*groups, Group(left, rules.any, bool(rules.any))]


def find_hot_nodes(
    inputs: PlanningInputs,
    scores: Mapping[str, RuleScore],
    leaving: BoolArray,
    hot_before: Mapping[str, Mapping[str, float]] = MappingProxyType({}),
) -> Hotness:
    """Apply the policy's rules, each group's to its nodes.

    ``scores`` are by the key of score rules; what the ``leaving`` (pods,) use counts for nothing. A node is
    hot only by a resource of which it has a fresh figure, whatever else is unknown of it. Means are of the
    fresh figures of Ready, schedulable nodes that an evictable pod could run on. ``hot_before`` are, by node
    and resource, coolTo levels of what was hot when this run made earlier plans (``RunSoFar.hot``).
    """
    nodes = inputs.snapshot.nodes
    percent = inputs.load.percent_without(leaving)
    unschedulable = np.array([node.spec.unschedulable for node in nodes.records], np.bool_)
    counted = np.asarray(nodes.ready & ~unschedulable & reachable_nodes(inputs), np.bool_)
    levels = LevelBuilder(percent, inputs.load.percent_resources)
    waiting = dict[int, str]()
    relievable = np.array([not is_virtual(node) for node in nodes.records], np.bool_)
    for group in groups_of(inputs.policy.hot_nodes, [node.metadata.labels or {} for node in nodes.records]):
        rows = group.members
        if not rows.any():
            continue
        levels.members = rows
        levels.eligible = rows & group.may_be_hot & relievable
        pressure = inputs.load.pressure
        _apply(levels, group.rules, _mean(percent[counted & rows]), scores, pressure)
        for rule in group.rules:
            if isinstance(rule, UtilizationRule) and rule.pressure:
                waiting |= {
                    row: f"cooled but still waiting: {words}"
                    for row, words in waiting_nodes(rule, pressure).items()
                    if levels.eligible[row] and not levels.resources[row].any()
                }
    hot: BoolArray = np.asarray(levels.resources.any(axis=1), np.bool_)
    hot_in_run = levels.resources.copy()
    for name, cool_to in hot_before.items():
        node = nodes.row.get(name)
        for resource, level in cool_to.items():
            if node is None or resource not in levels.names:
                continue
            column = levels.names.index(resource)
            hot_in_run[node, column] = True
            # A rule by score, or by a mean that has moved, may set no level or a higher one by now. That of a
            # node which is hot again is the one that its reason names.
            if not levels.resources[node, column]:
                levels.cool_to[node, column] = min(levels.cool_to[node, column], level)
    return Hotness(
        hot=hot,
        resources=levels.resources,
        hot_in_run=hot_in_run,
        hot_above=levels.hot_above,
        cool_to=levels.cool_to,
        highest=levels.highest,
        because={row: tuple(sentences) for row, sentences in levels.because.items()},
        names=levels.names,
        waiting=waiting,
        makes_hot=levels.makes_hot,
    )


def _apply(
    levels: LevelBuilder,
    rules: tuple[HotRule, ...],
    mean: FloatArray,
    scores: Mapping[str, RuleScore],
    pressure: Mapping[str, FloatArray],
) -> None:
    for rule in rules:
        match rule:
            case UtilizationRule():
                waits = waiting_nodes(rule, pressure) if rule.pressure else None
                for resource, level in rule.utilization.items():
                    words = "hot above {above} %, cool at {cool_to} %"
                    levels.apply(resource, float(level), float(rule.cool_to[resource]), words, waits)
            case DeviationRule():
                _apply_deviation(levels, rule, mean)
            case ScoreRule():
                _apply_score(levels, rule, mean, scores)


def waiting_nodes(rule: UtilizationRule, pressure: Mapping[str, FloatArray]) -> dict[int, str]:
    """Nodes, by row, on which something waits longer than a rule allows; unknown pressure is none."""
    reasons: dict[int, str] = {}
    for resource, level in rule.pressure.items():
        percent = pressure.get(resource, np.zeros(0))
        for row in np.flatnonzero(np.nan_to_num(percent, nan=0.0) > level).tolist():
            reasons.setdefault(
                row, f"{resource} pressure {percent[row]:.1f} % of the time, above {level:g} %"
            )
    return reasons


def _mean(percent: FloatArray) -> FloatArray:
    """(resources,) the mean of the known percentages of each column; NaN where there is none."""
    is_known = ~np.isnan(percent)
    count = np.count_nonzero(is_known, axis=0)
    total = np.where(is_known, percent, 0.0).sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _apply_deviation(levels: LevelBuilder, rule: DeviationRule, mean: FloatArray) -> None:
    for resource, points in rule.deviation.items():
        center = float(mean[levels.names.index(resource)])
        if np.isnan(center):
            continue
        above = max(center + points, float(rule.floor.get(resource, 0.0)))
        cool = min(center + rule.cool_to[resource], above)
        threshold = f"{points:g} points above the mean of {center:.1f} %"
        words = f"hot above {{above}} % ({threshold}), cool at {{cool_to}} %"
        levels.apply(resource, above, cool, words)


def score_key(rule: ScoreRule) -> str:
    """The key under which the scores of a rule are kept."""
    return ",".join(rule.score.plugins or ())


def _apply_score(
    levels: LevelBuilder, rule: ScoreRule, mean: FloatArray, scores: Mapping[str, RuleScore]
) -> None:
    """Hot where the scheduler scores low and the load that it scores is above the mean; cool at that mean.

    There is always one that the scheduler likes least: it is not hot unless it is half a point above the mean
    and above the rule's floor. A node that is scored low and has no such load would be hot above the mean or
    floor of any. A node whose score is unknown is neither.
    """
    of_rule = scores.get(score_key(rule))
    if of_rule is None:
        return
    scored = np.array([name in of_rule.resources for name in levels.names], np.bool_)
    mean = np.where(scored, mean, np.inf)
    # A mean is unknown where no node has a figure of the resource: then no node is hot by that.
    hot_above = np.maximum(mean, [rule.floor.get(name, 0.0) for name in levels.names])
    excess = np.nan_to_num(levels.percent - mean, nan=-1.0)
    excess[~(levels.percent > hot_above)] = -1.0
    with np.errstate(invalid="ignore"):
        low = levels.eligible & (of_rule.score < rule.score.below)
    above = low & (excess.max(axis=1) >= _LEAST)
    for level in (levels.hot_above, levels.makes_hot):
        level[low & ~above] = np.fmin(level[low & ~above], hot_above)
    for row in np.flatnonzero(above).tolist():
        column = int(np.argmax(excess[row]))
        levels.resources[row, column] = True
        for level in (levels.hot_above, levels.makes_hot):
            level[row, column] = min(level[row, column], hot_above[column])
        levels.highest[row, column] = max(levels.highest[row, column], hot_above[column])
        levels.cool_to[row, column] = min(levels.cool_to[row, column], mean[column])
        levels.because.setdefault(row, []).append(
            f"score {of_rule.score[row]:.0f} of 100 by {', '.join(of_rule.plugins)}, hot below "
            f"{rule.score.below:g}, with {levels.names[column]} {levels.percent[row, column]:.1f} % above "
            f"the mean of {mean[column]:.1f} %"
        )


def pressure_after_cooling(inputs: PlanningInputs, hotness: Hotness) -> dict[str, str]:
    """What pods wait for on nodes that were cooled, by the node's name."""
    cooled: dict[str, float] = {}
    for move in inputs.state.moves if inputs.state else ():
        cooled[move.from_node] = max(cooled.get(move.from_node, 0.0), move.landed_at or move.evicted_at)
    judged = inputs.now - PRESSURE_WINDOW_SECONDS - inputs.policy.load.max_age
    names = inputs.snapshot.nodes.names
    return {
        names[row]: words
        for row, words in hotness.waiting.items()
        if cooled.get(names[row], inputs.now) <= judged
    }


def out_of_reach(inputs: PlanningInputs, hotness: Hotness) -> BoolArray:
    """(nodes, resources) in what nodes are hot that no eviction cools: what no pod uses is above coolTo."""
    with np.errstate(invalid="ignore"):
        return np.asarray(hotness.resources & (inputs.load.of_no_pod > hotness.cool_to), np.bool_)


def load_of_no_pod(inputs: PlanningInputs, hotness: Hotness) -> dict[str, str]:
    """How much of what makes nodes hot no pod uses, by the node's name; only where it is most of it."""
    percent = inputs.load.percent
    points = inputs.load.of_no_pod
    unreachable = out_of_reach(inputs, hotness)
    with np.errstate(invalid="ignore"):
        told = unreachable | (hotness.resources & (points > percent / 2))
    sentence_by_node = dict[str, str]()
    for row in np.flatnonzero(told.any(axis=1)).tolist():
        sentences = []
        for column in np.flatnonzero(told[row]).tolist():
            ending = "no eviction moves that load"
            if unreachable[row, column]:
                ending = OUT_OF_REACH
            sentences.append(
                f"{points[row, column]:.0f} of {percent[row, column]:.0f} points of {hotness.names[column]} "
                f"belong to no pod: {ending}"
            )
        sentence_by_node[inputs.snapshot.nodes.names[row]] = "; ".join(sentences)
    return sentence_by_node


def never_hot(inputs: PlanningInputs, hotness: Hotness) -> dict[str, str]:
    """Why nodes above a level are not hot all the same, by the node's name."""
    nodes = inputs.snapshot.nodes
    above = hotness.hot_at(np.arange(len(nodes)), inputs.load.percent)
    sentence = "a virtual node, which no eviction relieves: it is never hot"
    return {
        nodes.names[row]: sentence for row in np.flatnonzero(above).tolist() if is_virtual(nodes.records[row])
    }


def leaving_load(inputs: PlanningInputs, hotness: Hotness, leaving: BoolArray) -> dict[str, str]:
    """What of their load nodes lose by themselves that would be hot by it, by the node's name."""
    percent = inputs.load.percent
    points = percent - inputs.load.percent_without(leaving)
    count = inputs.load.count_of(leaving)
    sentence_by_node = dict[str, str]()
    told = (percent > hotness.hot_above) & (points >= _LEAST)
    for row in np.flatnonzero(told.any(axis=1)).tolist():
        column = int(np.argmax(np.where(told[row], points[row], 0.0)))
        pods = "1 pod that leaves" if count[row] == 1 else f"{count[row]} pods that leave"
        sentence_by_node[inputs.snapshot.nodes.names[row]] = (
            f"{points[row, column]:.1f} points of {hotness.names[column]}, of {pods} before the next run, "
            "do not make it hot"
        )
    return sentence_by_node
