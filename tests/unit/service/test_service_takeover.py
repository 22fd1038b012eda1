"""When a replica that takes over makes its first run, whatever the clock of the one before was."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rebalancer.errors import UnreachableError
from rebalancer.observe.plan_options import PlanOptions
from rebalancer.service import Service, ServiceOptions
from tests.rows import rows

INTERVAL = 900.0
NOW = 1_800_000_000.0
SINCE_START = 5000.0  # of the clock that only moves forward


@pytest.fixture(autouse=True)
def a_clock_that_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = SimpleNamespace(time=lambda: NOW, monotonic=lambda: SINCE_START)
    monkeypatch.setattr("rebalancer.service.service.time", clocks)


def seconds_until_the_next_run(last_run_at: Any) -> float:
    """By the default interval; zero or less means at once."""
    service = Service(PlanOptions(), ServiceOptions(act=True))
    began = service._last_began(SimpleNamespace(last_run_at=last_run_at))  # type: ignore[arg-type]
    return began + INTERVAL - SINCE_START


@pytest.mark.parametrize(("age", "wait"), [(0.0, 900.0), (600.0, 300.0), (3600.0, 0.0)])
def test_the_interval_counts_from_the_last_run_of_any_replica(age: float, wait: float) -> None:
    left = seconds_until_the_next_run(lambda _seconds: NOW - age)

    assert max(left, 0.0) == wait


@pytest.mark.parametrize("ahead", [60.0, 3600.0, 1e9])
def test_a_clock_that_was_ahead_never_keeps_runs_from_being_made(ahead: float) -> None:
    assert seconds_until_the_next_run(lambda _seconds: NOW + ahead) < 0


def test_a_first_run_is_made_at_once() -> None:
    assert seconds_until_the_next_run(lambda _seconds: None) < 0


def test_a_state_that_cannot_be_read_keeps_nobody_from_trying(caplog: pytest.LogCaptureFixture) -> None:
    def fails(_seconds: float) -> float:
        raise UnreachableError("no answer")

    assert seconds_until_the_next_run(fails) < 0
    assert caplog.messages == ["when the last run was made cannot be read: no answer"]


@pytest.mark.parametrize("kept", [None, 1e12, 0.0], ids=["no state", "a clock ahead", "an old state"])
def test_a_lease_that_was_lost_and_taken_again_makes_no_run_sooner(kept: float | None) -> None:
    """The loop that a lease begins waits for the interval after this replica's own last run."""
    service = Service(PlanOptions(), ServiceOptions(act=True))
    made: list[float] = []
    leads = SimpleNamespace(held=True)

    def act(_: object) -> SimpleNamespace:
        made.append(SINCE_START)
        leads.held = False  # lost as soon as the run is made
        return SimpleNamespace(exit_code=0, stopped="")

    def wait(seconds: float) -> None:
        leads.held = False

    runs = SimpleNamespace(
        last_run_at=lambda _seconds: kept,
        act=act,
        compare=lambda: None,
        longest_seconds=300.0,
    )
    stop = SimpleNamespace(is_set=lambda: False, wait=wait)
    for _ in range(3):
        leads.held = True
        service._loop(stop, runs, leads)  # type: ignore[arg-type]
    assert len(made) == 1


@rows(
    "code, ready",
    [
        (0, True),
        (1, False),
        (2, False),
        (3, True),
        (4, True),
        (5, False),
        (6, False),
        (8, False),
        (130, True),
    ],
)
def test_a_replica_whose_runs_cannot_do_what_they_are_for_is_not_ready(code: int, ready: bool) -> None:
    """A run that stops for safety, or is refused an eviction, did what it is for."""
    service = Service(PlanOptions(), ServiceOptions(act=True))
    leads = SimpleNamespace(held=True)

    def act(_: object) -> SimpleNamespace:
        leads.held = False
        return SimpleNamespace(exit_code=code, stopped="the state is full" if code else "")

    runs = SimpleNamespace(
        last_run_at=lambda _seconds: None,
        act=act,
        compare=lambda: None,
        longest_seconds=300.0,
    )
    stop = SimpleNamespace(is_set=lambda: False, wait=lambda _seconds: None)
    service._loop(stop, runs, leads)  # type: ignore[arg-type]
    assert service._health.not_ready == ("" if ready else "the state is full")
