"""What changes between two plans, and why: for a change of policy, or for the plans of two days."""

from __future__ import annotations

from collections.abc import Callable

from rebalancer.planning.plan import API_VERSION, Benefit, Move, Plan, Value


class ChangedMove(Value, frozen=True):
    """A move that one of the plans makes, or that both make differently."""

    pod: str  # namespace/name
    workload: str
    before: str  # what the first plan does with the pod, in words
    after: str  # what the second one does


class ChangedSetting(Value, frozen=True):
    """A key of the policy that the plans were made with different values of."""

    setting: str
    before: str  # empty where the first policy does not have it
    after: str


class PlanDifference(Value, frozen=True):
    """Two plans side by side."""

    policies: tuple[str, str]
    inputs: tuple[str, str]  # digests
    moves: tuple[int, int]
    hot: tuple[int, int]  # hot nodes before each plan
    still_hot: tuple[int, int]  # and after it
    excess: tuple[float, float] | None  # points that each plan leaves; None where a plan does not say
    cost: tuple[float, float] | None  # of the moves, by planning.weights
    same_moves: int  # the same pod, with the same landings
    changed: tuple[ChangedMove, ...]
    settings: tuple[ChangedSetting, ...] = ()  # where both policies are known
    api_version: str = API_VERSION
    kind: str = "PlanDifference"


def difference(first: Plan, second: Plan) -> PlanDifference:
    """The moves by which the plans differ, in the order of the first plan, then of the second."""
    before = {move.pod.uid: move for move in first.moves}
    after = {move.pod.uid: move for move in second.moves}
    changed = []
    same = 0
    for uid in dict.fromkeys((*before, *after)):
        one, other = before.get(uid), after.get(uid)
        if one is not None and other is not None and _nodes(one) == _nodes(other):
            same += 1
            continue
        pod = (one or other or first.moves[0]).pod
        changed.append(
            ChangedMove(
                pod=pod.full_name, workload=pod.workload, before=_fate(first, uid), after=_fate(second, uid)
            )
        )
    return PlanDifference(
        policies=(first.policy, second.policy),
        inputs=(first.inputs, second.inputs),
        moves=(len(first.moves), len(second.moves)),
        hot=(first.hot_count, second.hot_count),
        still_hot=(_still_hot(first), _still_hot(second)),
        excess=_of_both(first, second, lambda benefit: benefit.excess.after),
        cost=_of_both(first, second, lambda benefit: benefit.cost),
        same_moves=same,
        changed=tuple(changed),
    )


def _of_both(first: Plan, second: Plan, figure: Callable[[Benefit], float]) -> tuple[float, float] | None:
    if first.benefit is None or second.benefit is None:
        return None
    return figure(first.benefit), figure(second.benefit)


def _nodes(move: Move) -> frozenset[str]:
    return frozenset(landing.node for landing in move.landings) | {move.from_node}


def _fate(plan: Plan, uid: str) -> str:
    for move in plan.moves:
        if move.pod.uid == uid:
            best = max(move.landings, key=lambda landing: landing.probability, default=None)
            others = f" or {len(move.landings) - 1} more" if len(move.landings) > 1 else ""
            return f"moved in wave {move.wave} to {best.node if best else 'nowhere'}{others}"
    for kept in plan.kept:
        if kept.pod.uid == uid:
            return f"stays ({kept.reason}): {kept.because}"
    return "stays: its node is not hot"


def _still_hot(plan: Plan) -> int:
    return sum(1 for node in plan.nodes if node.hot and (node.after is None or node.after.hot))
