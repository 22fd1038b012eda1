"""What happened to the moves of a plan."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from rebalancer.errors import ExitCode
from rebalancer.planning.plan import API_VERSION, Move


class Result(StrEnum):
    """How a move ended."""

    LANDED = "Landed"  # on a node the plan listed
    LANDED_ELSEWHERE = "LandedElsewhere"  # not listed, yet acceptable
    UNEXPECTED = "Unexpected"  # on a node the plan did not allow
    PENDING = "Pending"  # the replacement was made and not bound in time
    NOT_READY = "NotReady"  # bound, but not ready in time
    NOT_REPLACED = "NotReplaced"  # no replacement was made in time
    REFUSED = "Refused"  # the API refused the eviction; nothing happened
    UNKNOWN = "Unknown"  # the answer was lost and the pod could not be read again
    SKIPPED = "Skipped"  # not attempted


class Outcome(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A move and how it ended; times in Unix seconds."""

    move: Move
    result: Result
    because: str
    node: str = ""  # where the replacement runs
    replacement: str = ""  # its name
    replacement_uid: str = ""
    evicted_at: float | None = None
    bound_at: float | None = None
    ready_at: float | None = None


class Outcomes(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The outcomes of a run, in the order of the plan, and why it stopped if it stopped early."""

    plan_inputs: str  # the digest of the plan that was carried out
    run: str  # the run's identity, as in the journal
    outcomes: tuple[Outcome, ...] = ()
    stopped: str = ""  # why the run stopped early; empty when it came to its end
    exit_code: int = int(ExitCode.DONE)
    api_version: str = API_VERSION
    kind: str = "Outcomes"
