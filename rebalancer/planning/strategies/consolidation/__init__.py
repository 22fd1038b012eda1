"""The strategy that empties nodes, so that an autoscaler, or whoever pays for them, can remove them.

A node is emptied as a whole or not at all: every pod that must leave it may be evicted and lands, by the
user's own scheduler configuration and in every scenario, on a node that is neither empty nor to be emptied.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from rebalancer.planning.strategies.strategy import Replaced, Strategy
from rebalancer.policy.model import Percent, PolicyModel, Selector
from rebalancer.policy.units import Amount, AmountField, Duration

if TYPE_CHECKING:
    from rebalancer.cluster.arrays import BoolArray, FloatArray, NodeRow, PodRow
    from rebalancer.planning.builder import PartialPlan, PlanBuilder
    from rebalancer.planning.landing.landing_check import Landings
    from rebalancer.planning.plan import Move, StrategyReport
    from rebalancer.planning.strategies.consolidation.nodes import NodesToEmpty

_DIFFERENCE = (
    "empties whole nodes, and only where the scheduler places each of their pods on nodes that stay in use; "
    "no threshold chooses them, but what that saves for each eviction"
)


class ConsolidationSettings(PolicyModel):
    """Which nodes may be emptied, and how full others become."""

    node_selector: Selector = Field(
        default=Selector(), description="Labels of the nodes that may be emptied."
    )
    max_nodes: int = Field(default=2, ge=1, description="Maximum number of nodes emptied in one run.")
    keep: AmountField = Field(
        default=Amount(1), description="Least nodes that stay in use: a number, or a percentage of all nodes."
    )
    max_requested: Percent = Field(
        default=100.0,
        description="Percent of a node's cpu, and of its memory, up to which requests may fill it.",
    )
    min_node_age: Duration = Field(default=3600.0, description="A younger node is not emptied.")
    settle: Duration = Field(
        default=3600.0, description="A node that pods left or came to by a run is not emptied for so long."
    )
    taint_for: Duration = Field(
        default=0.0,
        description="With more than 0s, nodes have a NoSchedule taint while they are emptied, and so long "
        "afterwards if nobody removes them. It needs the right to patch nodes.",
    )
    prices: Mapping[str, Annotated[float, Field(ge=0)]] = Field(
        default={},
        description="Price of a node by its label node.kubernetes.io/instance-type; its annotation "
        "rebalancer/price comes first. Without any price every node saves the same.",
    )
    allow_karpenter: bool = Field(
        default=False, description="Empty nodes of Karpenter as well, which consolidates them itself."
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

    @cached_property
    def nodes(self) -> NodesToEmpty:
        """The nodes before the plan, and which of them are being emptied."""
        from rebalancer.planning.strategies.consolidation.nodes import NodesToEmpty  # noqa: PLC0415 - numpy

        return NodesToEmpty(self.prepared, self.settings.prices, self.settings.settle, self._why_not)

    def _why_not(self, node: NodeRow) -> str:
        """Why the policy lets nobody empty a node; empty where it does."""
        settings, labels = self.settings, self.prepared.labels_of(node)
        name, closed = self.prepared.nodes.names[node], self.prepared.inputs.closed
        if not settings.node_selector.matches(labels):
            return "nodeSelector does not select it"
        if self.nodes.of_karpenter[node] and not settings.allow_karpenter:
            return "Karpenter consolidates it"
        if settings.min_node_age > 0 and not self.nodes.age(node) >= settings.min_node_age:
            return "it is younger than minNodeAge"
        return "it is not closed" if self.may_close and closed is not None and name not in closed else ""

    def why(self, pod: PodRow, plan: PlanBuilder) -> str:
        """How few pods its node would be rid of."""
        node = self.prepared.node_of(pod)
        return "" if node < 0 or self.nodes.why_not(node) else self.nodes.words(node)

    def why_still(self, pod: PodRow, plan: PlanBuilder) -> str:
        """That its node is one of those that are being emptied."""
        return "its node is being emptied" if self.prepared.node_of(pod) in self.nodes.emptying else ""

    def resume(self, moves: Sequence[Move]) -> None:
        """The nodes that planned moves leave are being emptied."""
        left = {move.from_node for move in moves if move.strategy == self.name}
        self.nodes.emptying = frozenset(row for name, row in self.prepared.nodes.row.items() if name in left)

    def group(self, pod: PodRow) -> str:
        """The node that is emptied as a whole."""
        return self.prepared.nodes.names[self.prepared.node_of(pod)]

    def extend(self, so_far: PartialPlan) -> PartialPlan:
        """The plan with the nodes emptied that save most at the least disruption."""
        from rebalancer.planning.strategies.consolidation.search import with_emptied  # noqa: PLC0415 - numpy

        least = self.settings.keep.of(len(self.prepared.nodes))
        return with_emptied(self, self.nodes, so_far, self.settings.max_nodes, least)

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
        return has_room & ~self.nodes.among(landings.rows, self.nodes.emptying | self.nodes.empty)

    def objection(self, landings: Landings, at: int) -> str:
        """That a node is empty or to be emptied, or that too much of it would be requested."""
        if int(landings.rows[at]) in self.nodes.emptying | self.nodes.empty:
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
        return self.nodes.among(landings.rows, self.nodes.emptying) if self.nodes.emptying else None

    def spoiled(self, landings: Landings, at: int) -> str:
        """That the node is to be emptied."""
        return "is to be emptied"

    def report(self, plan: PartialPlan) -> StrategyReport:
        """How many nodes are emptied, at what cost, and what fits on the others then."""
        from rebalancer.planning.strategies.consolidation.report import report_of  # noqa: PLC0415 - numpy

        of_karpenter = 0 if self.settings.allow_karpenter else sum(self.nodes.of_karpenter)
        left = f"{of_karpenter} left to Karpenter (allowKarpenter)" if of_karpenter else ""
        return report_of(self.nodes, plan, self.name, left)

    def plan_fields(self, plan: PartialPlan) -> Mapping[str, Any]:
        """Which nodes are closed while they are emptied, and for how long."""
        closed = self.prepared.inputs.closed if plan.moves else None
        return {"closed": closed, "closed_seconds": self.settings.taint_for} if closed else {}
