"""Runs that plan again, each with many draws of where the scheduler puts replacements.

python -m bench.replanned_runs [--seeds 1-4,101-106] [--draws 20] [--steer softTaint]

One run tells little: among nodes that are alike the scheduler draws, and what a run makes of a cluster
depends on that. Each row is a cluster of ``bench.loaded_clusters`` whose pods were made just now, as they are
on a control plane: seed 2 is the cluster of tests/e2e/test_replanning.py, and its first plan is the one made
there. The draws are numbered, so two searches that plan alike get the same landings.

    seed  nodes left hot: mean, most, share of runs with more than 1   excess left   evictions   elsewhere
       2                  0.70     2                            10 %         134.2        21.4         6.5

``elsewhere`` are replacements that did not land where they most likely would.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace

from bench.loaded_clusters import MOST_EVICTIONS, MOST_HOT, loaded_inputs
from rebalancer.planning.inputs import PlannerOptions, PlanningInputs
from rebalancer.planning.landing.scenarios import LandingDraws
from rebalancer.planning.planner import Planner
from rebalancer.state.run_state import RunState
from rebalancer_lab.simulation.cycles import SimulatedRun
from rebalancer_lab.simulation.world import LoadShape, SimulatedCluster


@dataclass(frozen=True)
class DrawnRun:
    """What one run has made of a cluster."""

    hot: int  # nodes, after it
    excess: float  # points left on the nodes that were hot
    evictions: int
    elsewhere: int  # replacements that did not land where they most likely would
    plans: int


def drawn_runs(inputs: PlanningInputs, draws: int) -> list[DrawnRun]:
    """So many runs on a cluster, all of which begin with the same plan."""
    planner = Planner(_cluster(inputs).inputs(RunState()), options=PlannerOptions(explains=False))
    prepared = planner.prepared
    hotness, plan, found = prepared.hotness, planner.plan(), list[DrawnRun]()
    rows = np.flatnonzero(hotness.hot)
    for number in range(draws):
        random = np.random.default_rng(number)
        cluster = _cluster(inputs)
        run = SimulatedRun(cluster, RunState(), random, LandingDraws(random))
        outcomes = run.carry_out(planner, plan)
        percent = cluster.percent()
        found.append(
            DrawnRun(
                hot=int(np.count_nonzero((percent > hotness.hot_above).any(axis=1))),
                excess=float(hotness.excess(rows, percent[rows]).sum()),
                evictions=len(outcomes),
                elsewhere=sum(item.is_elsewhere(prepared.nodes.names) for item in outcomes),
                plans=run.plans,
            )
        )
    return found


def _cluster(inputs: PlanningInputs) -> SimulatedCluster:
    return SimulatedCluster(inputs, LoadShape(), np.random.default_rng(0))


def just_made(inputs: PlanningInputs) -> PlanningInputs:
    """The same cluster with pods that were created a moment ago; age is part of what a restart costs."""
    pods = inputs.snapshot.pods
    columns = pods.columns.changed(created=np.full(len(pods), inputs.now))
    return replace(inputs, snapshot=replace(inputs.snapshot, pods=replace(pods, columns=columns)))


def with_steering(inputs: PlanningInputs, steer: str) -> PlanningInputs:
    """The same under a policy with this ``execution.steer``."""
    execution = inputs.policy.execution.model_copy(update={"steer": steer})
    return replace(inputs, policy=inputs.policy.model_copy(update={"execution": execution}))


def summary(runs: Sequence[DrawnRun]) -> str:
    """One row of the table."""
    hot, evictions = np.array([run.hot for run in runs]), np.array([run.evictions for run in runs])
    return (
        f"{hot.mean():8.2f} {hot.max():5d} {(hot > MOST_HOT).mean():7.0%} "
        f"{np.mean([run.excess for run in runs]):8.1f} {evictions.mean():10.1f} "
        f"{(evictions > MOST_EVICTIONS).mean():7.0%} {np.mean([run.elsewhere for run in runs]):10.1f} "
        f"{np.mean([run.plans for run in runs]):6.1f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", default="1-4,101-106", help="FIRST-LAST, several with commas")
    parser.add_argument("--draws", type=int, default=20, help="runs on each cluster")
    parser.add_argument("--steer", default="none", choices=("none", "softTaint"))
    arguments = parser.parse_args()
    print(
        f"seed  mean hot  most     > {MOST_HOT}   excess  evictions    > {MOST_EVICTIONS}"
        "  elsewhere  plans  seconds"
    )
    every, began = list[DrawnRun](), time.process_time()
    for part in arguments.seeds.split(","):
        first, _, last = part.partition("-")
        for seed in range(int(first), int(last or first) + 1):
            start = time.process_time()
            inputs = with_steering(just_made(loaded_inputs(seed)), arguments.steer)
            runs = drawn_runs(inputs, arguments.draws)
            every += runs
            print(f"{seed:4d}  {summary(runs)} {time.process_time() - start:8.1f}", flush=True)
    print(f" all  {summary(every)} {time.process_time() - began:8.1f}")


if __name__ == "__main__":
    main()
