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

from itertools import islice
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from rebalancer.cluster.arrays import NodeRow, PodRow
from rebalancer.planning.builder import PartialPlan, PlanBuilder
from rebalancer.planning.disruption_cost import Disruption
from rebalancer.planning.eviction import why_protected
from rebalancer.planning.landing.evaluation import Wish
from rebalancer.planning.reasons import NotMoved, Reason
from rebalancer.planning.steering import EMPTIED

if TYPE_CHECKING:
    from rebalancer.planning.strategies.consolidation.nodes import Emptying

_STAYING = (Reason.STATIC_POD, Reason.DAEMON_SET, Reason.TERMINATING)
_MAX_LOOKED_AT = 2000  # nodes
_MAX_TRIED, _MAX_FAILED = 300_000, 100_000  # nodes of one order that are tried, or fail, times all nodes
_CELLS = 600_000  # placements times nodes that orders after the first may take
_DIGITS = 6


def with_emptied(strategy: Emptying, so_far: PartialPlan) -> PartialPlan:
    """The plan with the nodes emptied that save most at the least disruption; and what a taint would add."""
    wants_closed, closed = strategy.may_close, strategy.prepared.inputs.closed
    search = Search(strategy, so_far, closes=wants_closed and closed is None)
    found = search.best()
    notes = dict(so_far.notes)
    if not wants_closed and search.is_refused(found):
        search.closes = True
        more = len(search.first().emptied)
        if more > len(found.emptied):
            notes[strategy.name] = f"{_nodes(more)} could be emptied if they had a taint meanwhile (taintFor)"
    strategy.emptying = frozenset(found.emptied)
    moved = {move.candidate.row for move in found.builder.moves}
    kept = {**so_far.kept, **search.kept, **found.kept}
    return PartialPlan(found.builder, {pod: why for pod, why in kept.items() if pod not in moved}, notes)


def _nodes(count: int) -> str:
    return f"{count} node{'s' * (count != 1)}"


class Found(msgspec.Struct, frozen=True, eq=False):
    """What one order leads to."""

    builder: PlanBuilder
    order: tuple[NodeRow, ...]
    emptied: tuple[NodeRow, ...]
    kept: dict[PodRow, NotMoved]
    value: tuple[float, float]  # what it saves, and less what it costs


class Search:
    """One search from a plan so far."""

    def __init__(self, strategy: Emptying, so_far: PartialPlan, *, closes: bool) -> None:
        self._strategy, self._start, self.closes = strategy, so_far.builder, closes
        self._prepared = prepared = strategy.prepared
        self.kept: dict[PodRow, NotMoved] = {}  # pods that keep their node, whatever else moves
        counts = np.bincount(prepared.pods.node[prepared.pods.node >= 0], minlength=len(prepared.nodes))
        taken = [item.after_termination.pod_count > counts for item in self._start.scenarios.all]
        left = {move.candidate.source for move in so_far.moves}
        self._in_use = {*np.flatnonzero(np.any(taken, axis=0)).tolist(), *left}  # pods come to or leave them
        leaving: dict[NodeRow, list[PodRow]] = {}
        for node in islice(strategy.nodes.candidates(), _MAX_LOOKED_AT):
            if len(leaving) * len(prepared.nodes) < _MAX_TRIED and (pods := self._movable(node)):
                leaving[node] = pods
        rows = [pod for pods in leaving.values() for pod in pods]
        disruption = Disruption(prepared.inputs, prepared.eviction.workloads)
        costs = dict(zip(rows, disruption.costs(rows).tolist(), strict=True)) if rows else {}
        self.movable, count = leaving, len(prepared.nodes)
        least = strategy.settings.keep.of(count)
        self._most = min(strategy.settings.max_nodes, count - len(strategy.nodes.empty) - least)
        self._cost = {node: sum(1.0 + costs[pod] for pod in pods) for node, pods in leaving.items()}

    def is_refused(self, found: Found) -> bool:
        """Whether a pod stays because it may land where it must not."""
        return any(why.reason is Reason.NO_BETTER_LANDING for why in found.kept.values())

    def _movable(self, node: NodeRow) -> list[PodRow]:
        """The pods that must leave a node; none where one of them has to stay."""
        pods = []
        for pod in self._strategy.nodes.leaving(node):
            refusal = why_protected(self._prepared.eviction, pod)
            if refusal is None:
                pods.append(pod)
            elif refusal.reason not in _STAYING:
                self.kept[pod] = self._because(refusal, node)
                return []
        return pods

    def _because(self, refusal: NotMoved, node: NodeRow) -> NotMoved:
        words = f"{refusal.message} ({self._strategy.name}: {self._strategy.nodes.words(node)})"
        return msgspec.structs.replace(refusal, message=words)

    def first(self) -> Found:
        """What the usual order leads to: first what saves most for its cost."""
        savings = self._strategy.nodes.savings
        return self.in_order(sorted(self.movable, key=lambda node: (-savings[node] / self._cost[node], node)))

    def best(self) -> Found:
        """The best of the orders that were tried."""
        placements, most = self._start.evaluator.placements, self._prepared.policy.planning.max_placements
        found = self.first()
        order = list(found.order)
        last = min(placements.asked + _CELLS // max(len(self._strategy.nodes.count), 1), most // 2)
        tried: set[tuple[NodeRow, ...]] = {tuple(order)}
        better = True
        while better and len(found.emptied) < self._most and placements.asked < last:
            better = False
            for other in self._others(order, found):
                if tuple(other) in tried or placements.asked >= last:
                    continue
                tried.add(tuple(other))
                changed = self.in_order(other)
                if changed.value > found.value:
                    found, order, better = changed, other, True
                    break
        return found

    def _others(self, order: list[NodeRow], found: Found) -> list[list[NodeRow]]:
        """The same order with one of the nodes left first, or one of the emptied ones last."""
        left = [node for node in order if node not in found.emptied]
        first = [[node, *(other for other in order if other != node)] for node in left]
        return first + [[*(item for item in order if item != node), node] for node in found.emptied]

    def in_order(self, order: list[NodeRow]) -> Found:
        """Empty the nodes that can be, one after the other."""
        builder, in_use, all_nodes = self._start.copy(), set(self._in_use), len(self._prepared.nodes)
        idle = self._strategy.nodes.idle if self.closes else []
        emptied: list[NodeRow] = []
        kept: dict[PodRow, NotMoved] = {}
        for node in order:
            if len(emptied) >= self._most or len(kept) * all_nodes > _MAX_FAILED:
                break
            if node in in_use:
                continue
            self._strategy.emptying = frozenset((*emptied, node))
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
        saved = sum(float(self._strategy.nodes.savings[node]) for node in emptied)
        cost = sum(self._cost[node] for node in emptied)
        return Found(
            builder, tuple(order), tuple(emptied), kept, (round(saved, _DIGITS), -round(cost, _DIGITS))
        )

    def _empty(self, builder: PlanBuilder, node: NodeRow) -> tuple[PodRow, NotMoved] | None:
        """Move all pods of a node, or none; the first that stays, and why."""
        before, wish = (
            None,
            Wish(self._strategy.name, self._strategy.purpose, self._strategy.nodes.words(node)),
        )
        for pod in self.movable[node]:
            found = builder.find(self._prepared.candidate(pod, wish))
            if isinstance(found, NotMoved):
                if before is not None:
                    builder.restore(before)
                return pod, found
            before = before or builder.copy()  # which costs more than to find that the first pod stays
            builder.add(found)
        return None
