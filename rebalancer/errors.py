"""Every error this program raises on purpose, and the exit code each leaves with.

RebalancerError
├── InputError            a policy, configuration, dump or option that cannot be used
├── RightsError           not authenticated (401) or not authorized (403)
├── UnreachableError      no answer from an API server or a load source, or one that rejects the request
├── SafetyError           a safety check or a bound of the policy forbids going on
├── LeaseHeldError        another run holds the lease
└── StopRequestedError    the program was asked to stop while it waited or read

A message says what is wrong; ``where`` says where (``file:line:column``, an object, an address) and
``hint`` what to do about it.
"""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar

from rebalancer.redaction import without_secrets


class ExitCode(IntEnum):
    """What the process leaves with; ``meaning`` is the row the documentation is made from."""

    meaning: str

    def __new__(cls, value: int, meaning: str) -> ExitCode:
        """Make a member that carries its own documentation."""
        member = int.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    DONE = 0, "done, or nothing to do"
    INTERNAL = 1, "a defect of rebalancer itself"
    BAD_INPUT = 2, "bad input: a policy, configuration, dump or option that cannot be used"
    STOPPED = (
        3,
        "stopped for safety: a pause, a failed safety check, a bound of the policy, or an outcome that the "
        "plan did not allow for",
    )
    PARTLY_DONE = (
        4,
        "partly done: some moves were refused, skipped or left unknown, and nothing unsafe happened; or an "
        "imported policy is not equivalent",
    )
    RIGHTS_MISSING = 5, "rights missing: not authenticated (401) or not authorized (403)"
    UNREACHABLE = 6, "unreachable: no answer from the API server or from any load source"
    LEASE_HELD = 7, "lease held: another run is at work"
    REJECTED = 8, "request rejected: the API server does not serve or accept it"
    CHANGES = 10, "changes (--detailed-exitcode): a plan evicts pods, or two plans differ"
    INTERRUPTED = (
        130,
        "asked to stop: by a signal, after the eviction in flight was journaled, or by who was asked",
    )


class RebalancerError(Exception):
    """The root of all errors raised on purpose; prints as one line."""

    exit_code: ClassVar[ExitCode] = ExitCode.INTERNAL

    def __init__(self, message: str, *, where: str = "", hint: str = "", lines: tuple[str, ...] = ()) -> None:
        """``lines`` are the problems that the message joins, for where each can have a line of its own."""
        super().__init__(message)
        self.lines = lines
        self.message = message
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        """``where: message (hint)`` on one line."""
        line = f"{self.where}: {self.message}" if self.where else self.message
        line = f"{line} ({self.hint})" if self.hint else line
        return without_secrets(" ".join(line.split()))


class InputError(RebalancerError):
    """A policy, configuration, dump or option that cannot be used as it is."""

    exit_code = ExitCode.BAD_INPUT


class RightsError(RebalancerError):
    """The API server says: not authenticated (401) or not authorized (403)."""

    exit_code = ExitCode.RIGHTS_MISSING


class UnreachableError(RebalancerError):
    """No usable answer from an API server or a load source."""

    exit_code = ExitCode.UNREACHABLE


class SafetyError(RebalancerError):
    """A safety check or a bound of the policy forbids going on."""

    exit_code = ExitCode.STOPPED


class LeaseHeldError(RebalancerError):
    """Another run holds the lease."""

    exit_code = ExitCode.LEASE_HELD


class StopRequestedError(RebalancerError):
    """The program was asked to stop while it waited or read."""

    exit_code = ExitCode.INTERRUPTED
