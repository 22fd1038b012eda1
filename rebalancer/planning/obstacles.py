"""Which settings of the policy hold the load that a plan leaves on hot nodes, the one that holds most first.

A list of reasons by pod does not tell what to change: forty small pods may be too young while one large pod,
protected for its volumes, is what keeps the node hot. So each pod that stays is weighed by what it uses of
the resources in which its node is above coolTo, in points, and the weights are summed by the setting that
keeps it:

    n1 is above coolTo in cpu; its pods that stay use 15, 4 and 1 points of cpu
    evictable.protect: LocalStorage keeps the first, evictable.minAge the others: 75 % and 25 %

Pods that never move, such as those of a DaemonSet, are left out: no setting would change that. A pod that
several rules keep counts for the first of them, and not as kept by that setting alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from rebalancer.cluster.arrays import BoolArray, NodeRow, PodRow
from rebalancer.load.report import with_pods
from rebalancer.planning.eviction import every_refusal
from rebalancer.planning.plan import Obstacle
from rebalancer.planning.prepared import PreparedInputs
from rebalancer.planning.reasons import KeptReason, Reason
from rebalancer.planning.rounding import CHANCE_DIGITS
from rebalancer.planning.search.relief import NEGLIGIBLE
from rebalancer.planning.search.strategy import SearchResult

_NEVER_MOVE = frozenset({Reason.STATIC_POD, Reason.DAEMON_SET, Reason.TERMINATING, Reason.SYSTEM_COMPONENT})
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
_Kept = list[tuple[PodRow, KeptReason, float]]  # with the points that each uses


def find_obstacles(
    prepared: PreparedInputs, found: SearchResult, nodes: Collection[NodeRow] | None = None
) -> tuple[Obstacle, ...]:
    """What keeps the load of nodes that stay above their coolTo; empty when all of them cool.

    ``nodes`` are those to look at; None: all of them.
    """
    by_setting: dict[tuple[str, str], _Kept] = {}
    for row, kept, points in _staying(prepared, found):
        if nodes is not None and int(prepared.pods.node[row]) not in nodes:
            continue
        key = (kept.setting, "" if kept.setting else str(kept.reason))
        by_setting.setdefault(key, []).append((row, kept, points))
    total = sum(points for group in by_setting.values() for _, _, points in group)
    count = sum(map(len, by_setting.values()))
    obstacles = [
        _obstacle(prepared, setting, group, total, count) for (setting, _), group in by_setting.items()
    ]
    return tuple(sorted(obstacles, key=lambda item: (-item.share, -item.pods, item.setting, item.reasons)))


def _staying(prepared: PreparedInputs, found: SearchResult) -> Iterator[tuple[PodRow, KeptReason, float]]:
    """The pods that stay on nodes above coolTo, with their points of what these nodes have too much of."""
    load, pods = prepared.inputs.load, prepared.pods
    left: dict[NodeRow, BoolArray] = {}
    for node in map(NodeRow, np.flatnonzero(prepared.hotness.hot).tolist()):
        excess = prepared.hotness.excess(node, found.scenarios.expected_percent(node, load.allocatable))
        above = np.asarray(excess > NEGLIGIBLE, np.bool_)
        if above.any():
            left[node] = above
    for row, kept in found.kept.items():
        node = NodeRow(int(pods.node[row]))
        if node not in left or kept.reason in _NEVER_MOVE or not pods.class_of(row).owner.kind:
            continue
        above, whole = left[node], load.allocatable[node]
        used = with_pods(load.pod_usage[row], 1.0)[above]
        yield row, kept, float(np.nan_to_num(100.0 * used / whole[above]).sum())


def _obstacle(prepared: PreparedInputs, setting: str, group: _Kept, total: float, count: int) -> Obstacle:
    points = sum(each for _, _, each in group)
    example, kept, _ = max(group, key=lambda item: (item[2], prepared.pods.full_name(item[0])))
    return Obstacle(
        setting=setting,
        reasons=tuple(sorted({str(kept.reason) for _, kept, _ in group})),
        share=round(points / total if total > NEGLIGIBLE else len(group) / count, CHANCE_DIGITS),
        pods=len(group),
        pods_in_all=count,
        pods_kept_alone=sum(_alone(prepared, row, kept) for row, kept, _ in group),
        example=prepared.pods.full_name(example),
        because=kept.because,
    )


def _alone(prepared: PreparedInputs, row: PodRow, kept: KeptReason) -> bool:
    """Whether no rule of another setting would keep the pod as well; where it would land is not asked."""
    return kept.reason in _NO_RULE or all(
        refusal.setting == kept.setting for refusal in every_refusal(prepared.eviction, row)
    )
