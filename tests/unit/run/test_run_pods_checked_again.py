"""Just before an eviction its pod is judged again where anything may have changed since it was judged."""

from __future__ import annotations

import gc
import weakref
from collections import deque
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from rebalancer.execution.observed_pods import ObservedPod
from rebalancer.planning.inputs import RunSoFar
from rebalancer.planning.plan import Move, Progress
from rebalancer.planning.planner import Planner
from rebalancer.run import run
from rebalancer.run.memory import RunMemory
from tests.unit.execution.builders import a_move, an_observed_pod
from tests.unit.planning.builders import a_policy

EVENING = 1_795_471_190.0  # 2026-11-23 21:59:50 UTC
WINDOW = {"windows": [{"from": "20:00", "to": "22:00"}]}
BLACKOUT = {"blackouts": [{"from": "2026-11-24", "to": "2026-11-25"}]}


class Pods:
    """Stands for the table of a reading: the version that each pod had."""

    def __init__(self, **versions: int) -> None:
        self.row = {("shop", name): number for number, name in enumerate(versions)}
        self.versions = list(versions.values())

    @property
    def with_finished(self) -> Pods:
        return self

    def fields(self, row: int) -> SimpleNamespace:
        return SimpleNamespace(version=self.versions[row])


class Reading(SimpleNamespace):
    """Stands for what a plan is made from; others may ask whether it is still held."""


def read(now: float, evictable: dict[str, Any], **versions: int) -> Any:
    snapshot = SimpleNamespace(pods=Pods(**versions), nodes=())
    return Reading(now=now, policy=a_policy(evictable=evictable), snapshot=snapshot, schedulers=())


def a_replanner(first: Any, clock: float, *later: Any) -> Any:
    plan = SimpleNamespace(moves=())
    planner = SimpleNamespace(inputs=first, hot_in_run={}, so_far=RunSoFar())
    planned = SimpleNamespace(planner=planner, inputs=first, plan=plan, age=SimpleNamespace(fresh=False))
    readings = deque(later)
    replanner: Any = run._Replanner(
        cast("Any", planned),
        RunMemory(None, None),
        lambda _state, _so_far: readings.popleft(),
        clock=lambda: clock,
    )
    replanner._planner = lambda _state, _so_far: Planner(readings.popleft())
    return replanner


def seen(name: str, version: int) -> ObservedPod:
    pod = an_observed_pod(name)
    return replace(pod, metadata=replace(pod.metadata, resource_version=str(version)))


@pytest.mark.parametrize(("evictable", "hours"), [(WINDOW, 0), (BLACKOUT, 2)])
def test_a_pod_is_judged_again_once_its_window_has_closed_or_a_blackout_has_begun(
    evictable: dict[str, Any], hours: int
) -> None:
    judged = EVENING + 3600 * hours
    first = read(judged, evictable, web=7)

    assert a_replanner(first, judged + 5).has_seen(seen("web", 7))
    assert not a_replanner(first, judged + 15).has_seen(seen("web", 7))


def test_a_pod_that_changed_is_judged_although_another_one_was_read_again_since(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    web = a_move("web")
    monkeypatch.setattr(Planner, "recheck", lambda *_given, **_named: {web.pod.uid: web})
    first, second = read(EVENING, {}, web=1, db=1), read(EVENING, {}, web=2, db=2)
    replanner = a_replanner(first, EVENING, second)

    replanner.validate([web], Progress(left=[web]))

    assert replanner.has_seen(seen("web", 2))
    assert not replanner.has_seen(seen("db", 2))


def test_what_a_move_was_checked_with_is_let_go_once_another_was_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    web, db = a_move("web"), a_move("db")

    def recheck(_planner: Planner, moves: Sequence[Move], *_given: Any, **_named: Any) -> dict[str, Move]:
        return {move.pod.uid: move for move in moves}

    monkeypatch.setattr(Planner, "recheck", recheck)
    second = read(EVENING, {}, web=2, db=2)
    replanner = a_replanner(read(EVENING, {}, web=1, db=1), EVENING, second, read(EVENING, {}, web=2, db=3))
    held = weakref.ref(second)

    replanner.validate([web], Progress(left=[web]))
    del second
    replanner.validate([db], Progress(left=[db]))

    gc.collect()
    assert held() is None, "a run of many moves would hold the cluster once for each"
    assert replanner.has_seen(seen("web", 2))
    assert replanner.has_seen(seen("db", 3))
