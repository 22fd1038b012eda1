"""The strategy that relieves hot nodes: it moves their pods until each is down to its coolTo.

``planning.hotness`` says when a node is hot, since every landing is held to it. Here is what becomes of the
pods of such nodes: ``search`` finds the best plan, ``relief`` says what higher limits would give, and
``report`` weighs what that leaves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from rebalancer.planning.strategies.strategy import Strategy
from rebalancer.policy.hotness import HotNodes as HotNodesSettings

if TYPE_CHECKING:
    from rebalancer.cluster.arrays import FloatArray, NodeRow, PodRow
    from rebalancer.planning.builder import PartialPlan, PlanBuilder, PlannedMove
    from rebalancer.planning.landing.evaluation import Wish
    from rebalancer.planning.landing.purpose import Purpose


class HotNodes(Strategy):
    """Searches among whole plans for the one that leaves least excess."""

    name = "hotNodes"
    label = "HotNode"
    settled = "its node has cooled without moving it"
    description = "Move pods of nodes that are hot."
    settings_type = HotNodesSettings
    settings: HotNodesSettings

    def why(self, pod: PodRow, plan: PlanBuilder) -> str:
        """That its node is hot, and above its coolTo."""
        return self._above(pod, plan) if self.prepared.hotness.hot[self.prepared.node_of(pod)] else ""

    def why_still(self, pod: PodRow, plan: PlanBuilder) -> str:
        """That its node is above its coolTo, which is enough for a move that is planned already."""
        return self._above(pod, plan)

    def _above(self, pod: PodRow, plan: PlanBuilder) -> str:
        node = self.prepared.node_of(pod)
        percent = plan.expected_percent(node)
        return "" if self.prepared.hotness.is_cool(node, percent) else self._levels(node, percent)

    def extend(self, so_far: PartialPlan) -> PartialPlan:
        """The plan with the moves that relieve hot nodes."""
        from rebalancer.planning.landing.evaluation import Wish  # noqa: PLC0415 - imports numpy
        from rebalancer.planning.strategies.hot_nodes.relief import relieve  # noqa: PLC0415 - the same

        return relieve(self.prepared, Wish(self.name, self.purpose), so_far)

    @property
    def purpose(self) -> Purpose:
        """A landing must be cooler than the node left, by minGain where that must cool."""
        return self.prepared.cooler_node

    def wish(
        self, pod: PodRow, message: str, plan: PlanBuilder, makes_room_for: PodRow | None = None
    ) -> Wish:
        """A pod that makes room may land on the node of the other one, which leaves it for that room."""
        from rebalancer.planning.strategies.hot_nodes.search import purpose_of_room  # noqa: PLC0415 - imports numpy

        wish = super().wish(pod, message, plan, makes_room_for)
        if makes_room_for is None:
            return wish
        return replace(wish, purpose=purpose_of_room(self.prepared, makes_room_for, plan))

    def group(self, pod: PodRow) -> str:
        """The node, where it is to be made cool or left alone."""
        partial = self.prepared.policy.planning.partial_relief
        return "" if partial else self.prepared.nodes.names[self.prepared.node_of(pod)]

    def sentence(self, move: PlannedMove) -> str:
        """How far the node was above its coolTo when the move was planned, or for whom it makes room."""
        return move.candidate.wish.message or self._levels(move.candidate.source, move.before)

    def _levels(self, node: NodeRow, percent: FloatArray) -> str:
        """The figures for which pods leave a node: above coolTo, or in what it is hot where none is."""
        hotness = self.prepared.hotness
        shown = hotness.to_cool(node, percent)
        if not shown.any():
            shown = hotness.resources[node]
        levels = ", ".join(
            f"{percent[column]:.1f} % {resource} (cool at {hotness.cool_to[node, column]:.1f} %)"
            for column, resource in enumerate(hotness.names)
            if shown[column]
        )
        return f"{self.prepared.inputs.snapshot.nodes.names[node]} is at {levels}"

    def plan_fields(self, plan: PartialPlan) -> Mapping[str, Any]:
        """What is gained, what it costs, which nodes stay hot, and what keeps them so."""
        from rebalancer.planning.strategies.hot_nodes.report import report_fields  # noqa: PLC0415 - imports numpy

        return report_fields(self.prepared, plan)
