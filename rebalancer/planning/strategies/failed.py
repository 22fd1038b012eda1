"""The strategy that removes failed pods: what owns them has made others in their stead already."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pydantic import Field

from rebalancer.planning.reasons import age_text
from rebalancer.planning.strategies.chosen_pods import Codes, Texts
from rebalancer.planning.strategies.strategy import Replaced, Strategy
from rebalancer.policy.model import PolicyModel
from rebalancer.policy.units import Duration

if TYPE_CHECKING:
    from rebalancer.cluster.arrays import PodRow
    from rebalancer.cluster.pods import PodTable
    from rebalancer.planning.builder import PlanBuilder


class FailedSettings(PolicyModel):
    """Which failed pods are removed: all of them, or those that meet every condition."""

    min_age: Duration = Field(default=0.0, description="Only pods at least this old.")
    reasons: Texts = Field(default=(), description="Only with one of these reasons.")
    exit_codes: Codes = Field(default=(), description="Only if a container ended with one of these.")
    including_init_containers: bool = Field(default=False, description="Look at init containers as well.")
    exclude_owner_kinds: Texts = Field(default=(), description="Not of owners of these kinds.")
    bare_pods: bool = Field(default=False, description="Also pods without a controller.")


class Failed(Strategy):
    """Removes pods of phase Failed, as RemoveFailedPods of descheduler does."""

    name = "failed"
    description = "Remove pods that have failed."
    settings_type = FailedSettings
    settings: FailedSettings
    replaces = {
        "RemoveFailedPods": Replaced(
            {"minPodLifetimeSeconds": "minAge"}, defaults={"minPodLifetimeSeconds": 3600}
        )
    }

    @property
    def removes_bare_pods(self) -> bool:
        return self.settings.bare_pods

    def pods(self, plan: PlanBuilder) -> Iterable[PodRow]:
        """None: it moves no pod that runs."""
        return ()

    def why_remove(self, pods: PodTable, row: PodRow) -> str:
        from rebalancer.cluster.pods import PHASE_INDEX  # noqa: PLC0415 - imports numpy

        if pods.phase[row] != PHASE_INDEX["Failed"]:
            return ""
        settings = self.settings
        fields = pods.fields(row)
        kind = pods.class_of(row).owner.kind
        init = settings.including_init_containers
        age = self.prepared.inputs.now - fields.created
        reasons = fields.reasons(init=init)
        codes = {report.exit_code for report in fields.reports(init=init)}
        meets = not settings.reasons or not reasons.isdisjoint(settings.reasons)
        meets &= not settings.exit_codes or not codes.isdisjoint(settings.exit_codes)
        if not meets or kind in settings.exclude_owner_kinds or not age >= settings.min_age:
            return ""
        return f"it failed ({', '.join(sorted(reasons)) or 'no reason given'}) and is {age_text(age)} old"
