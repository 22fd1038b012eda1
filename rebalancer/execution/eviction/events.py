"""A Kubernetes Event on the controller of an evicted pod: ``kubectl describe`` shows why it was evicted."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from rebalancer.cluster import times
from rebalancer.cluster.live import RawApi
from rebalancer.errors import RebalancerError
from rebalancer.planning.plan import Move

_MAX_NOTE_BYTES = 1024  # the API server refuses an event with a longer one
_API_VERSIONS = {
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
    "ReplicationController": "v1",
    "Job": "batch/v1",
}


class EventWriter:
    """Writes events; a run goes on when one cannot be written."""

    def __init__(self, api: RawApi, reporter: str, clock: Callable[[], float]) -> None:
        self._api = api
        self._calls = api.client.custom_objects
        self._reporter = reporter[:128]
        self._clock = clock

    def evicted(self, move: Move, *, started: bool = False) -> None:
        """Record on the controller, else on the pod, that the pod was evicted or restarted, and why.

        ``started`` says that the eviction only began: somebody else moves the pod.
        """
        pod = move.pod
        if move.is_restart:
            regarding = {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "namespace": pod.namespace,
                "name": pod.workload.partition("/")[2],
                "uid": pod.workload_uid,
            }
        elif pod.controller_uid and pod.controller_kind in _API_VERSIONS:
            regarding = {
                "apiVersion": _API_VERSIONS[pod.controller_kind],
                "kind": pod.controller_kind,
                "namespace": pod.namespace,
                "name": pod.controller_name,
                "uid": pod.controller_uid,
            }
        else:
            regarding = {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": pod.namespace,
                "name": pod.name,
                "uid": pod.uid,
            }
        now = times.render_micro(self._clock())
        verb = "Began to evict pod" if started else "Evicted pod"
        verb = "Restarted, to move pod" if move.is_restart else verb
        note = f"{verb} {pod.name} from {move.from_node}: {move.because}"
        body = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"namespace": pod.namespace, "name": f"rebalanced-{pod.uid}"[:253]},
            "eventTime": now,
            "type": "Normal",
            "reason": "Rebalanced",
            "action": move.action,
            "note": note.encode()[:_MAX_NOTE_BYTES].decode(errors="ignore"),
            "regarding": regarding,
            "reportingController": "rebalancer",
            "reportingInstance": self._reporter,
        }
        with contextlib.suppress(RebalancerError):
            self._api.write(
                f"write an event on {pod.full_name}",
                self._calls.create_namespaced_custom_object,
                "events.k8s.io",
                "v1",
                pod.namespace,
                "events",
                body,
            )
