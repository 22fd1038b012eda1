"""Why a pod stays: codes as data, so that reports, metrics and documentation are made from one table."""

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
    STATIC_POD = "StaticPod", "mirror and static pods belong to their node"
    DAEMON_SET = "DaemonSet", "a DaemonSet would put its pod back on the same node"
    TERMINATING = "Terminating", "the pod is on its way out already"
    NO_CONTROLLER = "NoController", "no controller would recreate the pod"
    OVERLAPPING_BUDGETS = (
        "OverlappingBudgets",
        "matched by several disruption budgets: the API refuses to evict it",
    )
    NODE_NOT_READY = "NodeNotReady", "its node is not Ready: nobody would confirm that the pod is gone"
    SYSTEM_COMPONENT = "SystemComponent", "this tool, or the scheduler or a load source it relies on"
    # The policy protects it; the annotation descheduler.alpha.kubernetes.io/evict lifts that.
    NAMESPACE = "Namespace", "the policy leaves its namespace alone"
    TOO_YOUNG = "TooYoung", "younger than the policy's minAge"
    PRIORITY = "Priority", "its priority is not below the policy's priorityBelow"
    LOCAL_STORAGE = "LocalStorage", "it would lose its emptyDir or hostPath data"
    PERSISTENT_VOLUMES = "PersistentVolumes", "it uses a PersistentVolumeClaim"
    SINGLE_REPLICA = "SingleReplica", "its workload wants one replica only"
    MIN_REPLICAS = "MinReplicas", "its workload wants fewer replicas than the policy's minReplicas"
    JOB = "Job", "the policy leaves Jobs alone, or the Job would count the eviction as a failure too many"
    STORAGE_CLASS = "StorageClass", "it uses a claim of a storage class that the policy leaves alone"
    READ_WRITE_ONCE = (
        "ReadWriteOnce",
        "its replacement would be made while it still holds a volume that only one node may mount",
    )
    LABELS = "Labels", "the policy's podSelector does not select it"
    ROLLOUT = "Rollout", "its workload is in the middle of a rollout"
    UNREADY_REPLICAS = "UnreadyReplicas", "its workload has fewer ready replicas than it wants"
    GRACE_PERIOD = "GracePeriod", "it may take longer to end than a wave waits"
    ANNOTATION = "Annotation", "one of its annotations asks not to be evicted"
    # Unknown is not favourable.
    OTHER_SCHEDULER = "OtherScheduler", "placed by a scheduler the policy does not act for"
    UNPREDICTABLE = "Unpredictable", "where its replacement would land cannot be known"
    UNKNOWN_LOAD = "UnknownLoad", "what it uses is not known"
    SETTLING = "Settling", "its node's figures still show the load before our last move"
    # It could be evicted, but not now.
    WINDOW = "Window", "the policy evicts only within its windows of time"
    OLDER_REVISION = "OlderRevision", "it is of an older revision than its StatefulSet"
    AUTOSCALING = "Autoscaling", "an autoscaler is changing the size of its workload, or just has"
    VERTICAL_AUTOSCALING = "VerticalAutoscaling", "an autoscaler would give its replacement other requests"
    QUOTA = "Quota", "no ResourceQuota room for its replacement while it still counts itself"
    COOLDOWN = "Cooldown", "its workload was moved too recently"
    LANDED_BADLY = "LandedBadly", "the last move of its workload landed badly, not long ago"
    BUDGET = "Budget", "its disruption budget allows no disruption now"
    HOT_TOO_BRIEFLY = "HotTooBriefly", "its node has not been hot for enough consecutive runs"
    NO_LANDING = (
        "NoLanding",
        "no node is feasible for its replacement: it would stay Pending or preempt others",
    )
    NO_BETTER_LANDING = (
        "NoBetterLanding",
        "the scheduler may put its replacement where it would not be better off",
    )
    ROOM_TAKEN = "RoomTaken", "a Pending pod would take the room it leaves"
    LIMIT = "Limit", "a limit of the policy is reached"
    CONFIDENCE = (
        "Confidence",
        "its chance of a bad landing is more than planning.confidence leaves for this plan",
    )
    NOT_NEEDED = "NotNeeded", "its node cools without moving it"
    CANNOT_COOL = "CannotCool", "its node would stay hot even without all its pods that may move"
    NO_RELIEF = "NoRelief", "it uses nothing of what its node is hot in"
    SEARCH_ENDED = "SearchEnded", "the search reached maxPlacements before this pod"


@dataclass(frozen=True, slots=True)
class KeptReason:
    """Why a pod may not be evicted: a code and the sentence for this very pod."""

    reason: Reason
    because: str


_FIRST_OF_GROUP = {
    Reason.STATIC_POD: "Never evicted, whatever the policy says",
    Reason.NAMESPACE: "Protected by the policy, unless annotated descheduler.alpha.kubernetes.io/evict",
    Reason.OTHER_SCHEDULER: "Not known well enough: unknown is not favourable",
    Reason.WINDOW: "Could be evicted, but not now, or not for good",
}


def groups() -> dict[str, list[Reason]]:
    """All reasons by what they have in common, in order; documentation is made from it."""
    found: dict[str, list[Reason]] = {}
    title = ""
    for reason in Reason:
        title = _FIRST_OF_GROUP.get(reason, title)
        found.setdefault(title, []).append(reason)
    return found
