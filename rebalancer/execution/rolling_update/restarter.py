"""One restart of a Deployment, as ``kubectl rollout restart`` makes it: a new annotation of its pod template.

The Deployment is read and judged just before, and the patch names the version that was read: whatever changed
in between makes the API server refuse it, and the Deployment is judged anew. The value of the annotation is
chosen once for all attempts, so a restart whose answer was lost is never made twice:

    the lease or a brake forbids it                 SKIPPED, without a request
    it rolls out, is paused, is scaled, …           SKIPPED: the plan holds no longer
    the pod or the Deployment is gone               GONE
    409, or the answer was lost                     read again; RESTARTED if it has the annotation by then
    401, 403                                        REFUSED, with the right that is missing
    400, 422 and other refusals                     REFUSED, never asked again
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from rebalancer.cluster import times
from rebalancer.cluster.live import RawApi
from rebalancer.cluster.live.answers import NoAnswerError, RequestRejectedError, StatusError
from rebalancer.cluster.records import Workload
from rebalancer.deadlines import ANSWER_SECONDS
from rebalancer.errors import RebalancerError, RightsError, StopRequestedError
from rebalancer.execution.eviction.verdicts import EvictionAnswer, Patience, Verdict
from rebalancer.execution.observed_pods import PodReader
from rebalancer.planning.plan import Move
from rebalancer.planning.workloads.rolling_updates import RESTARTED_AT, why_no_surge
from rebalancer.retries import Again, http_date

_READ_SECONDS = 30.0
_MAX_BYTES = 4 << 20
_PATIENCE = Patience()
_FIRST_WAIT_SECONDS = 0.5
_MAX_WAIT_SECONDS = 8.0
_MANAGER = "rebalancer"
_DEPLOYMENTS = ("apps", "v1")
_RIGHT = "evictable.singleReplica: surge needs get and patch on deployments: k8s/components/surge grants both"
_DENIED = "denied the request"  # how the API server words the verdict of a webhook, whatever its status
_deployment = msgspec.json.Decoder(Workload)


@dataclass(frozen=True, slots=True)
class _Attempt:
    """What one request came to. Without a verdict another may follow; at the end ``otherwise`` counts."""

    verdict: Verdict | None
    because: str
    otherwise: Verdict = Verdict.REFUSED
    retry_after: float | None = None
    rights_missing: bool = False
    rejected: bool = False


class Restarter:
    """Restarts Deployments, one request at a time."""

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
        self.api = api.finishing()
        self.clock = clock
        self.permitted = permitted
        self.dry_run = dry_run
        self.deadline = api.retries.run.finishing(ANSWER_SECONDS)
        self._interrupted = interrupted
        self._retries = replace(
            api.retries,
            attempts=patience.attempts,
            deadline_seconds=patience.seconds,
            first_wait_seconds=_FIRST_WAIT_SECONDS,
            max_wait_seconds=_MAX_WAIT_SECONDS,
            max_retry_after_seconds=float("inf"),
        )

    def restart(self, move: Move) -> EvictionAnswer:
        """Ask the Deployment of a move's pod to replace it; repeated while that is safe and may help."""
        attempts = _Attempts(self, move)
        attempt = self._retries.until(f"restart {move.pod.workload}", attempts.next, self._again)
        return EvictionAnswer(
            verdict=attempt.verdict or attempt.otherwise,
            because=attempt.because,
            at=self.clock(),
            not_before=attempts.not_before,
            attempts=attempts.count,
            rights_missing=attempt.rights_missing,
            rejected=attempt.rejected,
            restarted_at=attempts.restarted_at,
        )

    def _again(self, attempt: _Attempt) -> Again | None:
        if attempt.verdict is not None or self._interrupted():
            return None
        return Again(attempt.because, attempt.retry_after)


class _Attempts:
    """The requests made for one Deployment, and what the earlier ones left open."""

    def __init__(self, restarter: Restarter, move: Move) -> None:
        self._restarter = restarter
        self._move = move
        self._name = move.pod.workload.partition("/")[2]
        self._what = f"deployment {move.pod.namespace}/{self._name}"
        self._perhaps_sent = False  # a request may have been carried out, or may still be
        self.count = 0
        self.not_before = restarter.clock()
        self.restarted_at = times.render(self.not_before)

    def next(self) -> _Attempt:
        """Judge the Deployment as it is now, and change its template if that still holds."""
        forbidden = self._restarter.permitted()
        if forbidden:
            return _Attempt(Verdict.UNKNOWN if self._perhaps_sent else Verdict.SKIPPED, forbidden)
        try:
            found = self._read()
            refusal = self._judge(found)
        except RightsError as error:
            return _Attempt(self._not_accepted, f"{error} ({_RIGHT})", rights_missing=True)
        except RebalancerError as error:
            because = f"{self._what} or the pod cannot be read: {error}"
            return _Attempt(Verdict.UNKNOWN if self._perhaps_sent else Verdict.SKIPPED, because)
        if refusal is not None:
            return refusal
        assert found is not None  # else it was refused
        self.count += 1
        return self._patch(found)

    @property
    def _not_accepted(self) -> Verdict:
        """The verdict after a refusal: an earlier request whose answer was lost may still arrive."""
        return Verdict.UNKNOWN if self._perhaps_sent else Verdict.REFUSED

    def _read(self) -> Workload | None:
        """The Deployment as it is now; None when there is none of that name."""
        api, namespace = self._restarter.api, self._move.pod.namespace
        call = api.client.custom_objects.get_namespaced_custom_object
        try:
            body = api.get(f"read {self._what}", call, *_DEPLOYMENTS, namespace, "deployments", self._name)
            return _deployment.decode(body)
        except RequestRejectedError as error:
            if error.status == 404:
                return None
            raise
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise RequestRejectedError(
                f"read {self._what}: the answer is no Deployment: {str(error)[:200]}", where=api.host
            ) from error

    def _judge(self, found: Workload | None) -> _Attempt | None:
        """Why the Deployment must not be asked to replace the pod, or need not be; None when it should."""
        pod = self._move.pod
        if found is None or found.metadata.uid != pod.workload_uid:
            return _Attempt(Verdict.GONE, f"{self._what} is gone already")
        annotations = (found.spec.template.metadata.annotations if found.spec.template else None) or {}
        if self._perhaps_sent and annotations.get(RESTARTED_AT) == self.restarted_at:
            because = "the answer was lost; the Deployment has the new template"
            return _Attempt(Verdict.RESTARTED, because)
        why = why_no_surge(found)
        if why:
            return _Attempt(
                Verdict.UNKNOWN if self._perhaps_sent else Verdict.SKIPPED, f"{pod.workload} {why}"
            )
        present = PodReader(self._restarter.api).pod(pod.namespace, pod.name)
        if present is None or present.metadata.uid != pod.uid or present.terminating:
            return _Attempt(Verdict.GONE, "the pod is gone already")
        return None

    def _patch(self, found: Workload) -> _Attempt:
        restarter, namespace = self._restarter, self._move.pod.namespace
        body = {
            "metadata": {"resourceVersion": found.metadata.resource_version},
            "spec": {"template": {"metadata": {"annotations": {RESTARTED_AT: self.restarted_at}}}},
        }
        options: dict[str, Any] = {"dry_run": "All"} if restarter.dry_run else {}
        try:
            answer = restarter.api.client.send(
                restarter.api.client.custom_objects.patch_namespaced_custom_object,
                *_DEPLOYMENTS,
                namespace,
                "deployments",
                self._name,
                body,
                max_bytes=_MAX_BYTES,
                read_seconds=_READ_SECONDS,
                deadline=restarter.deadline,
                what=f"restart {self._what}",
                body_needed=False,
                field_manager=_MANAGER,
                **options,
            )
        except StatusError as error:
            return self._refused(error)
        except (NoAnswerError, StopRequestedError) as error:
            self._perhaps_sent = True
            return _Attempt(None, f"the answer was lost ({error})", Verdict.UNKNOWN)
        server = http_date(answer.date)
        if server is not None:
            self.not_before = min(self.not_before, server)
        return _Attempt(Verdict.RESTARTED, "the API server accepted the new pod template")

    def _refused(self, error: StatusError) -> _Attempt:
        message, status = error.message, error.status
        if status == 429:
            return _Attempt(None, message, self._not_accepted, error.retry_after)
        if status == 409:
            return _Attempt(None, message, self._not_accepted)
        if status == 404:
            return _Attempt(Verdict.GONE, f"{self._what} is gone already")
        if status >= 500:
            self._perhaps_sent = True
            return _Attempt(None, message, Verdict.UNKNOWN)
        if status in (401, 403):
            missing = _DENIED not in message
            because = f"{message} ({_RIGHT})" if missing else message
            return _Attempt(self._not_accepted, because, rights_missing=missing)
        because = f"the API server rejected the request with HTTP {status}: {message}"
        return _Attempt(self._not_accepted, because, rejected=_DENIED not in message)
