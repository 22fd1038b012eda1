"""A signal is heard wherever a run is; what must not be left at any line is not."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from rebalancer.deadlines import StopRequest
from rebalancer.errors import StopRequestedError
from rebalancer.signals import (
    Interruptions,
    StopSignals,
    interrupted_by_signals,
    stop_on_signal,
    stop_signals,
    was_requested,
)
from tests.waiting import happened, no_hang, until_interrupted

ALL = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]


@pytest.fixture(autouse=True)
def _asked_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test hears of the signals of another."""
    monkeypatch.setattr("rebalancer.signals._requested", False)


@pytest.fixture
def signals() -> Iterator[StopSignals]:
    with stop_on_signal() as found:
        yield found


def send(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)
    time.sleep(0)  # handlers run between two lines


def sent_once_begun(number: signal.Signals) -> Callable[[], None]:
    """Call what is returned: a signal comes soon afterwards, from elsewhere."""
    begun = threading.Event()

    def send_it() -> None:
        happened(begun, awaited="the work begins")
        os.kill(os.getpid(), number)

    threading.Thread(target=send_it, daemon=True).start()
    return begun.set


class Destroyed:
    """A signal comes while its destructor runs; Python drops what the handler raises there."""

    def __init__(self, number: signal.Signals) -> None:
        self.number = number

    def __del__(self) -> None:
        send(self.number)


def work_around(number: signal.Signals) -> None:
    """Work that goes on unless it is interrupted after a destructor swallowed the signal."""
    Destroyed(number)
    until_interrupted()


@pytest.mark.parametrize("number", ALL)
def test_each_signal_asks_to_stop_and_interrupts_no_line(
    signals: StopSignals, number: signal.Signals
) -> None:
    send(number)
    assert signals.stop.is_set()


@pytest.mark.parametrize("number", ALL)
def test_planning_is_left_at_any_line(signals: StopSignals, number: signal.Signals) -> None:
    begin = sent_once_begun(number)

    def plan() -> None:
        begin()
        while True:
            try:
                sum(range(1000))
            except Exception:  # noqa: BLE001 - what a careless library might do
                pytest.fail("the signal was taken for an error of the work")

    with (
        no_hang("the signal ends the plan"),
        pytest.raises(StopRequestedError, match="asked to stop by a signal"),
    ):
        signals.interruptibly(plan)


@pytest.mark.parametrize("number", ALL)
def test_planning_is_left_although_a_callback_swallowed_the_signal(
    signals: StopSignals, number: signal.Signals
) -> None:
    with (
        no_hang("the signal ends the work"),
        pytest.raises(StopRequestedError, match="asked to stop by a signal"),
    ):
        signals.interruptibly(lambda: work_around(number))


def test_a_second_signal_that_a_callback_swallowed_is_heard_too(signals: StopSignals) -> None:
    send(signal.SIGTERM)
    with no_hang("the second signal ends the work"), pytest.raises(KeyboardInterrupt):
        work_around(signal.SIGTERM)


def test_an_error_of_work_that_a_signal_disturbed_is_no_error_of_the_work(signals: StopSignals) -> None:
    def plan() -> None:
        try:
            send(signal.SIGTERM)
        except BaseException:  # noqa: BLE001 - what a careless library might do
            raise ValueError("not of the expected form") from None

    with pytest.raises(StopRequestedError, match="asked to stop by a signal"):
        signals.interruptibly(plan)


def test_a_prompt_is_left_too(signals: StopSignals) -> None:
    reading, writing = os.pipe()
    begin = sent_once_begun(signal.SIGINT)

    def prompt() -> str:
        begin()
        return answers.readline()

    with (
        no_hang("the signal ends the prompt"),
        os.fdopen(reading) as answers,
        os.fdopen(writing, "w"),
        pytest.raises(StopRequestedError),
    ):
        signals.interruptibly(prompt)


def test_nothing_interruptible_is_begun_after_a_signal(signals: StopSignals) -> None:
    send(signal.SIGTERM)
    with pytest.raises(StopRequestedError):
        signals.interruptibly(lambda: pytest.fail("begun"))


def test_what_follows_interruptible_work_is_safe_again(signals: StopSignals) -> None:
    assert signals.interruptibly(lambda: 1) == 1
    send(signal.SIGTERM)
    assert signals.stop.is_set()


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_it_at_once(signals: StopSignals, second: signal.Signals) -> None:
    now = [100.0]
    signals.stop = StopRequest(lambda: now[0])
    send(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt):
        send(second)
    assert not signals.stop.is_over(20.0)
    now[0] += 1.0
    assert signals.stop.is_over(20.0)


def test_what_fails_after_a_second_signal_failed_because_of_it(signals: StopSignals) -> None:
    send(signal.SIGTERM)
    assert not was_requested(), "the run still says itself how it ended"
    with pytest.raises(KeyboardInterrupt):
        send(signal.SIGTERM)
    assert was_requested()


def test_a_closed_terminal_may_send_two_hangups(signals: StopSignals) -> None:
    send(signal.SIGHUP)
    send(signal.SIGHUP)
    assert not signals.stop.is_over(20.0)


def test_a_hangup_that_nohup_ignores_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_on_signal() as signals:
            send(signal.SIGHUP)
            assert not signals.stop.is_set()
    finally:
        signal.signal(signal.SIGHUP, before)


def test_the_handlers_of_before_are_back_afterwards() -> None:
    before = [signal.getsignal(number) for number in ALL]
    with stop_on_signal():
        pass
    assert [signal.getsignal(number) for number in ALL] == before


def test_a_system_without_hangups_has_the_other_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rebalancer.signals._HANGUP", None)
    assert stop_signals() == (signal.SIGTERM, signal.SIGINT)
    with stop_on_signal(read_again=lambda: None) as signals:
        send(signal.SIGTERM)
        assert signals.stop.is_set()


@pytest.mark.parametrize("number", ALL)
def test_work_that_a_careless_library_goes_on_with_is_given_up_when_it_returns(
    signals: StopSignals, number: signal.Signals
) -> None:
    def work() -> str:
        try:
            send(number)
        except BaseException:  # noqa: BLE001 - what a careless library might do
            return "a plan"
        pytest.fail("the signal was not heard")

    with pytest.raises(StopRequestedError, match="asked to stop by a signal"):
        signals.interruptibly(work)


def test_what_comes_when_the_work_is_over_is_raised_nowhere_and_a_second_signal_ends_the_process() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with interrupted_by_signals() as interruptions:
        interruptions.raising = True
        interruptions.raising = False
        send(signal.SIGTERM)
        assert was_requested()
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_request_that_a_library_swallowed_is_heard_by_whoever_listens_next() -> None:
    def imports_swallowing() -> None:
        """As ``try: import numba`` with ``except:`` does, in a library that is imported."""
        try:
            send(signal.SIGTERM)
            until_interrupted()
        except:  # noqa: E722
            pass

    with interrupted_by_signals() as interruptions:
        interruptions.raising = True
        imports_swallowing()
        with stop_on_signal() as signals, pytest.raises(StopRequestedError):
            signals.interruptibly(lambda: None)
    with interrupted_by_signals(), stop_on_signal() as signals:
        assert not signals.stop.is_set(), "the next command was asked for nothing"


class SignalWithin(logging.Filter):
    """Sends a signal from within a log line, in a block that is over before it could be raised later."""

    def __init__(self, interruptions: Interruptions) -> None:
        super().__init__()
        self._interruptions = interruptions
        self.left_alone = False

    def filter(self, _record: logging.LogRecord) -> bool:
        send(signal.SIGINT)
        self.left_alone, self._interruptions.raising = True, False
        return False


def test_a_signal_within_a_log_line_waits_for_its_end_however_many_came_in_earlier_blocks() -> None:
    logger = logging.Logger("of this test")
    for _ in range(100):
        with contextlib.suppress(KeyboardInterrupt), interrupted_by_signals() as interruptions:
            interruptions.raising = True
            within = SignalWithin(interruptions)
            logger.addFilter(within)
            logger.error("a line")
        logger.removeFilter(within)
        assert within.left_alone


def test_a_signal_within_a_log_line_waits_for_its_end_where_its_handler_is_slow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_timer, moments = signal.setitimer, [signal.SIGALRM]

    def over_at_once(which: int, seconds: float) -> None:
        set_timer(which, seconds)
        if seconds and moments:
            signal.raise_signal(moments.pop())

    monkeypatch.setattr("rebalancer.signals.signal.setitimer", over_at_once)
    logger = logging.Logger("of this test")
    with contextlib.suppress(KeyboardInterrupt), interrupted_by_signals() as interruptions:
        interruptions.raising = True
        within = SignalWithin(interruptions)
        logger.addFilter(within)
        logger.error("a line")
    assert within.left_alone
    assert not moments
