"""The schema of a RebalancePolicy: every key, its default and its meaning in one sentence.

The JSON schema, the printed policy and the documentation are made from these models.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from rebalancer.policy.evictability import Evictable
from rebalancer.policy.hotness import HotNodes
from rebalancer.policy.load_sources.prometheus import Signal, SignalName, check_signals
from rebalancer.policy.load_sources.sources import LoadSource, MetricsServer, MetricsServerSource
from rebalancer.policy.mirror import Mirror, check_mirrors
from rebalancer.policy.model import CountOfPods, Percent, PolicyModel, ResourceName, Unique, json_text
from rebalancer.policy.strategies import Strategies
from rebalancer.policy.units import Amount, AmountField, Duration, Percentage

API_VERSION = "rebalancer/v1alpha1"
KIND = "RebalancePolicy"
_DAY_SECONDS = 86_400.0


class Metadata(PolicyModel):
    """The name of the policy."""

    name: str = Field(
        default="default", min_length=1, max_length=253, description="Name of the policy, shown in reports."
    )


class ConfigMapKey(PolicyModel):
    """One key of a ConfigMap."""

    namespace: str = Field(min_length=1, description="Namespace of the ConfigMap.")
    name: str = Field(min_length=1, description="Name of the ConfigMap.")
    key: str = Field(
        default="scheduler-config.yaml",
        min_length=1,
        description="Key whose text is the KubeSchedulerConfiguration.",
    )


class SchedulerSettings(PolicyModel):
    """Which scheduler places the replacements, and how it is configured."""

    version: str | None = Field(
        default=None,
        pattern=r"^v?\d{1,3}\.\d{1,3}(\.\d{1,3})?$",
        description="Version of the scheduler, such as 1.35; read from the cluster when absent.",
    )
    config_map: ConfigMapKey | None = Field(
        default=None, description="ConfigMap that holds the scheduler's configuration."
    )
    file: str | None = Field(
        default=None, min_length=1, description="File that holds the scheduler's configuration."
    )
    inline: Annotated[str, json_text] | None = Field(
        default=None,
        min_length=1,
        description="The scheduler's configuration itself, as text or as a mapping.",
    )
    profiles: Annotated[tuple[str, ...], Unique] = Field(
        default=(),
        description="Act on pods with these schedulerNames; all profiles of the configuration when empty.",
    )
    assume_neutral: Annotated[tuple[str, ...], Unique] = Field(
        default=(),
        description="Unknown plugins that are assumed to score all nodes the same and to reject none.",
    )
    mirror: Annotated[tuple[Mirror, ...], AfterValidator(check_mirrors)] = Field(
        default=(), description="Unknown plugins of the configuration, and what they compute."
    )
    feature_gates: Mapping[str, bool] = Field(
        default_factory=dict,
        description="Feature gates of the scheduler's command line: true is on. They are read from the "
        "scheduler's pod where that can be seen; what is stated here goes before. If neither is there, it is "
        "not known whether a gate that is on by default was turned off; pods it concerns are unpredictable.",
    )
    allow_unverified_version: bool = Field(
        default=False, description="Let a run act on a scheduler version that was not verified."
    )
    allow_unpredictable: bool = Field(
        default=False, description="Evict pods even if their placement cannot be predicted with certainty."
    )

    @model_validator(mode="after")
    def _at_most_one_configuration(self) -> Self:
        given = [name for name in ("config_map", "file", "inline") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError("at most one of configMap, file and inline may be given")
        return self


class LoadSettings(PolicyModel):
    """How the load of nodes and pods is measured."""

    sources: tuple[LoadSource, ...] = Field(
        default=(MetricsServerSource(metrics_server=MetricsServer()),),
        min_length=1,
        description="Load sources; for each node and resource, the first with a fresh figure is used.",
    )
    window: Duration = Field(
        default=0.0,
        le=86400,
        description="How far back figures look; for sources without a history, over the samples of earlier "
        "runs.",
    )
    statistic: str = Field(
        default="mean",
        pattern=r"^(mean|max|meanPlusDeviation|p[1-9][0-9]?)$",
        json_schema_extra={"examples": ["mean", "max", "meanPlusDeviation", "p95"]},
        description="Statistic over the window: mean, max, meanPlusDeviation, or a percentile such as p95.",
    )
    signals: Annotated[Mapping[SignalName, Signal], AfterValidator(check_signals)] = Field(
        default={}, description="Resources of your own, by name, read from the policy's Prometheus sources."
    )
    max_age: Duration = Field(
        default=180.0, gt=0, description="Maximum age of a figure that still counts as fresh."
    )
    min_coverage: Percentage = Field(
        default=0.8,
        description="Share of the nodes that must have a fresh figure; below it a run refuses to act. A node "
        "that no pod may leave or land on does not count.",
    )


class Limits(PolicyModel):
    """How many pods may be evicted."""

    per_run: CountOfPods = Field(default=20, ge=0, description="Maximum number of evictions in one run.")
    per_node: CountOfPods = Field(
        default=4, ge=0, description="Maximum number of evictions from one node in one run."
    )
    per_namespace: CountOfPods = Field(
        default=10, ge=0, description="Maximum number of evictions from one namespace in one run."
    )
    per_workload: AmountField = Field(
        default=Amount(10, percent=True),
        description="Maximum number of evictions from one workload in one run; a percentage is of its "
        "desired replicas.",
    )


Weight = Annotated[float, Field(ge=0, le=1000)]
"""How much one aspect of disruption counts, compared with the others."""


class Weights(PolicyModel):
    """The cost of moving a pod, each aspect from 0 to 1; fewer pods always come before cheaper ones."""

    fit: Weight = Field(
        default=1.0, description="Load moved beyond what has to leave the node, per 100 percentage points."
    )
    priority: Weight = Field(default=1.0, description="Priority, compared with the other pods of the node.")
    pod_deletion_cost: Weight = Field(
        default=1.0, description="Its pod-deletion-cost annotation, compared with the other pods of the node."
    )
    age: Weight = Field(default=0.1, description="Age: from 0 for a new pod to 1 after a week.")
    replicas: Weight = Field(default=0.5, description="1 divided by the desired replicas of its controller.")
    readiness: Weight = Field(
        default=0.5,
        description="Share of its controller's replicas that are not ready; 0 for an unready pod.",
    )


DEFAULT_MAX_AFTER: Mapping[ResourceName, float] = {"cpu": 95.0, "memory": 90.0}
"""Percent of allocatable; memory has less room, because a node without memory kills pods."""


class Planning(PolicyModel):
    """When an eviction is worthwhile, and how far the planner searches."""

    min_gain: float = Field(
        default=5.0,
        ge=0,
        le=100,
        description="Minimum gain of a move, in percentage points of allocatable for each hot resource.",
    )
    partial_relief: bool = Field(
        default=True,
        description="Move pods off a hot node even if it stays hot; when false, only off nodes that then "
        "are below their thresholds.",
    )
    least_relief: float = Field(
        default=0.5,
        ge=0,
        le=100,
        description="Minimum excess, in percentage points of allocatable above coolTo, that a move removes "
        "for each unit of its cost; a move costs 1 and its disruption cost.",
    )
    confidence: float = Field(
        default=0.95,
        gt=0,
        le=1,
        description="Minimum probability that every landing of the plan is acceptable.",
    )
    cooldown: Duration = Field(
        default=3600.0,
        description="How long a workload is left alone after a run moved pods of it; doubled with each "
        "further run that moved it within cooldownWindow.",
    )
    cooldown_max: Duration = Field(default=86_400.0, description="Maximum of a cooldown that was doubled.")
    cooldown_window: Duration = Field(
        default=172_800.0, description="How far back the runs are counted that double a cooldown."
    )
    bad_landing_cooldown: Duration = Field(
        default=86_400.0,
        description="How long a workload is left alone after one of its pods landed badly or was not "
        "replaced.",
    )
    max_after: Mapping[ResourceName, Percent] = Field(
        default=DEFAULT_MAX_AFTER,
        description="No pod is moved to a node that it would fill above these percentages of allocatable, "
        "whatever the rules of hotNodes name. Resources that are not named keep their defaults: cpu 95, "
        "memory 90.",
    )
    max_placements: int = Field(
        default=20000, ge=1, description="Maximum number of placements the planner computes in one run."
    )
    weights: Weights = Field(
        default=Weights(), description="Which of several equally small sets of pods is moved."
    )

    @model_validator(mode="after")
    def _with_default_max_after(self) -> Self:
        object.__setattr__(self, "max_after", {**DEFAULT_MAX_AFTER, **self.max_after})
        return self


class Execution(PolicyModel):
    """How evictions are carried out."""

    wave_size: int = Field(default=5, ge=1, description="Maximum number of evictions in one wave.")
    first_wave: int = Field(default=1, ge=1, description="Maximum number of evictions in the first wave.")
    wave_timeout: Duration = Field(
        default=300.0, gt=0, description="How long a wave waits for its replacements to be ready."
    )
    on_unexpected_landing: Literal["stop", "continue"] = Field(
        default="stop",
        description="What to do when a replacement lands on a node that the plan did not allow.",
    )

    @model_validator(mode="after")
    def _first_wave_fits(self) -> Self:
        if self.first_wave > self.wave_size:
            raise ValueError(f"firstWave {self.first_wave} is larger than waveSize {self.wave_size}")
        return self


class Safety(PolicyModel):
    """Conditions that stop a run; they are read again before each wave."""

    pause: bool = Field(default=False, description="Evict nothing while this is true.")
    max_not_ready_nodes: AmountField = Field(
        default=Amount(5, percent=True),
        description="Stop when more nodes than this are not ready: a number, or a percentage of all nodes.",
    )
    max_pending_pods: CountOfPods = Field(
        default=20, ge=0, description="Stop when more pods than this are Pending."
    )


class RebalancePolicy(PolicyModel):
    """The rebalancing policy of one cluster."""

    api_version: Literal["rebalancer/v1alpha1"] = Field(
        default="rebalancer/v1alpha1", description="Version of this schema."
    )
    kind: Literal["RebalancePolicy"] = Field(default="RebalancePolicy", description="Kind of this document.")
    metadata: Metadata = Field(default=Metadata(), description="Name of the policy.")
    scheduler: SchedulerSettings = Field(
        default=SchedulerSettings(), description="The scheduler that places replacements."
    )
    load: LoadSettings = Field(default=LoadSettings(), description="How load is measured.")
    hot_nodes: HotNodes = Field(default=HotNodes(), description="What makes a node hot.")
    evictable: Evictable = Field(default=Evictable(), description="Which pods may be evicted.")
    limits: Limits = Field(default=Limits(), description="How many pods may be evicted.")
    planning: Planning = Field(default=Planning(), description="When an eviction is worthwhile.")
    strategies: Strategies = Field(
        default=Strategies(), description="What else is moved, besides pods of hot nodes."
    )
    execution: Execution = Field(default=Execution(), description="How evictions are carried out.")
    safety: Safety = Field(default=Safety(), description="Conditions that stop a run.")
