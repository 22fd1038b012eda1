"""What a run knows of earlier runs, and what it leaves for later ones.

The state is read once the lease is held, and written before the first eviction and after each one: a run
that is killed leaves no eviction behind that later runs do not know. Each write is a change to what is kept
at that moment, so that nothing is lost that another run wrote.

What is kept is dated, and dropped when it is old. A clock that is wrong would drop what others wrote, and
date what this run does so that nobody minds it. So nothing is written by a clock that the API server's
contradicts, and no pod is evicted, as each eviction is written down first:

    this machine 12:00, API server 12:01    written
    this machine 12:00, API server 15:30    SafetyError; what was evicted so far is kept as it was dated
    the API server's time is not known      written, and nothing is dropped for its age
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from math import inf

import msgspec
from msgspec.structs import replace

from rebalancer.errors import SafetyError
from rebalancer.execution.lease import HeldLease
from rebalancer.execution.outcomes import Outcome, after_outcomes, past_moves
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.plan import Plan
from rebalancer.state import run_state
from rebalancer.state.stores import StateStore
from rebalancer.telemetry import span

LOGGER = logging.getLogger(__name__)
MAX_CLOCK_DIFFERENCE_SECONDS = 3600.0  # between this machine and the API server
_RUN_CHARACTERS = 12  # of a run's identity: enough to tell runs apart, and it is written with every move

Finding = Callable[[run_state.RunState], run_state.RunState]
"""Adds what a plan found, such as hot nodes, to a state."""


def finding(inputs: PlanningInputs, plan: Plan) -> Finding:
    """Adds a plan's hot nodes to a state and, where a source keeps no history, the loads it was made from."""
    now = inputs.now
    policy = inputs.policy
    hot = [node.name for node in plan.nodes if node.hot]

    def with_finding(state: run_state.RunState) -> run_state.RunState:
        counted = run_state.after_plan(state, hot, now, policy.hot_nodes.run_spacing_seconds)
        return run_state.after_reading(counted, inputs.present_load, now, policy.load.window)

    return with_finding


class RunMemory(msgspec.Struct, eq=False):
    """What earlier runs left, and a store for what this one does; nothing is kept where there is none."""

    _store: StateStore | None
    before: run_state.RunState | None
    _clock: Callable[[], float] = time.time
    _server_time: Callable[[], float | None] = lambda: None
    _run: str = ""
    _keeps_seconds: float | None = None  # None: nothing is written
    moved: tuple[run_state.PastMove, ...] = ()  # by this run, so far
    _latest: run_state.RunState | None = None  # what was read or written last
    _finding: Finding | None = None

    def __post_init__(self) -> None:
        self._latest = self.before

    @classmethod
    def read_only(cls, store: StateStore | None) -> RunMemory:
        """What earlier runs left, for a run that leaves nothing."""
        return cls(store, (store.load() or run_state.RunState()) if store is not None else None)

    @classmethod
    def under(
        cls,
        _held: HeldLease,
        store: StateStore | None,
        run: str,
        keeps_seconds: float,
        clock: Callable[[], float] = time.time,
        server_time: Callable[[], float | None] = lambda: None,
    ) -> RunMemory:
        """What earlier runs left, read while no other run acts, and a store for what this one does.

        ``server_time`` is the API server's clock, or None while that is not known.
        """
        before = cls.read_only(store).before
        return cls(store, before, clock, server_time, run[:_RUN_CHARACTERS], keeps_seconds)

    def keep_finding(self, finding: Finding) -> None:
        """Keep what the plan found. Raises SafetyError when another run moves pods at the same time."""
        self._finding = finding
        self._keep(())

    def moved_with(self, landed: Sequence[Outcome]) -> tuple[run_state.PastMove, ...]:
        """What this run moved, with where replacements landed of which only that is known so far."""
        now = {move.uid: move for move in past_moves(landed, self._run)}
        return tuple(now.get(move.uid, move) for move in self.moved)

    def now(self, plan: Plan) -> run_state.RunState:
        """What earlier runs left and this one has done: what it plans by when it plans again.

        Without a state every hot node counts, as it did in the run's first ``plan``.
        """
        keeps_seconds = inf if self._keeps_seconds is None else self._keeps_seconds
        moved = run_state.after_moves(self.before, self.moved, self._clock(), keeps_seconds)
        if self.before is not None:
            return moved
        return replace(moved, hot_streaks={node.name: run_state.MAX_STREAK for node in plan.nodes})

    def checkpoint(self, outcomes: Sequence[Outcome]) -> None:
        """Keep what is known about the moves so far. Raises SafetyError, once that is kept, as ``found``."""
        self.moved = past_moves(outcomes, self._run)
        self._keep(outcomes)

    def _keep(self, outcomes: Sequence[Outcome]) -> None:
        store = self._store
        keeps_seconds = self._keeps_seconds
        if store is None or keeps_seconds is None:
            return
        now = self._clock()
        server_time = self._server_time()
        if server_time is None:
            keeps_seconds = float("inf")  # what is old by a clock that nobody vouches for may be new
        elif abs(now - server_time) > MAX_CLOCK_DIFFERENCE_SECONDS:
            raise SafetyError(
                f"the clock of this machine and the API server's differ by {abs(now - server_time):.0f} s: "
                "what earlier runs left cannot be kept by it",
                where=store.where,
                hint="set the clock of this node, or the API server's",
            )

        was_lost = False

        def change(state: run_state.RunState) -> run_state.RunState:
            nonlocal was_lost
            before = self._latest  # of a write that is tried again the last attempt counts
            was_lost = False
            if before is not None and before != state == run_state.RunState():
                was_lost = True  # else later runs would move again what earlier ones moved
                state = before
            to_write = self._finding(state) if self._finding is not None else state
            return after_outcomes(to_write, outcomes, now, keeps_seconds, self._run) if outcomes else to_write

        with span("save-state") as saving:
            stored = store.update(change, closing=bool(outcomes))
            saving.add(bytes=len(run_state.encode(stored)))
        if was_lost:
            LOGGER.warning("%s: was deleted or emptied meanwhile; what it held is written again", store.where)
        self._finding = None
        self._latest = stored
        self._refuse_company(stored, store.where)

    def _refuse_company(self, state: run_state.RunState, where: str) -> None:
        """Raise SafetyError when another run began to move pods since the state was read.

        The lease keeps those runs apart that name the same one. Those that name different ones meet here.
        """
        moves_before = (
            {(move.uid, move.run) for move in self.before.moves} if self.before is not None else set()
        )
        company = [
            move for move in state.moves if move.run != self._run and (move.uid, move.run) not in moves_before
        ]
        if company:
            newest = company[-1]
            pod = f"{newest.namespace}/{newest.name}"
            run = newest.run or "unnamed"
            raise SafetyError(
                f"another run ({run}) moves pods too, e.g. {pod}",
                where=where,
                hint="do both runs name the same --lease?",
            )
