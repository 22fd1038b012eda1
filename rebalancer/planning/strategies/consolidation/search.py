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

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from rebalancer.cluster.arrays import NodeRow, PodRow
from rebalancer.planning.builder import PartialPlan, PlanBuilder
from rebalancer.planning.disruption_cost import Disruption
from rebalancer.planning.eviction import why_protected
from rebalancer.planning.landing.evaluation import Wish
from rebalancer.planning.reasons import NotMoved, Reason
from rebalancer.planning.strategies.consolidation.nodes import NodesToEmpty

if TYPE_CHECKING:
    from rebalancer.planning.strategies.consolidation import Consolidation

_STAYING = (Reason.STATIC_POD, Reason.DAEMON_SET, Reason.TERMINATING)
_MAX_TRIED = 300  # nodes
_CELLS = 2_000_000  # placements times nodes that orders after the first may take
_DIGITS = 6


class Found(msgspec.Struct, frozen=True, eq=False):
    """What one order leads to."""

    builder: PlanBuilder
    emptied: tuple[NodeRow, ...]
    kept: dict[PodRow, NotMoved]
    value: tuple[float, float]  # what it saves, and less what it costs


class Emptying:
    """One search from a plan so far."""

    def __init__(self, strategy: Consolidation, so_far: PartialPlan) -> None:
        self._strategy, self._start = strategy, so_far.builder
        self._prepared = prepared = strategy.prepared
        self.nodes = NodesToEmpty(prepared, strategy.settings)
        strategy.empty = self.nodes.empty
        self.kept: dict[PodRow, NotMoved] = {}  # pods that keep their node, whatever else moves
        disruption = Disruption(prepared.inputs, prepared.eviction.workloads)
        self._leaving: dict[NodeRow, list[PodRow]] = {}
        self._cost: dict[NodeRow, float] = {}
        for node in self.nodes.candidates()[:_MAX_TRIED]:
            pods = self._movable(node)
            if pods:
                self._leaving[node] = pods
        rows = [pod for pods in self._leaving.values() for pod in pods]
        costs = dict(zip(rows, (1.0 + disruption.costs(rows)).tolist(), strict=True)) if rows else {}
        for node, pods in self._leaving.items():
            self._cost[node] = sum(costs[pod] for pod in pods)
        counts = np.bincount(prepared.pods.node[prepared.pods.node >= 0], minlength=len(prepared.nodes))
        taken = [item.after_termination.pod_count > counts for item in self._start.scenarios.all]
        left = [move.candidate.source for move in so_far.moves]
        self._in_use = {*np.flatnonzero(np.any(taken, axis=0)).tolist(), *left}  # pods come to or leave them

    def _movable(self, node: NodeRow) -> list[PodRow]:
        """The pods that must leave a node; none where one of them has to stay."""
        pods = []
        for pod in self.nodes.leaving(node):
            refusal = why_protected(self._prepared.eviction, pod)
            if refusal is None:
                pods.append(pod)
            elif refusal.reason not in _STAYING:
                self.kept[pod] = self._because(refusal, node)
                return []
        return pods

    def _because(self, refusal: NotMoved, node: NodeRow) -> NotMoved:
        words = f"{refusal.message} ({self._strategy.name}: {self.nodes.words(node)})"
        return msgspec.structs.replace(refusal, message=words)

    def best(self) -> Found:
        """The best of the orders that were tried."""
        placements, most = self._start.evaluator.placements, self._prepared.policy.planning.max_placements
        order = sorted(self._leaving, key=lambda node: (-self.nodes.savings[node] / self._cost[node], node))
        found = self._in_order(order)
        last = min(placements.asked + _CELLS // max(len(self.nodes.count), 1), most // 2)
        tried: set[tuple[NodeRow, ...]] = {tuple(order)}
        better = True
        while better and placements.asked < last:
            better = False
            for other in self._others(order, found):
                if tuple(other) in tried or placements.asked >= last:
                    continue
                tried.add(tuple(other))
                changed = self._in_order(other)
                if changed.value > found.value:
                    found, order, better = changed, other, True
                    break
        return found

    def _others(self, order: list[NodeRow], found: Found) -> list[list[NodeRow]]:
        """The same order with one of the nodes left first, or one of the emptied ones last."""
        left = [node for node in order if node not in found.emptied]
        first = [[node, *(other for other in order if other != node)] for node in left]
        return first + [[*(item for item in order if item != node), node] for node in found.emptied]

    def _in_order(self, order: list[NodeRow]) -> Found:
        """Empty the nodes that can be, one after the other."""
        prepared, settings = self._prepared, self._strategy.settings
        builder, in_use, emptying = self._start.copy(), set(self._in_use), set[int]()
        emptied: list[NodeRow] = []
        kept: dict[PodRow, NotMoved] = {}
        least = settings.keep.of(len(prepared.nodes))
        most = min(settings.max_nodes, len(prepared.nodes) - len(self.nodes.empty) - least)
        for node in order:
            if len(emptied) >= most:
                break
            if node in in_use:
                continue
            before, made = builder.copy(), len(builder.moves)
            self._strategy.emptying = frozenset({*emptying, node})
            refusal = self._empty(builder, node)
            if refusal is not None:
                builder.restore(before)
                kept[refusal[0]] = self._because(refusal[1], node)
                continue
            emptied.append(node)
            emptying.add(node)
            for move in builder.moves[made:]:
                in_use.update(move.evaluation.landings().rows.tolist())
        self._strategy.emptying = frozenset(emptying)
        saved = sum(float(self.nodes.savings[node]) for node in emptied)
        cost = sum(self._cost[node] for node in emptied)
        return Found(builder, tuple(emptied), kept, (round(saved, _DIGITS), -round(cost, _DIGITS)))

    def _empty(self, builder: PlanBuilder, node: NodeRow) -> tuple[PodRow, NotMoved] | None:
        """Move all pods of a node; or the one that stays, and why."""
        wish = Wish(self._strategy.name, self._strategy.purpose, self.nodes.words(node))
        for pod in self._leaving[node]:
            refusal = builder.try_move(self._prepared.candidate(pod, wish))
            if refusal is not None:
                return pod, refusal
        return None
