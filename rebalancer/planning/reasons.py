"""Why a pod stays: one table of codes, from which reports, metrics and documentation are made."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec


class Reason(StrEnum):
    """A code, the sentence that documents it, and the setting of the policy that it comes from, if any."""

    meaning: str
    setting: str

    def __new__(cls, value: str, meaning: str, setting: str = "") -> Reason:
        """Make a member that carries its own documentation."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        member.setting = setting
        return member

    # Not evicted: what the pod or its node is.
    STATIC_POD = "StaticPod", "it is a mirror or static pod, which belongs to its node"
    DAEMON_SET = "DaemonSet", "its DaemonSet would recreate it on the same node"
    TERMINATING = (
        "Terminating",
        "it is being deleted, ends before the next run, or somebody else evicts it",
    )
    NO_CONTROLLER = "NoController", "no controller that is known to recreate pods owns it"
    OVERLAPPING_BUDGETS = (
        "OverlappingBudgets",
        "several disruption budgets select it, so the API server refuses to evict it",
    )
    NODE_NOT_READY = (
        "NodeNotReady",
        "it is Pending, or its node is gone or not Ready",
    )
    NODE_LEAVING = (
        "NodeLeaving",
        "its node is about to be removed, for instance by an autoscaler",
    )
    SYSTEM_COMPONENT = (
        "SystemComponent",
        "it runs rebalancer, the scheduler or a load source",
    )
    # The policy protects it; the annotation rebalancer/evict, or descheduler's, lifts that.
    NAMESPACE = (
        "Namespace",
        "the policy excludes its namespace, by name or by evictable.namespaceSelector",
        "evictable.namespaces",
    )
    TOO_YOUNG = "TooYoung", "it is younger than the policy's minAge", "evictable.minAge"
    PRIORITY = "Priority", "its priority is not below the policy's priorityBelow", "evictable.priorityBelow"
    LOCAL_STORAGE = (
        "LocalStorage",
        "it would lose data in hostPath or emptyDir volumes",
        "evictable.protect: LocalStorage",
    )
    PERSISTENT_VOLUMES = (
        "PersistentVolumes",
        "it uses a PersistentVolumeClaim",
        "evictable.protect: PersistentVolumes",
    )
    SINGLE_REPLICA = (
        "SingleReplica",
        "its workload has only one desired replica",
        "evictable.protect: SingleReplica",
    )
    MIN_REPLICAS = (
        "MinReplicas",
        "its workload has fewer desired replicas than the policy asks for",
        "evictable.minReplicas",
    )
    JOB = "Job", "the policy excludes Jobs", "evictable.jobs"
    ENDS_SOON = (
        "EndsSoon",
        "its Job is expected to end within half an hour",
    )
    STORAGE_CLASS = (
        "StorageClass",
        "it uses a volume of a storage class that the policy excludes",
        "evictable.protectStorageClasses",
    )
    WITHOUT_BUDGET = "WithoutBudget", "no PodDisruptionBudget selects it", "evictable.protect: WithoutBudget"
    LABELS = "Labels", "the policy's podSelector does not select it", "evictable.podSelector"
    ANNOTATION = "Annotation", "one of its annotations forbids or discourages eviction"
    DEBUGGED = "Debugged", "somebody debugs it with an ephemeral container"
    RESTARTS_TOGETHER = (
        "RestartsTogether",
        "all pods of its group, such as a LeaderWorkerSet, restart with it",
    )
    # Its workload could not take the eviction; nothing lifts that.
    JOB_WOULD_FAIL = (
        "JobWouldFail",
        "the eviction may fail its Job",
    )
    NO_REPLACEMENT = (
        "NoReplacement",
        "nothing would replace it, for instance because its namespace is ending",
    )
    READ_WRITE_ONCE = (
        "ReadWriteOnce",
        "it uses a volume that only one node can mount",
    )
    ROLLOUT = "Rollout", "a rollout of its workload is in progress"
    UNREADY_REPLICAS = "UnreadyReplicas", "its workload has fewer ready replicas than desired"
    GRACE_PERIOD = (
        "GracePeriod",
        "its grace period is longer than a wave waits",
        "execution.waveTimeout",
    )
    # Unknown is not favourable.
    OTHER_SCHEDULER = (
        "OtherScheduler",
        "its scheduler is not one that the policy acts on",
        "scheduler.profiles",
    )
    SCHEDULER_NOT_ALIVE = (
        "SchedulerNotAlive",
        "nothing shows that its scheduler is alive",
        "safety.unknownScheduler",
    )
    UNPREDICTABLE = "Unpredictable", "where its replacement would land cannot be predicted"
    UNKNOWN_LOAD = "UnknownLoad", "its resource usage is not known", "load.sources"
    SETTLING = "Settling", "figures of its node include load that an earlier run moved"
    # It could be evicted, but not now.
    WINDOW = "Window", "outside the policy's windows, or on a day of its blackouts", "evictable.windows"
    OLDER_REVISION = (
        "OlderRevision",
        "its StatefulSet would recreate it as another revision",
    )
    AUTOSCALING = "Autoscaling", "an autoscaler is scaling its workload, or did so recently"
    VERTICAL_AUTOSCALING = (
        "VerticalAutoscaling",
        "a VerticalPodAutoscaler would give its replacement different requests",
    )
    QUOTA = "Quota", "a ResourceQuota has no room for its replacement"
    COOLDOWN = "Cooldown", "its workload was moved too recently", "planning.cooldown"
    LANDED_BADLY = (
        "LandedBadly",
        "the last move of its workload landed badly",
        "planning.cooldown",
    )
    BUDGET = "Budget", "its disruption budget allows no disruption at the moment"
    HOT_TOO_BRIEFLY = (
        "HotTooBriefly",
        "its node has not been hot for enough consecutive runs",
        "hotNodes.forRuns",
    )
    NO_LANDING = (
        "NoLanding",
        "no node fits its replacement, which would stay Pending",
    )
    NO_BETTER_LANDING = (
        "NoBetterLanding",
        "the scheduler may place its replacement where it is no better off",
    )
    ROOM_TAKEN = "RoomTaken", "a Pending pod would take the room that it leaves"
    LIMIT = "Limit", "a limit of the policy is reached", "limits"
    CONFIDENCE = (
        "Confidence",
        "its risk of a bad landing is larger than the run may take",
        "planning.confidence",
    )
    NOT_NEEDED = "NotNeeded", "its node becomes cool without moving it"
    CANNOT_COOL = (
        "CannotCool",
        "its node would stay hot all the same",
        "planning.partialRelief",
    )
    NO_RELIEF = "NoRelief", "it uses none of the resources in which its node is above coolTo"
    LITTLE_RELIEF = (
        "LittleRelief",
        "moving it relieves its node by too little",
        "planning.aggressiveness",
    )
    SIBLINGS = (
        "Siblings",
        "the run moves as many pods of its workload as its disruption budgets allow",
    )
    GROUP = "Group", "it would move only together with another pod, which stays"
    SEARCH_ENDED = (
        "SearchEnded",
        "the search ended before it found a better plan with this pod",
    )


NEVER_MOVE = frozenset({Reason.STATIC_POD, Reason.DAEMON_SET, Reason.TERMINATING, Reason.SYSTEM_COMPONENT})
"""What keeps pods that nobody expects to leave: no answer to why nothing is moved."""


class Remedy(msgspec.Struct, frozen=True):
    """One way to free a pod of a reason, in words; ``changes`` are keys of the policy, with their values."""

    text: str
    changes: Mapping[str, Any] = {}


def set_policy(key: str, value: object, note: str = "") -> Remedy:
    """The remedy of a key of the policy: ``evictable.minAge: 3m``."""
    return Remedy(f"{key}: {_flow(value)}{note}", {key: value})


def _flow(value: object) -> str:
    """A value as YAML writes it on one line."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        pairs = (f"{key}: {_flow(inner)}" for key, inner in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_flow, value))}]"
    if isinstance(value, str) and not (_DURATION.fullmatch(value) or _PLAIN_TEXT.fullmatch(value)):
        return json.dumps(value)
    return str(value)


# What YAML reads as text without quotes, also between brackets; ``*`` would be an alias, ``off`` a boolean.
_PLAIN_TEXT = re.compile(r"(?!(?:true|false|yes|no|on|off|null|y|n)$)[a-z][\w./-]*", re.IGNORECASE)
_DURATION = re.compile(r"(?:[0-9]+[smhd])+")


class NotMoved(msgspec.Struct, frozen=True):
    """Why a pod may not be evicted: a code, the sentence for this very pod, and what the policy sets."""

    reason: Reason
    message: str
    settings: tuple[str, ...] = ()  # where they differ from pod to pod; else the code's own
    node: int | None = (
        None  # the row of the node on which its replacement must not land, where one is to blame
    )
    remedies: tuple[Remedy, ...] = ()  # what frees it, where the table of planning.remedies knows less

    @property
    def setting(self) -> str:
        """The settings that keep the pod, such as ``evictable.minAge``; empty when none does."""
        return " and ".join(self.settings) or self.reason.setting


_FIRST_OF_GROUP = {
    Reason.STATIC_POD: "Not evicted: what the pod or its node is",
    Reason.NAMESPACE: "Protected by the policy, unless annotated with rebalancer/evict",
    Reason.JOB_WOULD_FAIL: "Its workload could not take the eviction now; no annotation lifts this",
    Reason.OTHER_SCHEDULER: "Not known well enough: unknown is never taken as favourable",
    Reason.WINDOW: "Evictable, but not now or without benefit",
}


def groups() -> dict[str, list[Reason]]:
    """All reasons, grouped as the documentation groups them, in order."""
    reasons_by_title: dict[str, list[Reason]] = {}
    title = ""
    for reason in Reason:
        title = _FIRST_OF_GROUP.get(reason, title)
        reasons_by_title.setdefault(title, []).append(reason)
    return reasons_by_title


def age_text(seconds: float) -> str:
    """Minutes up to two hours, then hours."""
    minutes = int(seconds // 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h"
