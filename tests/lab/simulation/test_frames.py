from __future__ import annotations

from rebalancer_lab.simulation import frames
from rebalancer_lab.simulation.report import Cycle, LoadSpread, PolicyRun, Simulation


def test_cycles_of_a_simulation_are_a_time_series() -> None:
    peak, deviation = {"cpu": 91.0}, {"cpu": 9.0}
    cycles = tuple(
        Cycle(
            cycle=number,
            hot=3 - number,
            evictions=number,
            pending=0,
            moves=(),
            peak=peak,
            deviation=deviation,
        )
        for number in (1, 2)
    )
    run = PolicyRun(
        policy="default",
        cycles=cycles,
        after=LoadSpread(hot=0, peak=peak, deviation=deviation),
        evictions=3,
        unexpected=0,
        again=0,
    )
    simulation = Simulation(
        source="dump",
        inputs="sha256:0",
        now="2026-11-20T12:00:00Z",
        seed=0,
        interval_seconds=600,
        noise=0,
        daily=0,
        lag_seconds=0,
        runs=(run,),
    )
    frame = frames.cycles(simulation).set_index("time")

    assert frame["hot"].tolist() == [2, 1]
    assert str(frame.index[1]) == "2026-11-20 12:10:00+00:00"
