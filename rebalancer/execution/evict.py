"""One eviction through the Eviction API, never a DELETE; every answer is reduced to one verdict.

The uid travels as a precondition, so that a new pod of the same name is never evicted. An answer that says
nothing certain (a lost connection, 409, 5xx) is settled by reading the pod again:

    the lease or a safety check forbids it  SKIPPED, without a request
    429 from a budget                       try again; REFUSED at the end
    429 of an evacuation that began         STARTED, never asked again
    400, 405, 410, 413, 422                 REFUSED, never asked again, for any pod unless a webhook denied it
    connection lost, pod is terminating     EVICTED
    connection lost, pod is unchanged       try again; UNKNOWN at the end: the request may still arrive
    connection lost, then 404               EVICTED: the lost request did it
    404 to the first request                GONE: somebody else deleted the pod

``Attempts`` is what an eviction shares with the restart of a Deployment: a request is repeated while no
verdict is certain, another attempt may help, and the patience lasts. It is finished even after the run was
asked to stop, because a request whose answer nobody reads leaves a pod in an unknown state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import StrEnum

import msgspec
from msgspec.structs import replace

from rebalancer.cluster.live import RawApi, object_path
from rebalancer.cluster.live.failures import StatusError
from rebalancer.deadlines import ANSWER_SECONDS, Deadline
from rebalancer.errors import RebalancerError, StopRequestedError
from rebalancer.execution.observed_pods import PodReader
from rebalancer.http import Answer, NoAnswerError, http_date
from rebalancer.planning.plan import Move
from rebalancer.retries import Retries, Retry

READ_SECONDS = 30.0
DENIED = "denied the request"  # how the API server words the verdict of a webhook, whatever its status
REQUESTER = "rebalancer"
_FIRST_WAIT_SECONDS = 0.5
_MAX_WAIT_SECONDS = 8.0
_MAX_BYTES = 1 << 20
_MAX_REASON = 1024  # characters
_TWO_BUDGETS = "more than one PodDisruptionBudget"
_GATEWAY_TIMEOUTS = frozenset({502, 504})  # a proxy stopped waiting: the request may still be carried out
_STORAGE = "etcdserver:"  # how the API server words that its storage did not answer in time
# How KubeVirt, and whoever follows it, answers: the pod was not evicted, and is moved in another way
# (kubevirt pkg/virt-api/webhooks/validating-webhook/admitters/pod-eviction-admitter.go).
_EVACUATION = "Eviction triggered evacuation"
_NO_RIGHT = "cannot create resource"  # how the API server words a missing right, and no webhook does


class Verdict(StrEnum):
    """What the request to move a pod came to."""

    EVICTED = "Evicted"
    STARTED = "Started"  # somebody else moves the pod now, as KubeVirt does: it leaves later, or not at all
    RESTARTED = "Restarted"  # the pod's Deployment was asked to replace it by a rolling update
    GONE = "Gone"  # the pod left by itself, or was replaced by another: this run evicted nothing
    SKIPPED = "Skipped"  # nothing was requested
    REFUSED = "Refused"  # by a budget, a missing right or the API's rules: nothing happened
    UNKNOWN = "Unknown"  # the answer was lost and the pod cannot be read


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """What was requested for one move, and what that came to; times in Unix seconds."""

    move: Move
    verdict: Verdict  # the one that counts where no further request is made
    message: str  # why it is so
    may_retry: bool = False  # another request may lead to another verdict
    retry_after: float | None = None  # so many seconds later, if the server said
    rights_missing: bool = False
    rejected: bool = False  # the API server does not accept such a request, whatever the pod
    at: float = 0.0  # by our clock, when the verdict was known
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


class EvictionClient(msgspec.Struct, frozen=True):
    """What every request of a run needs, and how long each is repeated."""

    api: RawApi
    clock: Callable[[], float]
    patience: Patience = msgspec.field(default_factory=Patience)
    why_forbidden: Callable[[], str] = lambda: ""  # why nothing may be requested now; empty when it may
    interrupted: Callable[[], bool] = lambda: False
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


class Attempts(ABC):
    """The requests made for one move, and what the earlier ones left open."""

    def __init__(self, client: EvictionClient, move: Move) -> None:
        self.client = client
        self.move = move
        self.count = 0
        self.not_before = client.clock()
        self.restarted_at = ""
        self.perhaps_sent = False  # a request may have been carried out

    @abstractmethod
    def request(self) -> Attempt:
        """Send one request, unless that is forbidden, and find out what it did."""

    def retry(self, what: str) -> Attempt:
        """Repeat the request while that is safe and may help; ``what`` names it in logs."""
        last = self.client.retries.until(what, self.request, self._again)
        return replace(
            last,
            at=self.client.clock(),
            not_before=self.not_before,
            requests=self.count,
            restarted_at=self.restarted_at,
        )

    def ended(
        self, verdict: Verdict, message: str, *, rights_missing: bool = False, rejected: bool = False
    ) -> Attempt:
        """The verdict is certain, or no further request may be made."""
        return Attempt(
            move=self.move, verdict=verdict, message=message, rights_missing=rights_missing, rejected=rejected
        )

    def uncertain(self, verdict: Verdict, message: str, retry_after: float | None = None) -> Attempt:
        """Another request may help; without one, this is the verdict."""
        return Attempt(
            move=self.move, verdict=verdict, message=message, may_retry=True, retry_after=retry_after
        )

    def forbidden(self) -> Attempt | None:
        """What the move came to when nothing may be requested now; None when it may."""
        why = self.client.why_forbidden()
        return self.ended(self.not_sent, why) if why else None

    @property
    def not_sent(self) -> Verdict:
        """The verdict when no further request is sent: an earlier one may have been carried out."""
        return Verdict.UNKNOWN if self.perhaps_sent else Verdict.SKIPPED

    def accepted(self, verdict: Verdict, message: str, answer: Answer) -> Attempt:
        """The API server did what was asked; its clock may be behind ours."""
        server = http_date(answer.headers.get("Date"))
        if server is not None:
            self.not_before = min(self.not_before, server)
        return self.ended(verdict, message)

    def rejected(self, verdict: Verdict, status: int, message: str) -> Attempt:
        """An answer by which no such request is accepted, for any pod, unless a webhook denied this one."""
        why = f"the API server rejected the request with HTTP {status}: {message}"
        return self.ended(verdict, why, rejected=DENIED not in message)

    def _again(self, attempt: Attempt) -> Retry | None:
        if not attempt.may_retry or self.client.interrupted():
            return None
        return Retry(attempt.message, attempt.retry_after)


def evict(client: EvictionClient, move: Move) -> Attempt:
    """Ask the API server to evict the pod of a move; repeated while that is safe and may help."""
    return _Eviction(client, move).retry(f"evict {move.pod.full_name}")


class _Eviction(Attempts):
    """The requests made for one pod, and what the earlier ones left open."""

    def __init__(self, client: EvictionClient, move: Move) -> None:
        super().__init__(client, move)
        self._pods = PodReader(client.api.finishing())
        self._answer_lost = False  # a request may still arrive, or still be at work

    def request(self) -> Attempt:
        """Send one request and find out what it did."""
        forbidden = self.forbidden()
        if forbidden is not None:
            return forbidden
        self.count += 1
        try:
            answer = self._post()
        except StatusError as error:
            return self._refused(error)
        except StopRequestedError as error:
            self._answer_lost = self.perhaps_sent = True
            return self._looked_up(f"the answer was not awaited ({error.message})")
        except NoAnswerError as error:
            self._answer_lost = self.perhaps_sent = True
            return self._looked_up(f"the answer was lost ({error.kind})")
        return self.accepted(Verdict.EVICTED, "accepted by the API server", answer)

    def _post(self) -> Answer:
        """Send one eviction. Raises StatusError, NoAnswerError or StopRequestedError."""
        pod = self.move.pod
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            # For audit logs and admission webhooks, under the names that descheduler made known.
            "metadata": {
                "name": pod.name,
                "namespace": pod.namespace,
                "annotations": {"requester": REQUESTER, "reason": self.move.because[:_MAX_REASON]},
            },
            "deleteOptions": {"preconditions": {"uid": pod.uid}},
        }
        return self.client.api.client.send(
            "POST",
            object_path("v1", pod.namespace, "pods", pod.name, "eviction"),
            self.client.options,
            body=body,
            max_bytes=_MAX_BYTES,
            read_seconds=READ_SECONDS,
            deadline=self.client.deadline,
            what=f"evict {pod.full_name}",
            body_needed=False,
        )

    def _refused(self, error: StatusError) -> Attempt:
        message, status = error.message, error.status
        if status == 429 and _EVACUATION in message:
            return self.ended(Verdict.STARTED, message)
        if status == 429:
            budgets = " ".join(error.causes("DisruptionBudget"))[:500]
            return self.uncertain(self._not_accepted, budgets or message, error.retry_after)
        if status == 404:
            return self._gone("the pod is gone already")
        if status == 409:
            return self._looked_up(message, skipped="the pod was replaced by another one")
        if status >= 500:
            self.perhaps_sent = True
            self._answer_lost |= status in _GATEWAY_TIMEOUTS or _STORAGE in message
            return self._looked_up(message, final=_TWO_BUDGETS in message)
        if status in (401, 403):
            missing = status == 401 or _NO_RIGHT in message
            return self.ended(self._not_accepted, message, rights_missing=missing)
        return self.rejected(self._not_accepted, status, message)

    @property
    def _not_accepted(self) -> Verdict:
        """The verdict after a refusal: an earlier request whose answer was lost may still arrive."""
        return Verdict.UNKNOWN if self._answer_lost else Verdict.REFUSED

    def _gone(self, message: str) -> Attempt:
        """The pod is gone: evicted by an earlier request, if one may have been carried out."""
        if self.perhaps_sent:
            return self.ended(
                Verdict.EVICTED, f"{message}: an earlier request that returned an error did evict it"
            )
        return self.ended(Verdict.GONE, message)

    def _looked_up(self, message: str, *, skipped: str = "", final: bool = False) -> Attempt:
        """Read the pod again to find out what a request did whose answer does not say."""
        try:
            pod = self._pods.pod(self.move.pod.namespace, self.move.pod.name)
        except RebalancerError as error:
            return self.ended(Verdict.UNKNOWN, f"{message}, and the pod cannot be read: {error}")
        if pod is None or pod.metadata.uid != self.move.pod.uid:
            if skipped:
                return self._gone(skipped)
            return self.ended(Verdict.EVICTED, f"{message}; the pod is gone")
        if pod.terminating:
            return self.ended(Verdict.EVICTED, f"{message}; the pod is terminating")
        message = f"{message}; the pod is still there"
        return (self.ended if final else self.uncertain)(self._not_accepted, message)
