"""What a run is given, and the ledger that records its outcomes in memory, the journal and the state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from rebalancer.cluster.live import RawApi
from rebalancer.cluster.live.answers import RequestRejectedError
from rebalancer.errors import (
    InputError,
    InternalError,
    RebalancerError,
    RightsError,
    SafetyError,
    StopRequestedError,
)
from rebalancer.execution.evict import Patience
from rebalancer.execution.journal import Journal, JournalError
from rebalancer.execution.kubernetes_events import EventWriter
from rebalancer.execution.lease import HeldLease, LeaseLostError
from rebalancer.execution.outcomes import Outcome, Stop
from rebalancer.execution.progress import Observer, Silent
from rebalancer.execution.safety import PauseSwitch, paused_by_policy
from rebalancer.execution.scheduler_health import SchedulerLocation
from rebalancer.execution.verify import LandingCheck, PodsSeen
from rebalancer.planning.plan import Move
from rebalancer.policy.schema import Execution, Safety

Validate = Callable[[Sequence[Move]], Mapping[str, str | Move]]
"""Reads the cluster again; pod uid -> why the move no longer holds, or the move with its present landings.

Moves that are absent from the answer hold unchanged.
"""

Checkpoint = Callable[[Sequence[Outcome]], None]
"""Saves what is known so far for the next run; an error it raises stops the run before the next eviction."""


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """Everything a run needs from outside; ``sleep`` may end early once ``stop_requested`` returns True."""

    run: str  # the run's identity: in the journal, the lease and the events
    api: RawApi
    clock: Callable[[], float]
    sleep: Callable[[float], object]
    execution: Execution
    safety: Callable[[], Safety]  # read again before each wave, and before each eviction
    validate: Validate
    check_landing: LandingCheck
    journal: Journal
    lease: HeldLease | None  # None where nothing but this run can act, as in a dry run
    schedulers: tuple[SchedulerLocation, ...] = ()
    pause: PauseSwitch | None = None  # None where nothing but the policy pauses a run
    max_duration_seconds: float | None = None  # no eviction begins later
    began: float | None = None  # when the run began, by the clock of the API's retries; None: now
    stop_requested: Callable[[], bool] = lambda: False
    observer: Observer = field(default_factory=Silent)
    # The label selector of the controller of a move's pod; empty where it is not known.
    selector_of: Callable[[Move], str] = lambda _: ""
    # The pods of a controller as a watch last showed them: when it is worth to look for replacements.
    pods_seen: PodsSeen = lambda _: None
    checkpoint: Checkpoint = lambda _: None
    events: EventWriter | None = None
    patience: Patience = field(default_factory=Patience)
    dry_run: bool = False

    def why_paused(self) -> str:
        """Why nothing may be evicted now, by the policy or by the pause switch, read again; else empty.

        Raises InputError for a policy that can no longer be used, RightsError or UnreachableError.
        """
        return paused_by_policy(self.safety()) or (self.pause.why_paused() if self.pause else "")


@dataclass(frozen=True, slots=True)
class Halt:
    """Why a run goes no further."""

    stop: Stop
    because: str


# The first row that matches the error decides the kind of stop.
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


def halt_for(error: RebalancerError) -> Halt:
    """The halt that follows from an error; a defect of this program is raised again."""
    if isinstance(error, InternalError):
        raise error
    return Halt(next(stop for kind, stop in _STOPS if isinstance(error, kind)), str(error))


class Ledger:
    """The outcomes of a run as they become known."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._known: dict[str, Outcome] = {}
        self.halt: Halt | None = None

    def knows(self, move: Move) -> bool:
        """Whether the move has an outcome, be it a provisional one."""
        return move.pod.uid in self._known

    def outcomes(self, moves: Sequence[Move]) -> tuple[Outcome, ...]:
        """The outcomes of these moves, in their order."""
        return tuple(self._known[move.pod.uid] for move in moves if self.knows(move))

    def stop(self, halt: Halt) -> None:
        """Go no further, for the first reason given."""
        if self.halt is None:
            self.halt = halt
            self.record("stopped", kind=halt.stop.value, because=halt.because)

    def provisional(self, outcome: Outcome) -> None:
        """Record what the next run must know about a move if this run is killed now."""
        self._known[outcome.move.pod.uid] = outcome
        self._checkpoint()

    def settle(self, outcome: Outcome) -> None:
        """Record how a move ended."""
        self._known[outcome.move.pod.uid] = outcome
        self.record(
            "outcome",
            outcome.move,
            result=outcome.result.value,
            because=outcome.because,
            node=outcome.node,
            replacement=outcome.replacement,
        )
        self._context.observer.outcome_known(outcome)

    def save(self) -> None:
        """Save what is known for the next run."""
        self._checkpoint()

    def record(self, event: str, move: Move | None = None, **fields: object) -> bool:
        """Write to the journal; a failure stops the run. Returns whether it was written."""
        try:
            self._context.journal.write(event, move, **fields)
        except JournalError as error:
            self.halt = self.halt or halt_for(error)
            return False
        return True

    def _checkpoint(self) -> None:
        try:
            self._context.checkpoint(tuple(self._known.values()))
        except RebalancerError as error:
            self.stop(halt_for(error))
