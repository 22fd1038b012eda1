"""A standby keeps the cluster at hand, and lets go of it whatever the API server does."""

from __future__ import annotations

import threading
import time

import pytest

from rebalancer.deadlines import Deadline, StopRequest
from rebalancer.errors import UnreachableError
from rebalancer.service import waiting as standing_by
from rebalancer.service.waiting import WarmCluster

SOON = 30.0  # a machine that does nothing for us


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
    return WarmCluster(readings, stop or StopRequest(), SOON)


def eventually(event: threading.Event) -> None:
    assert event.wait(SOON)


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
    end = time.monotonic() + SOON
    while readings.count < 3 and time.monotonic() < end:
        time.sleep(0.01)
    warm.end()

    assert readings.count >= 3
    assert warm.is_read
    assert warm.trouble == ""


def test_who_takes_over_finishes_what_is_being_read() -> None:
    readings = Readings()
    warm = warm_cluster(readings)
    warm.begin()
    eventually(readings.begun)
    threading.Timer(0.1, readings.let_go.set).start()
    warm.finish()

    assert warm.is_read
    assert readings.given_up == 0


@pytest.mark.parametrize("asked_to_stop", [True, False])
def test_a_reading_that_does_not_end_is_given_up(
    asked_to_stop: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standing_by, "FINISHING_SECONDS", SOON if asked_to_stop else 0.1)
    readings, stop = Readings(), StopRequest()
    warm = warm_cluster(readings, stop)
    warm.begin()
    eventually(readings.begun)
    if asked_to_stop:
        stop.set()
    began = time.monotonic()
    warm.finish()

    assert time.monotonic() - began < SOON / 2
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
    end = time.monotonic() + SOON
    while not warm.trouble and time.monotonic() < end:
        time.sleep(0.01)
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
        never.wait(SOON)

    warm = WarmCluster(hangs, stop, SOON)
    warm.begin()
    eventually(begun)
    stop.set()
    began = time.monotonic()
    warm.end()
    never.set()
    assert time.monotonic() - began < SOON / 2
