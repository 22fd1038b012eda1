"""What happened to the moves of a plan: the exit code that follows, and what the next run must know of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import StrEnum

import msgspec

from rebalancer.errors import ExitCode
from rebalancer.planning.plan import API_VERSION, Move
from rebalancer.state import PastMove, RunState, after_moves


class Result(StrEnum):
    """How a move ended."""

    LANDED = "Landed"  # on a node the plan listed
    LANDED_ELSEWHERE = "LandedElsewhere"  # not listed, yet acceptable
    UNEXPECTED = "Unexpected"  # on a node the plan did not allow
    PENDING = "Pending"  # the replacement was made and not bound in time
    NOT_READY = "NotReady"  # bound, but not ready in time
    NOT_REPLACED = "NotReplaced"  # no replacement was made in time
    REFUSED = "Refused"  # the API refused the eviction; nothing happened
    UNKNOWN = "Unknown"  # the eviction's answer was lost, or its end could not be seen
    SKIPPED = "Skipped"  # not attempted
    STARTED = "Started"  # somebody else moves the pod, which had not left when the wave ended
    RESTARTED = "Restarted"  # not evicted: a rolling update replaced it, on a node the plan listed
    RESTARTED_ELSEWHERE = "RestartedElsewhere"  # the same on a node not listed, yet acceptable
    ROLLOUT_STALLED = "RolloutStalled"  # the rolling update did not end in time
    GONE = "Gone"  # it left, or was leaving, by itself before its turn


class Stop(StrEnum):
    """Why a run ended before its plan did."""

    BRAKE = "Brake"  # a brake of the policy
    LEASE_LOST = "LeaseLost"
    OUTCOME = "Outcome"  # an outcome that the plan did not allow for
    JOURNAL = "Journal"  # a decision could not be recorded
    SETTINGS = "Settings"  # something the run was given cannot be used
    RIGHTS = "Rights"
    UNREACHABLE = "Unreachable"
    REJECTED = "Rejected"  # the API server does not serve or accept a request
    INTERRUPTED = "Interrupted"


# The one table from which the exit code of a run is made: the stop decides, else the worst result.
STOP_CODES = {
    Stop.BRAKE: ExitCode.STOPPED,
    Stop.LEASE_LOST: ExitCode.STOPPED,
    Stop.OUTCOME: ExitCode.STOPPED,
    Stop.JOURNAL: ExitCode.STOPPED,
    Stop.SETTINGS: ExitCode.BAD_INPUT,
    Stop.RIGHTS: ExitCode.RIGHTS_MISSING,
    Stop.UNREACHABLE: ExitCode.UNREACHABLE,
    Stop.REJECTED: ExitCode.REJECTED,
    Stop.INTERRUPTED: ExitCode.INTERRUPTED,
}
RESULT_CODES = {
    Result.LANDED: ExitCode.DONE,
    Result.LANDED_ELSEWHERE: ExitCode.DONE,
    Result.UNEXPECTED: ExitCode.STOPPED,
    Result.PENDING: ExitCode.STOPPED,
    Result.NOT_READY: ExitCode.STOPPED,
    Result.NOT_REPLACED: ExitCode.STOPPED,
    Result.REFUSED: ExitCode.PARTLY_DONE,
    Result.UNKNOWN: ExitCode.PARTLY_DONE,
    Result.SKIPPED: ExitCode.PARTLY_DONE,
    Result.STARTED: ExitCode.DONE,
    Result.RESTARTED: ExitCode.DONE,
    Result.RESTARTED_ELSEWHERE: ExitCode.DONE,
    Result.ROLLOUT_STALLED: ExitCode.STOPPED,
    Result.GONE: ExitCode.DONE,
}
_WORST_FIRST = (ExitCode.STOPPED, ExitCode.PARTLY_DONE)

# What the plan did not allow for: a run does not go on after one of these.
STOPPING = frozenset(
    {
        Result.UNEXPECTED,
        Result.PENDING,
        Result.NOT_READY,
        Result.NOT_REPLACED,
        Result.ROLLOUT_STALLED,
        Result.UNKNOWN,
    }
)


class Outcome(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A move and how it ended; times in Unix seconds."""

    move: Move
    result: Result
    because: str
    node: str = ""  # where the replacement runs
    replacement: str = ""  # its name
    replacement_uid: str = ""
    replacement_controller_uid: str = ""  # a rolling update makes another ReplicaSet
    evicted_at: float | None = None
    bound_at: float | None = None
    ready_at: float | None = None


class Outcomes(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The outcomes of a run, in the order of the plan, and why it stopped if it stopped early."""

    plan_inputs: str  # the digest of the plan that was carried out
    run: str  # the run's identity, as in the journal
    outcomes: tuple[Outcome, ...] = ()
    stop: Stop | None = None
    stopped: str = ""  # why the run stopped early, in a sentence; empty when it came to its end
    dry_run: bool = False  # every eviction was asked for with dryRun: nothing happened
    exit_code: int = int(ExitCode.DONE)
    api_version: str = API_VERSION
    kind: str = "Outcomes"


def exit_code(results: Iterable[Result], stop: Stop | None) -> ExitCode:
    """What a run with these results leaves with."""
    if stop is not None:
        return STOP_CODES[stop]
    codes = {RESULT_CODES[result] for result in results}
    return next((code for code in _WORST_FIRST if code in codes), ExitCode.DONE)


def encode(outcomes: Outcomes) -> bytes:
    """The outcomes as JSON: the same outcomes, the same bytes."""
    return msgspec.json.encode(outcomes, order="deterministic")


def decode(content: bytes) -> Outcomes:
    """The outcomes read back; raises msgspec.ValidationError when the bytes hold none."""
    return msgspec.json.decode(content, type=Outcomes)


_LANDED = frozenset(
    {
        Result.LANDED,
        Result.LANDED_ELSEWHERE,
        Result.RESTARTED,
        Result.RESTARTED_ELSEWHERE,
        Result.UNEXPECTED,
    }
)


def past_moves(outcomes: Iterable[Outcome], run: str = "") -> tuple[PastMove, ...]:
    """The moves whose pods were, or may have been, evicted; the others changed nothing in the cluster."""
    return tuple(_past_move(outcome, run) for outcome in outcomes if outcome.evicted_at is not None)


def after_outcomes(
    state: RunState | None, outcomes: Iterable[Outcome], now: float, horizon_seconds: float, run: str = ""
) -> RunState:
    """The state with these outcomes of a run; moves older than the horizon are dropped.

    The provisional entry that this run wrote before an eviction is withdrawn once it is known that the pod
    stayed. What another run wrote about the pod is not touched: it may know better.
    """
    known = tuple(outcomes)
    untouched = {outcome.move.pod.uid for outcome in known if outcome.evicted_at is None}
    if state is not None and untouched:
        kept = tuple(move for move in state.moves if not _withdrawn(move, untouched, run))
        state = msgspec.structs.replace(state, moves=kept)
    return after_moves(state, past_moves(known, run), now, horizon_seconds)


def _withdrawn(move: PastMove, untouched: Collection[str], run: str) -> bool:
    return move.run == run and move.uid in untouched and move.result == Result.UNKNOWN


def _past_move(outcome: Outcome, run: str) -> PastMove:
    pod = outcome.move.pod
    landed = outcome.result in _LANDED
    return PastMove(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        run=run,
        workload=pod.workload,
        controller_uid=outcome.replacement_controller_uid or pod.controller_uid,
        from_node=outcome.move.from_node,
        to_node=outcome.node,
        result=outcome.result.value,
        evicted_at=outcome.evicted_at or 0.0,
        landed_at=(outcome.ready_at or outcome.bound_at) if landed else None,
        load=dict(outcome.move.load),
    )
