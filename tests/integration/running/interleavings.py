"""Runs of the program that take turns at every request, in any order that is asked for.

A world holds an API server in memory: one lease, the state's ConfigMap, pods. Each run is a thread that
stops before each of its requests until it is chosen. Time is the world's: it passes when all wait, or when
a choice says so; each run's own clock is wrong by its skew. Requests to the lease, to the state and for
evictions, and the one read a plan is made from, are choices; the reads of verification are not, because
they change nothing that another run sees.

``explore`` follows every choice, depth first. It starts the world anew for each schedule and repeats the
choices made so far; a world in which everybody has seen what they saw in an earlier one is not followed.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tests.integration.running.interleaved_runs import BrokenError, Choice, Trouble, World


@dataclass
class Explored:
    """What was seen."""

    schedules: int = 0  # that were followed to their end
    cut: int = 0  # that came to a world seen before
    steps: int = 0
    evictions: set[int] = field(default_factory=set)  # how many pods a schedule evicted


def explore(skews: Sequence[float], trouble: Trouble, most: int) -> Explored:
    """Every schedule. Raises BrokenError with the choices that led there, or after ``most`` schedules."""
    explored = Explored()
    seen: set[int] = set()
    path: list[tuple[int, int]] = []  # which choice was made, of how many
    while True:
        _follow(World(skews, trouble), path, seen, explored)
        while path and path[-1][0] + 1 == path[-1][1]:
            path.pop()
        if not path:
            return explored
        path[-1] = (path[-1][0] + 1, path[-1][1])
        if explored.schedules + explored.cut > most:
            raise BrokenError(f"more than {most} schedules")


def _follow(world: World, path: list[tuple[int, int]], seen: set[int], explored: Explored) -> None:
    made: list[Choice] = []
    with _ended(world, made):
        for depth in range(10_000):
            choices = world.choices()
            if not choices:
                explored.schedules += 1
                explored.evictions.add(len(world.evicted))
                return
            if depth == len(path):
                key = world.key()
                if key in seen:
                    explored.cut += 1
                    return
                seen.add(key)
                path.append((0, len(choices)))
            assert len(choices) == path[depth][1], "a run does not do the same thing twice"
            made.append(choices[path[depth][0]])
            world.do(made[-1])
            explored.steps += 1


def wander(skews: Sequence[float], trouble: Trouble, source: random.Random) -> Explored:
    """One schedule at random; trouble is rarer than steps."""
    explored = Explored(schedules=1)
    world = World(skews, trouble)
    made: list[Choice] = []
    with _ended(world, made):
        while choices := world.choices():
            weights = [12.0 if what == "step" else 4.0 if what == "wait" else 1.0 for what, _ in choices]
            made.append(source.choices(choices, weights)[0])
            world.do(made[-1])
            explored.steps += 1
        explored.evictions.add(len(world.evicted))
    return explored


@contextlib.contextmanager
def _ended(world: World, made: Sequence[Choice]) -> Iterator[None]:
    try:
        yield
    except BrokenError as error:
        story = "; ".join(f"{what} {number}" for what, number in made)
        raise BrokenError(f"{error} (skews {[run.skew for run in world.runs]}; {story})") from error
    finally:
        with contextlib.suppress(BrokenError):
            world.end()
