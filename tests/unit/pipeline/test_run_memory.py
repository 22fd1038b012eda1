from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from rebalancer.pipeline.run_memory import RunMemory
from rebalancer.policy import RebalancePolicy
from rebalancer.policy.schema import Planning
from rebalancer.state import PastMove, RunState, memory_seconds
from tests.unit.reporting.builders import an_outcome


@dataclass
class AStore:
    """Keeps every state that was saved; what another run saved can be put on top."""

    saved: list[RunState] = field(default_factory=list)

    def load(self) -> RunState | None:
        return self.saved[-1] if self.saved else None

    def save(self, state: RunState) -> RunState:
        self.saved.append(state)
        return state


def a_past_move(uid: str) -> PastMove:
    return PastMove(
        uid=uid,
        namespace="shop",
        name=uid,
        workload="Deployment/web",
        from_node="a",
        evicted_at=1.0,
        result="Landed",
    )


def test_a_run_without_a_store_keeps_nothing_and_is_never_overtaken() -> None:
    memory = RunMemory(None, None, None, 86_400.0)
    memory.keep()
    memory.checkpoint([an_outcome()])

    assert [move.uid for move in memory.moved] == [an_outcome().move.pod.uid]
    assert not memory.overtaken()


def test_a_checkpoint_writes_the_moves_so_far() -> None:
    store = AStore()
    memory = RunMemory(store, RunState(), RunState(), 1e10)
    memory.keep()
    memory.checkpoint([an_outcome()])

    assert [len(state.moves) for state in store.saved] == [0, 1]


def test_a_run_is_overtaken_by_moves_that_it_did_not_know_when_it_planned() -> None:
    before = RunState(moves=(a_past_move("old"),))
    store = AStore([before])
    memory = RunMemory(store, before, before, 86_400.0)
    known = memory.overtaken()
    store.saved.append(RunState(moves=(a_past_move("old"), a_past_move("new"))))

    assert (known, memory.overtaken()) == (False, True)


@pytest.mark.parametrize(
    ("cooldown", "bad_landing_cooldown", "seconds"),
    [(3600.0, 3600.0, 86_400.0), (86_400.0, 0.0, 172_800.0), (0.0, 172_800.0, 172_800.0)],
)
def test_moves_are_kept_for_two_cooldowns_and_at_least_a_day(
    cooldown: float, bad_landing_cooldown: float, seconds: float
) -> None:
    planning = Planning(cooldown=cooldown, bad_landing_cooldown=bad_landing_cooldown)
    policy = RebalancePolicy(planning=planning)

    assert memory_seconds(policy) == seconds
