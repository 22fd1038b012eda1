from __future__ import annotations

import io
import logging

import pytest

from rebalancer.execution.events import (
    EvictionAnswered,
    MoveEnded,
    NotKnown,
    ReplacementsSeen,
    RunFinished,
    WaveStarted,
)
from rebalancer.execution.evict import Attempt, Verdict
from rebalancer.reporting.console import ReportConsole
from rebalancer.reporting.run_observers import BarObserver, LogObserver, observer
from rebalancer.state.results import Result
from tests.unit.reporting.builders import a_move, an_outcome, some_outcomes

LOGGER = logging.getLogger("test.progress")


class BrokenStream(io.StringIO):
    """A terminal that was closed."""

    def __init__(self) -> None:
        super().__init__()
        self.refused = 0  # writes

    def write(self, text: str) -> int:
        self.refused += 1
        raise BrokenPipeError


def an_answer(verdict: Verdict = Verdict.EVICTED, message: str = "accepted") -> EvictionAnswered:
    return EvictionAnswered(Attempt(move=a_move(), verdict=verdict, message=message))


def watch_a_run(watching: LogObserver) -> None:
    with watching:
        watching(WaveStarted(1, [a_move()]))
        watching(an_answer())
        watching(ReplacementsSeen(1, 0, 1))
        watching(MoveEnded(an_outcome()))
        watching(ReplacementsSeen(1, 1, 1))
        watching(WaveStarted(2, [a_move("api-1")]))
        watching(MoveEnded(an_outcome(Result.UNEXPECTED, "api-1\x1b[2J[red]", "hot then")))
        watching(NotKnown("the journal is slow"))
        watching(RunFinished(some_outcomes(an_outcome(), stopped="an unexpected landing", exit_code=3)))


def test_off_a_terminal_each_event_is_one_log_line(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        watch_a_run(observer(ReportConsole(io.StringIO()), LOGGER))

    lines = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert lines == [
        ("INFO", "wave 1: evicting 1 pod: shop/web-7d9f8b6c5d-x2x4z"),
        (
            "INFO",
            "Evicted shop/web-7d9f8b6c5d-x2x4z: node-0001 is hot; node-0007 has the highest total, 412 "
            "against 397 of the next",
        ),
        ("INFO", "Landed shop/web-7d9f8b6c5d-x2x4z on node-0007: as planned"),
        ("INFO", "wave 2: evicting 1 pod: shop/api-1"),
        ("WARNING", "Unexpected shop/api-1\\x1b[2J[red] on node-0007: hot then"),
        ("WARNING", "the journal is slow"),
        ("WARNING", "stopped early: an unexpected landing"),
        ("INFO", "finished 1 move, exit code 3"),
    ]


@pytest.mark.parametrize(
    ("verdict", "result", "level"),
    [(Verdict.REFUSED, Result.REFUSED, "WARNING"), (Verdict.GONE, Result.GONE, "INFO")],
)
def test_an_eviction_that_is_not_granted_is_said_once(
    caplog: pytest.LogCaptureFixture, verdict: Verdict, result: Result, level: str
) -> None:
    """Its answer and the end of its move come one after the other, and would be the same line."""
    watching = LogObserver(LOGGER)
    with caplog.at_level(logging.INFO):
        watching(an_answer(verdict, "a budget"))
        watching(MoveEnded(an_outcome(result, because="a budget")))

    lines = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert lines == [(level, f"{result.value} shop/web-7d9f8b6c5d-x2x4z: a budget")]


def test_on_a_terminal_outcomes_scroll_above_a_bar() -> None:
    stream = io.StringIO()
    console = ReportConsole(stream, force_terminal=True, width=100)
    watch_a_run(observer(console, LOGGER))
    written = stream.getvalue()

    assert "wave 1" in written
    assert "Landed shop/web-7d9f8b6c5d-x2x4z on node-0007: as planned" in written
    assert "api-1\\x1b[2J[red]" in written


def test_a_closed_terminal_never_ends_a_run() -> None:
    stream = BrokenStream()

    watch_a_run(BarObserver(ReportConsole(stream, force_terminal=True, width=100), LOGGER))

    assert stream.refused >= 3  # both outcomes and the warning at least, and no error reached the run
