"""One restart of a Deployment, as ``kubectl rollout restart`` makes it: a new annotation of its pod template.

The Deployment is read and judged just before, and the patch names the version that was read: whatever changed
in between makes the API server refuse it, and the Deployment is judged anew. The value of the annotation is
chosen once for all attempts, so a restart whose answer was lost is never made twice:

    the lease or a safety check forbids it          SKIPPED, without a request
    it rolls out, is paused, is scaled, …           SKIPPED: the plan holds no longer
    the pod or the Deployment is gone               GONE
    409, or the answer was lost                     read again; RESTARTED if it has the annotation by then
    401, 403                                        REFUSED, with the right that is missing
    400, 422 and other refusals                     REFUSED, never asked again

The pods of the rolling update carry the annotation. How far it has come:

    new pod ready on a planned node, old pod gone   Restarted, settled
    new pod bound to a node that fails the check    Unexpected, settled
    new pod Pending, not ready, or missing          RolloutStalled unless that changes before the timeout:
                                                    the old pod goes on serving
    new pod ready, old pod still terminating        Restarted unless that changes
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from rebalancer.cluster import times
from rebalancer.cluster.live import object_path
from rebalancer.cluster.live.failures import RequestRejectedError, StatusError
from rebalancer.cluster.records import Workload
from rebalancer.errors import RebalancerError, RightsError, StopRequestedError
from rebalancer.execution.evict import DENIED, READ_SECONDS, Attempt, Attempts, EvictionClient, Verdict
from rebalancer.execution.observed_pods import ObservedPod, PodReader
from rebalancer.http import NoAnswerError
from rebalancer.planning.plan import Move
from rebalancer.planning.workloads.rolling_updates import RESTARTED_AT, why_no_surge
from rebalancer.state.results import Result

_MAX_BYTES = 4 << 20
_MANAGER = "rebalancer"
_RIGHT = "evictable.singleReplica: surge needs get and patch on deployments: k8s/components/surge grants both"
_deployment = msgspec.json.Decoder(Workload)


def restart(client: EvictionClient, move: Move) -> Attempt:
    """Ask the Deployment of a move's pod to replace it; repeated while that is safe and may help."""
    return _Restart(client, move).retry(f"restart {move.pod.workload}")


class _Restart(Attempts):
    """The requests made for one Deployment, and what the earlier ones left open."""

    def __init__(self, client: EvictionClient, move: Move) -> None:
        super().__init__(client, move)
        self._api = client.api.finishing()
        namespace, name = move.pod.namespace, move.pod.workload.partition("/")[2]
        self._what = f"deployment {namespace}/{name}"
        self._path = object_path("apps/v1", namespace, "deployments", name)
        self.restarted_at = times.render(self.not_before)

    def request(self) -> Attempt:
        """Judge the Deployment as it is now, and change its template if that still holds."""
        forbidden = self.forbidden()
        if forbidden is not None:
            return forbidden
        try:
            found = self._read()
            refusal = self._judge(found)
        except RightsError as error:
            return self.ended(self._not_accepted, f"{error} ({_RIGHT})", rights_missing=True)
        except RebalancerError as error:
            return self.ended(self.not_sent, f"{self._what} or the pod cannot be read: {error}")
        if refusal is not None:
            return refusal
        assert found is not None  # else it was refused
        self.count += 1
        return self._patch(found)

    @property
    def _not_accepted(self) -> Verdict:
        """The verdict after a refusal: an earlier request whose answer was lost may still arrive."""
        return Verdict.UNKNOWN if self.perhaps_sent else Verdict.REFUSED

    def _read(self) -> Workload | None:
        """The Deployment as it is now; None when there is none of that name."""
        api = self._api
        try:
            body = api.get(f"read {self._what}", self._path)
            return _deployment.decode(body)
        except RequestRejectedError as error:
            if error.status == 404:
                return None
            raise
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise RequestRejectedError(
                f"read {self._what}: the answer is not a Deployment: {str(error)[:200]}", where=api.host
            ) from error

    def _judge(self, found: Workload | None) -> Attempt | None:
        """Why the Deployment must not be asked to replace the pod, or need not be; None when it should."""
        pod = self.move.pod
        if found is None or found.metadata.uid != pod.workload_uid:
            return self.ended(Verdict.GONE, f"{self._what} is gone already")
        annotations = (found.spec.template.metadata.annotations if found.spec.template else None) or {}
        if self.perhaps_sent and annotations.get(RESTARTED_AT) == self.restarted_at:
            message = "the answer was lost; the Deployment has the new template"
            return self.ended(Verdict.RESTARTED, message)
        why = why_no_surge(found)
        if why:
            return self.ended(self.not_sent, f"{pod.workload} {why}")
        present = PodReader(self._api).pod(pod.namespace, pod.name)
        if present is None or present.metadata.uid != pod.uid or present.terminating:
            return self.ended(Verdict.GONE, "the pod is gone already")
        return None

    def _patch(self, found: Workload) -> Attempt:
        body = {
            "metadata": {"resourceVersion": found.metadata.resource_version},
            "spec": {"template": {"metadata": {"annotations": {RESTARTED_AT: self.restarted_at}}}},
        }
        try:
            answer = self._api.client.send(
                "PATCH",
                self._path,
                {"fieldManager": _MANAGER, **self.client.options},
                body=body,
                max_bytes=_MAX_BYTES,
                read_seconds=READ_SECONDS,
                deadline=self.client.deadline,
                what=f"restart {self._what}",
                body_needed=False,
            )
        except StatusError as error:
            return self._refused(error)
        except (NoAnswerError, StopRequestedError) as error:
            self.perhaps_sent = True
            return self.uncertain(Verdict.UNKNOWN, f"the answer was lost ({error})")
        return self.accepted(Verdict.RESTARTED, "the API server accepted the new pod template", answer)

    def _refused(self, error: StatusError) -> Attempt:
        message, status = error.message, error.status
        if status == 429:
            return self.uncertain(self._not_accepted, message, error.retry_after)
        if status == 409:
            return self.uncertain(self._not_accepted, message)
        if status == 404:
            return self.ended(Verdict.GONE, f"{self._what} is gone already")
        if status >= 500:
            self.perhaps_sent = True
            return self.uncertain(Verdict.UNKNOWN, message)
        if status in (401, 403):
            missing = DENIED not in message
            message = f"{message} ({_RIGHT})" if missing else message
            return self.ended(self._not_accepted, message, rights_missing=missing)
        return self.rejected(self._not_accepted, status, message)


_REPLICA_SET = "ReplicaSet"


def made_by_rollout(
    move: Move, restarted_at: str, known: Iterable[str], now: Iterable[ObservedPod]
) -> ObservedPod | None:
    """The pod that the rolling update made: it has the new template's annotation, and another ReplicaSet.

    ``known`` are the uids of pods that existed before. Of several, one that has not failed, the oldest first.
    """
    earlier = set(known)
    found = [
        pod
        for pod in now
        if pod.metadata.uid not in earlier
        and pod.metadata.namespace == move.pod.namespace
        and (pod.metadata.annotations or {}).get(RESTARTED_AT) == restarted_at
        and pod.controller_kind == _REPLICA_SET
        and pod.controller_uid != move.pod.controller_uid
        and not pod.terminating
    ]
    return min(found, key=lambda pod: (pod.failed, pod.created_at, pod.metadata.uid), default=None)


def appraise_rollout(
    move: Move, new: ObservedPod | None, old: ObservedPod | None, objection: str | None, *, planned: bool
) -> tuple[Result, str, bool]:
    """Result, reason, and whether waiting longer would not change it.

    ``objection`` is why the node of the new pod is not acceptable, ``planned`` whether the plan listed it.
    """
    where = f"on {new.spec.node_name}" if new is not None else ""
    if new is not None and objection is not None:
        return Result.UNEXPECTED, objection, True
    lacking = _lacking(new)
    if lacking:
        return Result.ROLLOUT_STALLED, f"{lacking}; {_of_the_old_pod(move, old)}", False
    if old is not None and not old.terminating:
        because = f"the new pod is ready {where}; {_of_the_old_pod(move, old)}"
        return Result.ROLLOUT_STALLED, because, False
    because = "as planned" if planned else "not listed in the plan, yet acceptable"
    if old is not None:
        because += "; the old pod is still terminating"
    result = Result.RESTARTED if planned else Result.RESTARTED_ELSEWHERE
    return result, because, old is None


def _lacking(new: ObservedPod | None) -> str:
    """What the new pod still lacks; empty when it serves."""
    if new is None:
        return "its Deployment has made no new pod"
    if new.failed:
        why = new.status.reason or new.status.message or "no reason is given"
        return f"the new pod failed: {why[:200]}"
    if not new.spec.node_name:
        return new.why_pending
    return "" if new.ready_at is not None else f"the new pod is on {new.spec.node_name}, not ready yet"


def _of_the_old_pod(move: Move, old: ObservedPod | None) -> str:
    """What became of the old pod, and how to take back a rolling update that does not get on."""
    if old is None or old.terminating:
        return "the old pod has ended"
    name = move.pod.workload.partition("/")[2]
    undo = f"kubectl -n {move.pod.namespace} rollout undo deployment/{name}"
    return f"the old pod still serves on {move.from_node} ({undo} takes the update back)"
