"""One eviction through the Eviction API, never a DELETE; every answer is reduced to one verdict.

The uid travels as a precondition, so that a new pod of the same name is never evicted. An answer that says
nothing certain (a lost connection, 409, 5xx) is settled by reading the pod again:

    the lease or a brake forbids it      SKIPPED, without a request
    429 from a budget                    try again; REFUSED at the end
    429 of an evacuation that began      STARTED, never asked again
    400, 405, 410, 413, 422              REFUSED, never asked again, for any pod unless a webhook denied it
    connection lost, pod is terminating  EVICTED
    connection lost, pod is unchanged    try again; UNKNOWN at the end: the request may still arrive
    connection lost, then 404            EVICTED: the lost request did it
    404 to the first request             GONE: somebody else deleted the pod
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from rebalancer.cluster.live import RawApi
from rebalancer.cluster.live.answers import NoAnswerError, StatusError
from rebalancer.deadlines import ANSWER_SECONDS
from rebalancer.errors import RebalancerError, StopRequestedError
from rebalancer.execution.eviction.verdicts import EvictionAnswer, Patience, Verdict
from rebalancer.execution.observed_pods import ObservedPod, PodReader
from rebalancer.planning.plan import Move, PodReference
from rebalancer.retries import Again, http_date

_READ_SECONDS = 30.0
_MAX_BYTES = 1 << 20
_MAX_REASON = 1024  # characters
REQUESTER = "rebalancer"
_PATIENCE = Patience()
_FIRST_WAIT_SECONDS = 0.5
_MAX_WAIT_SECONDS = 8.0
_TWO_BUDGETS = "more than one PodDisruptionBudget"
_GATEWAY_TIMEOUTS = frozenset({502, 504})  # a proxy stopped waiting: the request may still be carried out
_STORAGE = "etcdserver:"  # how the API server words that its storage did not answer in time
# How KubeVirt, and whoever follows it, answers: the pod was not evicted, and is moved in another way
# (kubevirt pkg/virt-api/webhooks/validating-webhook/admitters/pod-eviction-admitter.go).
_EVACUATION = "Eviction triggered evacuation"
_DENIED = "denied the request"  # how the API server words the verdict of a webhook, whatever its status
_NO_RIGHT = "cannot create resource"  # how the API server words a missing right, and no webhook does


@dataclass(frozen=True, slots=True)
class _Attempt:
    """What one request came to. Without a verdict another may follow; at the end ``otherwise`` counts."""

    verdict: Verdict | None
    because: str
    otherwise: Verdict = Verdict.REFUSED
    retry_after: float | None = None
    rights_missing: bool = False
    rejected: bool = False


class Evictor:
    """Evicts pods, one request at a time."""

    def __init__(
        self,
        api: RawApi,
        clock: Callable[[], float],
        *,
        patience: Patience = _PATIENCE,
        permitted: Callable[[], str] = lambda: "",
        interrupted: Callable[[], bool] = lambda: False,
        dry_run: bool = False,
    ) -> None:
        self._client = api.client
        self._deadline = api.retries.run.finishing(ANSWER_SECONDS)
        self._pods = PodReader(api.finishing())
        self._clock = clock
        self._retries = replace(
            api.retries,
            attempts=patience.attempts,
            deadline_seconds=patience.seconds,
            first_wait_seconds=_FIRST_WAIT_SECONDS,
            max_wait_seconds=_MAX_WAIT_SECONDS,
            max_retry_after_seconds=float("inf"),  # a longer one ends the attempts by the deadline
        )
        self._permitted = permitted
        self._interrupted = interrupted
        self._dry_run = dry_run

    def evict(self, move: Move) -> EvictionAnswer:
        """Ask the API server to evict the pod of a move; repeated while that is safe and may help."""
        attempts = _Attempts(self, move)
        attempt = self._retries.until(f"evict {move.pod.full_name}", attempts.next, self._again)
        return EvictionAnswer(
            verdict=attempt.verdict or attempt.otherwise,
            because=attempt.because,
            at=self._clock(),
            not_before=attempts.not_before,
            attempts=attempts.count,
            rights_missing=attempt.rights_missing,
            rejected=attempt.rejected,
        )

    def _again(self, attempt: _Attempt) -> Again | None:
        if attempt.verdict is not None or self._interrupted():
            return None
        return Again(attempt.because, attempt.retry_after)

    def post(self, move: Move) -> float | None:
        """Send one eviction; returns the server's time if known. Raises StatusError or NoAnswerError."""
        pod = move.pod
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            # For audit logs and admission webhooks, under the names that descheduler made known.
            "metadata": {
                "name": pod.name,
                "namespace": pod.namespace,
                "annotations": {"requester": REQUESTER, "reason": move.because[:_MAX_REASON]},
            },
            "deleteOptions": {"preconditions": {"uid": pod.uid}},
        }
        options: dict[str, Any] = {"dry_run": "All"} if self._dry_run else {}
        answer = self._client.send(
            self._client.core.create_namespaced_pod_eviction,
            pod.name,
            pod.namespace,
            body,
            max_bytes=_MAX_BYTES,
            read_seconds=_READ_SECONDS,
            deadline=self._deadline,
            what=f"evict {pod.full_name}",
            body_needed=False,
            **options,
        )
        return http_date(answer.date)

    def forbidden(self) -> str:
        """Why nothing may be requested now; empty when it may."""
        return self._permitted()

    def now(self) -> float:
        """Our clock."""
        return self._clock()

    def present(self, pod: PodReference) -> ObservedPod | None:
        """The pod as it is now, if it is still this one."""
        found = self._pods.pod(pod.namespace, pod.name)
        return found if found is not None and found.metadata.uid == pod.uid else None


class _Attempts:
    """The requests made for one pod, and what the earlier ones left open."""

    def __init__(self, evictor: Evictor, move: Move) -> None:
        self._evictor = evictor
        self._move = move
        self._pod = move.pod
        self._answer_lost = False  # a request may still arrive, or still be at work
        self._perhaps_sent = False  # a request may have been carried out
        self.count = 0
        self.not_before = evictor.now()

    def next(self) -> _Attempt:
        """Send one request and find out what it did."""
        forbidden = self._evictor.forbidden()
        if forbidden:
            return _Attempt(Verdict.UNKNOWN if self._perhaps_sent else Verdict.SKIPPED, forbidden)
        self.count += 1
        try:
            server = self._evictor.post(self._move)
        except StatusError as error:
            return self._refused(error)
        except StopRequestedError as error:
            self._answer_lost = self._perhaps_sent = True
            return self._looked_up(f"the answer was not awaited ({error.message})")
        except NoAnswerError as error:
            self._answer_lost = self._perhaps_sent = True
            return self._looked_up(f"the answer was lost ({error.kind})")
        if server is not None:
            self.not_before = min(self.not_before, server)
        return _Attempt(Verdict.EVICTED, "accepted by the API server")

    def _refused(self, error: StatusError) -> _Attempt:
        message, status = error.message, error.status
        if status == 429 and _EVACUATION in message:
            return _Attempt(Verdict.STARTED, message)
        if status == 429:
            budgets = " ".join(error.causes("DisruptionBudget"))[:500]
            return _Attempt(None, budgets or message, self._not_accepted, error.retry_after)
        if status == 404:
            return self._gone("the pod is gone already")
        if status == 409:
            return self._looked_up(message, skipped="the pod was replaced by another one")
        if status >= 500:
            self._perhaps_sent = True
            self._answer_lost |= status in _GATEWAY_TIMEOUTS or _STORAGE in message
            return self._looked_up(message, final=_TWO_BUDGETS in message)
        if status in (401, 403):
            missing = status == 401 or _NO_RIGHT in message
            return _Attempt(self._not_accepted, message, rights_missing=missing)
        because = f"the API server rejected the request with HTTP {status}: {message}"
        return _Attempt(self._not_accepted, because, rejected=_DENIED not in message)

    @property
    def _not_accepted(self) -> Verdict:
        """The verdict after a refusal: an earlier request whose answer was lost may still arrive."""
        return Verdict.UNKNOWN if self._answer_lost else Verdict.REFUSED

    def _gone(self, because: str) -> _Attempt:
        """The pod is gone: evicted by an earlier request, if one may have been carried out."""
        if self._perhaps_sent:
            return _Attempt(
                Verdict.EVICTED, f"{because}: an earlier request that returned an error did evict it"
            )
        return _Attempt(Verdict.GONE, because)

    def _looked_up(self, message: str, *, skipped: str = "", final: bool = False) -> _Attempt:
        """Read the pod again to find out what a request did whose answer does not say."""
        try:
            pod = self._evictor.present(self._pod)
        except RebalancerError as error:
            return _Attempt(Verdict.UNKNOWN, f"{message}, and the pod cannot be read: {error}")
        if pod is None:
            if skipped:
                return self._gone(skipped)
            return _Attempt(Verdict.EVICTED, f"{message}; the pod is gone")
        if pod.terminating:
            return _Attempt(Verdict.EVICTED, f"{message}; the pod is terminating")
        because = f"{message}; the pod is still there"
        return _Attempt(self._not_accepted if final else None, because, self._not_accepted)
