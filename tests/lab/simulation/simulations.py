"""A simulation with two policies, as a page shows it."""

from __future__ import annotations

from rebalancer_lab.simulation.report import Cycle, LoadSpread, PolicyRun, SimulatedMove, Simulation
from tests.unit.reporting.builders import NOW


def a_simulation(policy: str = "balanced", *, because: str = "", runs: int = 2) -> Simulation:
    move = SimulatedMove(
        pod=f"shop/{because or 'api-1'}",
        workload="Deployment/api",
        from_node="node-1",
        node="node-2",
        result="Landed",
        because=because,
    )
    cycles = tuple(
        Cycle(
            cycle=number,
            hot=3 - number,
            peak={"cpu": 90.0 - number},
            deviation={"cpu": 20.0},
            evictions=1,
            pending=0,
            moves=(move,) * 60,
            stopped=because,
            over80=2,
        )
        for number in (1, 2)
    )
    after = LoadSpread(hot=0, peak={"cpu": 70.0}, deviation={"cpu": 12.5}, over80=1)
    run = PolicyRun(
        policy=policy, cycles=cycles, after=after, evictions=2, unexpected=0, again=1, warnings=(policy,)
    )
    return Simulation(
        source="production",
        inputs="sha256:0",
        now=NOW,
        seed=7,
        interval_seconds=600.0,
        noise=0.1,
        daily=0.0,
        lag_seconds=300.0,
        runs=(run,) * runs,
    )
