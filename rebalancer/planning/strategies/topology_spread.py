"""The strategy that spreads pods again where their topology spread constraints do not hold any more.

``landing.spread`` counts how many moves are left to do for a constraint. A pod moves from the fullest domains
if each landing leaves fewer to do for a constraint, and nobody may leave more to do for any. Nor does it move
to where another constraint that counts it has too many pods: it would have to move again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from rebalancer.planning.strategies.strategy import Replaced, Strategy
from rebalancer.policy.model import PolicyModel, Unique

if TYPE_CHECKING:
    from rebalancer.cluster.arrays import BoolArray, IntArray, PodRow
    from rebalancer.planning.builder import PlanBuilder
    from rebalancer.planning.landing.landing_check import Landings
    from rebalancer.planning.landing.spread import SpreadConstraints
    from rebalancer.scheduling.state.cluster_state import ClusterState

_NOTHING = "would leave its constraints as they are"
_AGAIN = "has too many pods of another constraint, for which it would have to move again"


class TopologySpreadSettings(PolicyModel):
    """Which constraints are to hold for running pods as well."""

    constraints: Annotated[tuple[Literal["DoNotSchedule", "ScheduleAnyway"], ...], Unique] = Field(
        default=("DoNotSchedule",), description="Those with one of these as whenUnsatisfiable."
    )
    default_constraints: bool = Field(
        default=False,
        description="Also those that the scheduler's configuration has for pods without any of their own.",
    )


class TopologySpread(Strategy):
    """Moves pods from the fullest domains of each constraint that does not hold."""

    name = "topologySpread"
    description = "Spread pods again, by the fewest moves, whose constraints hold no more: true, or settings."
    settings_type = TopologySpreadSettings
    settings: TopologySpreadSettings
    minds_nodes = True
    settled = "its topology spread constraints hold without moving it"
    replaces = {
        "RemovePodsViolatingTopologySpreadConstraint": Replaced(
            difference="counts all pods as the scheduler does, protected ones as well, and moves a pod only "
            "where that leaves a constraint closer to its maxSkew and no other one further from it"
        )
    }

    @cached_property
    def _constraints(self) -> SpreadConstraints:
        from rebalancer.planning.landing.spread import SpreadConstraints  # noqa: PLC0415 - imports numpy

        of = self.prepared.schedulers, self.prepared.pods, self.settings.constraints
        return SpreadConstraints(*of, defaults=self.settings.default_constraints)

    def _counted(self, state: ClusterState, pod_class: int) -> Mapping[int, int]:
        """The counters in which pods of a class count."""
        if not self._constraints.of(state.classes[pod_class].namespace):  # which makes their counters
            return {}
        return {entry.counter: entry.weight for entry in state.classes.counters.entries(pod_class)}

    def pods(self, plan: PlanBuilder) -> Iterable[PodRow]:
        """Those of constraints that do not hold, of the fullest domains first, while any may move."""
        from rebalancer.cluster.arrays import PodRow  # noqa: PLC0415 - imports numpy
        from rebalancer.planning.disruption_cost import Disruption  # noqa: PLC0415 - likewise

        prepared, state = self.prepared, plan.scenarios.all[0].after_termination
        cost_of = Disruption(prepared.inputs, prepared.eviction.workloads).costs
        order = dict[PodRow, tuple[int, float, str]]()
        for item in () if plan.used.is_spent else self._constraints.all():
            if not item.may_be_skewed(state):
                continue
            left = item.counter.counts(state, keep=False).copy()
            if not item.moves_left(left):
                continue
            classes = state.classes.counters.classes(item.counter.counter)
            rows = [PodRow(row) for kind, _ in classes for row in state.first_of(kind).tolist()]
            costs = cost_of(rows).tolist() if rows else []
            for cost, name, row in sorted(zip(costs, map(prepared.pods.full_name, rows), rows, strict=True)):
                domain = item.counter.values[prepared.node_of(row)]
                order[row] = min((-int(left[domain]), cost, name), order.get(row, (0, 0.0, "")))
                left[domain] -= 1
        for pod in sorted(order, key=order.__getitem__):
            if plan.used.is_spent:
                return
            yield pod

    def why(self, pod: PodRow, plan: PlanBuilder) -> str:
        """Which constraint a move to its emptiest domain would bring closer to its maxSkew."""
        import numpy as np  # noqa: PLC0415 - not before a plan is made

        state, node = plan.scenarios.all[0].after_termination, self.prepared.node_of(pod)
        counted = self._counted(state, state.pod_class[pod])
        stays = state.node[pod] >= 0 and not state.terminating[pod]  # constraints count no others
        for item in self._constraints.of(state.classes[state.pod_class[pod]].namespace) if stays else ():
            if item.counter.counter not in counted or not item.counts_on(np.array([node]))[0]:
                continue
            counts, values = item.counter.counts(state), item.counter.values
            emptiest = min(item.counter.populated.tolist(), key=lambda domain: int(counts[domain]))
            there = (values == emptiest).nonzero()[0]
            there = there[item.counts_on(there)][:1]
            if item.moves_more(state, node, there, 1, 1)[0][0] < 0:
                constraint = item.counter.constraint
                names = state.nodes.labels.column(constraint.topology_key).names
                here = int(values[node])
                return (
                    f"{constraint.topology_key} {names[here]} has {counts[here]} pods of its constraint, "
                    f"{names[emptiest]} {counts[emptiest]}, maxSkew {constraint.max_skew}"
                )
        return ""

    def _moves_more(self, landings: Landings) -> Sequence[tuple[IntArray, BoolArray]]:
        """(nodes,) what each landing does to the constraints that it concerns, as ``moves_more`` says."""
        state = landings.state
        if state is None or landings.replacement is None:
            return ()
        leaves = self._counted(state, state.pod_class[landings.pod])
        comes = self._counted(state, landings.replacement)
        return [
            item.moves_more(state, landings.source, landings.rows, leaves.get(at, 0), comes.get(at, 0))
            for item in self._constraints.of(state.classes[landings.replacement].namespace)
            if (at := item.counter.counter) in leaves or at in comes
        ]

    def objections(self, landings: Landings) -> Sequence[str]:
        """That a node leaves as much to do for every constraint, or has too many pods of another one."""
        found, nodes = self._moves_more(landings), range(len(landings.rows))
        fewer = [any(more[at] < 0 for more, _ in found) for at in nodes]
        again = [any(too_many[at] for _, too_many in found) for at in nodes]
        return [_AGAIN * again[at] if fewer[at] else _NOTHING for at in nodes]

    def spoils(self, landings: Landings) -> BoolArray | None:
        spoiled: BoolArray | None = None
        for more, _ in self._moves_more(landings):
            spoiled = more > 0 if spoiled is None else spoiled | (more > 0)
        return spoiled

    def spoiled(self, landings: Landings, at: int) -> str:
        return "would bring a topology spread constraint further from its maxSkew"
