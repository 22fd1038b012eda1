"""A run as it happens: a progress bar on a terminal, else one log line an event.

Observers never end a run: that their stream is closed or full matters to nobody but them.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from rebalancer.execution.eviction.verdicts import EvictionAnswer, Verdict
from rebalancer.execution.outcomes import Outcome, Outcomes, Result
from rebalancer.execution.progress import Silent
from rebalancer.planning.plan import Move
from rebalancer.reporting.tables.outcomes import COLOURS
from rebalancer.reporting.words import counted, words

# What drawing on a stream that was closed raises; rich loses track of itself then (IndexError).
_OF_A_STREAM = (OSError, ValueError, IndexError)
_WELL = frozenset({Result.LANDED, Result.LANDED_ELSEWHERE, Result.SKIPPED})


def outcome_words(outcome: Outcome) -> str:
    """One line on how a move ended."""
    where = f" on {outcome.node}" if outcome.node else ""
    return words(f"{outcome.result.value} {outcome.move.pod.full_name}{where}: {outcome.because}")


class LogObserver(Silent):
    """Tells a run as log lines; also the shape of every observer here: a context manager."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger

    def __enter__(self) -> Self:
        """Begin to watch."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """The run is over, however it ended."""

    def wave_started(self, wave: int, moves: Sequence[Move]) -> None:
        """See Observer."""
        pods = ", ".join(move.pod.full_name for move in moves)
        self._logger.info("wave %d: evicting %s: %s", wave, counted(len(moves), "pod"), words(pods))

    def eviction_answered(self, move: Move, answer: EvictionAnswer) -> None:
        """See Observer."""
        level = logging.INFO if answer.verdict is Verdict.EVICTED else logging.WARNING
        self._logger.log(
            level, "%s %s: %s", answer.verdict.value, words(move.pod.full_name), words(answer.because)
        )

    def outcome_known(self, outcome: Outcome) -> None:
        """See Observer."""
        level = logging.INFO if outcome.result in _WELL else logging.WARNING
        self._logger.log(level, "%s", outcome_words(outcome))

    def warned(self, message: str) -> None:
        """See Observer."""
        self._logger.warning("%s", words(message))

    def finished(self, outcomes: Outcomes) -> None:
        """See Observer."""
        if outcomes.stopped:
            self._logger.warning("stopped early: %s", words(outcomes.stopped))
        self._logger.info(
            "finished %s, exit code %d", counted(len(outcomes.outcomes), "move"), outcomes.exit_code
        )


class BarObserver(LogObserver):
    """Draws each wave as a bar that fills as its replacements settle, outcomes scrolling above it."""

    def __init__(self, console: Console, logger: logging.Logger) -> None:
        super().__init__(logger)
        self._console = console
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("settled", markup=False),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._task: TaskID | None = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the bar away."""
        with contextlib.suppress(*_OF_A_STREAM):
            self._progress.stop()

    def wave_started(self, wave: int, moves: Sequence[Move]) -> None:
        """See Observer."""
        with contextlib.suppress(*_OF_A_STREAM):
            if self._task is not None:
                self._progress.remove_task(self._task)
            self._task = self._progress.add_task(f"wave {wave}", total=len(moves))
            self._progress.start()

    def eviction_answered(self, move: Move, answer: EvictionAnswer) -> None:
        """Only the outcome is shown: it says more."""

    def waiting(self, wave: int, settled: int, evicted: int) -> None:  # noqa: ARG002
        """See Observer."""
        with contextlib.suppress(*_OF_A_STREAM):
            if self._task is not None:
                self._progress.update(self._task, completed=settled, total=max(evicted, 1))

    def outcome_known(self, outcome: Outcome) -> None:
        """See Observer."""
        self._line(outcome_words(outcome), COLOURS[outcome.result])

    def warned(self, message: str) -> None:
        """See Observer."""
        self._line(f"warning: {words(message)}", "yellow")

    def finished(self, outcomes: Outcomes) -> None:  # noqa: ARG002
        """See Observer."""
        with contextlib.suppress(*_OF_A_STREAM):
            self._progress.stop()

    def _line(self, message: str, style: str) -> None:
        with contextlib.suppress(*_OF_A_STREAM):
            self._console.print(Text(message, style), soft_wrap=True)


def observer(console: Console, logger: logging.Logger) -> LogObserver:
    """A bar when the console is a terminal, else log lines."""
    return BarObserver(console, logger) if console.is_terminal else LogObserver(logger)
