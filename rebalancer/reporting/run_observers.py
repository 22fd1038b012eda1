"""Shows a run while it happens: a progress bar on a terminal, one log line per event elsewhere.

An observer never ends a run. Evicted pods need a run that carries on, even if the terminal that shows it was
closed, so errors of the stream are swallowed here.
"""

from __future__ import annotations

import contextlib
import logging
from typing import Self

from rich.console import Console
from rich.progress import TaskID
from rich.text import Text

from rebalancer.counting import counted
from rebalancer.execution import events
from rebalancer.execution.evict import Attempt, Verdict
from rebalancer.execution.outcomes import CleanupOutcome, Outcome, PlanOfRun
from rebalancer.planning.plan import Move, Plan
from rebalancer.reporting.console import step_bar
from rebalancer.reporting.words import words
from rebalancer.state.results import Result

# What drawing on a closed stream raises; an IndexError comes from rich when a write fails inside a live bar.
_STREAM_ERRORS = (OSError, ValueError, IndexError)


def outcome_words(outcome: Outcome) -> str:
    """How a move ended, on one line."""
    where = f" on {outcome.node}" if outcome.node else ""
    return words(f"{outcome.result.value} {outcome.move.pod.full_name}{where}: {outcome.because}")


def cleanup_words(outcome: CleanupOutcome) -> str:
    """What became of a finished pod, on one line."""
    cleanup = outcome.cleanup
    why = cleanup.because if outcome.result is Result.REMOVED else outcome.because
    return words(f"{outcome.result.value} finished pod {cleanup.pod.full_name}: {why}")


_MAX_NAMESPACES = 5  # that are named


def intent_words(plan: Plan, where: str) -> str:
    """How many pods of which namespaces a plan evicts, and in which cluster, as one sentence goes on."""
    pods = [move.pod for move in plan.moves] + [cleanup.pod for cleanup in plan.cleanups]
    names = sorted({pod.namespace for pod in pods})
    shown = ", ".join(names[:_MAX_NAMESPACES])
    if len(names) > _MAX_NAMESPACES:
        shown += f" and {len(names) - _MAX_NAMESPACES} more"
    of = f" of {'namespace' if len(names) == 1 else 'namespaces'} {shown}" if names else ""
    return words(f"{counted(len(pods), 'pod')}{of} on {where}")


def again_words(plan: Plan, before: PlanOfRun) -> str:
    """That a run goes on with another plan, and why."""
    hot_nodes = counted(plan.hot_count, "hot node")
    further = f"{hot_nodes}, nothing to gain"
    if plan.moves:
        further = f"{counted(len(plan.moves), 'move')} for {hot_nodes}"
    done = f"{before.made} of {counted(before.moves, 'move')} made"
    return f"planned again, after {done}, {before.elsewhere} elsewhere than most likely: {further}"


class LogObserver:
    """Writes each event of a run as a log line; a context manager, like every observer here."""

    def __init__(self, logger: logging.Logger, *, dry_run: bool = False, journaled: bool = False) -> None:
        """``journaled`` says that the journal shows the same events on the same stream."""
        self._logger = logger
        self._dry_run = dry_run
        self._event_level = logging.DEBUG if journaled else None

    def __enter__(self) -> Self:
        """Start observing."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop observing, however the run ended."""

    def __call__(self, event: events.RunEvent) -> None:
        """Show an event of a run."""
        match event:
            case events.WaveStarted(wave, moves):
                pods = ", ".join(move.pod.full_name for move in moves)
                restarts = sum(move.is_restart for move in moves)
                verb = "evicting" if not restarts else "restarting" if restarts == len(moves) else "moving"
                verb = "asking about" if self._dry_run else verb
                self._event(logging.INFO, f"wave {wave}: {verb} {counted(len(moves), 'pod')}: {words(pods)}")
            case events.EvictionAnswered(attempt) if (
                attempt.is_granted
            ):  # any other ends the move: that is said
                self._granted(attempt)
            case events.MoveEnded(outcome):
                level = logging.WARNING if outcome.result.is_warning else logging.INFO
                self._event(level, outcome_words(outcome))
            case events.CleanupEnded(cleaned):
                level = logging.WARNING if cleaned.result.is_warning else logging.INFO
                self._event(level, cleanup_words(cleaned))
            case events.PlannedAgain(plan, before):
                self._event(logging.INFO, again_words(plan, before))
            case events.NotKnown(message):
                self._logger.warning("%s", words(message))
            case events.RunFinished(outcomes):
                if outcomes.stopped:
                    self._logger.warning("stopped early: %s", words(outcomes.stopped))
                count = counted(len(outcomes.outcomes), "move")
                code = outcomes.exit_code
                self._event(logging.INFO, f"finished {count}, exit code {code}")

    def _granted(self, attempt: Attempt[Move]) -> None:
        move = attempt.move
        verdict = attempt.verdict
        pod = words(move.pod.full_name)
        if self._dry_run and verdict in (Verdict.EVICTED, Verdict.RESTARTED):
            verb = "restart" if move.is_restart else "evict"
            why = words(move.because)
            self._event(logging.INFO, f"would {verb} {pod}, the API server agrees: {why}")
            return
        why = move.because
        if verdict is Verdict.STARTED:  # somebody else moves it
            why = f"{attempt.message}; {why}"
        self._event(logging.INFO, f"{verdict.value} {pod}: {words(why)}")

    def _event(self, level: int, message: str) -> None:
        """Log what the journal records too; once is enough where both go to the same stream."""
        self._logger.log(level if self._event_level is None else self._event_level, "%s", message)


class BarObserver(LogObserver):
    """Draws a bar per wave that fills while replacements settle; outcomes scroll above it."""

    def __init__(self, console: Console, logger: logging.Logger, *, dry_run: bool = False) -> None:
        super().__init__(logger, dry_run=dry_run)
        self._console = console
        self._progress = step_bar(console, "settled")
        self._task: TaskID | None = None

    def __exit__(self, *_: object) -> None:
        """Remove the bar."""
        with contextlib.suppress(*_STREAM_ERRORS):
            self._progress.stop()

    def __call__(self, event: events.RunEvent) -> None:
        """Draw an event of a run; a terminal that was closed is nobody's concern."""
        with contextlib.suppress(*_STREAM_ERRORS):
            self._draw(event)

    def _draw(self, event: events.RunEvent) -> None:
        match event:
            case events.WaveStarted(wave, moves):
                if self._task is not None:
                    self._progress.remove_task(self._task)
                self._task = self._progress.add_task(f"wave {wave}", total=len(moves))
                self._progress.start()
            case events.ReplacementsSeen(_, settled, evicted) if self._task is not None:
                self._progress.update(self._task, completed=settled, total=max(evicted, 1))
            case events.MoveEnded(outcome):
                self._line(outcome_words(outcome), outcome.result.colour)
            case events.CleanupEnded(cleaned):
                self._line(cleanup_words(cleaned), cleaned.result.colour)
            case events.PlannedAgain(plan, before):
                self._line(again_words(plan, before), "dim")
            case events.NotKnown(message):
                self._line(f"warning: {words(message)}", "yellow")
            case events.RunFinished():
                self._progress.stop()

    def _line(self, message: str, style: str) -> None:
        self._console.print(Text(message, style), soft_wrap=True)


def observer(
    console: Console, logger: logging.Logger, *, dry_run: bool = False, journaled: bool = False
) -> LogObserver:
    """An observer that draws a bar if the console is a terminal that can, or else one that logs.

    ``journaled`` says that the journal goes to the same stream: then an event is logged at debug level only.
    """
    if console.is_terminal and not console.is_dumb_terminal:
        return BarObserver(console, logger, dry_run=dry_run)
    return LogObserver(logger, dry_run=dry_run, journaled=journaled)
