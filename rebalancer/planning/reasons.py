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
    # The policy protects it.
    NAMESPACE = "Namespace", "the policy leaves its namespace alone"
    OTHER_SCHEDULER = "OtherScheduler", "placed by a scheduler the policy does not act for"
    TOO_YOUNG = "TooYoung", "younger than the policy's minAge"
    PRIORITY = "Priority", "its priority is not below the policy's priorityBelow"
    LOCAL_STORAGE = "LocalStorage", "it would lose its emptyDir or hostPath data"
    PERSISTENT_VOLUMES = "PersistentVolumes", "it uses a PersistentVolumeClaim"
    SINGLE_REPLICA = "SingleReplica", "its workload wants one replica only"
    JOB = "Job", "the policy leaves Jobs alone"
    ANNOTATION = "Annotation", "one of its annotations asks not to be evicted"
    COOLDOWN = "Cooldown", "its workload was moved too recently"
    # Unknown is not favourable.
    UNPREDICTABLE = "Unpredictable", "where its replacement would land cannot be known"
    UNKNOWN_LOAD = "UnknownLoad", "what it uses is not known"
    SETTLING = "Settling", "its node's figures still show the load before our last move"
    # It could be evicted, but not now.
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
class Protection:
    """Why a pod may not be evicted: a code and the sentence for this very pod."""

    reason: Reason
    because: str
