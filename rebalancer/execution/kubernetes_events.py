"""Kubernetes Events: ``kubectl describe`` shows why a pod was evicted, a node stays hot, or a run stopped.

What is so in run after run is said once an hour: to count it in a series, as other controllers do, takes the
right to change anybody's Events. Those of nodes and of the Lease are only written by runs that act.

    12:00  node-1 stays hot, its pods have local storage      an Event
    12:15  the same                                           409: it is said already
    13:00  the same                                           another Event
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence

import msgspec

from rebalancer.cluster import times
from rebalancer.cluster.live import RawApi, object_path
from rebalancer.errors import RebalancerError
from rebalancer.execution.events import EvictionAnswered, RunEvent, RunFinished, RunStarted
from rebalancer.execution.outcomes import Stop
from rebalancer.execution.verdicts import Verdict
from rebalancer.planning.plan import Move

MAX_NODE_EVENTS = 20  # in one run: more nodes than that are one event's worth of trouble
_VERSION = "events.k8s.io/v1"
_NUMBERS = re.compile(r"[0-9.]+")
_MAX_NOTE_BYTES = 1024  # the API server refuses an event with a longer one
_API_VERSIONS = {
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
    "ReplicationController": "v1",
    "Job": "batch/v1",
}


class EventKind(msgspec.Struct, frozen=True):
    """Events of one reason: which object they are about, and what their note holds."""

    reason: str
    about: str
    note: str
    warns: bool = False

    @property
    def type(self) -> str:
        """``Normal`` or ``Warning``."""
        return "Warning" if self.warns else "Normal"


REBALANCED = EventKind(
    "Rebalanced",
    "the controller of a pod that was evicted or restarted, or the pod where it has none",
    "the pod, its node, why it moves, and where its replacement will run",
)
CANNOT_BE_COOLED = EventKind(
    "CannotBeCooled", "a node that stays hot", "how hot it stays, and what keeps its pods; once an hour", True
)
STOPPED = EventKind(
    "Stopped", "the Lease of the runs", "the safety check or the outcome that stopped a run early", True
)
STEERED = EventKind(
    "Steered",
    "a hot node that has a soft taint while a run lasts",
    "until when the taint may stay",
)
EVENT_KINDS = (REBALANCED, CANNOT_BE_COOLED, STEERED, STOPPED)


class _Event(msgspec.Struct, frozen=True):
    """What an Event says, and of which object."""

    kind: EventKind
    name: str
    namespace: str
    regarding: dict[str, str]
    action: str
    note: str


class EventWriter:
    """Writes events; a run goes on when one cannot be written."""

    def __init__(
        self,
        api: RawApi,
        reporter: str,
        clock: Callable[[], float],
        lease: tuple[str, str] = ("rebalancer", "rebalancer"),
    ) -> None:
        """``lease`` is the namespace and the name of the Lease of the runs."""
        self._lease = lease
        self._api = api
        self._reporter = reporter[:128]
        self._clock = clock

    def __call__(self, event: RunEvent) -> None:
        """Write what is worth an Event of what happens in a run that acts."""
        match event:
            case RunStarted(plan):
                self.cannot_be_cooled(plan.unsolved)
            case EvictionAnswered(attempt) if attempt.is_granted:
                self.evicted(attempt.move, started=attempt.verdict is Verdict.STARTED)
            case RunFinished(outcomes) if outcomes.stop not in (None, Stop.INTERRUPTED, Stop.LEASE_LOST):
                self.stopped(*self._lease, outcomes.run, outcomes.stopped)

    def evicted(self, move: Move, *, started: bool = False) -> None:
        """Record on the controller, else on the pod, that the pod was evicted or restarted, and why.

        ``started`` says that the eviction only began: somebody else moves the pod.
        """
        pod = move.pod
        if move.is_restart:
            about = ("apps/v1", "Deployment", pod.workload.partition("/")[2], pod.workload_uid)
        elif pod.controller_uid and pod.controller_kind in _API_VERSIONS:
            version = _API_VERSIONS[pod.controller_kind]
            about = (version, pod.controller_kind, pod.controller_name, pod.controller_uid)
        else:
            about = ("v1", "Pod", pod.name, pod.uid)
        regarding = dict(zip(("apiVersion", "kind", "name", "uid"), about, strict=True))
        regarding["namespace"] = pod.namespace
        verb = "Began to evict pod" if started else "Evicted pod"
        verb = "Restarted, to move pod" if move.is_restart else verb
        note = f"{verb} {pod.name} from {move.from_node}: {move.because}"
        self._write(_Event(REBALANCED, f"rebalanced-{pod.uid}", pod.namespace, regarding, move.action, note))

    def steered(self, nodes: Sequence[str], until: float) -> None:
        """Record on each node that it has a soft taint; on the first ones by name, if there are many."""
        for node in sorted(nodes)[:MAX_NODE_EVENTS]:
            regarding = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": node}
            note = f"Hot: a run lets the scheduler prefer other nodes, until {times.render(until)} at most"
            name = f"steered-{node}"[:200] + f".{int(until)}"
            self._write(_Event(STEERED, name, "default", regarding, "Steer", note))

    def cannot_be_cooled(self, unsolved: Mapping[str, str]) -> None:
        """Record on each node that stays hot why it does; on the first ones by name, if there are many."""
        hour = self._clock() // 3600
        for node, because in sorted(unsolved.items())[:MAX_NODE_EVENTS]:
            regarding = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": node}
            # One for as long as the same things keep its pods, whatever their number.
            kept = hashlib.sha256(f"{node} {hour} {_NUMBERS.sub('', because)}".encode()).hexdigest()[:16]
            note = f"Hot, and cannot be cooled: {because}"
            name = f"hot-{node}"[:200] + f".{kept}"
            self._write(_Event(CANNOT_BE_COOLED, name, "default", regarding, "Plan", note))

    def stopped(self, namespace: str, lease: str, run: str, because: str) -> None:
        """Record on the Lease of the runs that this one stopped before the end of its plan."""
        regarding = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "namespace": namespace,
            "name": lease,
            **self._uid_of_lease(namespace, lease),
        }
        note = f"Stopped early: {because}"
        self._write(_Event(STOPPED, f"stopped-{run}", namespace, regarding, "Run", note))

    def _uid_of_lease(self, namespace: str, lease: str) -> dict[str, str]:
        """``kubectl describe`` finds the events of an object by its uid."""
        path = object_path("coordination.k8s.io/v1", namespace, "leases", lease)
        with contextlib.suppress(RebalancerError, msgspec.DecodeError, LookupError, TypeError):
            found = msgspec.json.decode(self._api.get(f"read lease {namespace}/{lease}", path))
            return {"uid": str(found["metadata"]["uid"])}
        return {}

    def _write(self, event: _Event) -> None:
        now = times.render_micro(self._clock())
        body = {
            "apiVersion": _VERSION,
            "kind": "Event",
            "metadata": {"namespace": event.namespace, "name": event.name[:253]},
            "eventTime": now,
            "type": event.kind.type,
            "reason": event.kind.reason,
            "action": event.action,
            "note": event.note.encode()[:_MAX_NOTE_BYTES].decode(errors="ignore"),
            "regarding": event.regarding,
            "reportingController": "rebalancer",
            "reportingInstance": self._reporter,
        }
        what = f"write an event on {event.regarding['kind'].lower()} {event.regarding['name']}"
        with contextlib.suppress(RebalancerError):
            self._api.write(what, "POST", object_path(_VERSION, event.namespace, "events"), body)
