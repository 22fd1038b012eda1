"""The strategy that empties nodes, so that an autoscaler, or whoever pays for them, can remove them.

A node is emptied as a whole or not at all: every pod that must leave it may be evicted and lands, by the
user's own scheduler configuration and in every scenario, on a node that is neither empty nor to be emptied.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rebalancer.planning.strategies.consolidation.settings import ConsolidationSettings
from rebalancer.planning.strategies.strategy import Replaced, Strategy

if TYPE_CHECKING:
    from rebalancer.cluster.arrays import BoolArray, FloatArray, PodRow
    from rebalancer.planning.builder import PartialPlan, PlanBuilder
    from rebalancer.planning.landing.landing_check import Landings
    from rebalancer.planning.plan import Move, StrategyReport
    from rebalancer.planning.strategies.consolidation.nodes import NodesToEmpty

_DIFFERENCE = (
    "empties whole nodes, and only where the scheduler places each of their pods on nodes that stay in use; "
    "no threshold chooses them, but what that saves for each eviction"
)


class Consolidation(Strategy):
    """Empties nodes one after the other, those first that save most for what it costs."""

    name = "consolidation"
    label = "EmptiedNode"
    description = "Empty whole nodes, so that they can be removed: true, false, or its settings."
    settled = "its node is not emptied any more"
    settings_type = ConsolidationSettings
    settings: ConsolidationSettings
    replaces = {"HighNodeUtilization": Replaced(difference=_DIFFERENCE)}
    emptying: frozenset[int] = frozenset()  # rows of nodes that are to be empty

    @cached_property
    def nodes(self) -> NodesToEmpty:
        """The nodes before the plan."""
        from rebalancer.planning.strategies.consolidation.nodes import NodesToEmpty  # noqa: PLC0415 - numpy

        return NodesToEmpty(self.prepared, self.settings)

    def why(self, pod: PodRow, plan: PlanBuilder) -> str:
        """How few pods its node would be rid of."""
        node = self.prepared.node_of(pod)
        return "" if node < 0 or self.nodes.why_not(node) else self.nodes.words(node)

    def why_still(self, pod: PodRow, plan: PlanBuilder) -> str:
        """That its node is one of those that are being emptied."""
        return "its node is being emptied" if self.prepared.node_of(pod) in self.emptying else ""

    def resume(self, moves: Sequence[Move]) -> None:
        """The nodes that planned moves leave are being emptied."""
        row = self.prepared.nodes.row
        left = {move.from_node for move in moves if move.strategy == self.name}
        self.emptying = frozenset(row[name] for name in left if name in row)

    def group(self, pod: PodRow) -> str:
        """The node that is emptied as a whole."""
        return self.prepared.nodes.names[self.prepared.node_of(pod)]

    def extend(self, so_far: PartialPlan) -> PartialPlan:
        """The plan with the nodes emptied that save most at the least disruption."""
        from rebalancer.planning.strategies.consolidation.search import with_emptied  # noqa: PLC0415 - numpy

        return with_emptied(self, so_far)

    @property
    def may_close(self) -> bool:
        """Whether the policy asks for the taint."""
        return self.settings.taint_for > 0

    def closes(self, so_far: PartialPlan) -> Collection[str]:
        """The nodes that the plan empties, and with them those that are empty and would be filled."""
        moves = (move for move in so_far.moves if move.candidate.wish.strategy == self.name)
        left = {move.candidate.source for move in moves}
        names = self.prepared.nodes.names
        return [names[node] for node in (*left, *self.nodes.idle)] if left and self.may_close else ()

    def serves(self, landings: Landings) -> BoolArray:
        """(nodes,) whether each is in use, and stays so, and has room below ``maxRequested``."""
        has_room = self._requested(landings) <= self.settings.max_requested
        return has_room & ~self._among(landings, self.emptying | self.nodes.empty)

    def objection(self, landings: Landings, at: int) -> str:
        """That a node is empty or to be emptied, or that too much of it would be requested."""
        if int(landings.rows[at]) in self.emptying | self.nodes.empty:
            return "is empty, or is to be emptied"
        requested, most = float(self._requested(landings)[at]), self.settings.max_requested
        return "" if requested <= most else f"would be requested to {requested:.1f} %, maxRequested {most:g}"

    def settings_behind(self, landings: Landings, at: int) -> tuple[str, ...] | None:
        """The setting without which the landing would do."""
        words = self.objection(landings, at)
        setting = "taintFor" if words.startswith("is empty") else "maxRequested"
        return (f"strategies.{self.name}.{setting}",) if words else ()

    def _requested(self, landings: Landings) -> FloatArray:
        """(nodes,) percent of cpu or memory that is requested with the pod, whichever is more."""
        state, rows = landings.state or self.prepared.state, landings.rows
        wanted = state.classes.requests[self.prepared.eviction.replacement(landings.pod).pod_class].incoming
        after = state.requested[rows, :2] + [wanted.get("cpu", 0), wanted.get("memory", 0)]
        percent: FloatArray = (100.0 * after / state.classes.allocatable[rows, :2].clip(1)).max(axis=1)
        return percent

    def spoils(self, landings: Landings) -> BoolArray | None:
        """(nodes,) those that are to be emptied, for pods of other strategies as well."""
        return self._among(landings, self.emptying) if self.emptying else None

    def spoiled(self, landings: Landings, at: int) -> str:
        """That the node is to be emptied."""
        return "is to be emptied"

    def report(self, plan: PartialPlan) -> StrategyReport:
        """How many nodes are emptied, at what cost, and what fits on the others then."""
        from rebalancer.planning.strategies.consolidation.report import report_of  # noqa: PLC0415 - numpy

        return report_of(self, plan)

    def plan_fields(self, plan: PartialPlan) -> Mapping[str, Any]:
        """Which nodes are closed while they are emptied, and for how long."""
        closed = self.prepared.inputs.closed if plan.moves else None
        return {"closed": closed, "closed_seconds": self.settings.taint_for} if closed else {}

    def _among(self, landings: Landings, nodes: frozenset[int]) -> BoolArray:
        among: BoolArray = self.prepared.nodes.ready & False
        among[list(nodes)] = True
        return among[landings.rows]
