"""The order of a run that acts, in one place: take the lease, read the state, plan, act, give the lease up.

Each step takes what the step before returned, so no caller can change the order: the state is read under a
held lease, the plan is made from that state, and only that plan is carried out. Were it otherwise, two runs
at once could plan from the same state and move the same workload twice:

    run A  reads the state, plans web-1                 takes the lease, evicts web-1, writes it
    run B        reads the state, plans web-2 of the same workload ...     takes the lease, evicts web-2
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Generic, TypeVar

from rebalancer.execution import HeldLease, Outcomes, RunLease
from rebalancer.pipeline.run_memory import RunMemory
from rebalancer.state import StateStore

Planned = TypeVar("Planned")


@dataclass(frozen=True, kw_only=True)
class RunSequence(Generic[Planned]):
    """A run that acts: ``make_plan`` reads the cluster and plans, ``act`` carries that plan out."""

    run: str  # its identity
    lease: RunLease
    store: StateStore | None
    keeps_seconds: float
    make_plan: Callable[[RunMemory], Planned]
    act: Callable[[Planned, HeldLease, RunMemory], Outcomes]
    meanwhile: Callable[[HeldLease], AbstractContextManager[None]] = HeldLease.renewed_meanwhile
    clock: Callable[[], float] = time.time

    def carry_out(self) -> tuple[Planned, Outcomes]:
        """The plan, and what became of it.

        Raises LeaseHeldError before anything is read or written, and the errors of the steps.
        """
        held = self.lease.acquire()
        try:
            with self.meanwhile(held):
                return self.carry_out_under(held)
        finally:
            held.release()

    def carry_out_under(self, held: HeldLease) -> tuple[Planned, Outcomes]:
        """The same under a lease that is held, and renewed, for more than this run."""
        memory = RunMemory.under(held, self.store, self.run, self.keeps_seconds, self.clock)
        planned = self.make_plan(memory)
        return planned, self.act(planned, held, memory)
