"""What happened to the moves of a plan: the exit code that follows, and what the next run must know of it."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec
from msgspec.structs import replace

from rebalancer.errors import ExitCode
from rebalancer.planning.plan import API_VERSION, Cleanup, Move
from rebalancer.state.results import Result
from rebalancer.state.run_state import PastMove, RunState, after_moves


class Stop(StrEnum):
    """Why a run ended before its plan did, with the exit code that follows."""

    exit_code: ExitCode

    def __new__(cls, value: str, exit_code: ExitCode) -> Stop:
        """Make a member that carries its exit code."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.exit_code = exit_code
        return member

    BRAKE = "Brake", ExitCode.STOPPED  # a safety check of the policy failed
    LEASE_LOST = "LeaseLost", ExitCode.STOPPED
    OUTCOME = "Outcome", ExitCode.STOPPED  # an outcome that the plan did not allow for
    JOURNAL = "Journal", ExitCode.STOPPED  # a decision could not be recorded
    SETTINGS = "Settings", ExitCode.BAD_INPUT  # something the run was given cannot be used
    RIGHTS = "Rights", ExitCode.RIGHTS_MISSING
    UNREACHABLE = "Unreachable", ExitCode.UNREACHABLE
    REJECTED = "Rejected", ExitCode.REJECTED  # the API server does not serve or accept a request
    INTERRUPTED = "Interrupted", ExitCode.INTERRUPTED


class StopReason(msgspec.Struct, frozen=True):
    """Why a run evicts nothing more: which kind of reason it is, and the sentence that says it."""

    stop: Stop
    message: str


_WORST_FIRST = (ExitCode.STOPPED, ExitCode.PARTLY_DONE)


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

    @property
    def move_made(self) -> Move:
        """The move as the plans that follow count it: a landing that was verified is no risk any more."""
        if self.result.landed and not self.result.is_bad:
            return replace(self.move, risk=0.0)
        return self.move


class CleanupOutcome(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """What became of a finished pod that was to be removed."""

    cleanup: Cleanup
    result: Result
    because: str


class PlanOfRun(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One of the plans that a run made one after another, and how the cluster differed from it."""

    inputs: str  # the digest of the plan
    hot_nodes: int  # when it was made
    moves: int
    made: int = 0  # moves whose pods were, or may have been, evicted
    elsewhere: int = 0  # of these, those whose replacements did not land on the likeliest node
    skipped: int = 0  # moves that no longer held, or were refused

    @property
    def is_as_planned(self) -> bool:
        """Whether everything went as was most likely: then another plan would find nothing new."""
        return self.made == self.moves and not self.elsewhere


class Outcomes(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The outcomes of a run, in the order of the plan, and why it stopped if it stopped early."""

    plan_inputs: str  # the digest of the plan that was carried out
    run: str  # the run's identity, as in the journal
    outcomes: tuple[Outcome, ...] = ()
    cleanups: tuple[CleanupOutcome, ...] = ()
    # In their order; the last has no moves where nothing more was to be gained.
    plans: tuple[PlanOfRun, ...] = ()
    stop: Stop | None = None
    stopped: str = ""  # why the run stopped early, in a sentence; empty when it came to its end
    dry_run: bool = False  # every eviction was asked for with dryRun: nothing happened
    still_tainted: tuple[str, ...] = ()  # nodes whose taints of this run could not be taken away
    exit_code: int = int(ExitCode.DONE)
    api_version: str = API_VERSION
    kind: str = "Outcomes"


def with_taints_left(outcomes: Outcomes, nodes: Iterable[str]) -> Outcomes:
    """The outcomes of a run whose taints stay on these nodes: then it is partly done at best."""
    still_tainted = tuple(sorted(nodes))
    if not still_tainted:
        return outcomes
    code = outcomes.exit_code
    if code == ExitCode.DONE:
        code = int(ExitCode.PARTLY_DONE)
    return replace(outcomes, still_tainted=still_tainted, exit_code=code)


def exit_code(results: Iterable[Result], stop: Stop | None) -> ExitCode:
    """What a run with these results leaves with."""
    if stop is not None:
        return stop.exit_code
    codes = {result.exit_code for result in results}
    return next((code for code in _WORST_FIRST if code in codes), ExitCode.DONE)


def past_moves(outcomes: Iterable[Outcome], run: str = "") -> tuple[PastMove, ...]:
    """The moves whose pods were, or may have been, evicted; the others changed nothing in the cluster."""
    return tuple(
        outcome.move.made(
            outcome.result.value,
            outcome.node,
            outcome.evicted_at,
            (outcome.ready_at or outcome.bound_at) if outcome.result.landed else None,
            run=run,
            controller_uid=outcome.replacement_controller_uid or outcome.move.pod.controller_uid,
        )
        for outcome in outcomes
        if outcome.evicted_at is not None
    )


def after_outcomes(
    state: RunState | None, outcomes: Iterable[Outcome], now: float, horizon_seconds: float, run: str = ""
) -> RunState:
    """The state with these outcomes of a run; moves older than the horizon are dropped.

    The provisional entry that this run wrote before an eviction is withdrawn once it is known that the pod
    stayed. What another run wrote about the pod is not touched: it may know better.
    """
    ended = tuple(outcomes)
    untouched = {outcome.move.pod.uid for outcome in ended if outcome.evicted_at is None}
    if state is not None and untouched:
        moves = tuple(
            move
            for move in state.moves
            if not (move.run == run and move.uid in untouched and move.result == Result.UNKNOWN)
        )
        state = replace(state, moves=moves)
    return after_moves(state, past_moves(ended, run), now, horizon_seconds)
