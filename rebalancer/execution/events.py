"""What happens in a run, as one stream of events, and the order in which everybody learns of it.

A run publishes each fact once. Those that keep a run's record come first, in this order, and what they are
told is durable when ``publish`` returns. Those that only show it come afterwards:

    the state     what the next run must know if this one is killed now
    the journal   a line on disk
    spans, Kubernetes Events, progress, metrics

One eviction, and what each keeps of it:

    EvictionAnnounced    the state says that the pod is perhaps evicted
    EvictionDue          the journal: evicting
                         the request is sent, only if both were kept
    EvictionAnswered     the journal: evicted, refused, …; Event Rebalanced; end of the span
    MoveEnded            the journal: outcome; the state at the end of the wave

A failure of the state or the journal stops the run, before its next request at the latest; all others are
told of the event even so. One that only shows the run never stops it: its failure is logged once.

By Kubernetes' own Events ``kubectl describe`` shows why a pod was evicted or a node stays hot.
An event that repeats from run to run is written once an hour: to count it in a series, as other controllers
do, takes the right to change anybody's Events. Only runs that act write those of nodes and of the Lease.

    12:00  node-1 stays hot, its pods have local storage      an Event
    12:15  the same                                           409: it is said already
    13:00  the same                                           another Event
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Self

import msgspec

from rebalancer.cluster import times
from rebalancer.cluster.kinds import DEPLOYMENTS, WORKLOADS
from rebalancer.cluster.live import RawApi, object_path
from rebalancer.cluster.live.failures import RequestRejectedError
from rebalancer.errors import (
    InputError,
    RebalancerError,
    RightsError,
    SafetyError,
    StopRequestedError,
)
from rebalancer.execution.evict import Attempt, Verdict
from rebalancer.execution.journal import (
    ASKING,
    EVICTING,
    REMOVING,
    RESTARTING,
    RUN_STARTED,
    Journal,
    JournalError,
)
from rebalancer.execution.lease import LeaseLostError
from rebalancer.execution.outcomes import CleanupOutcome, Outcome, Outcomes, PlanOfRun, Stop, StopReason
from rebalancer.planning.plan import Cleanup, Move, Plan, PodReference
from rebalancer.state.results import Result
from rebalancer.telemetry import Span, record, span

LOGGER = logging.getLogger(__name__)


class RunEvent(msgspec.Struct, frozen=True):
    """What happens in a run."""


class RunStarted(RunEvent, frozen=True):
    """A plan is about to be carried out."""

    plan: Plan
    dry_run: bool = False


class NotKnown(RunEvent, frozen=True):
    """Something that should be known could not be determined; the run goes on."""

    message: str


class PlacedAgain(RunEvent, frozen=True):
    """The replacement of a move may land on other nodes than planned, which are acceptable too."""

    move: Move


class WaveStarted(RunEvent, frozen=True):
    """The pods of a wave whose moves still hold are about to be evicted."""

    wave: int
    moves: Sequence[Move]


class CleanupDue(RunEvent, frozen=True):
    """The request to remove a finished pod is sent next."""

    cleanup: Cleanup


class CleanupEnded(RunEvent, frozen=True):
    """What became of a finished pod that was to be removed is known; once for each, skipped ones too."""

    outcome: CleanupOutcome


class EvictionAnnounced(RunEvent, frozen=True):
    """A pod will be evicted, or its Deployment restarted; the outcome is that of a run killed from now on."""

    outcome: Outcome


class EvictionDue(RunEvent, frozen=True):
    """The request to move a pod is sent next."""

    move: Move
    dry_run: bool = False


class EvictionAnswered(RunEvent, frozen=True):
    """What came of the requests to move a pod is known."""

    attempt: Attempt[Move]
    dry_run: bool = False


class ReplacementsSeen(RunEvent, frozen=True):
    """The pods of a wave were read: so many of the moves that were granted are settled."""

    wave: int
    settled: int
    evicted: int


class MoveEnded(RunEvent, frozen=True):
    """The outcome of a move is known; once for each move, skipped ones too."""

    outcome: Outcome


class WaveFinished(RunEvent, frozen=True):
    """The outcomes of all moves of a wave are known."""

    wave: int


class PlannedAgain(RunEvent, frozen=True):
    """The run goes on with another plan, which has no moves where nothing more is to be gained."""

    plan: Plan
    before: PlanOfRun  # the plan that it follows


class RunStopped(RunEvent, frozen=True):
    """The run evicts nothing more."""

    reason: StopReason


class WavesEnded(RunEvent, frozen=True):
    """No further wave begins; the moves that none has reached are skipped."""


class RunFinished(RunEvent, frozen=True):
    """The run is over."""

    outcomes: Outcomes


Subscriber = Callable[[RunEvent], None]
SaveOutcomes = Callable[[Sequence[Outcome]], None]
"""Saves what is known so far for the next run."""


class EventStream:
    """Tells every subscriber of every event of one run; a context manager, which ends open spans."""

    def __init__(
        self, save: SaveOutcomes, journal: Journal, clock: Callable[[], float], shown_to: Sequence[Subscriber]
    ) -> None:
        """``clock`` is in Unix seconds; ``shown_to`` are told last, in their order."""
        self.stop_reason: StopReason | None = None  # once there is one, nothing more is evicted
        self._keepers: tuple[Subscriber, ...] = (
            Checkpoint(save),
            lambda event: journaled(journal, event),
            lambda event: cleanups_journaled(journal, event),
        )
        self._spans = RunSpans(clock)
        self._watchers: tuple[Subscriber, ...] = (self._spans, *shown_to)
        self._failing: set[int] = set()  # positions of watchers whose failure was logged

    def publish(self, event: RunEvent) -> bool:
        """Tell every subscriber; returns whether the state and the journal kept what they must.

        Raises the error where not even the start of the run can be kept.
        """
        is_published = True
        for keep in self._keepers:
            try:
                keep(event)
            except RebalancerError as error:
                if isinstance(event, RunStarted):
                    raise
                is_published = False
                reason = stop_reason_for(error)
                if isinstance(error, JournalError):  # which cannot be told of it
                    self.stop_reason = self.stop_reason or reason
                else:
                    self.stop(reason)
        for position, watcher in enumerate(self._watchers):
            try:
                watcher(event)
            except Exception as error:
                if position not in self._failing:
                    LOGGER.warning("a run goes on without showing all of it: %s", error, exc_info=error)
                self._failing.add(position)
        return is_published

    def stop(self, reason: StopReason) -> None:
        """Evict nothing more, for the first reason given."""
        if self.stop_reason is None:
            self.stop_reason = reason
            self.publish(RunStopped(reason))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self._spans.end_all(*error)


# The first row that matches the error decides.
_STOPS: tuple[tuple[type[RebalancerError], Stop], ...] = (
    (LeaseLostError, Stop.LEASE_LOST),
    (JournalError, Stop.JOURNAL),
    (SafetyError, Stop.BRAKE),
    (RightsError, Stop.RIGHTS),
    (InputError, Stop.SETTINGS),
    (StopRequestedError, Stop.INTERRUPTED),
    (RequestRejectedError, Stop.REJECTED),
    (RebalancerError, Stop.UNREACHABLE),
)


def stop_reason_for(error: RebalancerError) -> StopReason:
    """Why a run stops after an error."""
    return StopReason(next(stop for kind, stop in _STOPS if isinstance(error, kind)), str(error))


class Checkpoint(msgspec.Struct, eq=False):
    """Saves what is known of all moves: before each eviction, after each wave, and at the end."""

    _save: SaveOutcomes
    _outcomes: dict[str, Outcome] = {}  # by uid of the pod

    def __call__(self, event: RunEvent) -> None:
        """See Subscriber. Raises what saving raises."""
        if isinstance(event, EvictionAnnounced | MoveEnded):
            self._outcomes[event.outcome.move.pod.uid] = event.outcome
        if isinstance(event, EvictionAnnounced | WaveFinished | WavesEnded):
            self._save(tuple(self._outcomes.values()))


def journaled(journal: Journal, event: RunEvent) -> None:
    """Write the line of an event that has one. Raises JournalError."""
    fields: dict[str, Any]
    match event:
        case RunStarted(plan, dry_run):
            fields = {"cluster": plan.source, "plan": plan.inputs, "policy": plan.policy}
            fields |= {"moves": len(plan.moves)}
            journal.is_dry_run = dry_run
            journal.write(RUN_STARTED, **fields)
        case NotKnown(message):
            journal.write("not-known", because=message)
        case PlacedAgain(move):
            journal.write("placed-again", move, because=move.because, landings=_landings(move))
        case WaveStarted(wave, moves):
            journal.write("wave-started", wave=wave, moves=len(moves))
        case EvictionDue(move, dry_run):
            fields = {"because": move.because, "landings": _landings(move), "gain": move.gain}
            journal.write(ASKING if dry_run else RESTARTING if move.is_restart else EVICTING, move, **fields)
        case EvictionAnswered(attempt, dry_run):
            fields = {"because": attempt.message, "attempts": attempt.requests}
            would = "would-restart" if attempt.move.is_restart else "would-evict"
            granted = dry_run and attempt.is_granted
            journal.write(would if granted else attempt.verdict.value.lower(), attempt.move, **fields)
        case MoveEnded(outcome):
            fields = {"result": outcome.result.value, "because": outcome.because}
            fields |= {"node": outcome.node, "replacement": outcome.replacement}
            journal.write("outcome", outcome.move, **fields)
        case WaveFinished(wave):
            journal.write("wave-finished", wave=wave)
        case PlannedAgain(plan, before):
            fields = {"plan": plan.inputs, "moves": len(plan.moves), "hotNodes": plan.hot_count}
            journal.write("planned-again", **fields, before=msgspec.to_builtins(before))
        case RunStopped(reason):
            journal.write("stopped", kind=reason.stop.value, because=reason.message)
        case RunFinished(outcomes):
            stopped = outcomes.stopped if outcomes.stop else None
            journal.write("run-finished", exitCode=outcomes.exit_code, stopped=stopped)


def _landings(move: Move) -> dict[str, float]:
    return {landing.node: landing.probability for landing in move.landings}


def cleanups_journaled(journal: Journal, event: RunEvent) -> None:
    """Write the lines of the removal of finished pods. Raises JournalError."""
    match event:
        case CleanupDue(cleanup):
            event_name = ASKING if journal.is_dry_run else REMOVING
            journal.write(event_name, cleanup, because=cleanup.because)
        case CleanupEnded(outcome):
            journal.write("removed", outcome.cleanup, result=outcome.result.value, because=outcome.because)


class RunSpans:
    """A span for each wave, each eviction in it, and each landing seen at its end.

    A span lasts from the event that begins it to the one that ends it, so log lines written meanwhile carry
    what is known about it.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._wave = ExitStack()
        self._eviction = ExitStack()
        self._current: Span | None = None  # of the eviction that is being requested
        self._granted: dict[str, Span] = {}  # by uid of the pod: a replacement will land

    def __call__(self, event: RunEvent) -> None:
        """See Subscriber."""
        match event:
            case WaveStarted(wave):
                self._wave.enter_context(span("wave", wave=wave))
            case EvictionDue(move):
                current = span("eviction", pod=move.pod.full_name, node=move.from_node)
                self._current = self._eviction.enter_context(current)
            case EvictionAnswered(attempt, dry_run) if self._current is not None:
                self._current.add(verdict=attempt.verdict.value, attempts=attempt.requests)
                if attempt.is_granted and not dry_run:
                    self._granted[attempt.move.pod.uid] = self._current
                self._eviction.close()
            case MoveEnded(outcome):
                self._eviction.close()  # which was not requested after all
                pod = outcome.move.pod
                now = self._clock()
                eviction = self._granted.pop(pod.uid, None)
                if eviction is not None:
                    began = outcome.evicted_at or now
                    ended = outcome.ready_at or now
                    fields = {"pod": pod.full_name, "node": outcome.node, "result": outcome.result.value}
                    record("landing", began, ended, eviction, **fields)
            case WaveFinished():
                self._wave.close()

    def end_all(self, *error: Any) -> None:
        """End what an exception may have left open."""
        self._eviction.__exit__(*error)
        self._wave.__exit__(*error)


CLUSTER_ANNOTATION = "rebalancer/cluster"  # of Events, which leave the cluster for where all are gathered
MAX_NODE_EVENTS = 20  # in one run: more nodes than that are one event's worth of trouble
_VERSION = "events.k8s.io/v1"
_NUMBERS = re.compile(r"[0-9.]+")
_MAX_NOTE_BYTES = 1024  # the API server refuses an event with a longer one
_API_VERSIONS = {kind.name: kind.api_version for kind in WORKLOADS if kind is not DEPLOYMENTS}


class EventKind(msgspec.Struct, frozen=True):
    """Events of one reason: which object they are about, and what their note holds."""

    reason: str
    about: str
    note: str
    type: str = "Normal"  # or Warning


REBALANCED = EventKind(
    "Rebalanced",
    "the controller of a pod that was evicted or restarted, and the workload above it",
    "the pod, its node, why it moves, and where its replacement will run",
)
REMOVED = EventKind(
    "Removed",
    "the controller of a finished pod that was removed, and the workload above it",
    "the pod, its node, and why a strategy removes it",
)
CANNOT_BE_COOLED = EventKind(
    "CannotBeCooled",
    "a node that is hot after the plan too",
    "how hot it stays, and what keeps its pods; once an hour",
    "Warning",
)
STOPPED = EventKind(
    "Stopped", "the Lease of the runs", "the safety check or the outcome that stopped a run early", "Warning"
)
STEERED = EventKind(
    "Steered",
    "a node that has a soft taint while a wave lasts",
    "which pod must not land there and why, and until when the taint may stay",
)
EVENT_KINDS = (REBALANCED, REMOVED, CANNOT_BE_COOLED, STEERED, STOPPED)


_EVENT_SECONDS = 5.0  # for one request, retries included
_LOST_SECONDS = 20.0  # that a run waits for requests of events which fail, all of them together


class EventWriter(msgspec.Struct, eq=False):
    """Writes events; a run goes on when one cannot be written, and does not wait long to find out.

    Clusters keep events in an etcd of their own, which may be down while everything else is well.
    """

    _api: RawApi
    _reporter: str
    _clock: Callable[[], float]
    _lease: tuple[str, str] = ("rebalancer", "rebalancer")  # namespace and name of the Lease of the runs
    _lost_seconds: float = 0.0  # waited so far for what was not written

    def __call__(self, event: RunEvent) -> None:
        """Write what is worth an Event of what happens in a run that acts."""
        match event:
            case RunStarted(plan):
                still_hot = {node.name for node in plan.nodes if node.after is not None and node.after.hot}
                unsolved = {name: why for name, why in plan.unsolved.items() if name in still_hot}
                self.cannot_be_cooled(unsolved)
            case EvictionAnswered(attempt) if attempt.is_granted:
                self.evicted(attempt.move, started=attempt.verdict is Verdict.STARTED)
            case CleanupEnded(outcome) if outcome.result is Result.REMOVED:
                self.removed(outcome.cleanup)
            case RunFinished(outcomes) if outcomes.stop not in (None, Stop.INTERRUPTED, Stop.LEASE_LOST):
                self.stopped(*self._lease, outcomes.run, outcomes.stopped)

    def evicted(self, move: Move, *, started: bool = False) -> None:
        """Record on the controller, else on the pod, that the pod was evicted or restarted, and why.

        ``started`` says that the eviction only began: somebody else moves the pod.
        """
        pod = move.pod
        verb = "Began to evict pod" if started else "Evicted pod"
        verb = "Restarted, to move pod" if move.is_restart else verb
        note = f"{verb} {pod.name} from {move.from_node}: {move.because}"
        self._write_on_owners(REBALANCED, "rebalanced", pod, move.action, note)

    def removed(self, cleanup: Cleanup) -> None:
        """Record on the controller, else on the pod, that a finished pod was removed, and why."""
        pod = cleanup.pod
        note = f"Removed finished pod {pod.name} of {cleanup.node}: {cleanup.because}"
        self._write_on_owners(REMOVED, "removed", pod, "Remove", note)

    def steered(self, nodes: Mapping[str, str], until: float) -> None:
        """Record on nodes that they have a soft taint, and why; on the first ones by name of many."""
        for node, why in sorted(nodes.items())[:MAX_NODE_EVENTS]:
            end = times.render(until)
            note = f"A run lets the scheduler prefer other nodes, until {end} at most: {why}"
            name = f"steered-{node}"[:200] + f".{int(until)}"
            self._write(STEERED, name, "default", _node(node), "Steer", note)

    def cannot_be_cooled(self, unsolved: Mapping[str, str]) -> None:
        """Record on each node that stays hot why it does; on the first ones by name, if there are many."""
        hour = self._clock() // 3600
        for node, because in sorted(unsolved.items())[:MAX_NODE_EVENTS]:
            # One for as long as the same things keep its pods, whatever their number.
            digest = hashlib.sha256(f"{node} {hour} {_NUMBERS.sub('', because)}".encode()).hexdigest()[:16]
            note = f"Hot, and cannot be cooled: {because}"
            name = f"hot-{node}"[:200] + f".{digest}"
            self._write(CANNOT_BE_COOLED, name, "default", _node(node), "Plan", note)

    def stopped(self, namespace: str, lease: str, run: str, because: str) -> None:
        """Record on the Lease of the runs that this one stopped before the end of its plan."""
        regarding = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "namespace": namespace,
            "name": lease,
            **self._uid_of_lease(namespace, lease),
        }
        self._write(STOPPED, f"stopped-{run}", namespace, regarding, "Run", f"Stopped early: {because}")

    def _uid_of_lease(self, namespace: str, lease: str) -> dict[str, str]:
        """``kubectl describe`` finds the events of an object by its uid."""
        path = object_path("coordination.k8s.io/v1", namespace, "leases", lease)
        content = self._ask(lambda api: api.get(f"read lease {namespace}/{lease}", path))
        with contextlib.suppress(msgspec.DecodeError, LookupError, TypeError):
            return {"uid": str(msgspec.json.decode(content)["metadata"]["uid"])}
        return {}

    def _write_on_owners(self, kind: EventKind, what: str, pod: PodReference, action: str, note: str) -> None:
        """Write an Event of a pod on its controller and on the workload above, each by its own name."""
        name = f"{what}-{pod.uid}"
        for number, regarding in enumerate(_described(pod)):
            self._write(kind, f"{name}.{number}" if number else name, pod.namespace, regarding, action, note)

    def _write(
        self, kind: EventKind, name: str, namespace: str, regarding: dict[str, str], action: str, note: str
    ) -> None:
        now = times.render_micro(self._clock())
        body = {
            "apiVersion": _VERSION,
            "kind": "Event",
            "metadata": {
                "namespace": namespace,
                "name": name[:253],
                "annotations": {CLUSTER_ANNOTATION: self._api.cluster},
            },
            "eventTime": now,
            "type": kind.type,
            "reason": kind.reason,
            "action": action,
            "note": note.encode()[:_MAX_NOTE_BYTES].decode(errors="ignore"),
            "regarding": regarding,
            "reportingController": "rebalancer",
            "reportingInstance": self._reporter[:128],
        }
        what = f"write an event on {regarding['kind'].lower()} {regarding['name']}"
        path = object_path(_VERSION, namespace, "events")
        self._ask(lambda api: api.write(what, "POST", path, body))

    def _ask(self, request: Callable[[RawApi], bytes]) -> bytes:
        """The answer to a request; empty where there is none, or the run has waited too long for such."""
        left = _LOST_SECONDS - self._lost_seconds
        if left <= 0:
            return b""
        began = self._api.retries.clock()
        try:
            return request(self._api.within(min(_EVENT_SECONDS, left)))
        except RebalancerError as error:
            self._lost_seconds += self._api.retries.clock() - began
            if self._lost_seconds >= _LOST_SECONDS:
                LOGGER.warning("no more events are written in this run: %s", error)
            else:
                LOGGER.debug("an event lacks an answer: %s", error)
        return b""


def _described(pod: PodReference) -> list[dict[str, str]]:
    """What an event about a pod regards: its controller, and the workload above it that people describe."""
    regarding = _controller_or_pod(pod)
    kind, _, name = pod.workload.partition("/")
    versions = {**_API_VERSIONS, DEPLOYMENTS.name: DEPLOYMENTS.api_version}
    if kind not in versions or not pod.workload_uid or pod.workload_uid == regarding["uid"]:
        return [regarding]
    above = {"apiVersion": versions[kind], "kind": kind, "name": name, "uid": pod.workload_uid}
    return [regarding, {**above, "namespace": pod.namespace}]


def _controller_or_pod(pod: PodReference) -> dict[str, str]:
    """The controller of a pod, or the pod where none is known."""
    about = ("v1", "Pod", pod.name, pod.uid)
    if pod.controller_uid and pod.controller_kind in _API_VERSIONS:
        version = _API_VERSIONS[pod.controller_kind]
        about = (version, pod.controller_kind, pod.controller_name, pod.controller_uid)
    regarding = dict(zip(("apiVersion", "kind", "name", "uid"), about, strict=True))
    regarding["namespace"] = pod.namespace
    return regarding


def _node(name: str) -> dict[str, str]:
    return {"apiVersion": "v1", "kind": "Node", "name": name, "uid": name}
