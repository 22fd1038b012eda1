"""Finds the nodes to empty, and the order in which the landings of their pods hold.

Nodes are tried one after the other, those first that save most for what it costs to move their pods. A node
on which such a pod may land stays in use. So what can be emptied depends on the order, and the search begins
anew with each of the others first, as long as that is better and placements are left. Better is what saves
more, then what costs less.

    n1 and n2 have 2 pods each, n3 has 3; the pods of n1 land on n2
    n1, n2, n3       n1 is emptied, n2 is in use now, and n3 finds no room: 1 node
    n3, n1, n2       the pods of n3 land on n2 and n4, and so do those of n1: 2 nodes
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import msgspec
import numpy as np

from rebalancer.cluster.arrays import NodeRow, PodRow
from rebalancer.planning.builder import PartialPlan, PlanBuilder
from rebalancer.planning.disruption_cost import Disruption
from rebalancer.planning.eviction import why_protected
from rebalancer.planning.landing.evaluation import Wish
from rebalancer.planning.reasons import NotMoved, Reason
from rebalancer.planning.steering import EMPTIED
from rebalancer.planning.strategies.consolidation.nodes import NodesToEmpty
from rebalancer.planning.strategies.strategy import Strategy

_STAYING = (Reason.STATIC_POD, Reason.DAEMON_SET, Reason.TERMINATING)
_MAX_LOOKED_AT = 2000  # nodes
_MAX_TRIED, _MAX_FAILED = 300_000, 100_000  # nodes of one order that are tried, or fail, times all nodes
_CELLS = 600_000  # placements times nodes that orders after the first may take
_DIGITS = 6


class Found(msgspec.Struct, frozen=True, eq=False):
    """What one order leads to."""

    builder: PlanBuilder
    order: tuple[NodeRow, ...]
    emptied: tuple[NodeRow, ...]
    kept: dict[PodRow, NotMoved]
    value: tuple[float, float]  # what it saves, and less what it costs


class Search:
    """One search from a plan so far."""

    def __init__(
        self, strategy: Strategy, nodes: NodesToEmpty, so_far: PartialPlan, most: int, *, closes: bool
    ) -> None:
        """``most`` nodes may be emptied; ``closes``: with the taint of emptied nodes meanwhile."""
        self._strategy, self._nodes, self._start, self._most = strategy, nodes, so_far.builder, most
        self.closes = closes
        self.kept: dict[PodRow, NotMoved] = {}  # pods that keep their node, whatever else moves
        pods, count = nodes.prepared.pods, len(nodes.prepared.nodes)
        counts = np.bincount(pods.node[pods.node >= 0], minlength=count)
        taken = [item.after_termination.pod_count > counts for item in self._start.scenarios.all]
        left = {move.candidate.source for move in so_far.moves}
        self._in_use = {*np.flatnonzero(np.any(taken, axis=0)).tolist(), *left}  # pods come to or leave them
        self.movable: dict[NodeRow, list[PodRow]] = {}
        for node in islice(nodes.candidates(), _MAX_LOOKED_AT):
            if len(self.movable) * count < _MAX_TRIED and (leaving := self._movable(node)):
                self.movable[node] = leaving
        costs = Disruption(nodes.prepared.inputs, nodes.prepared.eviction.workloads).costs
        self._cost = {node: len(rows) + float(costs(rows).sum()) for node, rows in self.movable.items()}

    def _movable(self, node: NodeRow) -> list[PodRow]:
        """The pods that must leave a node; none where one of them has to stay."""
        found = []
        for pod in self._nodes.leaving(node):
            refusal = why_protected(self._nodes.prepared.eviction, pod)
            if refusal is None:
                found.append(pod)
            elif refusal.reason not in _STAYING:
                self.kept[pod] = self._because(refusal, node)
                return []
        return found

    def _because(self, refusal: NotMoved, node: NodeRow) -> NotMoved:
        words = f"{refusal.message} ({self._strategy.name}: {self._nodes.words(node)})"
        return msgspec.structs.replace(refusal, message=words)

    def first(self) -> Found:
        """What the usual order leads to: first what saves most for its cost."""
        savings = self._nodes.savings
        return self.in_order(sorted(self.movable, key=lambda node: (-savings[node] / self._cost[node], node)))

    def best(self) -> Found:
        """The best of the orders that were tried."""
        placements, most = (
            self._start.evaluator.placements,
            self._nodes.prepared.policy.planning.max_placements,
        )
        found = self.first()
        last = min(placements.asked + _CELLS // max(len(self._nodes.count), 1), most // 2)
        tried, better = {found.order}, True
        while better and len(found.emptied) < self._most:
            better = False
            for order in self._others(found):
                if placements.asked >= last:
                    return found
                if order in tried:
                    continue
                tried.add(order)
                changed = self.in_order(order)
                if changed.value > found.value:
                    found, better = changed, True
                    break
        return found

    @staticmethod
    def _others(found: Found) -> Iterator[tuple[NodeRow, ...]]:
        """The same order with one of the nodes left first, or one of the emptied ones last."""
        for node in found.order:
            if node not in found.emptied:
                yield node, *(other for other in found.order if other != node)
        for node in found.emptied:
            yield *(other for other in found.order if other != node), node

    def in_order(self, order: Sequence[NodeRow]) -> Found:
        """Empty the nodes that can be, one after the other."""
        builder, in_use, count = self._start.copy(), set(self._in_use), len(self._nodes.count)
        idle = self._nodes.idle if self.closes else []
        emptied: list[NodeRow] = []
        kept: dict[PodRow, NotMoved] = {}
        for node in order:
            if len(emptied) >= self._most or len(kept) * count > _MAX_FAILED:
                break
            if node in in_use:
                continue
            self._nodes.emptying = frozenset((*emptied, node))
            if self.closes:
                builder.taint(EMPTIED, (*idle, *emptied, node))
            made = len(builder.moves)
            refusal = self._empty(builder, node)
            if refusal is not None:
                kept[refusal[0]] = self._because(refusal[1], node)
                continue
            emptied.append(node)
            for move in builder.moves[made:]:
                in_use.update(move.evaluation.landings().rows.tolist())
        saved = float(sum(self._nodes.savings[node] for node in emptied))
        value = round(saved, _DIGITS), -round(sum(self._cost[node] for node in emptied), _DIGITS)
        return Found(builder, tuple(order), tuple(emptied), kept, value)

    def _empty(self, builder: PlanBuilder, node: NodeRow) -> tuple[PodRow, NotMoved] | None:
        """Move all pods of a node, or none; the first that stays, and why."""
        before, wish = None, Wish(self._strategy.name, self._strategy.purpose, self._nodes.words(node))
        for pod in self.movable[node]:
            found = builder.find(self._nodes.prepared.candidate(pod, wish))
            if isinstance(found, NotMoved):
                if before is not None:
                    builder.restore(before)
                return pod, found
            before = before or builder.copy()  # which costs more than to find that the first pod stays
            builder.add(found)
        return None


def with_emptied(
    strategy: Strategy, nodes: NodesToEmpty, so_far: PartialPlan, max_nodes: int, keep: int
) -> PartialPlan:
    """The plan with the nodes emptied that save most at the least disruption; and what a taint would add."""
    used = so_far.builder.used
    if used.is_spent:
        note = f"perRun {used.limits.per_run} is reached by other strategies"
        return msgspec.structs.replace(so_far, notes={**so_far.notes, strategy.name: note})
    closes = strategy.may_close and nodes.prepared.inputs.closed is None
    most = min(max_nodes, len(nodes.count) - len(nodes.empty) - keep)
    search = Search(strategy, nodes, so_far, most, closes=closes)
    found, notes = search.best(), dict(so_far.notes)
    refused = any(why.reason is Reason.NO_BETTER_LANDING for why in found.kept.values())
    if refused and not strategy.may_close:
        search.closes = True
        more = len(search.first().emptied)
        if more > len(found.emptied):
            nodes_of = f"{more} node{'s' * (more != 1)}"
            notes[strategy.name] = f"{nodes_of} could be emptied if they had a taint meanwhile (taintFor)"
    nodes.emptying = frozenset(found.emptied)
    moved = {move.candidate.row for move in found.builder.moves}
    kept = {**so_far.kept, **search.kept, **found.kept}
    return PartialPlan(found.builder, {pod: why for pod, why in kept.items() if pod not in moved}, notes)
