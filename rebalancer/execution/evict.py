"""One eviction through the Eviction API, never a DELETE; every answer is reduced to one verdict.

Before each request the pod is read. One that changed since its move was checked, as by an annotation that
protects it, is judged anew. The request bears the uid and the version that were read as preconditions, so
that neither a new pod of the same name is evicted nor one that changed meanwhile; the answer is then 409, and
the pod is looked at again. What an answer means stands in a table; the first row that fits decides:

    read web-1, version 7, as it was checked     request with uid and version 7
    409                                          read: version 8, which says safe-to-evict: "false"
    judged anew: protected                       SKIPPED

The API server spends a budget before it checks the preconditions, so a 409 may cost a disruption for the two
minutes that the budget remembers it. That is rare: reading and request lie milliseconds apart.

``Attempts`` is what an eviction shares with the restart of a Deployment: a request is repeated while no
verdict is certain, another attempt may help, and the patience lasts. It is finished even after the run was
asked to stop, because a request whose answer nobody reads leaves a pod in an unknown state.

Only an answer with the API server's own Status says what the API server did, a success too. A proxy, a load
balancer or a login page that answers in its place may have passed the request on, so the request may still be
carried out. After every answer but such a success the pod is looked at, and that decides:

    leaving, or gone        evicted: whatever the answer says, a request had been sent
    there as before         another request, where that may help; else refused, or unknown while one is open
    not to be read          unknown

A pod may end by itself in that moment. To count it as evicted costs a cooldown that was not needed; not to
count one that was evicted would cost the limits, and nobody would look where its replacement lands.

Sources: kubernetes v1.35 pkg/registry/core/pod/storage/eviction.go; k8s.io/apiserver pkg/server/filters,
whose flow control answers in plain text, and there timeout.go, whose 504 does not end the request; kubevirt
pkg/virt-api/webhooks/validating-webhook/admitters/pod-eviction-admitter.go.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Container
from enum import Enum, StrEnum
from functools import partial
from typing import Generic, TypeVar

import msgspec
from msgspec.structs import replace

from rebalancer.cluster.live import RawApi, object_path
from rebalancer.cluster.live.failures import DENIED, StatusError
from rebalancer.deadlines import ANSWER_SECONDS, Deadline
from rebalancer.errors import RebalancerError, StopRequestedError
from rebalancer.execution.observed_pods import ObservedPod, read_pod
from rebalancer.http import Answer, NoAnswerError, http_date
from rebalancer.planning.plan import Cleanup, Move
from rebalancer.retries import Retries, Retry


class Verdict(StrEnum):
    """What the request to move a pod came to."""

    EVICTED = "Evicted"
    STARTED = "Started"  # somebody else moves the pod now, as KubeVirt does: it leaves later, or not at all
    RESTARTED = "Restarted"  # the pod's Deployment was asked to replace it by a rolling update
    GONE = "Gone"  # the pod left before anything was requested: this run evicted nothing
    SKIPPED = "Skipped"  # nothing was requested
    REFUSED = "Refused"  # by a budget, a missing right or the API's rules: nothing happened
    UNKNOWN = "Unknown"  # the answer was lost and the pod cannot be read


class Ends(Enum):
    """Why no other move of the run would fare better."""

    LOGIN = "the credentials are not accepted"
    RIGHTS = "a right is missing"
    REJECTED = "the API server does not accept such a request, whatever the pod"


class AnswerRow(msgspec.Struct, frozen=True, kw_only=True):
    """Which answers are meant, and what follows from them."""

    statuses: Container[int]
    own: bool | None = None  # whether the body is the API server's own Status; None: either
    words: tuple[str, ...] = ("",)  # the message contains one of them
    open: bool = False  # the request may still be carried out
    started: bool = False  # somebody else moves the pod now
    again: bool = False  # another request may help
    ends: Ends | None = None

    def fits(self, status: int, own: bool, message: str) -> bool:
        """Whether such an answer is meant."""
        return (
            status in self.statuses
            and self.own in (None, own)
            and any(words in message for words in self.words)
        )


_ANY = range(1000)
_CLIENT_ERRORS = range(400, 500)
_SERVER_ERRORS = range(500, 600)
_EVACUATION = ("Eviction triggered evacuation",)  # the pod was not evicted, and is moved in another way
_TURNED_AWAY = (  # by flow control, or by an API server that shuts down
    "Too many requests, please try again later.",
    "The apiserver is shutting down, please try again later.",
)
_NO_RIGHT = ("cannot create resource", "cannot patch resource", "cannot get resource")  # no webhook says so
_TWO_BUDGETS = ("more than one PodDisruptionBudget",)
_STORAGE = ("etcdserver:", "rpc error")  # the API server's storage did not answer in time

NOT_THE_SERVERS = AnswerRow(statuses=_ANY, own=False, open=True, ends=Ends.REJECTED)
ANSWERS: tuple[AnswerRow, ...] = (
    AnswerRow(statuses=(429,), own=True, words=_EVACUATION, started=True),
    AnswerRow(statuses=(429,), own=True, again=True),  # a budget
    AnswerRow(statuses=(429,), own=False, words=_TURNED_AWAY, again=True),
    AnswerRow(statuses=(429,), own=False, open=True, again=True),
    AnswerRow(statuses=(401,), ends=Ends.LOGIN),
    AnswerRow(statuses=(403,), own=True, words=_NO_RIGHT, ends=Ends.RIGHTS),
    AnswerRow(statuses=(403,), own=True),  # a webhook, a policy or a quota
    AnswerRow(statuses=(409,), own=True, again=True),  # a precondition
    AnswerRow(statuses=_CLIENT_ERRORS, own=True, words=DENIED),
    AnswerRow(statuses=_SERVER_ERRORS, own=True, words=_TWO_BUDGETS),
    AnswerRow(statuses=_SERVER_ERRORS, own=True, words=_STORAGE, open=True, again=True),
    AnswerRow(statuses=(502, 504), own=True, open=True, again=True),
    AnswerRow(statuses=_SERVER_ERRORS, own=True, again=True),
    AnswerRow(statuses=_SERVER_ERRORS, own=False, open=True, again=True),
    AnswerRow(statuses=_ANY, own=True, ends=Ends.REJECTED),
    NOT_THE_SERVERS,
)
NO_ANSWER = AnswerRow(statuses=(), open=True, again=True)


def row_of(error: StatusError) -> AnswerRow:
    """What follows from an answer that did not accept the request."""
    own = error.is_status
    text = f"{error.message} {error.text}"
    return next(row for row in ANSWERS if row.fits(error.status, own, text))


_READ_SECONDS = 30.0
REQUESTER = "rebalancer"
_FIRST_WAIT_SECONDS = 0.5
_MAX_WAIT_SECONDS = 8.0
_MAX_BYTES = 1 << 20
_MAX_REASON = 1024  # characters


Leaving = TypeVar("Leaving", bound=Move | Cleanup)
"""For what a pod leaves: a move, or its removal after it has finished."""


class Attempt(msgspec.Struct, Generic[Leaving], frozen=True):
    """What was requested for one pod, and what that came to; times in Unix seconds."""

    move: Leaving  # with the landings it had when it was requested
    verdict: Verdict  # the one that counts where no further request is made
    message: str  # why it is so
    retry: Retry | None = None  # why another request may lead to another verdict, if it may
    ends: Ends | None = None  # why no other move would fare better, if so
    failure: RebalancerError | None = None  # why the pod could not be looked at before the request
    at: float = 0.0  # when the verdict was known, by our clock
    not_before: float = 0.0  # no replacement is older; the earlier of our clock and the server's
    requests: int = 1
    restarted_at: str = ""  # the annotation by which the pods of a rolling update are known

    @property
    def is_granted(self) -> bool:
        """Whether the pod leaves its node, at once or later."""
        return self.verdict in (Verdict.EVICTED, Verdict.STARTED, Verdict.RESTARTED)


class Patience(msgspec.Struct, frozen=True):
    """How long one eviction is tried: no attempt after so many, and none begins after so many seconds."""

    attempts: int = 5
    seconds: float = 45.0  # room for a second attempt after one that got no answer for 30 s


class EvictionClient(msgspec.Struct, Generic[Leaving], frozen=True):
    """What every request of a run needs, and how long each is repeated."""

    api: RawApi
    clock: Callable[[], float]
    patience: Patience = msgspec.field(default_factory=Patience)
    why_forbidden: Callable[[], str] = lambda: ""  # why nothing may be requested now; empty when it may
    # A move of a pod as it was read just now: the move as it holds, or why it does not hold any more.
    judge: Callable[[Leaving, ObservedPod], Leaving | str] = lambda move, _: move
    interrupted: Callable[[], bool] = lambda: False
    # The group and version of an Eviction; servers before 1.22 know policy/v1beta1 alone.
    eviction_version: Callable[[], str] = lambda: "policy/v1"
    dry_run: bool = False

    @property
    def deadline(self) -> Deadline:
        """Until when the answer to a request is awaited."""
        return self.api.retries.run.finishing(ANSWER_SECONDS)

    @property
    def options(self) -> dict[str, str]:
        """Options of every request that would change something."""
        return {"dryRun": "All"} if self.dry_run else {}

    @property
    def retries(self) -> Retries:
        """How often and how long one request is repeated."""
        return replace(
            self.api.retries,
            attempts=self.patience.attempts,
            deadline_seconds=self.patience.seconds,
            first_wait_seconds=_FIRST_WAIT_SECONDS,
            max_wait_seconds=_MAX_WAIT_SECONDS,
            max_retry_after_seconds=float("inf"),  # a longer one ends the attempts by the deadline
        )


class Attempts(ABC, Generic[Leaving]):
    """The requests made for one move, and what the earlier ones left open."""

    granted: Verdict  # what a request comes to that is carried out
    answered_with: str  # the kind of object by which the API server says so
    done: str  # what is seen of it then

    def __init__(self, client: EvictionClient[Leaving], move: Leaving) -> None:
        self.client = client
        self.move = move
        # What the move came to, unless another request is made.
        self.ended: Callable[..., Attempt[Leaving]] = partial(Attempt, move)
        self.api = client.api.finishing()
        self.not_before = client.clock()
        self.restarted_at = ""
        self.open = False  # a request may still be carried out, or have been
        self._count = 0

    @abstractmethod
    def why_not(self, pod: ObservedPod | None) -> Attempt[Leaving] | None:
        """What the move came to where no request must be sent for the pod as it is now; None to send one.

        Raises RebalancerError when that cannot be found out.
        """

    @abstractmethod
    def send(self, pod: ObservedPod) -> Answer:
        """Send one request. Raises StatusError, NoAnswerError or StopRequestedError."""

    @abstractmethod
    def is_done(self) -> bool | None:
        """Whether a request is seen to have been carried out; None where what it was for is gone.

        Raises RebalancerError when that cannot be found out.
        """

    def pod(self) -> ObservedPod | None:
        """The pod as it is now; None where it is gone, though another may have its name."""
        pod = read_pod(self.api, self.move.pod.namespace, self.move.pod.name)
        return pod if pod is not None and pod.metadata.uid == self.move.pod.uid else None

    def answer_to(
        self, method: str, path: str, body: object, *, what: str, max_bytes: int, **options: str
    ) -> Answer:
        """The answer to a request that changes something, with these options. Raises as ``send`` does."""
        return self.api.client.send(
            method,
            path,
            {**options, **self.client.options},
            body=body,
            max_bytes=max_bytes,
            read_seconds=_READ_SECONDS,
            deadline=self.client.deadline,
            what=what,
            body_needed=False,
        )

    def repeat(self, what: str) -> Attempt[Leaving]:
        """Repeat the request while that is safe and may help; ``what`` names it in logs."""
        last = self.client.retries.until(what, self._request, self._again)
        return replace(
            last,
            move=self.move,
            at=self.client.clock(),
            not_before=self.not_before,
            requests=self._count,
            restarted_at=self.restarted_at,
        )

    def left(self, message: str) -> Attempt[Leaving]:
        """The pod is leaving or gone: once a request was sent that could do so, this run moved it."""
        return self.ended(self.granted if self.is_requested else Verdict.GONE, message)

    @property
    def is_requested(self) -> bool:
        """Whether a request was sent that may have been carried out."""
        return self._count > 0 and not self.client.dry_run

    @property
    def not_sent(self) -> Verdict:
        """The verdict when no further request is sent: an earlier one may have been carried out."""
        return Verdict.UNKNOWN if self.open else Verdict.SKIPPED

    def _request(self) -> Attempt[Leaving]:
        """Look at the pod, send one request, unless that is forbidden, and find out what it did."""
        try:
            pod = self.pod()
            refusal = self.why_not(pod)
            if refusal is not None or pod is None:
                return refusal or self.left("the pod is gone already")
            verdict = self.client.judge(self.move, pod)
        except RebalancerError as error:
            return self.ended(self.not_sent, f"it cannot be looked at again: {error}", failure=error)
        why = verdict if isinstance(verdict, str) else self.client.why_forbidden()
        if isinstance(verdict, str) or why:
            return self.ended(self.not_sent, why)
        self.move = verdict
        self._count += 1
        self._server_says(self.api.client.server_time())  # as the pod was read: an answer may be late or lost
        try:
            answer = self.send(pod)
        except StatusError as error:
            return self._answered(row_of(error), _in_words(error), error.retry_after)
        except StopRequestedError as error:
            return self._answered(NO_ANSWER, f"the answer was not awaited ({error.message})")
        except NoAnswerError as error:
            return self._answered(NO_ANSWER, f"the answer was lost ({error.kind})")
        self._server_says(http_date(answer.headers.get("Date")))
        return self._accepted(answer)

    def _accepted(self, answer: Answer) -> Attempt[Leaving]:
        """What a success comes to: only the API server's own says so."""
        body = StatusError(answer)
        if body.kind == self.answered_with and not body.is_failure:
            return self.ended(self.granted, "accepted by the API server")
        what = f"the answer, with HTTP {answer.status},"
        if not answer.body:
            return self._answered(NO_ANSWER, f"{what} has no body")
        if body.is_failure:
            return self._answered(NOT_THE_SERVERS, f"{what} is a failure: {body.message}")
        return self._answered(NOT_THE_SERVERS, f"{what} is no {self.answered_with} of the API server")

    def _server_says(self, time: float | None) -> None:
        """A replacement may be as old as the server's clock says, which may be behind ours."""
        if time is not None:
            self.not_before = min(self.not_before, time)

    def _answered(self, row: AnswerRow, message: str, retry_after: float | None = None) -> Attempt[Leaving]:
        """What an answer means, once the pod has been looked at."""
        if row.started:
            return self.ended(Verdict.STARTED, message)
        self.open = self.open or row.open
        try:
            done = self.is_done()
        except RebalancerError as error:
            why = f"{message}, and what it did cannot be read: {error}"
            return self.ended(Verdict.UNKNOWN, why, ends=row.ends)
        if done is None:
            return self.left(f"{message}; the pod is gone")
        if done:
            return self.left(f"{message}; {self.done}")
        verdict = Verdict.UNKNOWN if self.open else Verdict.REFUSED
        retry = Retry(message, retry_after) if row.again else None
        return self.ended(verdict, f"{message}; the pod is still there", ends=row.ends, retry=retry)

    def _again(self, attempt: Attempt[Leaving]) -> Retry | None:
        return attempt.retry if attempt.retry is not None and not self.client.interrupted() else None


def _in_words(error: StatusError) -> str:
    """What an answer says, with who says it where that is not the API server's usual way to refuse."""
    budgets = " ".join(error.causes("DisruptionBudget"))[:500]
    if not error.is_status:
        return f"it was not the API server that answered with HTTP {error.status}: {error.message}"
    if error.status in (401, 403, 409, 429) or error.status >= 500:
        return budgets or error.message
    return f"the API server rejected the request with HTTP {error.status}: {error.message}"


def evict(client: EvictionClient[Leaving], move: Leaving) -> Attempt[Leaving]:
    """Ask the API server to evict a pod; repeated while that is safe and may help."""
    return _Eviction(client, move).repeat(f"evict {move.pod.full_name}")


class _Eviction(Attempts[Leaving]):
    granted = Verdict.EVICTED
    answered_with = "Status"
    done = "the pod is terminating"
    _version = ""  # in which the API server takes an Eviction

    def why_not(self, pod: ObservedPod | None) -> Attempt[Leaving] | None:
        """A pod that leaves already needs no request."""
        self._version = self.client.eviction_version()
        if pod is None or not pod.terminating:
            return None
        return self.left("the pod is terminating already")

    def send(self, pod: ObservedPod) -> Answer:
        preconditions = {"uid": pod.metadata.uid, "resourceVersion": pod.metadata.resource_version}
        body = {
            "apiVersion": self._version,
            "kind": "Eviction",
            # For audit logs and admission webhooks, under the names that descheduler made known.
            "metadata": {
                "name": pod.metadata.name,
                "namespace": pod.metadata.namespace,
                "annotations": {"requester": REQUESTER, "reason": self.move.because[:_MAX_REASON]},
            },
            "deleteOptions": {"preconditions": preconditions},
        }
        path = object_path("v1", pod.metadata.namespace, "pods", pod.metadata.name, "eviction")
        return self.answer_to("POST", path, body, what=f"evict {pod.full_name}", max_bytes=_MAX_BYTES)

    def is_done(self) -> bool | None:
        pod = self.pod()
        return None if pod is None else pod.terminating
