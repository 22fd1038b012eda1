"""The schema of a RebalancePolicy: every key, its default and its meaning in one sentence.

The JSON schema, the printed policy and the documentation are made from these models.

The aggressiveness level says how readily pods are moved; what it sets only makes sense together. A careful
policy asks for much gain, for near certainty and for much excess removed by every restart, and leaves a node
alone that would stay hot; an eager one asks for less of each. A key that the policy names itself keeps the
policy's value at every level.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Literal, Self

import msgspec
from pydantic import AfterValidator, ConfigDict, Field, model_validator

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
    check_sources,
)
from rebalancer.policy.model import CountOfPods, Percent, PolicyModel, ResourceName, Selector, Unique, setting
from rebalancer.policy.schedulers import Schedulers, SchedulerSettings
from rebalancer.policy.scopes import Blackout, NamespaceName, Scope, Window, namespace_matches
from rebalancer.policy.strategies import Strategies, no_strategies
from rebalancer.policy.units import Amount, AmountField, Duration, Percentage


class Protection(StrEnum):
    """Kinds of pods a policy may protect: codes of reasons, which say what each is."""

    LOCAL_STORAGE = "LocalStorage"
    PERSISTENT_VOLUMES = "PersistentVolumes"
    SINGLE_REPLICA = "SingleReplica"
    WITHOUT_BUDGET = "WithoutBudget"


SYSTEM_NAMESPACE = "kube-system"


class Namespaces(PolicyModel):
    """Which namespaces pods may be evicted from."""

    include: Annotated[tuple[NamespaceName, ...], Unique] = setting(
        (), "Evict only from these namespaces, such as team-*."
    )
    exclude: Annotated[tuple[NamespaceName, ...], Unique] = setting(
        (SYSTEM_NAMESPACE,), "Never from these, nor from kube-system unless it is included."
    )

    @model_validator(mode="after")
    def _with_the_system_namespace(self) -> Self:
        """kube-system is excluded unless somebody includes it by name."""
        if SYSTEM_NAMESPACE in self.include and "exclude" not in self.model_fields_set:
            object.__setattr__(self, "exclude", ())
        elif SYSTEM_NAMESPACE not in (*self.include, *self.exclude):
            object.__setattr__(self, "exclude", (*self.exclude, SYSTEM_NAMESPACE))
        return self

    @model_validator(mode="after")
    def _disjoint(self) -> Self:
        both = next((name for name in self.include if name in self.exclude), None)
        if both is not None:
            raise ValueError(f"namespace {both} is both included and excluded")
        return self

    def allows(self, namespace: str) -> bool:
        """Whether pods of a namespace may be evicted."""
        included = not self.include or namespace_matches(namespace, self.include)
        return included and not namespace_matches(namespace, self.exclude)


class Controller(PolicyModel):
    """A kind of controller that recreates a pod of its own that is gone."""

    api_version: str = Field(
        min_length=1,
        max_length=253,
        description="Group and version of the kind; any version matches.",
    )
    kind: str = Field(min_length=1, max_length=63, description="The kind.")


class Evictable(PolicyModel):
    """Which pods may be evicted; static, DaemonSet and uncontrolled pods never are."""

    min_age: Duration = setting(900.0, "Protect pods younger than this.")
    priority_below: int = setting(
        1_000_000_000, "Evict only pods with a priority below this.", ge=-(2**31), lt=2**31
    )
    namespaces: Namespaces = setting(
        Namespaces.model_construct(), "Which namespaces pods may be evicted from."
    )
    namespace_selector: Selector | None = setting(None, "Evict only from namespaces with these labels.")
    protect: Annotated[tuple[Protection, ...], Unique] = setting(
        (Protection.LOCAL_STORAGE, Protection.PERSISTENT_VOLUMES, Protection.SINGLE_REPLICA),
        "Kinds of pods that are never evicted.",
    )
    single_replica: Literal["evict", "surge"] = setting(
        "evict",
        "How the only replica moves, unless protected; surge: by a rolling update, which starts the "
        "new pod first.",
    )
    jobs: bool = setting(
        False,
        "Also evict pods of Jobs that tolerate it, and do not end within half an hour.",
    )
    pod_selector: Selector | None = setting(None, "Evict only pods with these labels.")
    controllers: Annotated[tuple[Controller, ...], Unique] = setting(
        (),
        "Further kinds of controllers that recreate pods. Their pods move only beside a ready pod like them.",
    )
    min_replicas: int = setting(1, "Protect workloads with fewer desired replicas than this.", ge=0)
    protect_storage_classes: Annotated[tuple[str, ...], Unique] = setting(
        (), "Protect pods with volumes of these classes."
    )
    windows: tuple[Window, ...] = setting(
        (),
        "Evict only within these windows; windows for some pods replace those for all.",
    )
    blackouts: tuple[Blackout, ...] = setting((), "Days on which nothing is evicted, not even in a window.")


DEFAULT_AGGRESSIVENESS = 3


def share_of(amount: Amount) -> str:
    """The percentage that somebody may have meant who wrote a number: ``10%``."""
    return f"{min(amount.number, 100)}%"


class Level(msgspec.Struct, frozen=True):
    """What one aggressiveness level stands for."""

    min_gain: float  # points
    confidence: float
    partial_relief: bool
    least_relief: float  # points above coolTo that a move must remove for each unit of its cost
    # A replacement is counted on to be placed while its predecessor still terminates; else it must land well
    # once that is gone too.
    counts_on_termination: bool = False


LEVELS: Mapping[int, Level] = {
    1: Level(min_gain=15.0, confidence=0.99, partial_relief=False, least_relief=6.0),
    2: Level(min_gain=10.0, confidence=0.97, partial_relief=True, least_relief=3.0),
    3: Level(min_gain=5.0, confidence=0.95, partial_relief=True, least_relief=1.0),
    4: Level(min_gain=3.0, confidence=0.90, partial_relief=True, least_relief=0.2),
    5: Level(
        min_gain=1.0, confidence=0.80, partial_relief=True, least_relief=0.0, counts_on_termination=True
    ),
}
BOLDEST = max(LEVELS)
SET_BY_LEVEL = ("min_gain", "confidence", "partial_relief")
"""The keys of planning that a policy may name itself."""


Weight = Annotated[float, Field(ge=0, le=1000)]
"""How much one aspect of disruption counts, compared with the others."""


class Weights(PolicyModel):
    """What counts more or less from one cluster to another of what moving a pod costs."""

    priority: Weight = setting(1.0, "Its priority among the pods of the node.")
    time_to_ready: Weight = setting(
        0.5,
        "How long its workload took to be ready in earlier runs.",
    )
    spread: Weight = setting(
        1.0,
        "Joining a replica on a node, or leaving a zone without any; each unit raises the required "
        "gain by minGain.",
    )


DEFAULT_MAX_AFTER: Mapping[ResourceName, float] = {"cpu": 95.0, "memory": 90.0}
"""Percent of allocatable; memory has less room, because a node without memory kills pods."""


class Planning(PolicyModel):
    """When an eviction is worthwhile, and how far the planner searches."""

    aggressiveness: int = setting(
        DEFAULT_AGGRESSIVENESS,
        "From 1 (few moves, for large gains) to 5 (every improvement); sets minGain (15, 10, 5, 3, 1), "
        "confidence (0.99, 0.97, 0.95, 0.9, 0.8) and partialRelief (false at 1) where they are not named.",
        ge=1,
        le=5,
    )
    min_gain: float = setting(
        LEVELS[DEFAULT_AGGRESSIVENESS].min_gain,
        "Least gain of a move, in points of allocatable, in a resource that its node is hot in.",
        ge=0,
        le=100,
    )
    partial_relief: bool = setting(
        LEVELS[DEFAULT_AGGRESSIVENESS].partial_relief,
        "Move pods off a hot node even if it stays hot.",
    )
    confidence: float = setting(
        LEVELS[DEFAULT_AGGRESSIVENESS].confidence,
        "Minimum probability that every landing of a run is acceptable.",
        gt=0,
        le=1,
    )
    cooldown: Duration = setting(
        7200.0,
        "How long a moved workload is left alone; doubled with each further move, a day after a bad landing.",
    )
    max_after: Mapping[ResourceName, Percent] = setting(
        DEFAULT_MAX_AFTER,
        "No landing fills a node above these percentages; resources that are not named keep their defaults.",
    )
    weights: Weights = setting(
        Weights.model_construct(),
        "What a move costs.",
    )

    @model_validator(mode="after")
    def _by_aggressiveness(self) -> Self:
        """What the policy does not name is as the aggressiveness level says."""
        named = self.model_fields_set
        for key in SET_BY_LEVEL:
            if key not in named:
                object.__setattr__(self, key, getattr(self.level, key))
        return self

    @property
    def level(self) -> Level:
        """What its aggressiveness stands for."""
        return LEVELS[self.aggressiveness]

    @model_validator(mode="after")
    def _with_default_max_after(self) -> Self:
        object.__setattr__(self, "max_after", {**DEFAULT_MAX_AFTER, **self.max_after})
        return self


API_VERSION = "rebalancer/v1alpha1"
KIND = "RebalancePolicy"
_DAY_SECONDS = 86_400.0


class Metadata(PolicyModel):
    """The name of the policy."""

    name: str = setting("default", "Name of the policy, shown in reports.", min_length=1, max_length=253)


class LoadSettings(PolicyModel):
    """How the load of nodes and pods is measured."""

    sources: Annotated[tuple[LoadSource, ...], AfterValidator(check_sources)] = setting(
        (MetricsServerSource.model_construct(metrics_server=MetricsServer.model_construct()),),
        "The first source with a fresh figure counts, for each node and resource.",
        min_length=1,
    )
    window: Duration = setting(
        0.0,
        "How far back figures look.",
        le=86400,
    )
    statistic: Statistic = setting(
        "mean",
        "Over the window: mean, max, meanPlusDeviation, predictedPeak, p95 and the like; or by "
        "resource: {cpu: p66}.",
    )
    signals: Annotated[Mapping[SignalName, Signal], AfterValidator(check_signals)] = setting(
        {}, "Resources of your own, by name, from Prometheus."
    )
    max_age: Duration = setting(180.0, "Maximum age of a fresh figure.", gt=0)
    min_coverage: Percentage = setting(
        0.9,
        "Share of the nodes that must have fresh figures for a run to act.",
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

    per_run: CountOfPods = setting(5, "Most evictions in a run.", ge=0)
    per_node: CountOfPods = setting(2, "Most evictions from one node in a run.", ge=0)
    per_namespace: CountOfPods = setting(3, "Most evictions from one namespace in a run.", ge=0)
    per_workload: AmountField = setting(
        Amount(10, percent=True),
        "Most evictions from one workload in a run; a percentage is of its desired replicas.",
    )
    per_hour: Rate = setting(
        None,
        "Most evictions within an hour, earlier runs included; needs a state.",
    )
    per_day: Rate = setting(None, "The same within 24 hours.")
    cleanups: CountOfPods = setting(100, "Most finished pods that a run removes.", ge=0)
    scoped: tuple[ScopedLimit, ...] = setting((), "Further limits for the pods of some nodes or namespaces.")

    @property
    def rates(self) -> tuple[str, ...]:
        """The keys that count evictions of earlier runs; empty where none does."""
        every: tuple[Limits | ScopedLimit, ...] = (self, *self.scoped)
        hour = any(rate.per_hour is not None for rate in every)
        day = any(rate.per_day is not None for rate in every)
        return (*(("perHour",) if hour else ()), *(("perDay",) if day else ()))

    def without_effect(self) -> Iterator[str]:
        """A sentence on a number that bounds nothing, where a percentage may be meant."""
        amount = self.per_workload
        if not amount.percent and amount.number >= self.per_run > 1:
            yield (
                f"limits.perWorkload {amount} bounds nothing: limits.perRun {self.per_run} lets no run evict "
                f"more of all workloads together; {share_of(amount)} would be a share of its replicas"
            )


class Execution(PolicyModel):
    """How evictions are carried out."""

    wave_size: int = setting(2, "Most evictions in one wave.", ge=1)
    first_wave: int = setting(1, "Most evictions in the first wave.", ge=1)
    wave_timeout: Duration = setting(300.0, "How long a wave waits for its replacements to be ready.", gt=0)
    pause_between_waves: Duration = setting(0.0, "How long a run waits between two waves.", le=86_400)
    max_duration: Duration | None = setting(
        None,
        "A run begins no wave after this time; unset, 5m for serve, no limit for run.",
        gt=0,
    )
    on_unexpected_landing: Literal["stop", "continue"] = setting(
        "stop", "When a replacement lands where the plan did not allow."
    )
    replan: bool = setting(
        True,
        "Plan again within the same limits, where moves went otherwise or nodes stay hot.",
    )
    steer: Literal["none", "softTaint"] = setting(
        "none",
        "softTaint: a PreferNoSchedule taint, while a wave lasts, on nodes where replacements must not land.",
    )
    steer_limit: Duration = setting(
        900.0,
        "With steer: a wave evicts no pod after this time.",
        gt=0,
    )

    @model_validator(mode="after")
    def _first_wave_fits(self) -> Self:
        if self.first_wave > self.wave_size:
            raise ValueError(f"firstWave {self.first_wave} is larger than waveSize {self.wave_size}")
        return self

    def without_effect(self) -> Iterator[str]:
        """A sentence on the setting that says how to steer, where the policy does not steer."""
        field = Execution.model_fields["steer_limit"]
        if self.steer == "none" and self.steer_limit != field.default:
            yield f"execution.{field.alias} does nothing without execution.steer: softTaint"


class Safety(PolicyModel):
    """Conditions that stop a run; they are checked before each wave, pause before each eviction."""

    pause: bool = setting(
        False,
        "Evict nothing, also in a run that is at work.",
    )
    max_not_ready_nodes: AmountField = setting(
        Amount(5, percent=True),
        "Stop when more nodes than this are not ready.",
    )
    max_pending_pods: AmountField = setting(
        Amount(10),
        "Stop when more pods than this are Pending.",
    )
    unknown_scheduler: Literal["stop", "proceed"] = setting(
        "stop",
        "When nothing shows whether a scheduler is alive: its pods stay, or move.",
    )
    other_deschedulers: Literal["refuse", "allow"] = setting(
        "refuse",
        "What a run does beside another descheduler.",
    )
    min_agreement: Percentage | None = setting(
        None,
        "Share of the scheduler's own decisions that must agree (rebalancer agreement) for a run to act.",
    )


class RebalancePolicy(PolicyModel):
    """The rebalancing policy of one cluster."""

    model_config = ConfigDict(defer_build=True)  # until the first is read: strategies declare settings too

    api_version: Literal["rebalancer/v1alpha1"] = setting("rebalancer/v1alpha1", "Version of this schema.")
    kind: Literal["RebalancePolicy"] = setting("RebalancePolicy", "Kind of this document.")
    metadata: Metadata = setting(Metadata.model_construct(), "Name of the policy.")
    scheduler: Schedulers = setting(
        SchedulerSettings.model_construct(),
        "The scheduler that places replacements, or a list of those that do side by side. Without an entry "
        "that serves default-scheduler, that one has its defaults.",
    )
    load: LoadSettings = setting(LoadSettings.model_construct(), "How load is measured.")
    hot_nodes: HotNodes = setting(HotNodes.model_construct(), "What makes a node hot.")
    evictable: Evictable = setting(Evictable.model_construct(), "Which pods may be evicted.")
    limits: Limits = setting(Limits.model_construct(), "How many pods may be evicted.")
    planning: Planning = setting(Planning.model_construct(), "When an eviction is worthwhile.")
    strategies: Strategies = Field(
        default_factory=no_strategies, description="What else is moved, besides pods of hot nodes."
    )
    execution: Execution = setting(Execution.model_construct(), "How evictions are carried out.")
    safety: Safety = setting(Safety.model_construct(), "Conditions that stop a run.")

    @property
    def schedulers(self) -> tuple[SchedulerSettings, ...]:
        """The schedulers that the policy names, in its order."""
        return self.scheduler if isinstance(self.scheduler, tuple) else (self.scheduler,)

    def without_effect(self) -> Iterator[str]:
        """A sentence on each setting that does nothing beside the others, on any cluster."""
        yield from self.limits.without_effect()
        yield from self.execution.without_effect()
