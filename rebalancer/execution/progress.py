"""Who watches a run: the callbacks a command draws its progress from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rebalancer.execution.eviction import EvictionAnswer
from rebalancer.execution.outcomes import Outcome, Outcomes
from rebalancer.planning.plan import Move


class Observer(Protocol):
    """Is told what happens, as it happens; what it raises ends the run."""

    def wave_started(self, wave: int, moves: Sequence[Move]) -> None:
        """The moves of a wave that were found still to hold are about to be evicted."""

    def eviction_answered(self, move: Move, answer: EvictionAnswer) -> None:
        """The API server answered an eviction."""

    def waiting(self, wave: int, settled: int, evicted: int) -> None:
        """A wave was looked at: so many of its evicted pods are settled."""

    def outcome_known(self, outcome: Outcome) -> None:
        """How a move ended is known; told once for each move, skipped ones too."""

    def warned(self, message: str) -> None:
        """Something could not be told that should be known, and is not fatal."""

    def finished(self, outcomes: Outcomes) -> None:
        """The run is over and its lease released."""


class Silent:
    """Watches and does nothing; a base for observers that care for some calls only."""

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
