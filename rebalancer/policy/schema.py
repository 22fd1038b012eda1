"""The schema of a RebalancePolicy: every key, its default and its meaning in one sentence.

The JSON schema, the printed policy and the documentation are made from these models.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from rebalancer.policy.evictability import Evictable
from rebalancer.policy.hotness import HotNodes
from rebalancer.policy.load_sources import (
    PREDICTED_PEAK,
    LoadSource,
    MetricsServer,
    MetricsServerSource,
    Signal,
    SignalName,
    Statistic,
    check_signals,
)
from rebalancer.policy.model import CountOfPods, PolicyModel, setting
from rebalancer.policy.planning_settings import Planning
from rebalancer.policy.schedulers import SchedulerSettings
from rebalancer.policy.scopes import Scope
from rebalancer.policy.strategies import Strategies, no_strategies
from rebalancer.policy.units import Amount, AmountField, Duration, Percentage

API_VERSION = "rebalancer/v1alpha1"
KIND = "RebalancePolicy"
_DAY_SECONDS = 86_400.0


class Metadata(PolicyModel):
    """The name of the policy."""

    name: str = setting("default", "Name of the policy, shown in reports.", min_length=1, max_length=253)


class LoadSettings(PolicyModel):
    """How the load of nodes and pods is measured."""

    sources: tuple[LoadSource, ...] = setting(
        (MetricsServerSource.model_construct(metrics_server=MetricsServer.model_construct()),),
        "For each node and resource, the first source with a fresh figure is used.",
        min_length=1,
    )
    window: Duration = setting(
        0.0,
        "How far back figures look; for sources without a history, over the samples of earlier runs.",
        le=86400,
    )
    statistic: Statistic = setting(
        "mean",
        "Statistic over the window: mean, max, meanPlusDeviation, predictedPeak, or a percentile such as "
        "p95; or one by resource, such as {cpu: p66}, the mean for others.",
    )
    signals: Annotated[Mapping[SignalName, Signal], AfterValidator(check_signals)] = setting(
        {}, "Resources of your own, by name, read from the policy's Prometheus sources."
    )
    max_age: Duration = setting(180.0, "Maximum age of a fresh figure.", gt=0)
    min_coverage: Percentage = setting(
        0.8,
        "Share of the nodes that must have a fresh figure for a run to act. A node that no pod may leave or "
        "land on does not count.",
    )

    @model_validator(mode="after")
    def _with_a_window(self) -> Self:
        if not self.window and (not isinstance(self.statistic, str) or self.statistic == PREDICTED_PEAK):
            raise ValueError("this statistic needs a window to be taken over; set load.window, e.g. 15m")
        return self


Rate = Annotated[CountOfPods, Field(ge=0)] | None


class ScopedLimit(Scope):
    """How many of the pods of some nodes or namespaces may be evicted."""

    per_run: Rate = setting(None, "Most evictions of these pods in a run.")
    per_hour: Rate = setting(None, "The same within an hour, earlier runs included.")
    per_day: Rate = setting(None, "The same within 24 hours.")

    @model_validator(mode="after")
    def _limits_something(self) -> Self:
        if self.is_for_all or (self.per_run, self.per_hour, self.per_day) == (None, None, None):
            raise ValueError(
                "needs nodeSelector or namespaces, and perRun, perHour or perDay; "
                "limits for all pods are keys of limits"
            )
        return self


class Limits(PolicyModel):
    """How many pods may be evicted."""

    per_run: CountOfPods = setting(20, "Most evictions in a run.", ge=0)
    per_node: CountOfPods = setting(4, "Most evictions from one node in a run.", ge=0)
    per_namespace: CountOfPods = setting(10, "Most evictions from one namespace in a run.", ge=0)
    per_workload: AmountField = setting(
        Amount(10, percent=True),
        "Most evictions from one workload in a run; a percentage is of its desired replicas.",
    )
    per_hour: Rate = setting(
        None,
        "Most evictions within an hour, those of earlier runs included; a run that does not know these "
        "refuses to act. Removed pods that had finished do not count.",
    )
    per_day: Rate = setting(None, "The same within 24 hours.")
    scoped: tuple[ScopedLimit, ...] = setting(
        (),
        "Further limits for the pods of some nodes or namespaces.",
    )

    @property
    def rates(self) -> tuple[str, ...]:
        """The keys that count evictions of earlier runs; empty where none does."""
        every: tuple[Limits | ScopedLimit, ...] = (self, *self.scoped)
        hour = any(item.per_hour is not None for item in every)
        day = any(item.per_day is not None for item in every)
        return (*(("perHour",) if hour else ()), *(("perDay",) if day else ()))


class Execution(PolicyModel):
    """How evictions are carried out."""

    wave_size: int = setting(5, "Most evictions in one wave.", ge=1)
    first_wave: int = setting(1, "Most evictions in the first wave.", ge=1)
    wave_timeout: Duration = setting(300.0, "How long a wave waits for its replacements to be ready.", gt=0)
    pause_between_waves: Duration = setting(0.0, "How long a run waits between two waves.", le=86_400)
    max_duration: Duration | None = setting(
        None,
        "A run begins no wave after this time; the last one takes up to waveTimeout more. --max-duration "
        "goes before it. Unset: 5m for rebalancer serve, no limit for rebalancer run.",
        gt=0,
    )
    wait_for_measurement: Duration = setting(
        0.0,
        "How long a run waits at its end, at most, for load figures from after its moves.",
        le=3600,
    )
    on_unexpected_landing: Literal["stop", "continue"] = setting(
        "stop", "What to do when a replacement lands where the plan did not allow."
    )
    replan: bool = setting(
        True,
        "Plan again, within the same limits, when moves were skipped or landed elsewhere than most "
        "likely, or nodes stay hot.",
    )
    steer: Literal["none", "softTaint"] = setting(
        "none",
        "softTaint: while a run evicts, hot nodes have a PreferNoSchedule taint, so that the scheduler "
        "prefers others. This needs the right to patch nodes.",
    )
    steer_limit: Duration = setting(
        900.0,
        "With steer: a run begins no wave of a plan after this time.",
        gt=0,
    )
    steer_karpenter: bool = setting(
        False,
        "Steer on nodes of Karpenter too, which may add a node rather than use one with a soft taint.",
    )

    @model_validator(mode="after")
    def _first_wave_fits(self) -> Self:
        if self.first_wave > self.wave_size:
            raise ValueError(f"firstWave {self.first_wave} is larger than waveSize {self.wave_size}")
        return self


class Safety(PolicyModel):
    """Conditions that stop a run; they are checked before each wave, pause before each eviction."""

    pause: bool = setting(
        False,
        "Evict nothing. A run that is at work is paused by creating the ConfigMap rebalancer-pause beside "
        "its lease (LEASE-pause for a lease of another name).",
    )
    max_not_ready_nodes: AmountField = setting(
        Amount(5, percent=True),
        "Stop when more nodes than this are not ready.",
    )
    max_pending_pods: AmountField = setting(
        Amount(20),
        "Stop when more pods than this are Pending; a percentage is of the pods when the plan was made.",
    )
    unknown_scheduler: Literal["stop", "proceed"] = setting(
        "stop",
        "What to do when it cannot be determined whether the plan's scheduler is alive. One that is known to "
        "be down always stops the run.",
    )
    min_agreement: Percentage | None = setting(
        None,
        "Share of the scheduler's own decisions that must be known to have landed as computed (rebalancer "
        "agreement) for a run to act.",
    )


class RebalancePolicy(PolicyModel):
    """The rebalancing policy of one cluster."""

    model_config = ConfigDict(defer_build=True)  # until the first is read: strategies declare settings too

    api_version: Literal["rebalancer/v1alpha1"] = setting("rebalancer/v1alpha1", "Version of this schema.")
    kind: Literal["RebalancePolicy"] = setting("RebalancePolicy", "Kind of this document.")
    metadata: Metadata = setting(Metadata.model_construct(), "Name of the policy.")
    scheduler: SchedulerSettings = setting(
        SchedulerSettings.model_construct(), "The scheduler that places replacements."
    )
    load: LoadSettings = setting(LoadSettings.model_construct(), "How load is measured.")
    hot_nodes: HotNodes = setting(HotNodes.model_construct(), "What makes a node hot.")
    evictable: Evictable = setting(Evictable.model_construct(), "Which pods may be evicted.")
    limits: Limits = setting(Limits.model_construct(), "How many pods may be evicted.")
    planning: Planning = setting(Planning(), "When an eviction is worthwhile.")
    strategies: Strategies = Field(
        default_factory=no_strategies, description="What else is moved, besides pods of hot nodes."
    )
    execution: Execution = setting(Execution.model_construct(), "How evictions are carried out.")
    safety: Safety = setting(Safety.model_construct(), "Conditions that stop a run.")
