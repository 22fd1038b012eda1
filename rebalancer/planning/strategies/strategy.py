"""What a strategy is: whom it wishes to move, why, and what its pods must gain where they land.

Strategies are peers: the planner asks one after the other, and none knows of the others. A strategy only
wishes. Whether a pod may be evicted, which limits, budgets and quotas are left, in which wave it moves, and
whether its landing holds in every scenario is decided by the planner, in one way for all of them. So most
strategies are a sentence for each pod that they wish to move:

    class Lifetime(Strategy):
        name = "lifetime"
        description = "Move pods that are older than maxAge."
        settings_type = LifetimeSettings
        settings: LifetimeSettings

        def why(self, pod, plan):
            age = self.prepared.inputs.now - self.prepared.pods.created[pod]
            return f"it is {age_text(age)} old" if age > self.settings.max_age else ""

A strategy is made anew for each plan, and whenever moves of a plan are looked at again. What it decides is in
the plan: what it keeps besides, such as which nodes it is emptying, serves the rest of that one search, and
``resume`` gives it back from the moves.

Its module is imported with every policy that is read, for the settings. So it imports at its top only what is
light. What needs arrays or the scheduler's model is imported for types, or where it is used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from pydantic.alias_generators import to_snake

from rebalancer.planning.landing.purpose import Peer, Purpose
from rebalancer.planning.plan import StrategyReport
from rebalancer.policy.model import PolicyModel
from rebalancer.policy.strategies import ALWAYS_ON

if TYPE_CHECKING:
    from rebalancer.cluster.arrays import PodRow
    from rebalancer.cluster.pods import PodTable
    from rebalancer.planning.builder import PartialPlan, PlanBuilder, PlannedMove
    from rebalancer.planning.landing.evaluation import Wish
    from rebalancer.planning.plan import Move
    from rebalancer.planning.prepared import PreparedInputs
    from rebalancer.planning.reasons import Reason
    from rebalancer.policy.schema import RebalancePolicy


class Replaced(msgspec.Struct, frozen=True):
    """How a strategy takes the place of a plugin of descheduler.

    Arguments become the settings of the same name, those in seconds as durations.
    """

    settings: Mapping[str, str] = {}  # where their names differ, by argument
    difference: str = ""  # what the strategy does differently, in a clause; empty where it does the same
    # By argument that is a list: the setting that each item turns on, empty where that is done anyway.
    choices: Mapping[str, Mapping[str, str]] = {}
    defaults: Mapping[str, Any] = {}  # its arguments where a file does not state them
    adds: Mapping[str, Sequence[str]] = {}  # what a list among the settings has for this plugin


class Strategy(Purpose, Peer):
    """One reason to move pods; made anew for each plan. What it does not override says: as for any pod."""

    label: ClassVar[str] = ""
    """How metrics call it; without one the name with a capital letter."""
    description: ClassVar[str]
    """Whom it moves, in a sentence for the documentation of the policy."""
    settings_type: ClassVar[type[PolicyModel]] = PolicyModel
    """Its settings, each of which has a default; without any it is only turned on or off."""
    settled: ClassVar[str] = "the reason to move it is gone"
    """Why a planned move is not made where ``why_still`` is empty."""
    one_by_one: ClassVar[bool] = False
    """Whether a run moves only one pod of a workload, or as many as its disruption budgets allow at once."""
    replaces: ClassVar[Mapping[str, Replaced]] = {}
    """Plugins of descheduler whose place it takes, for ``policy import``."""

    left: str = ""  # how many pods ``until_spent`` gave no more, in words

    def __init_subclass__(cls, **options: Any) -> None:
        """Tell who writes a strategy what it lacks. Raises TypeError."""
        super().__init_subclass__(**options)
        fields = cls.settings_type.model_fields.items()
        if not getattr(cls, "description", ""):
            raise TypeError(f"strategy {cls.__name__} has no description: a sentence on whom it moves")
        if not re.fullmatch(r"[a-z]+([A-Z][a-z]+)*", getattr(cls, "name", "")):
            raise TypeError(f"strategy {cls.__name__} has no name in camel case, as emptyNodes")
        if without := [name for name, field in fields if field.is_required()]:
            raise TypeError(f"strategy {cls.__name__}: its setting {without[0]} has no default")

    def __init__(self, prepared: PreparedInputs, settings: PolicyModel) -> None:
        self.prepared = prepared
        self.settings = settings

    @classmethod
    def settings_in(cls, policy: RebalancePolicy) -> PolicyModel | None:
        """Its settings in a policy; None where the policy does not turn it on."""
        place = policy if cls.name in ALWAYS_ON else policy.strategies
        settings: PolicyModel | None = getattr(place, to_snake(cls.name))
        return settings

    # Whom it wishes to move.

    def pods(self, plan: PlanBuilder) -> Iterable[PodRow]:
        """The pods to ask ``why`` of, in the order in which they should move; by default all bound ones."""
        return self.prepared.bound_pods()

    def why(self, pod: PodRow, plan: PlanBuilder) -> str:
        """Why it wishes to move a pod, in words such as ``it is 30 d old``; empty where it does not.

        ``plan`` holds the moves so far.
        """
        raise NotImplementedError

    def why_remove(self, pods: PodTable, row: PodRow) -> str:
        """Why it wishes to remove a finished pod of a table; empty, as by default, where it does not."""
        return ""

    @property
    def removes_bare_pods(self) -> bool:
        """Whether it removes finished pods without a controller that exists too."""
        return False

    def why_still(self, pod: PodRow, plan: PlanBuilder) -> str:
        """The same of a planned move, asked before a later wave: where it is empty, the pod stays."""
        return self.why(pod, plan)

    def resume(self, moves: Sequence[Move]) -> None:
        """Learn which moves of a plan are carried out, before any of them is looked at again."""

    def wish(
        self, pod: PodRow, message: str, plan: PlanBuilder, makes_room_for: PodRow | None = None
    ) -> Wish:
        """The wish to move a pod, for another one where it ``makes_room_for`` that.

        ``message`` is why, and ``plan`` holds the moves so far.
        """
        from rebalancer.planning.landing.evaluation import Wish  # noqa: PLC0415 - imports numpy

        return Wish(self.name, self.purpose, message, self.lifts, makes_room_for)

    @property
    def lifts(self) -> Collection[Reason]:
        """What is no reason to keep a pod that is not ready, and that it wishes to move."""
        return ()

    def group(self, pod: PodRow) -> str:
        """What pods move together, all or none: they come one after the other. Empty for a pod by itself."""
        return ""

    def extend(self, so_far: PartialPlan) -> PartialPlan:
        """The plan with its moves added; ``so_far`` is left as it is.

        By default its pods are tried in their order. A strategy that chooses among plans overrides it.
        """

        def groups(plan: PlanBuilder) -> Iterator[Iterator[PodRow]]:
            return (pods for _, pods in groupby(self.pods(plan), key=lambda pod: self.group(pod) or pod))

        return self.moved_in_groups(so_far, groups)

    def moved_in_groups(
        self, so_far: PartialPlan, groups: Callable[[PlanBuilder], Iterable[Iterable[PodRow]]]
    ) -> PartialPlan:
        """The plan with those pods moved that it wishes to move and that hold, tried group by group.

        ``groups`` gives them for a plan that holds the moves so far: each is asked for once others moved.
        """
        from rebalancer.planning.strategies.one_by_one import move_in_groups  # noqa: PLC0415 - imports numpy

        def wish_of(pod: PodRow, plan: PlanBuilder) -> Wish:
            return self.wish(pod, self.why(pod, plan), plan)

        plan = move_in_groups(
            self.prepared, so_far, groups, wish_of, self.group, siblings_later=self.one_by_one
        )
        if self.left:
            plan = msgspec.structs.replace(plan, notes={**plan.notes, self.name: self.left})
        return plan

    def until_spent(self, pods: Sequence[PodRow], plan: PlanBuilder) -> Iterator[PodRow]:
        """Some pods one after the other until the run may move no more; how many are left is reported."""
        self.left = ""
        for at, pod in enumerate(pods):
            if spent := plan.used.spent:
                self.left = f"{len(pods) - at} more may move in later runs: {spent} is reached"
                return
            yield pod

    # What its pods must gain where they land: it is the purpose of its moves itself, or names another.

    @property
    def purpose(self) -> Purpose:
        """What landings are held to, beyond what holds for all of them."""
        return self

    # What it reports.

    def sentence(self, move: PlannedMove) -> str:
        """Why a pod moves, as the plan says it: a clause that the planned landing follows."""
        return move.candidate.wish.message

    def report(self, plan: PartialPlan) -> StrategyReport:
        """Its own part of the plan."""
        return StrategyReport(moves=len(self.sources(plan)), message=plan.notes.get(self.name, ""))

    def sources(self, plan: PartialPlan) -> Sequence[int]:
        """The node that each of its moves leaves."""
        return [move.candidate.source for move in plan.moves if move.candidate.wish.strategy == self.name]

    def plan_fields(self, plan: PartialPlan) -> Mapping[str, Any]:
        """Fields of the plan itself that it fills, for hot nodes, whose figures are older than ``report``."""
        return {}
