"""The strategy that spreads pods again where their topology spread constraints do not hold any more.

``landing.spread`` counts how many moves are left to do for a constraint. A pod moves from the fullest domains
if each landing leaves fewer to do for a constraint, and nobody may leave more to do for any. Nor does it move
to where another constraint that counts it has too many pods: it would have to move again.

Where no move does that, the scheduler places nothing in the emptiest domains, for want of room or because it
prefers others. Then pods move where they are at least spread more evenly:

    zones a, b, c have 4, 2, 0 pods, and c has no room    a to b: 3, 3, 0
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec.structs import replace
from pydantic import Field

from rebalancer.planning.strategies.strategy import Replaced, Strategy
from rebalancer.policy.model import PolicyModel, Unique

if TYPE_CHECKING:
    from rebalancer.cluster.arrays import BoolArray, PodRow
    from rebalancer.planning.builder import PartialPlan, PlanBuilder
    from rebalancer.planning.landing.purpose import Landings
    from rebalancer.planning.landing.spread import SpreadChanges, SpreadConstraint, SpreadConstraints
    from rebalancer.planning.plan import Move, StrategyReport
    from rebalancer.planning.prepared import PreparedInputs
    from rebalancer.scheduling.state.cluster_state import ClusterState

_NOTHING = "would leave its constraints as they are"
_AGAIN = "has too many pods of another constraint, for which it would have to move again"


class TopologySpreadSettings(PolicyModel):
    """Which constraints are to hold for running pods as well."""

    constraints: Annotated[tuple[Literal["DoNotSchedule", "ScheduleAnyway"], ...], Unique] = Field(
        default=("DoNotSchedule",), description="Constraints with one of these as whenUnsatisfiable."
    )
    default_constraints: bool = Field(
        default=False,
        description="Also the scheduler's default constraints.",
    )


class TopologySpread(Strategy):
    """Moves pods from the fullest domains of each constraint that does not hold."""

    name = "topologySpread"
    description = "Move the fewest pods that satisfy topology spread constraints again."
    settings_type = TopologySpreadSettings
    settings: TopologySpreadSettings
    settled = "its topology spread constraints hold without moving it"
    replaces = {
        "RemovePodsViolatingTopologySpreadConstraint": Replaced(
            {"includeSoftConstraints": "constraints"},
            difference="counts all pods as the scheduler does, protected ones as well, and moves a pod only "
            "where that leaves a constraint closer to its maxSkew and no other one further from it",
        )
    }

    def __init__(self, prepared: PreparedInputs, settings: PolicyModel) -> None:
        super().__init__(prepared, settings)
        self._evens = False  # whether it is enough that pods are spread more evenly

    @cached_property
    def _constraints(self) -> SpreadConstraints:
        from rebalancer.planning.landing.spread import SpreadConstraints  # noqa: PLC0415 - imports numpy

        of = self.prepared.schedulers, self.prepared.pods, self.settings.constraints
        return SpreadConstraints(*of, defaults=self.settings.default_constraints)

    def resume(self, moves: Sequence[Move]) -> None:
        self._evens = True

    def pods(self, plan: PlanBuilder) -> Iterable[PodRow]:
        """Those of constraints that do not hold, and of those that still do not, once more."""
        self._evens = False
        yield from self._fullest_first(plan)
        self._evens = True
        yield from self._fullest_first(plan)

    def _fullest_first(self, plan: PlanBuilder) -> Iterable[PodRow]:
        """Those of constraints that do not hold, of the fullest domains first, while any may move."""
        from rebalancer.cluster.arrays import PodRow  # noqa: PLC0415 - imports numpy

        prepared = self.prepared
        state = plan.scenarios.all[0].after_termination
        order = dict[PodRow, tuple[int, float, str]]()
        for constraint in () if plan.used.spent else self._constraints.all():
            left = constraint.counter.counts(state, keep=False).copy()
            if not constraint.moves_left(left):
                continue
            classes = state.classes.counters.classes(constraint.counter.counter)
            rows = [PodRow(row) for kind, _ in classes for row in state.first_of(kind).tolist()]
            costs = prepared.disruption.costs(rows).tolist()
            for cost, name, row in sorted(zip(costs, map(prepared.pods.full_name, rows), rows, strict=True)):
                domain = constraint.counter.values[prepared.node_of(row)]
                order[row] = min((-int(left[domain]), cost, name), order.get(row, (0, 0.0, "")))
                left[domain] -= 1
        for pod in sorted(order, key=order.__getitem__):
            if plan.used.spent:
                return
            yield pod

    def why(self, pod: PodRow, plan: PlanBuilder) -> str:
        """Which constraint a move to its emptiest domain would bring closer to its maxSkew."""
        state = plan.scenarios.all[0].after_termination
        if state.node[pod] < 0 or state.terminating[pod]:  # constraints count no others
            return ""
        counted = self._constraints.counters_of(state, state.pod_class[pod])
        all_of_them = self._constraints.of(state.classes[state.pod_class[pod]].namespace)
        words = (
            constraint.why_move(state, self.prepared.node_of(pod))
            for constraint in all_of_them
            if constraint.counter.counter in counted
        )
        return next(filter(None, words), "")

    def _changes(self, landings: Landings) -> Sequence[SpreadChanges]:
        """(nodes,) what each landing does to the constraints that it concerns."""
        if landings.state is None or landings.replacement is None:
            return ()
        of_pod = landings.pod, landings.source, landings.rows, landings.replacement
        return self._constraints.changes(landings.state, *of_pod)

    def objection(self, landings: Landings, at: int) -> str:
        """That a node leaves as much to do for every constraint, or has too many pods of another one."""
        changes = self._changes(landings)
        return self._objection_to(changes[at]) if changes else _NOTHING

    def serves(self, landings: Landings) -> Sequence[bool]:
        changes = self._changes(landings)
        if not changes:
            return [False] * len(landings.rows)
        return [not self._objection_to(change) for change in changes]

    def _objection_to(self, change: SpreadChanges) -> str:
        if self._evens and change.evens:
            return ""
        if not change.helps:
            return _NOTHING
        return _AGAIN if change.again else ""

    def spoils(self, landings: Landings) -> BoolArray | None:
        import numpy as np  # noqa: PLC0415 - not before a plan is made

        spoiled = [change.spoils for change in self._changes(landings)]
        return np.array(spoiled, np.bool_) if any(spoiled) else None

    def spoiled(self, landings: Landings, at: int) -> str:
        return "would bring a topology spread constraint further from its maxSkew"

    def _skewed(self, state: ClusterState) -> list[SpreadConstraint]:
        """The constraints that do not hold."""
        return [
            constraint
            for constraint in self._constraints.all()
            if constraint.moves_left(constraint.counter.counts(state, keep=False))
        ]

    def report(self, plan: PartialPlan) -> StrategyReport:
        """How many constraints do not hold, before and after the plan, and what no move can mend."""
        before = self._skewed(self.prepared.state)
        after = self._skewed(plan.scenarios.all[0].after_termination)
        words = (
            [f"constraints that do not hold: {len(before)}, after the plan {len(after)}"] if before else []
        )
        words += [f"{spent} is reached"] if after and (spent := plan.builder.used.spent) else []
        words += [constraint.lacks for constraint in after if constraint.lacks][:1]
        figures = {"skewed": float(len(before)), "skewedAfter": float(len(after))}
        return replace(super().report(plan), message="; ".join(words), figures=figures)
