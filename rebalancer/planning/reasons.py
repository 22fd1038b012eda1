"""Why a pod stays: one table of codes, from which reports, metrics and documentation are made."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """A code and the sentence that documents it."""

    meaning: str

    def __new__(cls, value: str, meaning: str) -> Reason:
        """Make a member that carries its own documentation."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    # Never evicted, whatever the policy says.
    STATIC_POD = "StaticPod", "it is a mirror or static pod, which belongs to its node"
    DAEMON_SET = "DaemonSet", "its DaemonSet would recreate it on the same node"
    TERMINATING = "Terminating", "it is already being deleted, or somebody else is evicting it"
    NO_CONTROLLER = "NoController", "no controller that is known to recreate pods owns it"
    OVERLAPPING_BUDGETS = (
        "OverlappingBudgets",
        "several disruption budgets select it, so the API server refuses to evict it",
    )
    NODE_NOT_READY = "NodeNotReady", "its node is not Ready, so nobody would confirm that the pod has stopped"
    NODE_LEAVING = (
        "NodeLeaving",
        "its node is about to be removed, by an autoscaler for instance, which evicts the pod itself",
    )
    SYSTEM_COMPONENT = (
        "SystemComponent",
        "it runs rebalancer itself, or the scheduler or a load source that rebalancer relies on",
    )
    # The policy protects it; the annotation descheduler.alpha.kubernetes.io/evict lifts that.
    NAMESPACE = "Namespace", "the policy excludes its namespace"
    TOO_YOUNG = "TooYoung", "it is younger than the policy's minAge"
    PRIORITY = "Priority", "its priority is not below the policy's priorityBelow"
    LOCAL_STORAGE = (
        "LocalStorage",
        "it would lose the data in its hostPath volumes, or in its emptyDir volumes on disk",
    )
    PERSISTENT_VOLUMES = "PersistentVolumes", "it uses a PersistentVolumeClaim"
    SINGLE_REPLICA = "SingleReplica", "its workload has only one desired replica"
    MIN_REPLICAS = "MinReplicas", "its workload has fewer desired replicas than the policy's minReplicas"
    JOB = "Job", "the policy excludes Jobs"
    ENDS_SOON = "EndsSoon", "its Job is expected to end within the policy's minJobRemaining"
    STORAGE_CLASS = "StorageClass", "it uses a claim of a storage class that the policy excludes"
    LABELS = "Labels", "the policy's podSelector does not select it"
    ANNOTATION = "Annotation", "one of its annotations forbids or discourages eviction"
    # Its workload could not take the eviction; nothing lifts that.
    JOB_WOULD_FAIL = "JobWouldFail", "the eviction would exceed the Job's backoffLimit"
    READ_WRITE_ONCE = (
        "ReadWriteOnce",
        "its replacement would be created while it still holds a volume that only one node can mount",
    )
    ROLLOUT = "Rollout", "a rollout of its workload is in progress"
    UNREADY_REPLICAS = "UnreadyReplicas", "its workload has fewer ready replicas than desired"
    GRACE_PERIOD = "GracePeriod", "its grace period is longer than a wave waits"
    # Unknown is not favourable.
    OTHER_SCHEDULER = "OtherScheduler", "its scheduler is not one that the policy acts on"
    UNPREDICTABLE = "Unpredictable", "where its replacement would land cannot be predicted"
    UNKNOWN_LOAD = "UnknownLoad", "its resource usage is not known"
    SETTLING = "Settling", "the figures of its node still include load that an earlier run moved"
    # It could be evicted, but not now.
    WINDOW = "Window", "the policy's maintenance windows are closed"
    OLDER_REVISION = (
        "OlderRevision",
        "its StatefulSet would recreate it as another revision, so the replacement would differ",
    )
    AUTOSCALING = "Autoscaling", "an autoscaler is scaling its workload, or did so recently"
    VERTICAL_AUTOSCALING = (
        "VerticalAutoscaling",
        "a VerticalPodAutoscaler would give its replacement different requests",
    )
    QUOTA = "Quota", "a ResourceQuota has no room for its replacement while the pod itself still counts"
    COOLDOWN = "Cooldown", "its workload was moved too recently"
    LANDED_BADLY = "LandedBadly", "the last move of its workload landed badly, and that was recently"
    BUDGET = "Budget", "its disruption budget allows no disruption at the moment"
    HOT_TOO_BRIEFLY = "HotTooBriefly", "its node has not been hot for enough consecutive runs"
    NO_LANDING = (
        "NoLanding",
        "no node is feasible for its replacement, which would stay Pending or preempt other pods",
    )
    NO_BETTER_LANDING = (
        "NoBetterLanding",
        "the scheduler may place its replacement where it would be no better off",
    )
    ROOM_TAKEN = "RoomTaken", "a Pending pod would take the room that it leaves"
    LIMIT = "Limit", "a limit of the policy is reached"
    CONFIDENCE = (
        "Confidence",
        "its risk of a bad landing is more than planning.confidence leaves for this plan",
    )
    NOT_NEEDED = "NotNeeded", "its node becomes cool without moving it"
    CANNOT_COOL = (
        "CannotCool",
        "its node would stay hot all the same, and the policy's planning.partialRelief is false",
    )
    NO_RELIEF = "NoRelief", "it uses none of the resources in which its node is above coolTo"
    LITTLE_RELIEF = (
        "LittleRelief",
        "moving it removes less excess than the policy's planning.leastRelief asks for",
    )
    SEARCH_ENDED = "SearchEnded", "the search reached planning.maxPlacements before it got to this pod"


@dataclass(frozen=True, slots=True)
class KeptReason:
    """Why a pod may not be evicted: a code and the sentence for this very pod."""

    reason: Reason
    because: str


_FIRST_OF_GROUP = {
    Reason.STATIC_POD: "Never evicted, whatever the policy says",
    Reason.NAMESPACE: "Protected by the policy, unless annotated with descheduler.alpha.kubernetes.io/evict",
    Reason.JOB_WOULD_FAIL: "Its workload could not take the eviction now; no annotation lifts this",
    Reason.OTHER_SCHEDULER: "Not known well enough: unknown is never taken as favourable",
    Reason.WINDOW: "Could be evicted, but not now, or not to any benefit",
}


def groups() -> dict[str, list[Reason]]:
    """All reasons, grouped as the documentation groups them, in order."""
    found: dict[str, list[Reason]] = {}
    title = ""
    for reason in Reason:
        title = _FIRST_OF_GROUP.get(reason, title)
        found.setdefault(title, []).append(reason)
    return found
