"""One restart of a Deployment, as ``kubectl rollout restart`` makes it: a new annotation of its pod template.

The Deployment is read and judged just before, and the patch names the version that was read: whatever changed
in between makes the API server refuse it, and the Deployment is judged anew. The value of the annotation is
chosen once for all attempts, so a restart whose answer was lost is never made twice:

    the lease or a safety check forbids it          SKIPPED, without a request
    it rolls out, is paused, is scaled, …           SKIPPED: the plan holds no longer
    the pod or the Deployment is gone               GONE
    any answer but success                          read again; RESTARTED if it has the annotation by then,
                                                    else as the table of ``verdicts`` says

The pods of the rolling update carry the annotation. How far it has come:

    new pod ready on a planned node, old pod gone   Restarted, settled
    new pod bound to a node that fails the check    Unexpected, settled
    new pod Pending, not ready, or missing          RolloutStalled unless that changes before the timeout:
                                                    the old pod goes on serving
    new pod ready, old pod still terminating        Restarted unless that changes
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec
from msgspec.structs import replace

from rebalancer.cluster import times
from rebalancer.cluster.live import object_path
from rebalancer.cluster.live.failures import RequestRejectedError, remedy
from rebalancer.cluster.records import Workload
from rebalancer.errors import RightsError, UnreachableError
from rebalancer.execution.evict import Attempt, Attempts, Ends, EvictionClient, Verdict
from rebalancer.execution.observed_pods import ObservedPod
from rebalancer.http import Answer
from rebalancer.planning.plan import Move
from rebalancer.planning.workloads.rolling_updates import RESTARTED_AT, why_no_surge
from rebalancer.state.results import Result

_MAX_BYTES = 4 << 20
_MANAGER = "rebalancer"
_RIGHT = "evictable.singleReplica: surge needs get and patch on deployments: k8s/components/surge grants both"
_deployment = msgspec.json.Decoder(Workload)


def restart(client: EvictionClient[Move], move: Move) -> Attempt[Move]:
    """Ask the Deployment of a move's pod to replace it; repeated while that is safe and may help."""
    attempt = _Restart(client, move).repeat(f"restart {move.pod.workload}")
    if attempt.ends is not Ends.RIGHTS:
        return attempt
    return replace(attempt, message=f"{attempt.message} ({_RIGHT})")


class _Restart(Attempts[Move]):
    granted = Verdict.RESTARTED
    answered_with = "Deployment"
    done = "the Deployment has the new template"

    def __init__(self, client: EvictionClient[Move], move: Move) -> None:
        super().__init__(client, move)
        namespace = move.pod.namespace
        name = move.pod.workload.partition("/")[2]
        self._what = f"deployment {namespace}/{name}"
        self._path = object_path("apps/v1", namespace, "deployments", name)
        self._version = ""  # of the Deployment as it was judged
        self.restarted_at = times.render(self.not_before)

    def why_not(self, pod: ObservedPod | None) -> Attempt[Move] | None:
        """Judge the Deployment, whose version the request will bear, and the pod."""
        deployment = self._read()
        if deployment is None:
            return self.left(f"{self._what} is gone already")
        if self.is_requested and self._is_restarted(deployment):
            return self.ended(self.granted, f"the answer was lost; {self.done}")
        why = why_no_surge(deployment)
        if why:
            return self.ended(self.not_sent, f"{self.move.pod.workload} {why}")
        self._version = deployment.metadata.resource_version
        if pod is not None and not pod.terminating:
            return None
        # It did not end by a request: the Deployment was read just now, and is as it was.
        return self.ended(Verdict.UNKNOWN if self.open else Verdict.GONE, "the pod is gone already")

    def send(self, pod: ObservedPod) -> Answer:  # noqa: ARG002 - the Deployment is asked
        body = {
            "metadata": {"resourceVersion": self._version},
            "spec": {"template": {"metadata": {"annotations": {RESTARTED_AT: self.restarted_at}}}},
        }
        what = f"restart {self._what}"
        return self.answer_to(
            "PATCH", self._path, body, what=what, max_bytes=_MAX_BYTES, fieldManager=_MANAGER
        )

    def is_done(self) -> bool | None:
        deployment = self._read()
        return None if deployment is None else self._is_restarted(deployment)

    def _is_restarted(self, deployment: Workload) -> bool:
        annotations = (
            deployment.spec.template.metadata.annotations if deployment.spec.template else None
        ) or {}
        return annotations.get(RESTARTED_AT) == self.restarted_at

    def _read(self) -> Workload | None:
        """The Deployment as it is now; None when it is gone."""
        what = f"read {self._what}"
        try:
            body = self.api.find(what, self._path)
            deployment = None if body is None else _deployment.decode(body)
        except RightsError as error:
            raise RightsError(error.message, where=error.where, hint=remedy(error, _RIGHT)) from error
        except (ValueError, RecursionError) as error:
            raise RequestRejectedError(
                f"{what}: the answer is not a Deployment: {str(error)[:200]}", where=self.api.host
            ) from error
        if deployment is not None and not deployment.metadata.uid:
            raise UnreachableError(
                f"{what}: the answer is not a Deployment: it has no uid", where=self.api.host
            )
        return deployment if deployment and deployment.metadata.uid == self.move.pod.workload_uid else None


def made_by_rollout(
    move: Move, restarted_at: str, uids_before: Iterable[str], now: Iterable[ObservedPod]
) -> ObservedPod | None:
    """The pod that the rolling update made: it has the new template's annotation, and another ReplicaSet.

    ``known`` are the uids of pods that existed before. Of several, one that has not failed, the oldest first.
    """
    earlier = set(uids_before)
    replacements = [
        pod
        for pod in now
        if pod.metadata.uid not in earlier
        and pod.metadata.namespace == move.pod.namespace
        and (pod.metadata.annotations or {}).get(RESTARTED_AT) == restarted_at
        and pod.controller.kind == "ReplicaSet"
        and pod.controller.uid != move.pod.controller_uid
        and not pod.terminating
    ]
    return min(replacements, key=lambda pod: (pod.failed, pod.created_at, pod.metadata.uid), default=None)


def appraise_rollout(
    move: Move, new: ObservedPod | None, old: ObservedPod | None, check: Callable[[Move, str], str | None]
) -> tuple[Result, str, bool]:
    """Result, reason, and whether waiting longer would not change it; ``check`` is a ``LandingCheck``."""
    node = new.spec.node_name if new is not None else ""
    planned = node in move.landing_nodes
    objection = check(move, node) if node and not planned else None
    if objection is not None:
        return Result.UNEXPECTED, objection, True
    lacking = _lacking(new)
    if lacking:
        return Result.ROLLOUT_STALLED, f"{lacking}; {_of_the_old_pod(move, old)}", False
    if old is not None and not old.terminating:
        because = f"the new pod is ready on {node}; {_of_the_old_pod(move, old)}"
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
