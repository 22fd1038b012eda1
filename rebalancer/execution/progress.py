"""The callbacks by which a command follows a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rebalancer.execution.evict import EvictionAnswer
from rebalancer.execution.outcomes import Outcome, Outcomes
from rebalancer.planning.plan import Move


class Observer(Protocol):
    """Follows a run as it happens; an exception it raises ends the run."""

    def wave_started(self, wave: int, moves: Sequence[Move]) -> None:
        """The pods of a wave whose moves still hold are about to be evicted."""

    def eviction_answered(self, move: Move, answer: EvictionAnswer) -> None:
        """The API server answered an eviction."""

    def waiting(self, wave: int, settled: int, evicted: int) -> None:
        """The pods of a wave were read: so many of those evicted are settled."""

    def outcome_known(self, outcome: Outcome) -> None:
        """The outcome of a move is known; called once for each move, skipped ones too."""

    def warned(self, message: str) -> None:
        """Something that should be known could not be determined; the run goes on."""

    def finished(self, outcomes: Outcomes) -> None:
        """The run is over and its lease released."""


class Silent:
    """Does nothing; a base for observers that need only some of the calls."""

    def wave_started(self, wave: int, moves: Sequence[Move]) -> None:
        """See Observer."""

    def eviction_answered(self, move: Move, answer: EvictionAnswer) -> None:
        """See Observer."""

    def waiting(self, wave: int, settled: int, evicted: int) -> None:
        """See Observer."""

    def outcome_known(self, outcome: Outcome) -> None:
        """See Observer."""

    def warned(self, message: str) -> None:
        """See Observer."""

    def finished(self, outcomes: Outcomes) -> None:
        """See Observer."""
