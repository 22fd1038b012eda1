"""One search for moves that relieve hot nodes, from a plan builder to why every other pod stays.

See ``hot_node_relief`` for the theory. Every step is the same whatever ``limits.perRun`` and
``planning.maxPlacements`` are, up to the step at which one of them ends the search.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence

from rebalancer.cluster.arrays import FloatArray, NodeRow, PodRow
from rebalancer.planning.builder import PlanBuilder
from rebalancer.planning.landing.evaluation import Candidate
from rebalancer.planning.prepared import PreparedInputs
from rebalancer.planning.reasons import NotMoved, Reason
from rebalancer.planning.strategies.hot_nodes.node_pods import NodePods, relieved

NOT_NEEDED = NotMoved(Reason.NOT_NEEDED, "its node cools without moving it")
_NO_RELIEF = NotMoved(Reason.NO_RELIEF, "it uses nothing of what its node is above coolTo in")

_Entry = tuple[float, float, float, str, NodeRow]
Order = Callable[[float, int, float], tuple[float, float, float]]


def most_removed(relieves: float, together: int, excess: float) -> tuple[float, float, float]:
    """First the node whose pod removes most: the best order where limits allow few moves."""
    return -round(relieves, 6), -round(excess, 6), together


def least_removed(relieves: float, together: int, excess: float) -> tuple[float, float, float]:
    """First the node whose pod removes least: small pods leave room for others where room is scarce."""
    return round(relieves, 6), -round(excess, 6), together


class ReliefSearch:
    """Adds the moves of all hot nodes to a builder."""

    def __init__(
        self,
        prepared: PreparedInputs,
        builder: PlanBuilder,
        pods: Mapping[NodeRow, NodePods],
        order: Order,
        first: Sequence[Candidate] = (),
    ) -> None:
        """``first`` are moves to make before any other, where they hold."""
        self._hotness = prepared.hotness
        self._builder = builder
        self._pods = pods
        self._order = order
        self._first = first
        self._refused_at: dict[PodRow, int] = {}  # how many moves the plan had when a pod was refused

    def run(self) -> dict[PodRow, NotMoved]:
        """Move what relieves; returns why each of the other pods stays."""
        for candidate in self._first:
            pods = self._pods[candidate.source]
            at = pods.candidates.index(candidate)
            if at not in pods.refused and not self._try(pods, at):
                return self._kept()
        while not self._pass():
            moves = len(self._builder.moves)
            again = [node.reopen(self._refused_at, moves) for node in self._pods.values()]
            if not any(again):
                break
        return self._kept()

    def _pass(self) -> bool:
        """Go on until no open pod removes any excess; whether a limit of the whole plan ended the search."""
        builder = self._builder
        queue: list[_Entry] = []
        for node in self._pods:
            self._push(queue, node)
        while queue:
            if builder.used.is_spent:
                return True
            entry = heapq.heappop(queue)
            pods = self._pods[entry[-1]]
            following = self._entry(pods)
            if following is None:
                continue
            if following[0] != entry and queue and following[0] > queue[0]:
                heapq.heappush(queue, following[0])  # limits or landings have changed what it would remove
                continue
            if not self._try(pods, following[1]):
                return True
            self._push(queue, entry[-1])
        return False

    def _try(self, pods: NodePods, at: int) -> bool:
        """Move a pod if that holds; False when the whole search has ended."""
        candidate = pods.candidates[at]
        refusal = self._builder.try_move(candidate)
        if refusal is None:
            pods.moved.add(at)
            return True
        if refusal.reason is Reason.SEARCH_ENDED:
            return False
        pods.refused[at] = refusal
        self._refused_at[candidate.row] = len(self._builder.moves)
        return True

    def _push(self, queue: list[_Entry], node: NodeRow) -> None:
        found = self._entry(self._pods[node])
        if found is not None:
            heapq.heappush(queue, found[0])

    def _levels(self, node: NodeRow) -> tuple[FloatArray, FloatArray]:
        """(resources,) points of excess, and percent of allocatable."""
        percent = self._builder.expected_percent(node)
        return self._hotness.excess(node, percent), percent

    def _entry(self, pods: NodePods) -> tuple[_Entry, int] | None:
        """Where a node belongs in the queue, and the pod it would move next."""
        excess, percent = self._levels(pods.node)
        found = pods.next(percent, self._builder.used)
        if found is None:
            return None
        at, relieves, together = found
        return (*self._order(relieves, together, float(excess.sum())), pods.name, pods.node), at

    def _kept(self) -> dict[PodRow, NotMoved]:
        kept: dict[PodRow, NotMoved] = {}
        for node, pods in self._pods.items():
            excess, percent = self._levels(node)
            relieves = relieved(pods.relief, self._hotness.above(node, percent))
            worthwhile, least = pods.worthwhile(percent), pods.least(percent)
            for at, candidate in enumerate(pods.candidates):
                if at in pods.moved:
                    continue
                reached = self._builder.used.reached(candidate)
                if at in pods.refused:
                    kept[candidate.row] = pods.refused[at]
                elif not excess.any():
                    kept[candidate.row] = NOT_NEEDED
                elif relieves[at] <= 0:
                    kept[candidate.row] = _NO_RELIEF
                elif reached:
                    kept[candidate.row] = self._builder.used.refusal(candidate) or NOT_NEEDED
                elif not worthwhile[at]:
                    kept[candidate.row] = NotMoved(
                        Reason.LITTLE_RELIEF,
                        f"it would relieve its node by {relieves[at]:.2g} points; at its cost of "
                        f"{1.0 + pods.cost[at]:.2g} planning.leastRelief {pods.asked:g} asks for "
                        f"{least[at]:.2g}",
                    )
                else:
                    kept[candidate.row] = self._builder.search_ended()
        return kept
