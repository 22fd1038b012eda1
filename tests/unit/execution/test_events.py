"""Everybody learns of each event in one order: the state, the journal, and those who only show it."""

from __future__ import annotations

import io
import logging
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from rebalancer.errors import UnreachableError
from rebalancer.execution.events import (
    EventStream,
    EvictionAnnounced,
    EvictionAnswered,
    EvictionDue,
    MoveEnded,
    ReplacementsSeen,
    RunEvent,
    RunFinished,
    RunStarted,
    RunStopped,
    WaveFinished,
    WavesEnded,
    WaveStarted,
)
from rebalancer.execution.journal import Journal
from rebalancer.execution.outcomes import Outcome, Outcomes, Stop, StopReason
from rebalancer.execution.waves import carry_out
from rebalancer.planning.plan import Move
from rebalancer.state.results import Result
from rebalancer.telemetry import Span, listening
from tests.unit.execution.builders import NOW, a_move, a_plan, results
from tests.unit.execution.contexts import a_context
from tests.unit.execution.fake_api import Answer, FakeTime, Request, fake_api
from tests.unit.execution.test_restart import RollingCluster, a_restart
from tests.unit.execution.tiny_cluster import Run, TinyCluster

PROVISIONAL = Outcome(move=a_move(), result=Result.UNKNOWN, because="", evicted_at=NOW)


class Recorder:
    """Everything that is done about a move, in its order: saved, journaled, requested, shown."""

    def __init__(self, cluster: Any, time: FakeTime) -> None:
        self.cluster = cluster
        self.time = time
        self.done: list[str] = []
        recorder = self

        class Stream(io.StringIO):
            def write(self, text: str) -> int:
                recorder.done.append(f"journal {msgspec.json.decode(text)['event']}")
                return super().write(text)

        self.stream = Stream()

    def __call__(self, request: Request) -> Answer | Exception:
        if request.method != "GET":
            self.done.append("request")
        answer: Answer | Exception = self.cluster(request)
        return answer

    def save(self, outcomes: Sequence[Outcome]) -> None:
        self.done.append(f"state {', '.join(outcome.result for outcome in outcomes)}")

    def show(self, event: RunEvent) -> None:
        self.done.append(type(event).__name__)

    def run(self, *moves: Move) -> Outcomes:
        api, _ = fake_api(self, self.time)
        journal = Journal(self.stream, "run-1", self.time.clock)
        clock, sleep = self.time.clock, self.time.sleep
        context = a_context(api, journal, clock, sleep, save=self.save, shown_to=(self.show,))
        return carry_out(a_plan(*moves), context)


def an_eviction() -> tuple[Recorder, Move]:
    time = FakeTime(NOW)
    return Recorder(TinyCluster(time, "web-1"), time), a_move()


def a_rolling_update() -> tuple[Recorder, Move]:
    time = FakeTime(NOW)
    return Recorder(RollingCluster(time), time), a_restart()


@pytest.mark.safety
@pytest.mark.parametrize("path", [an_eviction, a_rolling_update])
def test_the_state_and_then_the_journal_have_a_move_before_it_is_requested(path: Any) -> None:
    recorder, move = path()
    recorder.run(move)
    first = recorder.done.index("state Unknown")
    line = "journal restarting" if move.is_restart else "journal evicting"
    assert recorder.done.index("request") > recorder.done.index(line) > first
    assert recorder.done.count("request") == 1


def test_an_event_is_kept_before_it_is_shown_and_shown_once() -> None:
    recorder, move = an_eviction()
    recorder.run(move)
    assert [step for step in recorder.done if step != "ReplacementsSeen"] == [
        *("journal run-started", "RunStarted"),
        *("journal wave-started", "WaveStarted"),
        *("state Unknown", "EvictionAnnounced"),
        *("journal evicting", "EvictionDue"),
        "request",
        *("journal evicted", "EvictionAnswered"),
        *("journal outcome", "MoveEnded"),
        *("state Landed", "journal wave-finished", "WaveFinished"),
        *("state Landed", "WavesEnded"),
        *("journal run-finished", "RunFinished"),
    ]


@pytest.mark.parametrize(
    "failing",
    [RunStarted, WaveStarted, EvictionDue, EvictionAnswered, ReplacementsSeen, MoveEnded, RunFinished],
)
def test_whoever_only_shows_a_run_never_stops_it(
    failing: type[RunEvent], caplog: pytest.LogCaptureFixture
) -> None:
    shown: list[str] = []

    def fails(event: RunEvent) -> None:
        if isinstance(event, failing):
            raise ZeroDivisionError("a defect of the progress bar")

    def shows(event: RunEvent) -> None:
        shown.append(type(event).__name__)

    run = Run("web-1", "web-2")
    with caplog.at_level(logging.WARNING):
        outcomes = run(
            a_move("web-1"),
            a_move("web-2"),
            shown_to=(fails, lambda event: shown.append(type(event).__name__)),
        )
    assert results(outcomes) == [Result.LANDED, Result.LANDED]
    assert (outcomes.stop, outcomes.exit_code) == (None, 0)
    assert failing.__name__ in shown  # whoever comes after it is told all the same
    warnings = [record.message for record in caplog.records]
    assert warnings == ["a run goes on without showing all of it: a defect of the progress bar"]


def a_stream(save: Any, text: io.StringIO, *shown_to: Any) -> EventStream:
    return EventStream(save, Journal(text, "run-1", lambda: NOW), lambda: NOW, shown_to)


def lines(text: io.StringIO) -> list[str]:
    return [msgspec.json.decode(line)["event"] for line in text.getvalue().splitlines()]


@pytest.mark.parametrize("event", [EvictionAnnounced(PROVISIONAL), WaveFinished(1), WavesEnded()])
def test_a_state_that_cannot_be_saved_stops_the_run_and_all_others_are_still_told(event: RunEvent) -> None:
    def save(_outcomes: Sequence[Outcome]) -> None:
        raise UnreachableError("the state is away")

    text = io.StringIO()
    shown: list[RunEvent] = []
    stream = a_stream(save, text, shown.append)
    assert not stream.publish(event)
    assert stream.stop_reason == StopReason(Stop.UNREACHABLE, "the state is away")
    assert lines(text)[0] == "stopped"
    assert shown == [RunStopped(stream.stop_reason), event]


def test_a_journal_that_cannot_be_written_stops_the_run_and_the_state_is_saved_all_the_same() -> None:
    saved: list[Any] = []
    text = io.StringIO()
    stream = a_stream(saved.append, text)
    text.close()
    assert not stream.publish(EvictionDue(a_move()))
    assert stream.stop_reason is not None
    assert stream.stop_reason.stop is Stop.JOURNAL
    assert stream.publish(EvictionAnnounced(PROVISIONAL))
    assert saved == [(PROVISIONAL,)]


def test_the_first_reason_to_stop_counts_and_is_published_once() -> None:
    shown: list[RunEvent] = []
    stream = a_stream(lambda _: None, io.StringIO(), shown.append)
    first, second = StopReason(Stop.BRAKE, "paused"), StopReason(Stop.LEASE_LOST, "lost")
    stream.stop(first)
    stream.stop(second)
    assert stream.stop_reason == first
    assert shown == [RunStopped(first)]


def test_a_defect_of_ours_in_what_must_be_kept_is_not_hidden() -> None:
    def save(_outcomes: Sequence[Outcome]) -> None:
        raise RuntimeError("a defect")

    with pytest.raises(RuntimeError):
        a_stream(save, io.StringIO()).publish(EvictionAnnounced(PROVISIONAL))


class Listening:
    """The spans that ended, with their parents."""

    def __init__(self) -> None:
        self.ended: list[tuple[str, str, str]] = []

    def span_began(self, span: Span) -> None:
        pass

    def span_ended(self, span: Span) -> None:
        self.ended.append((span.name, span.parent.name if span.parent else "", span.error))


def test_evictions_and_landings_are_spans_of_their_wave() -> None:
    run, spans = Run("web-1", "web-2"), Listening()
    with listening(spans):
        run(a_move("web-1"), a_move("web-2", wave=2))
    of_waves = [item for item in spans.ended if item[0] in ("wave", "eviction", "landing")]
    wave = [("eviction", "wave", ""), ("landing", "wave", ""), ("wave", "", "")]
    assert of_waves == wave * 2


def test_a_defect_ends_the_open_spans_with_its_name() -> None:
    def judge(_move: Move, _node: str) -> str | None:
        raise RuntimeError("a defect")

    run, spans = Run("web-1"), Listening()
    run.cluster.lands_on = "elsewhere"
    with listening(spans), pytest.raises(RuntimeError):
        run(a_move(), check_landing=judge)
    assert ("wave", "", "RuntimeError") in spans.ended
