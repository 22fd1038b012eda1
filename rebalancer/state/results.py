"""How a move ended, and all that follows from that: one table, for every stage that knows of past moves.

A run writes the name of a result into its journal, its outcomes and the state, where later runs read it:

    Pending    the run stops, with exit code 3, and shows the move in red
               the next run counts the pod's load as gone from its node and come to no other
               further runs leave its workload alone for planning.badLandingCooldown
"""

from __future__ import annotations

from enum import Enum, Flag, StrEnum, auto

from rebalancer.errors import ExitCode


class LoadAfter(Enum):
    """Where the load of a pod is once its move has ended."""

    STAYED = "on the node it was to leave"
    MOVED = "on the node of its replacement"
    NOWHERE = "on no node: no replacement has one"
    UNKNOWN = "not known"


class _Traits(Flag):
    """What is true of some results; the properties of ``Result`` say what each means."""

    NONE = 0
    LANDED = auto()
    ENDS_RUN = auto()
    UNDER_WAY = auto()
    NOT_REQUESTED = auto()


_DONE, _PARTLY, _STOPPED = ExitCode.DONE, ExitCode.PARTLY_DONE, ExitCode.STOPPED
_LANDED, _ENDS_RUN, _UNDER_WAY = _Traits.LANDED, _Traits.ENDS_RUN, _Traits.UNDER_WAY


class Result(StrEnum):
    """How a move ended: its name, the sentence that documents it, and what follows from it."""

    meaning: str
    exit_code: ExitCode  # of a run that nothing else stopped; the worst of its results decides
    colour: str
    load: LoadAfter
    _traits: _Traits

    def __new__(
        cls,
        value: str,
        meaning: str,
        exit_code: ExitCode,
        colour: str,
        load: LoadAfter,
        traits: _Traits = _Traits.NONE,
    ) -> Result:
        """Make a member that carries its row of the table."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning, member.exit_code, member.colour = meaning, exit_code, colour
        member.load, member._traits = load, traits
        return member

    LANDED = "Landed", "on a node the plan listed", _DONE, "green", LoadAfter.MOVED, _LANDED
    LANDED_ELSEWHERE = (
        *("LandedElsewhere", "not listed, yet acceptable"),
        *(_DONE, "green", LoadAfter.MOVED, _LANDED),
    )
    UNEXPECTED = (
        *("Unexpected", "on a node the plan did not allow"),
        *(_STOPPED, "red", LoadAfter.MOVED, _LANDED | _ENDS_RUN),
    )
    PENDING = (
        *("Pending", "the replacement was made and not bound in time"),
        *(_STOPPED, "red", LoadAfter.NOWHERE, _ENDS_RUN),
    )
    NOT_READY = (
        *("NotReady", "bound, but not ready in time"),
        *(_STOPPED, "red", LoadAfter.MOVED, _ENDS_RUN),
    )
    NOT_REPLACED = (
        *("NotReplaced", "no replacement was made in time"),
        *(_STOPPED, "red", LoadAfter.NOWHERE, _ENDS_RUN),
    )
    REFUSED = (
        *("Refused", "the API refused the eviction; nothing happened"),
        *(_PARTLY, "yellow", LoadAfter.STAYED),
    )
    UNKNOWN = (
        *("Unknown", "the eviction's answer was lost, or its end could not be seen"),
        *(_PARTLY, "red", LoadAfter.UNKNOWN, _ENDS_RUN),
    )
    SKIPPED = "Skipped", "not attempted", _PARTLY, "dim", LoadAfter.STAYED, _Traits.NOT_REQUESTED
    STARTED = (
        *("Started", "somebody else moves the pod, which had not left when the wave ended"),
        *(_DONE, "yellow", LoadAfter.UNKNOWN, _UNDER_WAY),
    )
    RESTARTED = (
        *("Restarted", "not evicted: a rolling update replaced it, on a node the plan listed"),
        *(_DONE, "green", LoadAfter.MOVED, _LANDED),
    )
    RESTARTED_ELSEWHERE = (
        *("RestartedElsewhere", "the same on a node not listed, yet acceptable"),
        *(_DONE, "green", LoadAfter.MOVED, _LANDED),
    )
    ROLLOUT_STALLED = (
        *("RolloutStalled", "the rolling update did not end in time"),
        *(_STOPPED, "red", LoadAfter.UNKNOWN, _ENDS_RUN | _UNDER_WAY),
    )
    REMOVED = (
        *("Removed", "a pod that had finished was removed; nothing is placed in its stead"),
        *(_DONE, "green", LoadAfter.STAYED),
    )
    GONE = (
        *("Gone", "it left, or was leaving, by itself before its turn"),
        *(_DONE, "dim", LoadAfter.STAYED, _Traits.NOT_REQUESTED),
    )

    @classmethod
    def of(cls, name: str) -> Result:
        """The result of this name, as the state has it; UNKNOWN for one that only a newer version knows."""
        return next((result for result in cls if result.value == name), cls.UNKNOWN)

    @property
    def landed(self) -> bool:
        """Whether the replacement runs on a node, be it a wrong one."""
        return _Traits.LANDED in self._traits

    @property
    def is_good(self) -> bool:
        """Whether the replacement runs where the plan allowed it."""
        return self.landed and not self.is_bad

    @property
    def is_bad(self) -> bool:
        """Whether the plan did not allow for it; the next runs do not soon repeat such a move."""
        return self.exit_code is ExitCode.STOPPED

    @property
    def is_under_way(self) -> bool:
        """Whether the move was not over when its run was: somebody else makes it, or a rolling update."""
        return _Traits.UNDER_WAY in self._traits

    @property
    def was_requested(self) -> bool:
        """Whether the API server was asked to move the pod."""
        return _Traits.NOT_REQUESTED not in self._traits

    @property
    def is_warning(self) -> bool:
        """Whether whoever follows a run should look at it."""
        return self.exit_code is not ExitCode.DONE and self.was_requested

    def ends_run(self, on_unexpected_landing: str = "stop") -> bool:
        """Whether a run evicts nothing more after it, under this ``execution.onUnexpectedLanding``."""
        if self is Result.UNEXPECTED and on_unexpected_landing == "continue":
            return False
        return _Traits.ENDS_RUN in self._traits


BAD_RESULTS = frozenset(result for result in Result if result.is_bad)
