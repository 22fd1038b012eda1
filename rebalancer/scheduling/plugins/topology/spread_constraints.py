"""The topology spread constraints of a pod class: its own, else the profile's defaults.

Source: kubernetes v1.34.4 pkg/scheduler/framework/plugins/podtopologyspread/common.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self

from pydantic import Field, model_validator

from rebalancer.cluster.columns.pod_classes import PodClass
from rebalancer.cluster.records import TopologySpreadConstraint
from rebalancer.cluster.selectors import LabelMatch
from rebalancer.profiles.arguments import Arguments
from rebalancer.scheduling.matching.label_selectors import label_match
from rebalancer.scheduling.matching.owners import Owners

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"
_HONOR = "Honor"


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


@dataclass(frozen=True, slots=True)
class Constraint:
    """One constraint with all its defaults filled in."""

    max_skew: int
    topology_key: str
    selector: LabelMatch | None  # None selects nothing
    min_domains: int = 1
    honor_affinity: bool = True
    honor_taints: bool = False


def _own(constraint: TopologySpreadConstraint, pod: PodClass) -> Constraint:
    selector = label_match(constraint.label_selector)
    keys = [key for key in constraint.match_label_keys or () if key in pod.labels]
    if keys:
        selector = (selector or LabelMatch()).also((key, pod.labels[key]) for key in keys)
    return Constraint(
        constraint.max_skew,
        constraint.topology_key,
        selector,
        constraint.min_domains or 1,
        (constraint.node_affinity_policy or _HONOR) == _HONOR,
        constraint.node_taints_policy == _HONOR,
    )


class ConstraintSource:
    """Finds the constraints that count for a class."""

    def __init__(self, arguments: PodTopologySpreadArguments, owners: Owners) -> None:
        self._arguments = arguments
        self._owners = owners

    @property
    def system_defaults(self) -> bool:
        """Whether the defaults are the scheduler's own."""
        return self._arguments.defaulting_type == "System"

    def constraints(self, pod: PodClass, when: str) -> Sequence[Constraint]:
        """The constraints for ``when`` unsatisfiable; a pod with any of its own has no defaults."""
        if pod.spec.topology_spread_constraints:
            return [
                _own(item, pod)
                for item in pod.spec.topology_spread_constraints
                if item.when_unsatisfiable == when
            ]
        defaults = self._defaults(when)
        if not defaults:
            return ()
        derived = self._owners.derived(pod)
        if derived.is_empty:
            return ()
        return [
            Constraint(
                item.max_skew,
                item.topology_key,
                derived,
                item.min_domains,
                item.honor_affinity,
                item.honor_taints,
            )
            for item in defaults
        ]

    def _defaults(self, when: str) -> Sequence[Constraint]:
        if self.system_defaults:
            return (Constraint(3, HOSTNAME, None), Constraint(5, ZONE, None)) if when == SOFT else ()
        return [
            Constraint(
                item.max_skew,
                item.topology_key,
                None,
                item.min_domains or 1,
                (item.node_affinity_policy or _HONOR) == _HONOR,
                item.node_taints_policy == _HONOR,
            )
            for item in self._arguments.default_constraints
            if item.when_unsatisfiable == when
        ]
