"""Which pods may be evicted."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from rebalancer.policy.model import PolicyModel, Selector, Unique, setting
from rebalancer.policy.scopes import Blackout, NamespaceName, Window, namespace_matches
from rebalancer.policy.units import Duration


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
        (), "Evict only from these namespaces, such as team-*; from all when empty."
    )
    exclude: Annotated[tuple[NamespaceName, ...], Unique] = setting(
        (SYSTEM_NAMESPACE,), "Never evict from these namespaces, nor from kube-system unless it is included."
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

    min_age: Duration = setting(600.0, "Protect pods younger than this.")
    priority_below: int = setting(
        2_000_000_000, "Evict only pods with a priority below this.", ge=-(2**31), lt=2**31
    )
    namespaces: Namespaces = setting(
        Namespaces.model_construct(), "Which namespaces pods may be evicted from."
    )
    namespace_selector: Selector | None = setting(None, "Evict only from namespaces with these labels.")
    protect: Annotated[tuple[Protection, ...], Unique] = setting(
        (Protection.LOCAL_STORAGE, Protection.PERSISTENT_VOLUMES, Protection.SINGLE_REPLICA),
        "Kinds of pods that are never evicted, named as the reasons are.",
    )
    single_replica: Literal["evict", "surge"] = setting(
        "evict",
        "How the only replica of a workload is moved: evicted, unless protect names SingleReplica, or by a "
        "rolling update of its Deployment (surge), which starts the new pod first and needs the right to "
        "patch deployments.",
    )
    jobs: bool = setting(False, "Also evict pods of Jobs, where the Job tolerates it.")
    min_job_remaining: Duration = setting(
        1800.0,
        "Protect pods of Jobs that end within this, by activeDeadlineSeconds or by how long earlier Jobs of "
        "their CronJob took; 0s protects none.",
    )
    pod_selector: Selector | None = setting(None, "Evict only pods with these labels.")
    controllers: Annotated[tuple[Controller, ...], Unique] = setting(
        (),
        "Further kinds of controllers that recreate pods. Their pods move only beside a ready pod like them.",
    )
    min_replicas: int = setting(1, "Protect pods of workloads with fewer desired replicas than this.", ge=0)
    protect_storage_classes: Annotated[tuple[str, ...], Unique] = setting(
        (), "Protect pods with PersistentVolumeClaims of these storage classes."
    )
    windows: tuple[Window, ...] = setting(
        (),
        "Evict only within these windows; at any time when empty. For pods that a window for some nodes or "
        "namespaces selects, only such windows count.",
    )
    blackouts: tuple[Blackout, ...] = setting((), "Days on which nothing is evicted, not even in a window.")
