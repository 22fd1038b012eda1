"""The strategy that empties nodes, so that an autoscaler, or whoever pays for them, can remove them.

A node is emptied as a whole or not at all: every pod that must leave it may be evicted and lands, by the
user's own scheduler configuration and in every scenario, on a node that is neither empty nor to be emptied.
``search`` finds the nodes that save most at the least disruption, ``report`` says what that gains.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

from msgspec.structs import replace
from pydantic import Field

from rebalancer.planning.strategies.strategy import Replaced, Strategy
from rebalancer.policy.model import Percent, PolicyModel, Selector
from rebalancer.policy.units import Amount, AmountField, Duration

if TYPE_CHECKING:
    from rebalancer.cluster.arrays import BoolArray, FloatArray, PodRow
    from rebalancer.planning.builder import PartialPlan, PlanBuilder
    from rebalancer.planning.landing.landing_check import Landings
    from rebalancer.planning.plan import Move, StrategyReport

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
        default=90.0,
        description="Percent of a node's allocatable cpu, and of its memory, up to which pods of emptied "
        "nodes may fill it by their requests.",
    )
    min_node_age: Duration = Field(
        default=3600.0, description="A younger node is not emptied: it was added for pods that come."
    )
    settle: Duration = Field(
        default=3600.0, description="A node that pods left or came to by a run is not emptied for so long."
    )
    prices: Mapping[str, Annotated[float, Field(ge=0)]] = Field(
        default={},
        description="Price of a node by its instance type, the label node.kubernetes.io/instance-type; the "
        "node's annotation rebalancer/price comes first. Without prices every node saves the same.",
    )
    allow_karpenter: bool = Field(
        default=False, description="Empty nodes of Karpenter as well, which consolidates them itself."
    )


class Consolidation(Strategy):
    """Empties nodes one after the other, those first that save most for what they cost."""

    name = "consolidation"
    label = "EmptiedNode"
    description = "Empty whole nodes, so that they can be removed: true, false, or its settings."
    settled = "its node is not emptied any more"
    settings_type = ConsolidationSettings
    settings: ConsolidationSettings
    replaces = {"HighNodeUtilization": Replaced(difference=_DIFFERENCE)}
    emptying: frozenset[int] = frozenset()  # rows of nodes that are to be empty
    empty: frozenset[int] = frozenset()  # rows of those that are so before the plan

    def pods(self, plan: PlanBuilder) -> Iterable[PodRow]:
        """The pods that must leave the nodes that may be emptied."""
        from rebalancer.planning.strategies.consolidation.nodes import NodesToEmpty  # noqa: PLC0415 - numpy

        nodes = NodesToEmpty(self.prepared, self.settings)
        return [pod for node in nodes.candidates() for pod in nodes.leaving(node)]

    def why(self, pod: PodRow, plan: PlanBuilder) -> str:
        """How few pods its node would be rid of."""
        from rebalancer.planning.strategies.consolidation.nodes import NodesToEmpty  # noqa: PLC0415 - numpy

        nodes, node = NodesToEmpty(self.prepared, self.settings), self.prepared.node_of(pod)
        return "" if nodes.why_not(node) else nodes.words(node)

    def why_still(self, pod: PodRow, plan: PlanBuilder) -> str:
        """That its node is one of those that are being emptied."""
        return "its node is being emptied" if self.prepared.node_of(pod) in self.emptying else ""

    def resume(self, moves: Sequence[Move]) -> None:
        """The nodes that planned moves leave are being emptied."""
        from rebalancer.planning.strategies.consolidation.nodes import NodesToEmpty  # noqa: PLC0415 - numpy

        row = self.prepared.nodes.row
        left = {row[move.from_node] for move in moves if move.strategy == self.name and move.from_node in row}
        self.emptying, self.empty = frozenset(left), NodesToEmpty(self.prepared, self.settings).empty

    def extend(self, so_far: PartialPlan) -> PartialPlan:
        """The plan with the nodes emptied that save most at the least disruption."""
        from rebalancer.planning.strategies.consolidation.search import Emptying  # noqa: PLC0415 - numpy

        search = Emptying(self, so_far)
        found = search.best()
        moved = {move.candidate.row for move in found.builder.moves}
        kept = {**so_far.kept, **search.kept, **found.kept}
        kept = {pod: why for pod, why in kept.items() if pod not in moved}
        return replace(so_far, builder=found.builder, kept=kept)

    def serves(self, landings: Landings) -> BoolArray:
        """(nodes,) whether each is in use, and stays so, and has room below ``maxRequested``."""
        has_room = self._requested(landings) <= self.settings.max_requested
        return has_room & ~_among(landings, self.emptying | self.empty)

    def objection(self, landings: Landings, at: int) -> str:
        """That a node is empty or to be emptied, or that too much of it would be requested."""
        requested, most = float(self._requested(landings)[at]), self.settings.max_requested
        if int(landings.rows[at]) in self.emptying | self.empty:
            return "is empty, or is to be emptied"
        return "" if requested <= most else f"would be requested to {requested:.1f} %, maxRequested {most:g}"

    def _requested(self, landings: Landings) -> FloatArray:
        """(nodes,) percent of cpu or memory that is requested with the pod, whichever is more."""
        state = landings.state or self.prepared.state
        classes, rows = state.classes, landings.rows
        kind = self.prepared.candidate(landings.pod).replacement
        wanted = state.requested[rows, :2] + classes.vector(classes.requests[kind].incoming)[:2]
        percent: FloatArray = (100.0 * wanted / classes.allocatable[rows, :2].clip(1)).max(axis=1)
        return percent

    def settings_behind(self, landings: Landings, at: int) -> tuple[str, ...] | None:
        """``maxRequested``, where that is it."""
        if int(landings.rows[at]) in self.emptying | self.empty:
            return None
        return (f"strategies.{self.name}.maxRequested",) if self.objection(landings, at) else ()

    def spoils(self, landings: Landings) -> BoolArray | None:
        """(nodes,) those that are to be emptied, for pods of other strategies as well."""
        return _among(landings, self.emptying) if self.emptying else None

    def spoiled(self, landings: Landings, at: int) -> str:
        """That the node is to be emptied."""
        return "is to be emptied"

    def report(self, plan: PartialPlan) -> StrategyReport:
        """How many nodes are emptied, at what cost, and what fits on the others then."""
        from rebalancer.planning.strategies.consolidation.report import report_of  # noqa: PLC0415 - numpy

        return report_of(self, plan)


def _among(landings: Landings, nodes: frozenset[int]) -> BoolArray:
    """(nodes,) which of them are among some."""
    import numpy as np  # noqa: PLC0415 - the module is imported with every policy

    return np.isin(landings.rows, list(nodes))
