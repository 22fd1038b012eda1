"""What every strategy of the search is: a step that takes a plan so far and returns it with moves added.

Strategies are peers. The planner calls them one after the other; each continues where the one before it
ended, and none knows of the others: limits, waves and scenarios are all in the plan builder that is handed
on.

To add one: write a class with ``extend`` in a file of its own, and name it in ``planner.strategies``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from rebalancer.cluster.arrays import PodRow
from rebalancer.planning.builder import PlanBuilder, PlannedMove
from rebalancer.planning.landing.scenarios import Scenarios
from rebalancer.planning.reasons import KeptReason


@dataclass(frozen=True, slots=True, eq=False)
class PartialPlan:
    """The moves found so far, and why other pods that were considered stay."""

    builder: PlanBuilder
    kept: Mapping[PodRow, KeptReason]
    raised_limit: str = ""  # what the next useful value of the limit that binds would give


class Strategy(Protocol):
    """One reason to move pods."""

    def extend(self, so_far: PartialPlan) -> PartialPlan:
        """The plan with this strategy's moves added; ``so_far`` is left as it was."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class SearchResult:
    """What the search decided."""

    moves: tuple[PlannedMove, ...]  # in the order they are made
    kept: Mapping[PodRow, KeptReason]  # every pod on a hot node that stays, and others that were considered
    scenarios: Scenarios  # the cluster once all moves are made
    placements: int  # scheduling cycles computed
    raised_limit: str = ""  # what the next useful value of the limit that binds would give

    @classmethod
    def of(cls, plan: PartialPlan) -> SearchResult:
        """The end of a search."""
        builder = plan.builder
        return cls(
            tuple(builder.moves),
            plan.kept,
            builder.scenarios,
            builder.evaluator.placements.computed,
            plan.raised_limit,
        )
