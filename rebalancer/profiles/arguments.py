"""The arguments of the plugins of kube-scheduler, defaulted field by field and checked as it does at startup.

Source: kubernetes v1.34.4 pkg/scheduler/apis/config/v1/defaults.go:177. The load-aware
plugins' arguments are in ``load_arguments``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel


class Arguments(BaseModel):
    """Arguments of a plugin: frozen, snake_case in Python, camelCase in text, unknown fields are errors."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True, allow_inf_nan=False
    )


class RawArguments(Arguments):
    """Arguments of a plugin we do not know, kept as they are."""

    values: Mapping[str, Any] = Field(default={})


class ScoringStrategyType(StrEnum):
    """How NodeResourcesFit turns requested and allocatable into a score."""

    LEAST_ALLOCATED = "LeastAllocated"
    MOST_ALLOCATED = "MostAllocated"
    REQUESTED_TO_CAPACITY_RATIO = "RequestedToCapacityRatio"


def _one_if_zero(value: object) -> object:
    return 1 if value == 0 and not isinstance(value, bool) else value


class ResourceWeight(Arguments):
    """A resource and how much it counts; a weight of 0 means 1."""

    name: str = Field(min_length=1)
    weight: Annotated[int, BeforeValidator(_one_if_zero), Field(ge=1, le=100)] = 1


CPU_AND_MEMORY = (ResourceWeight(name="cpu", weight=1), ResourceWeight(name="memory", weight=1))


def _default_if_empty(value: tuple[ResourceWeight, ...]) -> tuple[ResourceWeight, ...]:
    return value or CPU_AND_MEMORY


Resources = Annotated[tuple[ResourceWeight, ...], AfterValidator(_default_if_empty)]


class ShapePoint(Arguments):
    """A point of a piecewise linear function: the score (0..10) at a utilization (0..100)."""

    utilization: int = Field(ge=0, le=100)
    score: int = Field(ge=0, le=10)


class RequestedToCapacityRatio(Arguments):
    """The function from requested share to score."""

    shape: tuple[ShapePoint, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _increasing(self) -> Self:
        for before, after in zip(self.shape, self.shape[1:], strict=False):
            if after.utilization <= before.utilization:
                raise ValueError(
                    f"utilization must increase from point to point, not go from {before.utilization} "
                    f"to {after.utilization}"
                )
        return self


class ScoringStrategy(Arguments):
    """Which resources NodeResourcesFit scores, and how."""

    type: ScoringStrategyType
    resources: Resources = CPU_AND_MEMORY
    requested_to_capacity_ratio: RequestedToCapacityRatio | None = None

    @model_validator(mode="after")
    def _shape_where_needed(self) -> Self:
        if (
            self.type is ScoringStrategyType.REQUESTED_TO_CAPACITY_RATIO
            and not self.requested_to_capacity_ratio
        ):
            raise ValueError("type RequestedToCapacityRatio needs requestedToCapacityRatio.shape")
        return self


def _least_allocated() -> ScoringStrategy:
    return ScoringStrategy(type=ScoringStrategyType.LEAST_ALLOCATED)


class NodeResourcesFitArguments(Arguments):
    """Arguments of NodeResourcesFit."""

    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy = Field(default_factory=_least_allocated)

    @model_validator(mode="after")
    def _groups_have_no_slash(self) -> Self:
        bad = next((group for group in self.ignored_resource_groups if "/" in group), None)
        if bad is not None:
            raise ValueError(f"ignoredResourceGroups: {bad} must be a group, without a slash")
        return self

    @property
    def strategy(self) -> ScoringStrategyType:
        """The kind of scoring."""
        return self.scoring_strategy.type

    @property
    def resources(self) -> tuple[ResourceWeight, ...]:
        """The resources that are scored."""
        return self.scoring_strategy.resources

    @property
    def shape(self) -> tuple[ShapePoint, ...]:
        """The points of RequestedToCapacityRatio; empty for the other strategies."""
        ratio = self.scoring_strategy.requested_to_capacity_ratio
        return ratio.shape if ratio else ()


class NodeResourcesBalancedAllocationArguments(Arguments):
    """Arguments of NodeResourcesBalancedAllocation."""

    resources: Resources = CPU_AND_MEMORY

    @model_validator(mode="after")
    def _plain_resources(self) -> Self:
        names = [resource.name for resource in self.resources]
        repeated = next((name for name in names if names.count(name) > 1), None)
        if repeated is not None:
            raise ValueError(f"resources lists {repeated} twice")
        weighted = next((resource for resource in self.resources if resource.weight != 1), None)
        if weighted is not None:
            raise ValueError(f"the weight of {weighted.name} must be 1, not {weighted.weight}")
        return self


class NodeAffinityArguments(Arguments):
    """Arguments of NodeAffinity; ``added_affinity`` is a plain ``nodeAffinity`` object."""

    added_affinity: Mapping[str, Any] | None = None

    @model_validator(mode="after")
    def _known_keys(self) -> Self:
        kinds = ("required", "preferred")
        known = {f"{kind}DuringSchedulingIgnoredDuringExecution" for kind in kinds}
        unknown = next((key for key in self.added_affinity or {} if key not in known), None)
        if unknown is not None:
            raise ValueError(f"addedAffinity: unknown field {unknown}; it has {' and '.join(sorted(known))}")
        return self


class InterPodAffinityArguments(Arguments):
    """Arguments of InterPodAffinity."""

    hard_pod_affinity_weight: int = Field(default=1, ge=0, le=100)
    ignore_preferred_terms_of_existing_pods: bool = False


class DefaultConstraint(Arguments):
    """A topology spread constraint for pods that state none; its selector is derived from their owners."""

    max_skew: int = Field(ge=1)
    topology_key: str = Field(min_length=1)
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]
    min_domains: int | None = Field(default=None, ge=1)
    node_affinity_policy: Literal["Honor", "Ignore"] | None = None
    node_taints_policy: Literal["Honor", "Ignore"] | None = None
    match_label_keys: tuple[str, ...] = ()
    label_selector: None = Field(default=None, description="Must be absent: it is derived.")


class PodTopologySpreadArguments(Arguments):
    """Arguments of PodTopologySpread."""

    defaulting_type: Literal["System", "List"] = "System"
    default_constraints: tuple[DefaultConstraint, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.defaulting_type == "System" and self.default_constraints:
            raise ValueError("defaultConstraints need defaultingType: List")
        seen = [
            (constraint.topology_key, constraint.when_unsatisfiable)
            for constraint in self.default_constraints
        ]
        repeated = next((pair for pair in seen if seen.count(pair) > 1), None)
        if repeated is not None:
            raise ValueError(f"defaultConstraints lists {' '.join(repeated)} twice")
        return self


class DefaultPreemptionArguments(Arguments):
    """Arguments of DefaultPreemption; accepted, though preemption is not modelled."""

    min_candidate_nodes_percentage: int = Field(default=10, ge=0, le=100)
    min_candidate_nodes_absolute: int = Field(default=100, ge=0)


class VolumeBindingArguments(Arguments):
    """Arguments of VolumeBinding; it scores only behind an alpha gate, so ``shape`` has no effect."""

    bind_timeout_seconds: int = Field(default=600, ge=0)
    shape: tuple[ShapePoint, ...] | None = None


class DynamicResourcesArguments(Arguments):
    """Arguments of DynamicResources."""

    filter_timeout: str | None = None
    binding_timeout: str | None = None


class NodeResourcesLeastAllocatedArguments(Arguments):
    """Arguments of NodeResourcesLeastAllocated, a score of its own in v1beta1."""

    resources: Resources = CPU_AND_MEMORY


class NodeResourcesMostAllocatedArguments(Arguments):
    """Arguments of NodeResourcesMostAllocated, a score of its own in v1beta1."""

    resources: Resources = CPU_AND_MEMORY


class RequestedToCapacityRatioArguments(RequestedToCapacityRatio):
    """Arguments of RequestedToCapacityRatio, a score of its own in v1beta1."""

    resources: Resources = CPU_AND_MEMORY
