"""Whatever the order of their steps, two runs lose nothing, evict nothing twice, and act one at a time."""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import pytest

from rebalancer.execution import lease
from tests.conftest import SUMMARY, examples, some_of
from tests.integration.running.interleaved_runs import Trouble
from tests.integration.running.interleavings import explore, wander

# Set, it is how many random schedules are followed, and more worlds are explored: the skewed one takes
# minutes, those of much trouble hours. REBALANCER_SEED draws other schedules.
WANTED = os.environ.get("REBALANCER_SCHEDULES")
SCHEDULES = int(WANTED or examples(300))
SEED = int(os.environ.get("REBALANCER_SEED", "12"))
MAX_SCHEDULES = 10_000_000
WORLDS = [((0.0, 0.0), Trouble()), ((0.0, 0.0), Trouble(kills=1))]
if WANTED:
    WORLDS.append(((0.0, 600.0), Trouble()))  # either run may be the one that begins
    WORLDS += [
        (skews, trouble)
        for skews in ((0.0, 0.0), (0.0, 600.0))
        for trouble in (Trouble(jumps=1), Trouble(lost=1), Trouble(jumps=1, kills=1))
    ]


@pytest.mark.many_cases
@pytest.mark.parametrize(("skews", "trouble"), WORLDS if WANTED else some_of(WORLDS), ids=str)
def test_every_schedule_of_two_runs_with_two_moves(
    skews: tuple[float, float],
    trouble: Trouble,
    record_property: Callable[[str, object], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lease, "_LOOK_SECONDS", 60.0)
    explored = explore(skews, trouble, MAX_SCHEDULES)
    assert 2 in explored.evictions
    record_property(
        SUMMARY,
        f"two runs, clocks {skews[0]:+.0f} s and {skews[1]:+.0f} s, {trouble}: all schedules, "
        f"{explored.schedules} to the end, {explored.cut} that met an earlier one, {explored.steps} steps",
    )


@pytest.mark.many_cases
def test_random_schedules_of_three_runs_with_every_trouble(
    record_property: Callable[[str, object], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "_LOOK_SECONDS", 30.0)
    source = random.Random(SEED)
    steps = 0
    for _ in range(SCHEDULES):
        skews = [source.choice((-600.0, -41.0, 0.0, 41.0, 600.0)) for _ in range(3)]
        steps += wander(skews, Trouble(jumps=2, kills=2, lost=2), source).steps
    record_property(SUMMARY, f"three runs at random, seed {SEED}: {SCHEDULES} schedules, {steps} steps")
