"""One eviction through the Eviction API, never a DELETE; whatever the answer, one of four verdicts.

The uid travels as a precondition: a pod of the same name that took its place is never evicted.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Any

from kubernetes import client
from kubernetes.client.exceptions import ApiException
from tenacity import RetryCallState, Retrying, retry_if_result, wait_exponential
from urllib3.exceptions import HTTPError

from rebalancer.cluster.live.connection import CONNECT_SECONDS, RawApi, retry_after_seconds, status_message
from rebalancer.errors import RebalancerError
from rebalancer.execution.observing import ObservedPod, PodReader
from rebalancer.planning.plan import Move, PodReference

_READ_SECONDS = 30.0
_MAX_BYTES = 1 << 20
_TWO_BUDGETS = "more than one PodDisruptionBudget"
_GIVEN_UP = frozenset({502, 504})  # somebody stopped waiting: what was asked for may still be done
_STORAGE = "etcdserver:"  # how the API server words that its storage did not answer in time
_NO_RIGHT = "cannot create resource"  # how the API server words a missing right, as no webhook does


class Verdict(StrEnum):
    """What an eviction came to."""

    EVICTED = "Evicted"
    SKIPPED = "Skipped"  # the pod is gone or another one: nothing was evicted by us
    REFUSED = "Refused"  # by a budget, a right or the API's rules: nothing happened
    UNKNOWN = "Unknown"  # the answer was lost and the pod cannot be read


@dataclass(frozen=True, slots=True)
class EvictionAnswer:
    """The verdict on one eviction, with its reason."""

    verdict: Verdict
    because: str
    at: float  # Unix seconds by our clock, when the verdict was known
    not_before: (
        float  # a replacement is created at this time or later: the earlier of our clock and the server's
    )
    attempts: int = 1
    rights_missing: bool = False


@dataclass(frozen=True, slots=True)
class Patience:
    """How long one eviction is tried: both bounds hold."""

    attempts: int = 5
    seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class _Attempt:
    """What one request came to; without a verdict it may be tried again; at the end ``otherwise`` counts."""

    verdict: Verdict | None
    because: str
    otherwise: Verdict = Verdict.REFUSED
    wait_seconds: float | None = None
    rights_missing: bool = False


class Evictor:
    """Evicts pods, one request at a time."""

    def __init__(
        self,
        api: RawApi,
        clock: Callable[[], float],
        sleep: Callable[[float], object],
        *,
        patience: Patience = Patience(),
        interrupted: Callable[[], bool] = lambda: False,
        dry_run: bool = False,
    ) -> None:
        self._core = client.CoreV1Api(api.api)
        self._pods = PodReader(api)
        self._clock = clock
        self._sleep = sleep
        self._patience = patience
        self._interrupted = interrupted
        self._dry_run = dry_run

    def evict(self, move: Move) -> EvictionAnswer:
        """Ask the API server to evict the pod of a move; tried again while that is safe and may help."""
        attempts = _Attempts(self, move.pod)
        retrying = Retrying(
            retry=retry_if_result(lambda attempt: attempt.verdict is None),
            wait=_wait,
            stop=self._gives_up,
            sleep=self._pause,
            retry_error_callback=lambda state: state.outcome.result() if state.outcome else None,
        )
        attempt: _Attempt = retrying(attempts.next)
        return EvictionAnswer(
            verdict=attempt.verdict or attempt.otherwise,
            because=attempt.because,
            at=self._clock(),
            not_before=attempts.not_before,
            attempts=attempts.count,
            rights_missing=attempt.rights_missing,
        )

    def _pause(self, seconds: float) -> None:
        self._sleep(seconds)

    def _gives_up(self, state: RetryCallState) -> bool:
        waited = state.idle_for + state.upcoming_sleep
        return (
            state.attempt_number >= self._patience.attempts
            or waited > self._patience.seconds
            or self._interrupted()
        )

    def post(self, pod: PodReference) -> float | None:
        """Send one eviction; returns the server's time if it says. Raises what the client raises."""
        body = client.V1Eviction(
            api_version="policy/v1",
            kind="Eviction",
            metadata=client.V1ObjectMeta(name=pod.name, namespace=pod.namespace),
            delete_options=client.V1DeleteOptions(preconditions=client.V1Preconditions(uid=pod.uid)),
        )
        options: dict[str, Any] = {"dry_run": "All"} if self._dry_run else {}
        response = self._core.create_namespaced_pod_eviction(
            pod.name,
            pod.namespace,
            body,
            _preload_content=False,
            _request_timeout=(CONNECT_SECONDS, _READ_SECONDS),
            **options,
        )
        # The status line is the answer; a body that is odd or cut short changes nothing.
        with contextlib.suppress(HTTPError, OSError):
            if len(response.read(_MAX_BYTES + 1)) > _MAX_BYTES:
                response.close()
        response.release_conn()
        return server_time(response.headers.get("Date"))

    def now(self) -> float:
        """Our clock."""
        return self._clock()

    def present(self, pod: PodReference) -> ObservedPod | None:
        """The pod as it is now, if it is still this one."""
        found = self._pods.pod(pod.namespace, pod.name)
        return found if found is not None and found.metadata.uid == pod.uid else None


class _Attempts:
    """The requests made for one pod, and what earlier ones left unknown."""

    def __init__(self, evictor: Evictor, pod: PodReference) -> None:
        self._evictor = evictor
        self._pod = pod
        self._answer_lost = False  # a request may still arrive, or still be at work
        self._perhaps_sent = False  # a request may have been carried out
        self.count = 0
        self.not_before = evictor.now()

    def next(self) -> _Attempt:
        """One request, read to the end."""
        self.count += 1
        try:
            server = self._evictor.post(self._pod)
        except ApiException as error:
            return self._refused(error)
        except (HTTPError, OSError) as error:
            reason = getattr(error, "reason", None) or error
            self._answer_lost = self._perhaps_sent = True
            return self._looked_up(f"the answer was lost ({type(reason).__name__})")
        if server is not None:
            self.not_before = min(self.not_before, server)
        return _Attempt(Verdict.EVICTED, "accepted by the API server")

    def _refused(self, error: ApiException) -> _Attempt:
        message = status_message(error)
        status = error.status or 0
        if status == 429:
            because = _budget_message(error) or message
            return _Attempt(None, because, self._not_accepted, retry_after_seconds(error))
        if status == 404:
            return self._gone("the pod is gone already")
        if status == 409:
            return self._looked_up(message, skipped="the pod was replaced by another one")
        if status >= 500:
            self._perhaps_sent = True
            self._answer_lost |= status in _GIVEN_UP or _STORAGE in message
            return self._looked_up(message, final=_TWO_BUDGETS in message)
        missing = status == 401 or (status == 403 and _NO_RIGHT in message)
        return _Attempt(self._not_accepted, message, rights_missing=missing)

    @property
    def _not_accepted(self) -> Verdict:
        """What a refusal means: a request whose answer was lost may still arrive after it."""
        return Verdict.UNKNOWN if self._answer_lost else Verdict.REFUSED

    def _gone(self, because: str) -> _Attempt:
        """The pod is not there: evicted by an earlier request, if one may have been carried out."""
        if self._perhaps_sent:
            return _Attempt(Verdict.EVICTED, f"{because}: an earlier request, answered badly, evicted it")
        return _Attempt(Verdict.SKIPPED, because)

    def _looked_up(self, message: str, *, skipped: str = "", final: bool = False) -> _Attempt:
        """Read the pod again to learn what a request did whose answer does not say."""
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


def server_time(date: str | None) -> float | None:
    """Unix seconds of an HTTP Date header; None when it is absent or none."""
    try:
        return parsedate_to_datetime(date).timestamp() if date else None
    except (ValueError, TypeError, OverflowError, OSError):
        return None


def _wait(state: RetryCallState) -> float:
    attempt = state.outcome.result() if state.outcome else None
    asked = attempt.wait_seconds if isinstance(attempt, _Attempt) else None
    return float(asked if asked is not None else wait_exponential(multiplier=0.5, max=8.0)(state))


def _budget_message(error: ApiException) -> str:
    """The messages of the budgets that refused; empty when none did."""
    with contextlib.suppress(ValueError, TypeError, LookupError, AttributeError, RecursionError):
        causes = json.loads(error.body or "")["details"]["causes"]
        said = [cause["message"] for cause in causes[:10] if cause["reason"] == "DisruptionBudget"]
        return " ".join(said)[:500]
    return ""
