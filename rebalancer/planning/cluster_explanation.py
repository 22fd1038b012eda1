"""Explains a cluster: why no pods, or no more pods, are moved, in as few words as possible.

The answer is what ``plan`` knows already, put in the order in which it helps: is anything hot at all, and how
far from it; which settings hold the load that could leave, the heaviest first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from rebalancer.counting import counted
from rebalancer.planning.plan import (
    API_VERSION,
    PERCENT_DIGITS,
    Answer,
    Move,
    Obstacle,
    Plan,
    UnmovedPod,
    Value,
)
from rebalancer.planning.prepared import PreparedInputs

_MAX_NEAREST = 3


class Distance(Value, frozen=True):
    """How far a node is from being hot, in the resource in which it is nearest."""

    node: str
    resource: str
    load: float  # percent of allocatable
    hot_above: float


class ClusterExplanation(Answer, frozen=True):
    """Why nothing is moved, or no more than is."""

    moves: int  # of the plan
    verdict: str
    obstacles: tuple[Obstacle, ...] = ()  # what holds load on nodes above coolTo, the heaviest first
    nearest: tuple[Distance, ...] = ()  # nodes nearest to being hot, where none is
    warnings: tuple[str, ...] = ()
    next_steps: tuple[str, ...] = ()  # commands that tell more
    api_version: str = API_VERSION
    kind: str = "ClusterExplanation"


def explain_cluster(prepared: PreparedInputs, plan: Plan) -> ClusterExplanation:
    """Why no more pods of the cluster are moved than the plan moves."""
    nearest: tuple[Distance, ...] = ()
    if not plan.hot_count:
        nearest = _nearest(prepared)
        verdict = f"{plan.no_hot_node}{_how_far(nearest)}"
        if not plan.known_count and plan.node_count:
            why = prepared.inputs.load.why_stale or "see the warnings"
            verdict = f"{plan.no_hot_node}, so none can be called hot: {why}"
        if plan.moves:
            verdict = f"{_moved(plan.moves)}: see rebalancer plan; {verdict}"
        elif plan.kept:
            verdict = f"{_stay(plan.kept)}; {verdict}"
    elif not plan.moves:
        verdict = f"nothing is moved from {counted(plan.hot_count, 'hot node')}: {plan.mostly_kept_by}"
    elif plan.unsolved:
        verdict = (
            f"{counted(len(plan.moves), 'pod')} would be moved; {len(plan.unsolved):,} of "
            f"{counted(plan.hot_count, 'hot node stays', 'hot nodes stay')} above coolTo: "
            f"{plan.mostly_kept_by}"
        )
    else:
        verdict = (
            f"{counted(len(plan.moves), 'pod')} would be moved, and every hot node cools: see rebalancer plan"
        )
    changeable = any(obstacle.setting for obstacle in plan.obstacles)
    steps = ["rebalancer plan --diff OTHER_POLICY.yaml"] if changeable else []
    steps += [f"rebalancer explain pod/{plan.obstacles[0].example}"] if plan.obstacles else []
    steps += ["rebalancer plan"] if plan.kept and not (plan.hot_count or plan.moves) else []
    steps += ["rebalancer nodes"] if nearest else []
    return ClusterExplanation(
        **plan.of_same(),
        moves=len(plan.moves),
        verdict=verdict,
        obstacles=plan.obstacles,
        nearest=nearest,
        warnings=plan.warnings,
        next_steps=tuple(steps),
    )


def _moved(moves: Sequence[Move]) -> str:
    """How many pods would be moved, and by which strategies."""
    return (
        f"{counted(len(moves), 'pod')} would be moved by {', '.join(sorted({it.strategy for it in moves}))}"
    )


def _stay(staying: Sequence[UnmovedPod]) -> str:
    """How many pods strategies wish to move and do not, and what keeps most of them."""
    reason, number = Counter(unmoved.reason for unmoved in staying).most_common(1)[0]
    first = next(unmoved for unmoved in staying if unmoved.reason == reason)
    who = counted(
        len(staying), "pod that a strategy would move stays", "pods that strategies would move stay"
    )
    remedy = f"; {first.freed_by}" if first.remedy else ""
    return f"{who}, {number:,} by {reason}, e.g. {first.pod.full_name}: {first.because}{remedy}"


def _nearest(prepared: PreparedInputs) -> tuple[Distance, ...]:
    """The nodes whose load is nearest to a threshold, each in its nearest resource."""
    hotness = prepared.hotness
    percent = prepared.inputs.load.percent
    names = prepared.inputs.snapshot.nodes.names
    distances: list[tuple[float, Distance]] = []
    for row in range(len(names)):
        missing = hotness.hot_above[row] - percent[row]
        missing = np.where(np.isnan(missing), np.inf, missing)
        column = int(np.argmin(missing))
        if np.isfinite(missing[column]):
            distance = Distance(
                node=names[row],
                resource=hotness.names[column],
                load=round(float(percent[row, column]), PERCENT_DIGITS),
                hot_above=round(float(hotness.hot_above[row, column]), PERCENT_DIGITS),
            )
            distances.append((float(missing[column]), distance))
    distances.sort(key=lambda pair: (pair[0], pair[1].node))
    return tuple(distance for _, distance in distances[:_MAX_NEAREST])


def _how_far(nearest: tuple[Distance, ...]) -> str:
    if not nearest:
        return ", and no rule of the policy could make it so"
    first = nearest[0]
    missing = first.hot_above - first.load
    if missing <= 0:  # above the level, and not hot all the same: another condition of the rule is not met
        return f": {first.node} is at {first.load:.1f} % {first.resource}, but nothing there has to wait"
    return (
        f": {first.node} is at {first.load:.1f} % {first.resource}, hot above {first.hot_above:.1f} %, "
        f"{missing:.1f} points more"
    )
