"""How a move ended, and all that follows from that: one table, for every stage that knows of past moves.

A run writes the name of a result into its journal, its outcomes and the state, where later runs read it:

    Pending    the run stops, with exit code 3, and shows the move in red
               the next run counts the pod's load as gone from its node and come to no other
               further runs leave its workload alone for a day
"""

from __future__ import annotations

from enum import Enum, StrEnum
from typing import NamedTuple

from rebalancer.errors import ExitCode


class LoadAfter(Enum):
    """Where the load of a pod is once its move has ended."""

    STAYED = "on the node it was to leave"
    MOVED = "on the node of its replacement"
    NOWHERE = "on no node: no replacement has one"
    UNKNOWN = "not known"


class _Row(NamedTuple):
    """What follows from a result; ``Result`` says what each column means."""

    exit_code: ExitCode
    colour: str
    load: LoadAfter
    landed: bool = False
    is_bad: bool = False
    is_under_way: bool = False
    was_requested: bool = True


_GOOD = _Row(ExitCode.DONE, "green", LoadAfter.MOVED, landed=True)
_BAD = _Row(ExitCode.STOPPED, "red", LoadAfter.NOWHERE, is_bad=True)
_PARTLY = ExitCode.PARTLY_DONE


class Result(StrEnum):
    """How a move ended: its name, the sentence that documents it, and what follows from it."""

    meaning: str
    exit_code: ExitCode  # of a run that nothing else stopped; the worst of its results decides
    colour: str
    load: LoadAfter
    landed: bool  # the replacement runs on a node, be it a wrong one
    is_bad: bool  # the plan did not allow for it; later runs do not soon repeat such a move
    is_under_way: bool  # not over when its run was: somebody else makes the move, or a rolling update
    was_requested: bool  # the API server was asked to move the pod

    def __new__(cls, value: str, meaning: str, row: _Row) -> Result:
        """Make a member that carries its row of the table."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        for column, entry in row._asdict().items():
            setattr(member, column, entry)
        return member

    LANDED = "Landed", "on a node the plan listed", _GOOD
    LANDED_ELSEWHERE = "LandedElsewhere", "not listed, yet acceptable", _GOOD
    UNEXPECTED = (
        "Unexpected",
        "on a node the plan did not allow",
        _BAD._replace(load=LoadAfter.MOVED, landed=True),
    )
    PENDING = "Pending", "the replacement was made and not bound in time", _BAD
    NOT_READY = "NotReady", "bound, but not ready in time", _BAD._replace(load=LoadAfter.MOVED)
    NOT_REPLACED = "NotReplaced", "no replacement was made in time", _BAD
    REFUSED = (
        "Refused",
        "the API refused the eviction; nothing happened",
        _Row(_PARTLY, "yellow", LoadAfter.STAYED),
    )
    UNKNOWN = (
        "Unknown",
        "the eviction's answer was lost, or its end could not be seen",
        _Row(_PARTLY, "red", LoadAfter.UNKNOWN),
    )
    SKIPPED = "Skipped", "not attempted", _Row(_PARTLY, "dim", LoadAfter.STAYED, was_requested=False)
    WOULD_EVICT = (
        "WouldEvict",
        "dry run: the API server would allow the eviction; nothing happened",
        _Row(ExitCode.DONE, "green", LoadAfter.STAYED, was_requested=False),
    )
    WOULD_RESTART = (
        "WouldRestart",
        "dry run: the API server would let the Deployment be restarted; nothing happened",
        _Row(ExitCode.DONE, "green", LoadAfter.STAYED, was_requested=False),
    )
    STARTED = (
        "Started",
        "somebody else moves the pod, which had not left when the wave ended",
        _Row(ExitCode.DONE, "yellow", LoadAfter.UNKNOWN, is_under_way=True),
    )
    RESTARTED = "Restarted", "not evicted: a rolling update replaced it, on a node the plan listed", _GOOD
    RESTARTED_ELSEWHERE = "RestartedElsewhere", "the same on a node not listed, yet acceptable", _GOOD
    ROLLOUT_STALLED = (
        "RolloutStalled",
        "the rolling update did not end in time",
        _BAD._replace(load=LoadAfter.UNKNOWN, is_under_way=True),
    )
    REMOVED = (
        "Removed",
        "a finished pod was removed, of which nothing is placed",
        _Row(ExitCode.DONE, "green", LoadAfter.STAYED),
    )
    GONE = (
        "Gone",
        "it left, or was leaving, by itself before its turn",
        _Row(ExitCode.DONE, "dim", LoadAfter.STAYED, was_requested=False),
    )

    @classmethod
    def of(cls, name: str) -> Result:
        """The result of this name, as the state has it; UNKNOWN for one that only a newer version knows."""
        return next((result for result in cls if result.value == name), cls.UNKNOWN)

    @property
    def is_warning(self) -> bool:
        """Whether whoever follows a run should look at it."""
        return self.exit_code is not ExitCode.DONE and self.was_requested

    def ends_run(self, on_unexpected_landing: str = "stop") -> bool:
        """Whether a run evicts nothing more after it, under this ``execution.onUnexpectedLanding``."""
        allowed = self is Result.UNEXPECTED and on_unexpected_landing == "continue"
        return (self.is_bad or self is Result.UNKNOWN) and not allowed


BAD_RESULTS = frozenset(result for result in Result if result.is_bad)
