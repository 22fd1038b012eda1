"""The strategy that empties nodes, so that an autoscaler, or whoever pays for them, can remove them.

A node is emptied as a whole or not at all: every pod that must leave it may be evicted and lands, by the
user's own scheduler configuration and in every scenario, on a node that is neither empty nor to be emptied.

A node on which such a pod may land stays in use. So what can be emptied depends on the order, and others are
tried as long as that is better and placements are left. Better is what saves more, then what costs less.

    n1 and n2 have 2 pods each, n3 has 3; the pods of n1 land on n2
    n1, n2, n3       n1 is emptied, n2 is in use now, and n3 finds no room: 1 node
    n3, n1, n2       the pods of n3 land on n2 and n4, and so do those of n1: 2 nodes
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from msgspec.structs import replace
from pydantic import AfterValidator, Field, model_validator

from rebalancer.counting import counted
from rebalancer.planning.reasons import Reason
from rebalancer.planning.strategies.strategy import Replaced, Strategy
from rebalancer.policy.model import Percent, PolicyModel, ResourceName, Selector, Unique, is_extended
from rebalancer.policy.units import Amount, AmountField, Duration

if TYPE_CHECKING:
    from rebalancer.cluster.arrays import BoolArray, FloatArray, PodRow
    from rebalancer.planning.builder import PartialPlan, PlanBuilder
    from rebalancer.planning.landing.purpose import Landings
    from rebalancer.planning.plan import Move, StrategyReport
    from rebalancer.planning.reasons import NotMoved
    from rebalancer.planning.strategies.whole_nodes import WholeNodes
    from rebalancer.policy.schema import RebalancePolicy

_CELLS = 600_000  # placements times nodes that orders after the first may take
_DIGITS = 6
_MAX_FAILED = 100_000  # nodes of one order that are not emptied, times all nodes
_TAKEN = "is empty, or is to be emptied"
_DIFFERENCE = (
    "empties whole nodes, and only where the scheduler places each of their pods on nodes that stay in use; "
    "at most 2 in a run (maxNodes), those first that save most for each eviction, and none younger than 1h "
    "(minNodeAge), hot or of the control plane; also where all nodes are below thresholds"
)


def _requestable(resource: str) -> str:
    if resource not in ("cpu", "memory", "pods") and not is_extended(resource):
        raise ValueError(
            f"{resource} is nothing that pods request: cpu, memory, pods or an extended resource"
        )
    return resource


Requestable = Annotated[ResourceName, AfterValidator(_requestable)]


class ConsolidationSettings(PolicyModel):
    """Which nodes may be emptied, and how full others become."""

    node_selector: Selector = Field(
        default=Selector.model_construct(), description="Labels of the nodes that may be emptied."
    )
    thresholds: Mapping[Requestable, Annotated[float, Field(ge=0, le=100)]] = Field(
        default={},
        description="Empty only nodes with at most this percentage requested: cpu, memory, extended "
        "resources, pods.",
    )
    number_of_nodes: int = Field(
        default=0,
        ge=0,
        description="Empty nodes only while more ready ones than this are within thresholds.",
    )
    eviction_modes: Annotated[tuple[Literal["OnlyThresholdingResources"], ...], Unique] = Field(
        default=(),
        description="OnlyThresholdingResources: skip nodes running a pod that requests none of the "
        "resources of thresholds.",
    )
    max_nodes: int = Field(default=2, ge=1, description="Most nodes emptied in a run.")
    keep: AmountField = Field(default=Amount(1), description="Nodes that stay in use.")
    max_requested: Percent = Field(
        default=100.0, description="Percentage of cpu and memory up to which requests may fill a node."
    )
    min_node_age: Duration = Field(default=3600.0, description="Skip younger nodes.")
    settle: Duration = Field(
        default=3600.0, description="Skip nodes that a run moved pods from or to within this time."
    )
    taint_for: Duration = Field(
        default=0.0,
        description="Nodes have a NoSchedule taint while they are emptied and so long afterwards; 0s: none.",
    )
    prices: Mapping[str, Annotated[float, Field(ge=0, allow_inf_nan=False)]] = Field(
        default={},
        description="Price of a node by its label node.kubernetes.io/instance-type.",
    )
    prices_file: str = Field(
        default="",
        description="A file of more prices beside the policy.",
    )
    allow_karpenter: bool = Field(default=False, description="Also empty nodes of Karpenter.")

    @model_validator(mode="after")
    def _names_resources(self) -> Self:
        if self.eviction_modes and not self.thresholds:
            raise ValueError("evictionModes needs thresholds, which name the resources")
        return self

    @property
    def closes_nodes(self) -> bool:
        """Whether nodes have a taint while they are emptied."""
        return self.taint_for > 0


class Consolidation(Strategy):
    """Empties nodes one after the other, those first that save most for what it costs."""

    name = "consolidation"
    label = "EmptiedNode"
    description = "Empty whole nodes, so that they can be removed."
    settled = "its node is not emptied any more"
    settings_type = ConsolidationSettings
    settings: ConsolidationSettings
    replaces = {"HighNodeUtilization": Replaced(difference=_DIFFERENCE)}
    emptying: frozenset[int] = frozenset()  # rows of nodes that are to be empty
    _moving: frozenset[str] = frozenset()  # uids of the pods that the plan moves, of whatever strategy
    order: tuple[int, ...] = ()  # in which nodes are tried
    closing = False  # whether the taint of emptied nodes is tried although the policy does not ask for it
    refused: Mapping[PodRow, NotMoved] = {}  # by pod of a node that was tried: why it stays

    @cached_property
    def nodes(self) -> WholeNodes:
        """What leaves each node, and what its removal saves."""
        from rebalancer.planning.strategies.whole_nodes import WholeNodes  # noqa: PLC0415 - imports numpy

        return WholeNodes(self.prepared, self.settings, self.name)

    @property
    def _max_emptied(self) -> int:
        empty = self.nodes.empty
        left = self.settings.max_nodes - self.nodes.emptied_before
        return min(left, int((~empty).sum()) - self.settings.keep.of(len(empty)))

    def why(self, pod: PodRow, plan: PlanBuilder) -> str:
        """How few pods its node would be rid of."""
        node = self.prepared.node_of(pod)
        if node < 0 or not self.nodes.saves(node):
            return ""
        name = self.prepared.nodes.names[node]
        count = int(self.nodes.leaving[node])
        return f"{name} is to be emptied: {counted(count, 'pod')} must leave it"

    def why_still(self, pod: PodRow, plan: PlanBuilder) -> str:
        """Its node is still being emptied, unless its owner or ``keep`` wants it, or pods that stay come."""
        node = self.prepared.node_of(pod)
        used = ~self.nodes.empty
        staying = int(used.sum()) - sum(bool(used[row]) for row in self.emptying)
        goes_on = (
            node in self.emptying
            and staying >= self.settings.keep.of(len(used))
            and self.nodes.is_given(node)
            and self._moving.issuperset(self.nodes.uids_on(node))
        )
        return "its node is being emptied" if goes_on else ""

    def resume(self, moves: Sequence[Move]) -> None:
        self._moving = frozenset(move.pod.uid for move in moves)
        left = {move.from_node for move in moves if move.strategy == self.name}
        self.emptying = frozenset(row for name, row in self.prepared.nodes.row.items() if name in left)

    def group(self, pod: PodRow) -> str:
        """The node that is emptied as a whole."""
        return self.prepared.nodes.names[self.prepared.node_of(pod)]

    def node_by_node(self, plan: PlanBuilder) -> Iterator[Iterator[PodRow]]:
        """Node by node, in an order; none on which pods may land, and no more pods after one that stays."""
        from rebalancer.planning.taints import EMPTIED  # noqa: PLC0415 - imports numpy

        if plan.used.spent or self._max_emptied < 1:
            return
        used = self.nodes.in_use(plan)
        emptied = list[int]()
        failed = 0
        self.order = self.order or tuple(self.nodes.candidates)
        yield from (iter([pod]) for pod in self.nodes.held)
        for node in self.order:
            if len(emptied) >= self._max_emptied or failed * len(self.nodes.leaving) > _MAX_FAILED:
                break
            if node in used:
                continue
            self.emptying = frozenset((*emptied, node))
            if self.closing or (self.settings.closes_nodes and self.prepared.so_far.closed is None):
                plan.taint(EMPTIED, (*self.nodes.idle, *self.emptying))
            made = len(plan.moves)
            placed = plan.evaluator.placed
            yield self._until_one_stays(node, plan)
            failed += len(plan.moves) == made and plan.evaluator.placed > placed
            if len(plan.moves) > made:
                emptied.append(node)
                used.update(*(move.evaluation.landings().rows.tolist() for move in plan.moves[made:]))
        self.emptying = frozenset(emptied)

    def _until_one_stays(self, node: int, plan: PlanBuilder) -> Iterator[PodRow]:
        for made, pod in enumerate(self.nodes.candidates[node][1], len(plan.moves)):
            yield pod
            if len(plan.moves) == made:
                return

    def extend(self, so_far: PartialPlan) -> PartialPlan:
        """The plan by the order that saves most, then costs least; and what a taint would add to it."""
        nodes = self.nodes

        def tried(order: tuple[int, ...]) -> tuple[tuple[float, float], PartialPlan, frozenset[int]]:
            self.order = order
            plan = self.moved_in_groups(so_far, self.node_by_node)
            emptied = self.emptying
            cost = sum(nodes.candidates[node][0] for node in emptied)
            saved = sum(nodes.saves(node) for node in emptied)
            return (round(saved, _DIGITS), -round(cost, _DIGITS)), plan, emptied

        from rebalancer.planning.builder import MAX_PLACEMENTS  # noqa: PLC0415 - imports numpy

        best = tried(())
        order = self.order
        evaluator = best[1].builder.evaluator
        tried_orders = {order}
        cells = evaluator.placed + _CELLS // max(len(nodes.leaving), 1)
        last = min(cells, MAX_PLACEMENTS // 2)
        # Where none is emptied, each was tried by itself, and another order finds no more.
        while 0 < len(best[2]) < self._max_emptied and evaluator.placed < last:
            other = next(
                (candidate for candidate in _others(order, best[2]) if candidate not in tried_orders), None
            )
            if other is None:
                break
            tried_orders.add(other)
            outcome = tried(other)
            if outcome[0] > best[0]:
                best = outcome
                order = other
        plan = best[1]
        tried_nodes = {*order, *map(self.prepared.node_of, nodes.held)}
        self.refused = {
            pod: why for pod, why in plan.staying.items() if self.prepared.node_of(pod) in tried_nodes
        }
        no_better = any(why.reason is Reason.NO_BETTER_LANDING for why in self.refused.values())
        if no_better and not self.settings.closes_nodes:
            self.closing = True
            more = len(tried(())[2])
            self.closing = False
            if more > len(best[2]):
                words = f"{counted(more, 'node')} could be emptied with a taint meanwhile"
                plan = replace(plan, notes={**plan.notes, self.name: f"{words} (taintFor)"})
        self.emptying = best[2]
        return plan

    def to_close(self, plan: PartialPlan) -> frozenset[str]:
        """The nodes that a plan empties, and with them those that are empty and would be filled."""
        emptied = {*self.sources(plan)}
        nodes = (*emptied, *self.nodes.idle) if emptied else ()
        return frozenset(self.prepared.nodes.names[node] for node in nodes)

    def _taken(self, landings: Landings) -> BoolArray:
        taken = self.nodes.empty.copy()
        taken[list(self.emptying)] = True
        of_landings: BoolArray = taken[landings.rows]
        return of_landings

    def _requested(self, landings: Landings) -> FloatArray:
        """(nodes,) percent of each that is requested with the replacement."""
        state = landings.state or self.prepared.state
        rows = landings.rows
        requests = state.classes.requests[self.prepared.eviction.replacement(landings.pod).pod_class].incoming
        after = state.requested[rows, :2] + [requests.get("cpu", 0), requests.get("memory", 0)]
        percent: FloatArray = (100.0 * after / state.classes.allocatable[rows, :2].clip(1)).max(axis=1)
        return percent

    def serves(self, landings: Landings) -> BoolArray:
        return ~self._taken(landings) & (self._requested(landings) <= self.settings.max_requested)

    def objection(self, landings: Landings, at: int) -> str:
        """That a node is empty or to be emptied, or that too much of it would be requested."""
        if self._taken(landings)[at]:
            return _TAKEN
        requested = self._requested(landings)[at]
        limit = self.settings.max_requested
        return (
            "" if requested <= limit else f"would be requested to {requested:.1f} %, maxRequested {limit:g}"
        )

    def settings_behind(self, landings: Landings, at: int) -> tuple[str, ...] | None:
        """The setting without which the landing would do."""
        words = self.objection(landings, at)
        setting = "taintFor" if words == _TAKEN else "maxRequested"
        return (f"strategies.{self.name}.{setting}",) if words else ()

    def spoils(self, landings: Landings) -> BoolArray | None:
        """(nodes,) those that are to be emptied, for pods of other strategies as well."""
        import numpy as np  # noqa: PLC0415 - not before a plan is made

        return np.isin(landings.rows, list(self.emptying)) if self.emptying else None

    def spoiled(self, landings: Landings, at: int) -> str:
        return "is to be emptied"

    def report(self, plan: PartialPlan) -> StrategyReport:
        """How many nodes are emptied, at what cost, and what fits on the others then."""
        report = super().report(plan)
        words, figures = self.nodes.emptied({*self.sources(plan)}, report.moves, plan)
        message = "; ".join(filter(None, (words, report.message, *self.nodes.left_alone(plan))))
        return replace(report, message=message, figures=figures)

    def plan_fields(self, plan: PartialPlan) -> Mapping[str, Any]:
        """Which nodes are closed while they are emptied, and for how long."""
        closed = self.prepared.so_far.closed if plan.moves else None
        return {"closed": closed, "closed_seconds": self.settings.taint_for} if closed else {}


def closes_nodes(policy: RebalancePolicy) -> bool:
    """Whether a policy wants nodes closed while they are emptied."""
    settings = Consolidation.settings_in(policy)
    return isinstance(settings, ConsolidationSettings) and settings.closes_nodes


def _others(order: tuple[int, ...], emptied: Collection[int]) -> Iterator[tuple[int, ...]]:
    """The same order with one of the nodes left first, or one of the emptied ones last."""
    for node in sorted(order, key=emptied.__contains__):
        others = tuple(other for other in order if other != node)
        yield (*others, node) if node in emptied else (node, *others)
