"""Whatever the order of their steps, two runs lose nothing, evict nothing twice, and act one at a time."""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import pytest

from rebalancer.execution.safeguards import lease
from tests.conftest import SUMMARY
from tests.integration.running.interleavings import Trouble, explore, wander

# Set, it is how many random schedules are followed, and the large worlds are explored too: that takes hours.
WANTED = os.environ.get("REBALANCER_SCHEDULES")
SCHEDULES = int(WANTED or "300")
MAX_SCHEDULES = 10_000_000
SMALL = [Trouble(), Trouble(kills=1)]
LARGE = [Trouble(jumps=1), Trouble(lost=1), Trouble(jumps=1, kills=1)]
WORLDS = [((0.0, 0.0), trouble) for trouble in SMALL]
if WANTED:
    WORLDS += [((0.0, 0.0), trouble) for trouble in LARGE]
    WORLDS += [(skews, trouble) for skews in ((0.0, 600.0), (600.0, 0.0)) for trouble in (*SMALL, *LARGE)]


@pytest.fixture(autouse=True)
def few_looks_at_a_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "_LOOK_SECONDS", 30.0)


@pytest.mark.parametrize(("skews", "trouble"), WORLDS, ids=str)
def test_every_schedule_of_two_runs_with_two_moves(
    skews: tuple[float, float], trouble: Trouble, record_property: Callable[[str, object], None]
) -> None:
    explored = explore(skews, trouble, MAX_SCHEDULES)
    assert 2 in explored.evictions
    record_property(
        SUMMARY,
        f"two runs, clocks {skews[0]:+.0f} s and {skews[1]:+.0f} s, {trouble}: all schedules, "
        f"{explored.schedules} to the end, {explored.cut} that met an earlier one, {explored.steps} steps",
    )


def test_random_schedules_of_three_runs_with_every_trouble(
    record_property: Callable[[str, object], None],
) -> None:
    source = random.Random(12)
    steps = 0
    for _ in range(SCHEDULES):
        skews = [source.choice((-600.0, -41.0, 0.0, 41.0, 600.0)) for _ in range(3)]
        steps += wander(skews, Trouble(jumps=2, kills=2, lost=2), source).steps
    record_property(SUMMARY, f"three runs at random: {SCHEDULES} schedules, {steps} steps")
