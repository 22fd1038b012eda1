"""What an eviction came to: the words that the answers of the API server are reduced to."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """What the request to move a pod came to."""

    EVICTED = "Evicted"
    STARTED = "Started"  # somebody else moves the pod now, as KubeVirt does: it leaves later, or not at all
    RESTARTED = "Restarted"  # the pod's Deployment was asked to replace it by a rolling update
    GONE = "Gone"  # the pod left by itself, or was replaced by another: this run evicted nothing
    SKIPPED = "Skipped"  # nothing was requested
    REFUSED = "Refused"  # by a budget, a missing right or the API's rules: nothing happened
    UNKNOWN = "Unknown"  # the answer was lost and the pod cannot be read


@dataclass(frozen=True, slots=True)
class EvictionAnswer:
    """The verdict on one eviction, with its reason; times in Unix seconds."""

    verdict: Verdict
    because: str
    at: float  # by our clock, when the verdict was known
    not_before: float  # no replacement is older: the earlier of our clock and the server's at the request
    attempts: int = 1
    rights_missing: bool = False
    rejected: bool = False  # the API server does not accept such a request, whatever the pod
    restarted_at: str = ""  # the annotation by which the pods of a rolling update are known


@dataclass(frozen=True, slots=True)
class Patience:
    """How long one eviction is tried: no attempt after so many, and none begins after so many seconds."""

    attempts: int = 5
    seconds: float = 45.0  # room for a second attempt after one that got no answer for 30 s
