"""Everything a plan is a function of."""

from __future__ import annotations

from dataclasses import dataclass

from rebalancer.cluster.snapshot import Snapshot
from rebalancer.load.report import LoadReport
from rebalancer.load.scheduler_view import SchedulerView
from rebalancer.policy.schema import RebalancePolicy
from rebalancer.profiles.types import SchedulerConfiguration
from rebalancer.scheduling.versions.release import DEFAULT_FEATURE_GATES, FeatureGates, Release
from rebalancer.state.run_state import RunState


@dataclass(frozen=True, slots=True)
class SchedulerStart:
    """The latest moment at which the scheduler may have started, and how that is known, or why it is not."""

    at: float | None  # Unix seconds; None when not known
    because: str


@dataclass(frozen=True, eq=False)
class PlanningInputs:
    """The values a plan is made from: the same values, the same plan."""

    snapshot: Snapshot
    load: LoadReport
    view: SchedulerView
    configuration: SchedulerConfiguration
    policy: RebalancePolicy
    state: RunState | None
    now: float  # Unix seconds
    digest: str  # of all of the above
    seed: int = 0
    own_pod: str = ""  # namespace/name of the pod this program runs in
    system_workloads: frozenset[str] = frozenset()  # namespace/Kind/name of what plans rely on
    scheduler_version: str = ""  # major.minor; empty when not known
    feature_gates: FeatureGates = DEFAULT_FEATURE_GATES
    warnings: tuple[str, ...] = ()
    scheduler_cores: int | None = None  # that the scheduler runs on; None when not known
    scheduler_start: SchedulerStart | None = None  # None: long ago, or no plugin cares
    earlier_views: tuple[SchedulerView, ...] = ()  # read before; the scheduler may still have any of them

    @property
    def release(self) -> Release:
        """The scheduler that is modelled."""
        return Release.of(self.scheduler_version, self.feature_gates)
