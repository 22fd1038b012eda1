"""A service lives on for months: what a run leaves is freed after it, whenever Python would come to it."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from rebalancer.observe.plan_options import PlanOptions
from rebalancer.service import Service, ServiceOptions
from tests.unit.execution.fake_api import FakeTime

RUNS = 3


class Leftover:
    """Refers to itself, as the states of a plan do."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def a_collector_that_never_begins_by_itself() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("a_collector_that_never_begins_by_itself")
def test_what_a_run_leaves_is_freed_before_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    time = FakeTime()
    for module in ("service", "waiting"):
        clocks = SimpleNamespace(time=time.clock, monotonic=time.clock)
        monkeypatch.setattr(f"rebalancer.service.{module}.time", clocks)
    left: list[weakref.ref[Leftover]] = []

    def look() -> None:
        assert [item() for item in left] == [None] * len(left)
        left.append(weakref.ref(Leftover()))

    def wait(seconds: float) -> None:
        time.now += seconds

    runs: Any = SimpleNamespace(look=look, compare=lambda: None, longest_seconds=60.0)
    stop = SimpleNamespace(is_set=lambda: len(left) == RUNS, wait=wait)
    service = Service(PlanOptions(), ServiceOptions())
    service._loop(stop, runs, None)  # type: ignore[arg-type]

    assert len(left) == RUNS
    assert left[-1]() is None
