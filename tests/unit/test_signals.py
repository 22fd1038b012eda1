"""A signal sets a request to stop, and does nothing else."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from rebalancer.deadlines import StopRequest
from rebalancer.signals import stop_on_signal

ALL = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def stop(clock: Clock) -> Iterator[StopRequest]:
    request = StopRequest(clock)
    with stop_on_signal(request):
        yield request


@pytest.mark.parametrize("number", ALL)
def test_each_signal_asks_to_stop_and_interrupts_no_line(stop: StopRequest, number: signal.Signals) -> None:
    assert not stop.is_set()
    signal.raise_signal(number)
    assert stop.is_set()
    assert not stop.is_over(20.0)


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_leaves_a_second_at_most(
    stop: StopRequest, clock: Clock, second: signal.Signals
) -> None:
    signal.raise_signal(signal.SIGTERM)
    signal.raise_signal(second)
    assert not stop.is_over(20.0)
    clock.now += 1.0
    assert stop.is_over(20.0)


def test_a_closed_terminal_may_send_two_hangups(stop: StopRequest, clock: Clock) -> None:
    signal.raise_signal(signal.SIGHUP)
    signal.raise_signal(signal.SIGHUP)
    clock.now += 1.0
    assert not stop.is_over(20.0)


def test_a_hangup_that_nohup_ignores_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    stop = StopRequest()
    try:
        with stop_on_signal(stop):
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert not stop.is_set()


def test_a_hangup_has_a_service_read_again_though_it_was_ignored_while_that_started() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    stop = StopRequest()
    read: list[str] = []
    try:
        with stop_on_signal(stop, lambda: read.append("again")):
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert (read, stop.is_set()) == (["again"], False)


def test_the_handlers_of_before_are_back_afterwards() -> None:
    before = [signal.getsignal(number) for number in ALL]
    with stop_on_signal(StopRequest()):
        pass
    assert [signal.getsignal(number) for number in ALL] == before


def test_a_system_without_hangups_has_the_other_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rebalancer.signals._HANGUP", None)
    stop = StopRequest()
    with stop_on_signal(stop, lambda: None):
        signal.raise_signal(signal.SIGTERM)
    assert stop.is_set()


def test_another_thread_than_the_main_one_handles_no_signal() -> None:
    before = [signal.getsignal(number) for number in ALL]
    found: list[object] = []

    def work() -> None:
        with stop_on_signal(StopRequest()):
            found.extend(signal.getsignal(number) for number in ALL)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == before
