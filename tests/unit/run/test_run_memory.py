from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rebalancer.errors import SafetyError, UnreachableError
from rebalancer.policy.schema import Planning, RebalancePolicy
from rebalancer.run.memory import MAX_CLOCK_DIFFERENCE_SECONDS, RunMemory
from rebalancer.state.results import Result
from rebalancer.state.run_state import PastMove, RunState, after_moves, after_plan, memory_seconds
from tests.unit.reporting.builders import an_outcome


@dataclass
class AStore:
    """Keeps every state that was written; another run may write between."""

    saved: list[RunState] = field(default_factory=list)
    closing: list[bool] = field(default_factory=list)  # whether each write is made after a request to stop
    where: str = "here"

    def load(self) -> RunState | None:
        return self.saved[-1] if self.saved else None

    def update(self, change: Callable[[RunState], RunState], *, closing: bool = False) -> RunState:
        self.closing.append(closing)
        self.saved.append(change(self.load() or RunState()))
        return self.saved[-1]


def a_past_move(uid: str, **more: Any) -> PastMove:
    return PastMove(
        uid=uid,
        namespace="shop",
        name=uid,
        workload="Deployment/web",
        from_node="a",
        evicted_at=1.0,
        **more,
    )


HELD: Any = object()  # a run that reads the state has shown that it holds the lease


def under(store: AStore | None) -> RunMemory:
    return RunMemory.under(HELD, store, "run-1", 1e10)


def test_a_run_without_a_store_keeps_nothing() -> None:
    memory = under(None)
    memory.keep_finding(lambda state: state)
    memory.checkpoint([an_outcome()])

    assert memory.before is None
    assert [move.uid for move in memory.moved] == [an_outcome().move.pod.uid]


NOW, DAY = 1.8e9, 86_400.0


@given(
    st.lists(st.floats(-10 * DAY, 40 * DAY), max_size=5),
    st.floats(-60 * DAY, 60 * DAY),
    st.sampled_from(["agrees", "differs", "not known"]),
)
def test_no_clock_whatever_it_says_drops_a_move_that_others_still_have_to_know(
    ages: list[float], wrong_by: float, server: str
) -> None:
    """Moves of the last day are kept, by the true time, or nothing is written at all."""
    others = tuple(
        replace(a_past_move(f"other-{number}"), evicted_at=NOW - age) for number, age in enumerate(ages)
    )
    store = AStore([RunState(moves=others)])
    clock = (lambda: NOW) if server == "agrees" else (lambda: NOW + wrong_by)
    known = None if server == "not known" else NOW
    memory = RunMemory.under(HELD, store, "run-1", DAY, clock, lambda: known)
    if server == "differs" and abs(wrong_by) > MAX_CLOCK_DIFFERENCE_SECONDS:
        with pytest.raises(SafetyError, match="differ by"):
            memory.checkpoint([an_outcome()])
        assert store.saved[-1].moves == others
        return
    memory.checkpoint([an_outcome()])
    needed = {move.uid for move in others if 0 <= NOW - move.evicted_at <= DAY - MAX_CLOCK_DIFFERENCE_SECONDS}
    assert {move.uid for move in store.saved[-1].moves} >= needed


def test_a_clock_that_jumps_after_an_eviction_leaves_what_was_written_before_as_it_is() -> None:
    clock = [NOW]
    store = AStore([RunState(moves=(replace(a_past_move("other"), evicted_at=NOW - 600),))])
    memory = RunMemory.under(HELD, store, "run-1", DAY, lambda: clock[0], lambda: NOW + 5)
    outcome = replace(an_outcome(), evicted_at=NOW)
    memory.keep_finding(lambda state: state)
    memory.checkpoint([outcome])
    before = store.saved[-1]
    clock[0] += 30 * DAY
    with pytest.raises(SafetyError, match="differ by 2591995 s"):
        memory.checkpoint([outcome])
    assert store.saved[-1] == before
    assert len(before.moves) == 2


def test_a_memory_that_is_only_read_writes_nothing() -> None:
    store = AStore([RunState(moves=(a_past_move("old"),))])
    memory = RunMemory.read_only(store)
    memory.keep_finding(lambda state: state)
    memory.checkpoint([an_outcome()])

    assert memory.before == store.saved[0]
    assert len(store.saved) == 1


def test_a_checkpoint_writes_the_moves_so_far() -> None:
    store = AStore()
    memory = under(store)
    memory.keep_finding(lambda state: state)
    memory.checkpoint([an_outcome()])

    assert [len(state.moves) for state in store.saved] == [0, 1]


def test_what_another_run_wrote_meanwhile_stays() -> None:
    store = AStore()
    memory = under(store)
    memory.keep_finding(lambda state: after_plan(state, ["hot"], 5.0))
    store.update(lambda state: replace(state, moves=(a_past_move("theirs"),)))
    with pytest.raises(SafetyError, match=r"another run \(unnamed\) moves pods too, e.g. shop/theirs"):
        memory.checkpoint([an_outcome()])

    assert {move.uid for move in store.saved[-1].moves} == {"theirs", an_outcome().move.pod.uid}
    assert store.saved[-1].hot_runs("hot") == 1


def test_what_is_deleted_during_a_run_is_written_again_with_what_the_run_found_and_did(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = AStore([RunState(moves=(a_past_move("old"),))])
    memory = under(store)
    memory.keep_finding(lambda state: replace(state, hot_streaks={"a": 2}))
    store.saved.append(RunState())
    memory.checkpoint([an_outcome()])
    kept = store.saved[-1]
    assert [move.uid for move in kept.moves] == ["old", an_outcome().move.pod.uid]
    assert kept.hot_streaks == {"a": 2}
    assert "here: was deleted or emptied meanwhile; what it held is written again" in caplog.text


def test_what_another_run_wrote_before_the_last_attempt_is_not_said_to_be_deleted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Contended(AStore):
        def update(self, change: Callable[[RunState], RunState], *, closing: bool = False) -> RunState:
            change(RunState())  # an attempt whose write is in conflict with another one
            return super().update(change, closing=closing)

    store = Contended([RunState(moves=(a_past_move("old"),))])
    memory = under(store)
    memory.keep_finding(lambda state: replace(state, hot_streaks={"a": 2}))
    assert store.saved[-1].hot_streaks == {"a": 2}
    assert "deleted or emptied" not in caplog.text


def test_what_was_deleted_is_said_to_be_written_again_once_it_is(caplog: pytest.LogCaptureFixture) -> None:
    class Refusing(AStore):
        refuses = False

        def update(self, change: Callable[[RunState], RunState], *, closing: bool = False) -> RunState:
            if self.refuses:
                change(RunState())
                raise UnreachableError("the request is refused")
            return super().update(change, closing=closing)

    store = Refusing([RunState(moves=(a_past_move("old"),))])
    memory = under(store)
    store.refuses = True
    with pytest.raises(UnreachableError):
        memory.keep_finding(lambda state: state)
    assert not caplog.messages


def test_a_run_withdraws_what_it_announced_and_nothing_that_another_run_wrote() -> None:
    store = AStore()
    memory = under(store)
    announced = replace(an_outcome(), result=Result.UNKNOWN)
    uid = announced.move.pod.uid
    memory.checkpoint([announced])
    store.update(lambda state: after_moves(state, [a_past_move(uid, run="run-2")], 1.0, 1e10))
    with pytest.raises(SafetyError, match=r"another run \(run-2\)"):
        memory.checkpoint([replace(announced, result=Result.SKIPPED, evicted_at=None)])

    assert [(move.uid, move.run) for move in store.saved[-1].moves] == [(uid, "run-2")]


def test_what_the_plan_found_is_written_once_even_when_the_first_write_fails() -> None:
    class Failing(AStore):
        def update(self, change: Callable[[RunState], RunState], *, closing: bool = False) -> RunState:
            if not self.saved:
                self.saved.append(RunState())
                raise UnreachableError("connection refused")
            return super().update(change, closing=closing)

    store = Failing()
    memory = under(store)
    with pytest.raises(UnreachableError):
        memory.keep_finding(lambda state: after_plan(state, ["hot"], 5.0))
    memory.checkpoint([an_outcome()])
    memory.checkpoint([an_outcome()])

    assert store.saved[-1].hot_runs("hot") == 1


@pytest.mark.parametrize(
    ("given", "hours"),
    [
        ({}, 48),
        ({"cooldown": 0.0}, 48),
        ({"cooldown": 180_000.0}, 100),
    ],
)
def test_moves_are_kept_as_long_as_any_cooldown_asks_and_at_least_a_day(
    given: dict[str, float], hours: float
) -> None:
    policy = RebalancePolicy(planning=Planning(**given))  # type: ignore[arg-type]

    assert memory_seconds(policy) == hours * 3600


def test_what_became_of_evictions_is_written_even_after_a_request_to_stop() -> None:
    store = AStore()
    memory = under(store)
    memory.keep_finding(lambda state: after_plan(state, ["hot"], 5.0))
    memory.checkpoint([an_outcome()])
    assert store.closing == [False, True]


def test_what_earlier_runs_moved_is_no_company_and_may_be_settled_meanwhile() -> None:
    theirs = a_past_move("theirs", run="run-0", result="Unknown")
    store = AStore([RunState(moves=(theirs,))])
    memory = under(store)
    settled = replace(theirs, result="Landed")
    store.update(lambda state: replace(state, moves=(settled,)))
    memory.keep_finding(lambda state: state)
    memory.checkpoint([an_outcome()])

    assert {move.uid for move in store.saved[-1].moves} == {"theirs", an_outcome().move.pod.uid}


def test_two_runs_with_leases_of_their_own_meet_in_the_state_before_either_evicts() -> None:
    store = AStore()
    one, other = under(store), RunMemory.under(HELD, store, "run-2", 1e10)
    for memory in (one, other):
        memory.keep_finding(lambda state: state)
    one.checkpoint([an_outcome()])

    with pytest.raises(SafetyError, match=r"another run \(run-1\).*same --lease"):
        other.checkpoint([an_outcome()])
