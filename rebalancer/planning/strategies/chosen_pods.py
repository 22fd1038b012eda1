"""Settings that strategies share: which pods a strategy looks at, and in which states it wants them to be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Self

from pydantic import Field, model_validator

from rebalancer.policy.model import PolicyModel, Selector, Unique
from rebalancer.policy.schema import Namespaces
from rebalancer.policy.units import Duration

if TYPE_CHECKING:
    from rebalancer.cluster.arrays import BoolArray
    from rebalancer.cluster.pod_classes import PodClass
    from rebalancer.cluster.pods import PodCondition as Condition
    from rebalancer.cluster.pods import PodFields, PodTable

Texts = Annotated[tuple[str, ...], Unique]
Codes = Annotated[tuple[int, ...], Unique]


class ChosenPods(PolicyModel):
    """Which pods a strategy looks at, among those that may be evicted."""

    namespaces: Namespaces | None = Field(default=None, description="Only pods of these namespaces.")
    pod_selector: Selector | None = Field(default=None, description="Only pods with these labels.")
    include_owner_kinds: Texts = Field(default=(), description="Only of owners of these kinds.")
    exclude_owner_kinds: Texts = Field(default=(), description="Not of owners of these kinds.")

    @model_validator(mode="after")
    def _disjoint(self) -> Self:
        both = next((kind for kind in self.include_owner_kinds if kind in self.exclude_owner_kinds), None)
        if both is not None:
            raise ValueError(f"owner kind {both} is both included and excluded")
        return self

    def chooses(self, pod: PodClass) -> bool:
        """Whether the strategy looks at pods of a class."""
        kind = pod.owner.kind
        kinds = self.include_owner_kinds
        return (
            (self.namespaces is None or self.namespaces.allows(pod.namespace))
            and kind not in self.exclude_owner_kinds
            and (not kinds or kind in kinds)
            and (self.pod_selector is None or self.pod_selector.selects(pod.labels))
        )


class ConditionFor(PolicyModel):
    """A condition of a pod, and for how long it must have been as it is."""

    type: str = Field(min_length=1, description="Its type.")
    status: str = Field(default="", description="True, False or Unknown; any when empty.")
    reason: str = Field(default="", description="Its reason; any when empty.")
    min_since: Duration = Field(default=0.0, description="For at least this long.")

    @model_validator(mode="after")
    def _is_read(self) -> Self:
        from rebalancer.cluster.pods import USUAL_CONDITIONS  # noqa: PLC0415 - imports numpy

        if self.type in USUAL_CONDITIONS - {"Ready"} and self.status not in ("False", "Unknown"):
            other = 'write status: "False" or Unknown, or type: Ready'
            raise ValueError(f"since when {self.type} is True is not read; {other}")
        return self

    def is_met(self, condition: Condition, now: float) -> bool:
        """Whether a pod's condition is this one; one since nobody knows when has lasted for no time."""
        return (
            condition.type == self.type
            and self.status in ("", condition.status)
            and self.reason in ("", condition.reason)
            and (not self.min_since or now - condition.since >= self.min_since)
        )


class ChosenStates(ChosenPods):
    """The same, and the states that a pod must be in: one of each kind that is named."""

    states: Texts = Field(
        default=(),
        description="Only with one of these phases or reasons, such as CrashLoopBackOff.",
    )
    conditions: tuple[ConditionFor, ...] = Field(default=(), description="Only with one of these conditions.")
    exit_codes: Codes = Field(default=(), description="Only if a container ended with one of these.")
    including_init_containers: bool = Field(default=False, description="Look at init containers as well.")

    @property
    def names_states(self) -> bool:
        """Whether pods must be in a state at all."""
        return bool(self.states or self.conditions or self.exit_codes)

    def may_be_met(self, table: PodTable) -> BoolArray:
        """(pods,) which may be in such states, from the columns of a table alone."""
        import numpy as np  # noqa: PLC0415 - not before a plan is made

        from rebalancer.cluster.pods import PHASES  # noqa: PLC0415 - likewise

        def have(*fields: str) -> BoolArray:
            mask = np.zeros(len(table), np.bool_)
            for field in fields:
                mask[list(table.columns.few(field))] = True
            return mask

        may_meet = np.ones(len(table), np.bool_)
        if self.states:
            phases = [at for at, name in enumerate(PHASES) if name in self.states]
            may_meet &= np.isin(table.phase, phases) | have("reason", "containers")
        if self.conditions:
            by_ready = any(
                condition.type == "Ready" and condition.status in ("", "True")
                for condition in self.conditions
            )
            may_meet &= have("conditions") | (table.ready & by_ready)
        may_meet &= have("containers") if self.exit_codes else may_meet
        return may_meet

    def words(self, fields: PodFields, now: float) -> Sequence[str] | None:
        """Which of the states a pod is in, one of each kind; None where it is in none of one kind."""
        from rebalancer.cluster.pods import PHASES, PodCondition  # noqa: PLC0415 - imports numpy

        init = self.including_init_containers
        states = {PHASES[fields.phase], *fields.reasons(init=init)}
        codes = {report.exit_code for report in fields.reports(init=init)}
        ready = (PodCondition("Ready", "True", "", fields.ready_since),) if fields.ready else ()
        conditions = (*ready, *fields.conditions)
        words = []
        if self.states:
            words.append(next((f"its state is {state}" for state in self.states if state in states), ""))
        if self.conditions:
            words.append(self._condition_words(conditions, now))
        if self.exit_codes:
            words.append(
                next((f"a container ended with {code}" for code in self.exit_codes if code in codes), "")
            )
        return words if all(words) else None

    def _condition_words(self, conditions: Iterable[Condition], now: float) -> str:
        """The first condition that pods must have; empty where it is in none of them."""
        for condition in conditions:
            if any(chosen.is_met(condition, now) for chosen in self.conditions):
                return f"its condition {condition.type} is {condition.status}"
        return ""
