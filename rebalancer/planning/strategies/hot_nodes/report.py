"""What a plan makes of hot nodes: the gain and its cost, which nodes stay hot, and what keeps them so.

A list of reasons by pod does not tell what to change: forty small pods may be too young while one large pod,
protected for its volumes, is what keeps the node hot. So each pod that stays is weighed by what it uses of
the resources in which its node is above coolTo, in points, and the weights are summed by the setting that
keeps it:

    n1 is above coolTo in cpu; its pods that stay use 15, 4 and 1 points of cpu
    evictable.protect: LocalStorage keeps the first, evictable.minAge the others: 75 % and 25 %

Pods that never move, such as those of a DaemonSet, are left out: no setting would change that. So are those
of a node that is out of reach, because what no pod uses there is above coolTo. A pod that several rules keep
counts for the first of them.

Which of them would move if only this were lifted is tried: the search goes on from the plan without that rule
or limit, in one scenario and with few placements. A pod that has no landing stays then too:

    limits.perRun keeps 140 pods     9 of them would move without it, 131 have no node that serves
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import numpy as np

from rebalancer.cluster.arrays import FloatArray, NodeRow, PodRow
from rebalancer.load.report import with_pods
from rebalancer.planning.builder import AcceptedMove, PartialPlan
from rebalancer.planning.eviction import every_refusal
from rebalancer.planning.hotness import load_of_no_pod, out_of_reach
from rebalancer.planning.landing.evaluation import Candidate, Wish
from rebalancer.planning.plan import CHANCE_DIGITS, PERCENT_DIGITS, Benefit, Change, HottestNode, Obstacle
from rebalancer.planning.prepared import PreparedInputs
from rebalancer.planning.reasons import NEVER_MOVE, NotMoved, Reason
from rebalancer.planning.remedies import remedy
from rebalancer.planning.strategies.hot_nodes.movable import NEGLIGIBLE, MovablePods
from rebalancer.planning.strategies.hot_nodes.relief import LIFTED, go_on
from rebalancer.policy.schema import BOLDEST, LEVELS, Limits

# What the search and the state of a node say of pods that no rule keeps.
_NO_RULE = frozenset(
    {
        Reason.LIMIT,
        Reason.NO_LANDING,
        Reason.NO_BETTER_LANDING,
        Reason.ROOM_TAKEN,
        Reason.CONFIDENCE,
        Reason.NOT_NEEDED,
        Reason.CANNOT_COOL,
        Reason.NO_RELIEF,
        Reason.LITTLE_RELIEF,
        Reason.SEARCH_ENDED,
        Reason.HOT_TOO_BRIEFLY,
    }
)
_MOST_TRIED = 10  # pods, with soft taints
# Without these, a pod may move in the way that the planner knows; without others it is not known where to.
_CAN_BE_LIFTED = frozenset(
    {
        Reason.NAMESPACE,
        Reason.TOO_YOUNG,
        Reason.PRIORITY,
        Reason.LOCAL_STORAGE,
        Reason.PERSISTENT_VOLUMES,
        Reason.SINGLE_REPLICA,
        Reason.MIN_REPLICAS,
        Reason.JOB,
        Reason.ENDS_SOON,
        Reason.STORAGE_CLASS,
        Reason.WITHOUT_BUDGET,
        Reason.LABELS,
        Reason.ANNOTATION,
        Reason.DEBUGGED,
        Reason.READ_WRITE_ONCE,
        Reason.ROLLOUT,
        Reason.UNREADY_REPLICAS,
        Reason.SCHEDULER_NOT_ALIVE,
        Reason.WINDOW,
        Reason.AUTOSCALING,
        Reason.COOLDOWN,
        Reason.LANDED_BADLY,
        Reason.BUDGET,
        Reason.HOT_TOO_BRIEFLY,
        Reason.LIMIT,
        Reason.LITTLE_RELIEF,
    }
)
_MOST_LIFTED = 4  # obstacles, the heaviest: each costs a part of a search
_LIMIT_NAMES = {f"limits.{field.alias}": name for name, field in Limits.model_fields.items()}
_FALLS = 0.1  # points that a node's load has to fall by to be said to fall
_KEPT_BY = {  # how many pods: 4 by limits, 1 of a DaemonSet
    Reason.LIMIT.value: "by limits",
    Reason.BUDGET.value: "by a disruption budget",
    Reason.DAEMON_SET.value: "of a DaemonSet",
    Reason.JOB.value: "of Jobs",
    Reason.NAMESPACE.value: "in an excluded namespace",
    Reason.TOO_YOUNG.value: "too young",
    Reason.WINDOW.value: "by the maintenance window",
    Reason.SINGLE_REPLICA.value: "the only replica",
    Reason.NO_BETTER_LANDING.value: "without a better landing",
    Reason.OTHER_SCHEDULER.value: "of another scheduler",
    Reason.SCHEDULER_NOT_ALIVE.value: "whose scheduler is not known to be alive",
    Reason.UNPREDICTABLE.value: "with an unpredictable landing",
    Reason.LOCAL_STORAGE.value: "with local storage",
    Reason.ANNOTATION.value: "by an annotation",
}
_Key = tuple[str, str]
_StayingPods = list[tuple[PodRow, NotMoved, float]]  # with the points that each uses


def report_fields(prepared: PreparedInputs, plan: PartialPlan) -> Mapping[str, Any]:
    """The fields of a plan that are about hot nodes."""
    return {
        "hot_count": int(np.count_nonzero(prepared.hotness.hot)),
        "unsolved": _unsolved(prepared, plan),
        "obstacles": find_obstacles(prepared, plan) if prepared.options.explains else (),
        "benefit": benefit_of(prepared, plan),
    }


def _unsolved(prepared: PreparedInputs, plan: PartialPlan) -> dict[str, str]:
    """Hot nodes that stay above their coolTo, with the reasons of the pods that stay on each."""
    unsolved: dict[str, str] = {}
    inputs = prepared.inputs
    hotness = prepared.hotness
    names = inputs.snapshot.nodes.names
    of_no_pod = load_of_no_pod(inputs, hotness)
    unreachable = out_of_reach(inputs, hotness)
    kept_on: dict[int, Counter[str]] = {}
    for row, reason in plan.staying.items():
        kept_on.setdefault(int(prepared.pods.node[row]), Counter())[str(reason.reason)] += 1
    for node in map(NodeRow, np.flatnonzero(prepared.hotness.hot).tolist()):
        percent = plan.scenarios.expected_percent(node)
        if prepared.hotness.is_cool(node, percent):
            continue
        counts = kept_on.get(node, Counter())
        reasons = ", ".join(
            f"{count} {_KEPT_BY.get(code, f'as {code}')}"
            for code, count in sorted(
                counts.items(), key=lambda reason_count: (-reason_count[1], reason_count[0])
            )
        )
        above = [column for column in range(len(percent)) if percent[column] > hotness.cool_to[node, column]]
        falls = any(inputs.load.percent[node, column] - percent[column] > _FALLS for column in above)
        loads = ", ".join(
            f"{percent[column]:.1f} % {hotness.names[column]} (coolTo {hotness.cool_to[node, column]:.0f})"
            for column in above
        )
        verb = "falls to" if falls else "stays at"
        why_kept = f"; kept: {reasons or 'no pod is left'}"
        if names[node] in of_no_pod:
            words = f"; {of_no_pod[names[node]]}"
            # Where nothing is within reach, it does not matter what keeps the pods.
            why_kept = words if unreachable[node, above].all() else why_kept + words
        unsolved[names[node]] = f"{verb} {loads}{why_kept}"
    return unsolved


def benefit_of(prepared: PreparedInputs, plan: PartialPlan) -> Benefit:
    """The plan's benefit beside its cost.

    Both sides include the Pending pods where they will be placed, so that they differ by the moves alone.
    """
    hotness = prepared.hotness
    before = prepared.start.mean_percent()
    after = plan.scenarios.mean_percent()
    hot = np.flatnonzero(hotness.hot)
    excess = [_excess(prepared, level) for level in (before, after)]
    still_hot = [int(np.count_nonzero(hotness.hot_at(hot, level[hot]))) for level in (before, after)]
    rows = [move.candidate.row for move in plan.moves]
    cost = len(rows) + float(prepared.disruption.costs(rows).sum())
    lost = sum(move.evaluation.spread_cost for move in plan.moves)
    cost += prepared.policy.planning.weights.spread * lost
    return Benefit(
        hot_nodes=Change(before=still_hot[0], after=still_hot[1]),
        excess=_change(*excess),
        peak=_by_resource(hotness.names, before, after, np.max),
        deviation=_by_resource(hotness.names, before, after, np.std),
        pods_moved=len(rows),
        pods=int(np.count_nonzero(prepared.pods.node >= 0)),
        cost=round(cost, PERCENT_DIGITS),
        score=round((excess[0] - excess[1]) / cost, PERCENT_DIGITS) if rows else 0.0,
        hottest=_hottest(prepared, before, after),
    )


def _hottest(prepared: PreparedInputs, before: FloatArray, after: FloatArray) -> HottestNode | None:
    """The node with the most excess before the plan; of several the first by name."""
    hotness = prepared.hotness
    names = prepared.inputs.snapshot.nodes.names
    rows = np.flatnonzero(hotness.hot)
    if not len(rows):
        return None
    excess = hotness.excess(rows, before[rows])
    total = np.round(excess.sum(axis=1), PERCENT_DIGITS)
    at = min(np.flatnonzero(total == total.max()).tolist(), key=lambda place: names[rows[place]])
    row = int(rows[at])
    column = int(np.argmax(excess[at]))
    load = _change(float(before[row, column]), float(after[row, column]))
    return HottestNode(names[row], hotness.names[column], load)


def _excess(prepared: PreparedInputs, percent: FloatArray) -> float:
    """Points above coolTo, over the nodes that are or were hot in this run, and in what they were."""
    rows = np.flatnonzero(prepared.hotness.was_hot).tolist()
    return float(sum(float(prepared.hotness.excess(row, percent[row]).sum()) for row in rows))


def _change(before: float, after: float) -> Change:
    return Change(before=round(before, PERCENT_DIGITS), after=round(after, PERCENT_DIGITS))


def _by_resource(
    names: tuple[str, ...], before: FloatArray, after: FloatArray, figure: Callable[[FloatArray], float]
) -> dict[str, Change]:
    """A figure over (nodes, resources) percentages, of the nodes at which a resource is known."""
    changes: dict[str, Change] = {}
    for column, name in enumerate(names):
        measured = np.isfinite(before[:, column]) & np.isfinite(after[:, column])
        if measured.any():
            changes[name] = _change(*(float(figure(level[measured, column])) for level in (before, after)))
    return changes


def find_obstacles(
    prepared: PreparedInputs, plan: PartialPlan, nodes: Collection[NodeRow] | None = None
) -> tuple[Obstacle, ...]:
    """What keeps the load of nodes that stay above their coolTo; empty when all of them cool.

    ``nodes`` are those to look at; None: all of them.
    """
    by_setting: dict[_Key, _StayingPods] = {}
    for row, refusal, points in _staying(prepared, plan):
        if nodes is not None and int(prepared.pods.node[row]) not in nodes:
            continue
        by_setting.setdefault(_key(refusal), []).append((row, refusal, points))
    total = sum(points for group in by_setting.values() for _, _, points in group)
    count = sum(map(len, by_setting.values()))
    groups = sorted(by_setting.values(), key=lambda group: -sum(points for _, _, points in group))
    obstacles = []
    for place, group in enumerate(groups):
        moves = _moves_if_lifted(prepared, plan, group) if place < _MOST_LIFTED else None
        obstacles.append(_obstacle(prepared, plan, group, moves, total, count))

    def helps(obstacle: Obstacle) -> tuple[bool, float, int, str, tuple[str, ...]]:
        """Those of which lifting one moves a pod come first, the heaviest of them before the others."""
        return (
            not obstacle.moves_if_lifted,
            -obstacle.share,
            -obstacle.pods,
            obstacle.setting,
            obstacle.reasons,
        )

    return tuple(sorted(obstacles, key=helps))


def _staying(prepared: PreparedInputs, plan: PartialPlan) -> Iterator[tuple[PodRow, NotMoved, float]]:
    """The pods that stay on nodes above coolTo, with their points of what these nodes have too much of."""
    load = prepared.inputs.load
    pods = prepared.pods
    hotness = prepared.hotness
    above = np.zeros(hotness.hot_above.shape, np.bool_)
    for node in map(NodeRow, np.flatnonzero(hotness.hot).tolist()):
        above[node] = hotness.excess(node, plan.scenarios.expected_percent(node)) > NEGLIGIBLE
    above &= ~out_of_reach(prepared.inputs, hotness)
    # The last one is for pods on no node.
    is_left = np.append(above.any(axis=1), False)[pods.node].tolist()
    movable = [bool(pod.owner.kind) for pod in pods.classes]
    staying = [
        (row, refusal)
        for row, refusal in plan.staying.items()
        if is_left[row] and refusal.reason not in NEVER_MOVE and movable[pods.pod_class[row]]
    ]
    rows = np.array([row for row, _ in staying], np.int64)
    on = pods.node[rows]
    with np.errstate(invalid="ignore", divide="ignore"):
        points = 100.0 * with_pods(load.relief[rows], 1.0) / load.allocatable[on]
    amounts = np.where(above[on], np.nan_to_num(points), 0.0).sum(axis=1)
    return ((row, refusal, amount) for (row, refusal), amount in zip(staying, amounts.tolist(), strict=True))


def _key(refusal: NotMoved) -> _Key:
    """What pods are counted by: their setting, or their reason where there is none."""
    return refusal.setting, "" if refusal.setting else str(refusal.reason)


def _moves_if_lifted(prepared: PreparedInputs, plan: PartialPlan, group: _StayingPods) -> set[PodRow] | None:
    """The pods of a group that would move if nothing but what keeps them were lifted; None: not tried.

    They are found by going on from the plan, so whatever else keeps a pod, such as a limit, still does.
    """
    reasons = {refusal.reason for _, refusal, _ in group}
    if not reasons <= _CAN_BE_LIFTED or plan.builder.has_tainted:
        return None
    limits = prepared.policy.limits
    if Reason.LIMIT in reasons:
        names = [_LIMIT_NAMES.get(name, name) for name in group[0][1].setting.split(" and ")]
        if not LIFTED.keys() >= set(names):
            return None  # what earlier runs used of a rate, or a limit for some pods
        limits = limits.model_copy(update={name: LIFTED[name] for name in names})
    freed = {row for row, refusal, _ in group if _alone(prepared, row, refusal)}
    if not freed:
        return set()
    used = plan.builder.used
    if Reason.LIMIT not in reasons and all(used.reached(prepared.candidate(row)) for row in freed):
        return None  # the moves of this plan have used up a limit: a plan without the rule would choose anew
    if Reason.LIMIT in reasons and (moved := plan.without_limits.get(frozenset(names))) is not None:
        return freed & moved
    least_relief = LEVELS[BOLDEST].least_relief if Reason.LITTLE_RELIEF in reasons else None
    # The search has refused all others: they are asked again only where a node has to be cooled as a whole.
    with_them = {row for row, refusal in plan.staying.items() if refusal.reason is Reason.CANNOT_COOL}
    wish = Wish("", prepared.cooler_node)
    candidates: dict[NodeRow, list[Candidate]] = {}
    for node in map(NodeRow, np.flatnonzero(prepared.hotness.was_hot).tolist()):
        on_node = [row for row in prepared.pods_on(node) if row in freed or row in with_them]
        candidates[node] = [prepared.candidate(row, wish) for row in on_node]
    pods = MovablePods(prepared, prepared.disruption, candidates)
    further = go_on(prepared, pods, plan.builder, limits, least_relief, estimates=_MOST_LIFTED)
    return freed & {move.candidate.row for move in further.moves[len(plan.moves) :]}


def _obstacle(
    prepared: PreparedInputs,
    plan: PartialPlan,
    group: _StayingPods,
    moves: set[PodRow] | None,
    total: float,
    count: int,
) -> Obstacle:
    points = sum(each for _, _, each in group)
    # A pod that would move, where any would: its remedy helps.
    helped = [of_pod for of_pod in group if of_pod[0] in (moves or ())] or group
    example, refusal, _ = max(helped, key=lambda of_pod: (of_pod[2], prepared.pods.full_name(of_pod[0])))
    return Obstacle(
        setting=refusal.setting,
        reasons=tuple(sorted({str(refusal.reason) for _, refusal, _ in group})),
        share=round(points / total if total > NEGLIGIBLE else len(group) / count, CHANCE_DIGITS),
        pods=len(group),
        pods_in_all=count,
        moves_if_lifted=None if moves is None else len(moves),
        example=prepared.pods.full_name(example),
        because=refusal.message,
        remedy=_steering(prepared, plan, group) or remedy(prepared.eviction, example, refusal),
    )


def _steering(prepared: PreparedInputs, plan: PartialPlan, group: _StayingPods) -> str:
    """That soft taints would send some pods elsewhere, where the scheduler would put them on bad nodes.

    Each of the pods that use most is tried by itself, after the moves of the plan.
    """
    if group[0][1].setting or prepared.policy.execution.steer != "none":
        return ""
    refused = [of_pod for of_pod in group if of_pod[1].node is not None]
    refused.sort(key=lambda of_pod: (-of_pod[2], prepared.pods.full_name(of_pod[0])))
    steering = plan.builder.copy()
    steering.steers = True
    wish = Wish("", prepared.cooler_node)
    tried = [steering.find(prepared.candidate(row, wish)) for row, _, _ in refused[:_MOST_TRIED]]
    steered = sum(isinstance(outcome, AcceptedMove) for outcome in tried)
    if not steered:
        return ""
    least = "at least " if len(refused) > len(tried) else ""
    return f"execution.steer: softTaint would send {least}{steered} of them elsewhere"


def _alone(prepared: PreparedInputs, row: PodRow, why: NotMoved) -> bool:
    """Whether no other rule would keep the pod as well; where it would land is not asked."""
    return why.reason in _NO_RULE or all(
        _key(refusal) == _key(why) for refusal in every_refusal(prepared.eviction, row)
    )
