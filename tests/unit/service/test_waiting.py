"""A standby reads the cluster again and again, and gives up in time what does not end."""

from __future__ import annotations

import threading

import pytest

from rebalancer.deadlines import Deadline, StopRequest
from rebalancer.errors import UnreachableError
from rebalancer.service import waiting as standing_by
from rebalancer.service.waiting import WarmCluster
from tests.waiting import NEVER_SECONDS, eventually, happened, no_hang


class Readings:
    """Readings that last until they are let go, or are given up."""

    def __init__(self, error: Exception | None = None) -> None:
        self.begun = threading.Event()
        self.let_go = threading.Event()
        self.error = error
        self.count = 0
        self.given_up = 0

    def __call__(self, deadline: Deadline) -> None:
        self.count += 1
        self.begun.set()
        while not self.let_go.is_set():
            if deadline.pause(0.01):
                self.given_up += 1
                deadline.bound("read", lambda: None)  # raises as every request does
        if self.error is not None:
            raise self.error


def warm_cluster(readings: Readings, stop: StopRequest | None = None) -> WarmCluster:
    return WarmCluster(readings, stop or StopRequest(), NEVER_SECONDS)


def test_nothing_is_read_before_it_begins_and_once_it_ended() -> None:
    readings = Readings()
    warm = warm_cluster(readings)
    warm.end()

    assert readings.count == 0
    assert not warm.is_read


def test_the_cluster_is_read_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standing_by, "READ_AGAIN_SECONDS", 0.0)
    readings = Readings()
    readings.let_go.set()
    warm = warm_cluster(readings)
    warm.begin()
    warm.begin()
    eventually(lambda: readings.count >= 3, awaited="the cluster is read a third time")
    warm.end()

    assert warm.is_read
    assert warm.trouble == ""


def test_who_takes_over_finishes_what_is_being_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standing_by, "FINISHING_SECONDS", NEVER_SECONDS)
    readings = Readings()

    class LooksForStop(StopRequest):
        """Who finishes looks for a request to stop while it waits; the reading ends then."""

        def is_set(self) -> bool:
            readings.let_go.set()
            return super().is_set()

    warm = warm_cluster(readings, LooksForStop())
    warm.begin()
    happened(readings.begun, awaited="the reading begins")
    with no_hang("the reading is finished"):
        warm.finish()

    assert warm.is_read
    assert readings.given_up == 0


@pytest.mark.parametrize("asked_to_stop", [True, False])
def test_a_reading_that_does_not_end_is_given_up(
    asked_to_stop: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standing_by, "FINISHING_SECONDS", NEVER_SECONDS if asked_to_stop else 0.1)
    readings, stop = Readings(), StopRequest()
    warm = warm_cluster(readings, stop)
    warm.begin()
    happened(readings.begun, awaited="the reading begins")
    if asked_to_stop:
        stop.set()
    with no_hang("the reading is given up"):
        warm.finish()

    assert readings.given_up == 1
    assert not warm.is_read


@pytest.mark.parametrize("error", [UnreachableError("no answer"), RuntimeError("a defect")])
def test_what_went_wrong_is_said_and_does_not_end_the_standby(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    readings = Readings(error)
    readings.let_go.set()
    warm = warm_cluster(readings)
    warm.begin()
    eventually(lambda: warm.trouble, awaited="the standby says what went wrong")
    warm.end()

    assert str(error) in warm.trouble
    assert str(error) in caplog.messages[0]
    assert not warm.is_read


def test_a_program_that_was_asked_to_stop_waits_for_no_reading_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(standing_by, "FINISHING_SECONDS", 0.1)
    begun, never, stop = threading.Event(), threading.Event(), StopRequest()

    def hangs(_: Deadline) -> None:
        begun.set()
        never.wait(NEVER_SECONDS)

    warm = WarmCluster(hangs, stop, NEVER_SECONDS)
    warm.begin()
    happened(begun, awaited="the reading begins")
    stop.set()
    with no_hang("the end does not wait for the reading"):
        warm.end()
    never.set()
