"""Limits above and below those of the policy: what higher ones would give, and plans under tighter ones.

**Raised limits** say what a plan would gain, so that the policy can be judged by it. The search goes on from
the plan with those limits lifted that together keep pods where they are, in one scenario only and with few
placements: an estimate, and never part of the plan. Where leastRelief keeps pods, it goes on with the values
of the bolder positions of the dial.

    perRun 20 is reached and 20 of 76 hot nodes are cool; without it the search would make 70 moves:
    "with perRun 70 this plan would bring 65 of 76 hot nodes to coolTo, not 20"

**Tighter limits** make a search better. A higher limit can make the greedy search end with a worse plan, and
every plan under tighter limits is a plan under the policy's limits too. So the search is repeated below them,
in the same way as it would be made if the policy had these values, and the best plan counts. Then a policy
with higher limits compares what one with lower limits compares, and more.

    perNode 3, perNamespace 2    a search in which at most 2 pods leave a node and 2 a namespace
    first                        (2, 2), (3, 1)
    then                         (1, 2), (2, 1)
    then                         (1, 1)

Only values are tried that can matter: from what a search used at most, down to 1. Those below which even
landings for every pod would not leave less excess than the best plan known are left out.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from rebalancer.cluster.arrays import FloatArray, NodeRow, PodRow
from rebalancer.planning.builder import PlanBuilder, UsedLimits
from rebalancer.planning.disruption_cost import Disruption
from rebalancer.planning.landing.evaluation import Candidate
from rebalancer.planning.prepared import PreparedInputs
from rebalancer.planning.reasons import NotMoved, Reason
from rebalancer.planning.strategies.hot_nodes.node_pods import NEGLIGIBLE, NodePods, relief_of, relieved
from rebalancer.planning.strategies.hot_nodes.search import Order, ReliefSearch
from rebalancer.policy.planning_settings import LEVELS
from rebalancer.policy.schema import Limits
from rebalancer.policy.units import Amount

_CELLS = 500_000  # placements times nodes that the estimate of one limit may take
_MAX_PLACEMENTS = 1000
_UNLIMITED = 1 << 30
_MAX_ESTIMATES = 2
_WORTH_NAMING = 1.0  # points of excess; less is no reason to change a policy
_LIFTED: Mapping[str, object] = {
    "per_run": _UNLIMITED,
    "per_node": _UNLIMITED,
    "per_namespace": _UNLIMITED,
    "per_workload": Amount(_UNLIMITED),
}


class _Estimate(msgspec.Struct, frozen=True):
    excess: float
    cool: int  # hot nodes at or below their coolTo
    words: str  # perRun 70


class RaisedLimits:
    """Goes on from a finished plan without one of its limits."""

    def __init__(
        self,
        prepared: PreparedInputs,
        disruption: Disruption,
        candidates: Mapping[NodeRow, Sequence[Candidate]],
        order: Order,
    ) -> None:
        self._prepared = prepared
        self._disruption = disruption
        self._candidates = candidates
        self._order = order

    def sentence(self, builder: PlanBuilder, kept: Mapping[PodRow, NotMoved]) -> str:
        """What the most useful of the binding limits would give; empty when none binds or helps.

        ``kept`` is why the pods that the plan does not move stay.
        """
        now = self._estimate(builder, "")
        found = [self._without(builder, names) for names in self._binding(builder)]
        found += self._bolder(builder, kept, now)
        best = min(found, key=lambda item: (round(item.excess, 6), -item.cool, item.words), default=now)
        if best.cool > now.cool:
            gain = f"bring {best.cool} of {len(self._candidates)} hot nodes to coolTo, not {now.cool}"
        elif best.excess < now.excess - _WORTH_NAMING:
            gain = f"leave {best.excess:.1f} points of excess, not {now.excess:.1f}"
        else:
            return ""
        return f"with {best.words} this plan would {gain}"

    def _binding(self, builder: PlanBuilder) -> list[tuple[str, ...]]:
        """The limits that together keep pods of nodes above their coolTo, those that keep most first."""
        moved = {move.candidate.row for move in builder.moves}
        kept: Counter[tuple[str, ...]] = Counter()
        for node, candidates in self._candidates.items():
            if self._excess(builder, node):
                kept.update(builder.used.reached(item) for item in candidates if item.row not in moved)
        del kept[()]
        return sorted(kept, key=lambda names: (-kept[names], names))[:_MAX_ESTIMATES]

    def _without(self, builder: PlanBuilder, names: tuple[str, ...]) -> _Estimate:
        limits = self._prepared.policy.limits
        further = self._further(builder, limits.model_copy(update={name: _LIFTED[name] for name in names}))
        words = [f"{Limits.model_fields[name].alias} {further.used.most_used(name)}" for name in names]
        return self._estimate(further, " and ".join(words))

    def _bolder(
        self, builder: PlanBuilder, kept: Mapping[PodRow, NotMoved], now: _Estimate
    ) -> list[_Estimate]:
        """The next lower leastRelief of the dial that helps, where leastRelief keeps any pod."""
        policy = self._prepared.policy
        if not any(item.reason is Reason.LITTLE_RELIEF for item in kept.values()):
            return []
        lower = {level.least_relief for level in LEVELS.values()}
        for asked in sorted((item for item in lower if item < policy.planning.least_relief), reverse=True):
            further = self._further(builder, policy.limits, asked)
            found = self._estimate(further, f"leastRelief {asked:g}{self._points(builder, further)}")
            if found.cool > now.cool or found.excess < now.excess - _WORTH_NAMING:
                return [found]
        return []

    def _points(self, builder: PlanBuilder, further: PlanBuilder) -> str:
        """By how much each of the further moves would relieve its node, in words."""
        points: list[float] = []
        for move in further.moves[len(builder.moves) :]:
            candidate = move.candidate
            relief = relief_of([candidate], self._prepared.inputs.load.allocatable[candidate.source])
            need = self._prepared.hotness.above(candidate.source, move.before)
            points.append(float(relieved(np.nan_to_num(relief), need)[0]))
        if not points:
            return ""
        least, most = f"{min(points):.2g}", f"{max(points):.2g}"
        each = least if least == most else f"{least} to {most}"
        amount = f"{each} {'point' if each == '1' else 'points'}"
        if len(points) == 1:
            return f" and 1 further move of {amount}"
        return f" and {len(points)} further moves of {amount} each"

    def _further(self, builder: PlanBuilder, limits: Limits, asked: float | None = None) -> PlanBuilder:
        """The plan gone on with under other limits, or with another leastRelief."""
        prepared = self._prepared
        placements = min(_CELLS // max(len(prepared.hotness.hot), 1), _MAX_PLACEMENTS)
        further = builder.estimating(limits, placements)
        moved = {move.candidate.row for move in builder.moves}
        pods = {
            node: NodePods(prepared, self._disruption, node, items, moved=moved, asked=asked)
            for node, items in self._candidates.items()
        }
        ReliefSearch(prepared, further, pods, self._order).run()
        return further

    def _estimate(self, builder: PlanBuilder, words: str) -> _Estimate:
        left = [self._excess(builder, node) for node in self._candidates]
        return _Estimate(sum(left), sum(1 for points in left if not points), words)

    def _excess(self, builder: PlanBuilder, node: NodeRow) -> float:
        return float(self._prepared.hotness.excess(node, builder.expected_percent(node)).sum())


_MORE = 1  # a limit matters up to so many pods more than a search used: other orders may use them


class TighterLimits:
    """What lower limits could give, and which of them to try."""

    def __init__(
        self,
        prepared: PreparedInputs,
        start: PlanBuilder,
        candidates: Mapping[NodeRow, Sequence[Candidate]],
    ) -> None:
        self._limits = prepared.policy.limits
        owners = [prepared.eviction.workload(item.row) for items in candidates.values() for item in items]
        self._desired = {owner.key: owner.desired or 0 for owner in owners}
        namespaces = prepared.pods.namespaces
        self._hotness = prepared.hotness
        self._nodes: list[tuple[NodeRow, FloatArray, FloatArray, list[str]]] = []
        for node, items in candidates.items():
            percent = start.expected_percent(node)
            relief = np.nan_to_num(relief_of(items, prepared.inputs.load.allocatable[node]))
            self._nodes.append((node, percent, relief, [namespaces[item.row] for item in items]))

    def least(self, limits: Limits) -> float:
        """The points of excess that would be left at least if all pods that may leave found a landing."""
        left, gains = 0.0, defaultdict[str, list[float]](list)
        total = 0.0
        for node, percent, relief, namespaces in self._nodes:
            most = -np.sort(-relief, axis=0)[: limits.per_node]
            left += float(self._hotness.excess(node, percent - most.sum(axis=0)).sum())
            total += float(self._hotness.excess(node, percent).sum())
            gains_here = self._hotness.removed(node, percent, relief)
            for name, gain in zip(namespaces, gains_here.tolist(), strict=True):
                gains[name].append(gain)
        most_removed = sum(
            sum(sorted(items, reverse=True)[: limits.per_namespace]) for items in gains.values()
        )
        return round(max(left, total - most_removed), 6)

    def binds(self, reference: UsedLimits) -> bool:
        """Whether a limit other than perRun was reached."""
        limits = self._limits
        return (
            reference.most_used("per_node") >= limits.per_node
            or reference.most_used("per_namespace") >= limits.per_namespace
            or any(
                used >= limits.per_workload.of(self._desired[key])
                for key, used in reference.by_workload.items()
            )
        )

    def below(self, reference: UsedLimits, best: Callable[[], float]) -> Iterator[Limits]:
        """Tighter limits, the nearest first, while they could leave less excess than ``best``.

        ``reference`` is what a search used under the policy's limits, with perRun out of its way.
        """
        axes = self._values(reference)
        nearest = (0,) * len(axes)
        queue, seen = [(0, nearest)], {nearest}
        while queue:
            distance, steps = heapq.heappop(queue)
            limits = self._limits_of([axis[step] for axis, step in zip(axes, steps, strict=True)])
            if self.least(limits) >= best() - NEGLIGIBLE:
                continue  # and so it is with all that are tighter still
            if distance:
                yield limits
            for at, axis in enumerate(axes):
                further = (*steps[:at], steps[at] + 1, *steps[at + 1 :])
                if further[at] < len(axis) and further not in seen:
                    seen.add(further)
                    heapq.heappush(queue, (distance + 1, further))

    def _limits_of(self, values: Sequence[int]) -> Limits:
        per_node, per_namespace, number = values
        per_workload = Amount(number, percent=self._limits.per_workload.percent)
        return self._limits.model_copy(
            update={"per_node": per_node, "per_namespace": per_namespace, "per_workload": per_workload}
        )

    def _values(self, reference: UsedLimits) -> list[list[int]]:
        """The values of each limit that can matter, from the policy's own down."""
        limits, percent = self._limits, self._limits.per_workload.percent
        nodes = [used + _MORE for used in reference.by_node.values()]
        namespaces = [used + _MORE for used in reference.by_namespace.values()]
        workloads = [(self._desired[key], used + _MORE) for key, used in reference.by_workload.items()]
        most = 100 if percent else max((used for _, used in workloads), default=0)
        return [
            _distinct(limits.per_node, max(nodes, default=0), lambda given: [min(given, n) for n in nodes]),
            _distinct(
                limits.per_namespace,
                max(namespaces, default=0),
                lambda given: [min(given, used) for used in namespaces],
            ),
            _distinct(
                limits.per_workload.number,
                most,
                lambda given: [min(Amount(given, percent=percent).of(own), used) for own, used in workloads],
            ),
        ]


def _distinct(given: int, most: int, allowed: Callable[[int], list[int]]) -> list[int]:
    """``given``, and each value from ``most`` down to 1 that allows less than the one before it."""
    found, before = [given], allowed(given)
    for value in range(min(given - 1, most), 0, -1):
        now = allowed(value)
        if now != before:
            before = now
            found.append(value)
    return found
