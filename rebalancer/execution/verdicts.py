"""What an answer to the request to move a pod means: one table, in which the first row that fits decides.

Only an answer that bears the API server's own Status says what the API server did. Whatever else stands
between, a proxy, a load balancer or a login page, may have passed the request on, so its answer leaves open
whether the request is still carried out. After almost every answer the pod is looked at, and that decides:

    leaving, or gone        evicted; gone by itself where the answer says that there was nothing to evict
    there as before         another request, where that may help; else refused, or unknown while one is open
    not to be read          unknown

Sources: kubernetes v1.35 pkg/registry/core/pod/storage/eviction.go; k8s.io/apiserver pkg/server/filters,
whose flow control answers in plain text, and there timeout.go, whose 504 does not end the request; kubevirt
pkg/virt-api/webhooks/validating-webhook/admitters/pod-eviction-admitter.go.
"""

from __future__ import annotations

from collections.abc import Container
from enum import Enum, StrEnum

import msgspec

from rebalancer.cluster.live.failures import StatusError


class Verdict(StrEnum):
    """What the request to move a pod came to."""

    EVICTED = "Evicted"
    STARTED = "Started"  # somebody else moves the pod now, as KubeVirt does: it leaves later, or not at all
    RESTARTED = "Restarted"  # the pod's Deployment was asked to replace it by a rolling update
    GONE = "Gone"  # the pod left by itself, or was replaced by another: this run evicted nothing
    SKIPPED = "Skipped"  # nothing was requested
    REFUSED = "Refused"  # by a budget, a missing right or the API's rules: nothing happened
    UNKNOWN = "Unknown"  # the answer was lost and the pod cannot be read


class Ends(Enum):
    """Why no other move of the run would fare better."""

    RIGHTS = "a right is missing"
    REJECTED = "the API server does not accept such a request, whatever the pod"


class AnswerRow(msgspec.Struct, frozen=True, kw_only=True):
    """Which answers are meant, and what follows from them."""

    statuses: Container[int]
    own: bool | None = None  # whether the body is the API server's own Status; None: either
    words: tuple[str, ...] = ("",)  # of which the message holds one
    open: bool = False  # the request may still be carried out
    look: bool = True  # the pod decides; else the answer does
    again: bool = False  # another request may help
    verdict: Verdict = Verdict.REFUSED  # where the pod is there as before, or is not looked at
    absent: Verdict = Verdict.EVICTED  # where the pod is gone
    ends: Ends | None = None

    def fits(self, status: int, own: bool, message: str) -> bool:
        """Whether such an answer is meant."""
        return (
            status in self.statuses
            and self.own in (None, own)
            and any(words in message for words in self.words)
        )


_ANY = range(1000)
_CLIENT_ERRORS, _SERVER_ERRORS = range(400, 500), range(500, 600)
_EVACUATION = ("Eviction triggered evacuation",)  # the pod was not evicted, and is moved in another way
_TURNED_AWAY = (  # by flow control, or by an API server that shuts down
    "Too many requests, please try again later.",
    "The apiserver is shutting down, please try again later.",
)
_NO_RIGHT = ("cannot create resource", "cannot patch resource", "cannot get resource")  # no webhook says so
_DENIED = ("denied the request",)  # how the API server words the verdict of a webhook, whatever its status
_TWO_BUDGETS = ("more than one PodDisruptionBudget",)
_STORAGE = ("etcdserver:", "rpc error")  # the API server's storage did not answer in time

ANSWERS: tuple[AnswerRow, ...] = (
    AnswerRow(statuses=(429,), own=True, words=_EVACUATION, look=False, verdict=Verdict.STARTED),
    AnswerRow(statuses=(429,), own=True, again=True),  # a budget
    AnswerRow(statuses=(429,), own=False, words=_TURNED_AWAY, again=True),
    AnswerRow(statuses=(429,), own=False, open=True, again=True),
    AnswerRow(statuses=(401,), look=False, ends=Ends.RIGHTS),
    AnswerRow(statuses=(403,), own=True, words=_NO_RIGHT, look=False, ends=Ends.RIGHTS),
    AnswerRow(statuses=(403,), own=True),  # a webhook, a policy or a quota
    AnswerRow(statuses=(404,), own=True, words=_DENIED, absent=Verdict.GONE),
    AnswerRow(statuses=(404,), own=True, absent=Verdict.GONE, ends=Ends.REJECTED),
    AnswerRow(statuses=(409,), own=True, again=True, absent=Verdict.GONE),  # a precondition
    AnswerRow(statuses=_CLIENT_ERRORS, own=True, words=_DENIED),
    AnswerRow(statuses=_SERVER_ERRORS, own=True, words=_TWO_BUDGETS),
    AnswerRow(statuses=_SERVER_ERRORS, own=True, words=_STORAGE, open=True, again=True),
    AnswerRow(statuses=(502, 504), own=True, open=True, again=True),
    AnswerRow(statuses=_SERVER_ERRORS, own=True, again=True),
    AnswerRow(statuses=_SERVER_ERRORS, own=False, open=True, again=True),
    AnswerRow(statuses=_ANY, own=True, ends=Ends.REJECTED),
    AnswerRow(statuses=_ANY, own=False, open=True, ends=Ends.REJECTED),
)
NO_ANSWER = AnswerRow(statuses=(), open=True, again=True)


def row_of(error: StatusError) -> AnswerRow:
    """What follows from an answer that did not accept the request."""
    own, text = error.is_status, f"{error.message} {error.text}"
    return next(row for row in ANSWERS if row.fits(error.status, own, text))
