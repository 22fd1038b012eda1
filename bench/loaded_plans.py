"""Plans of clusters that are placed by what pods use: how long they take, and what they would leave hot.

    python -m bench.loaded_plans [--nodes 40] [--hot 11] [--mean 70] [--seeds 1-4] [--repeat 2]

Each row is a cluster as ``bench.loaded_clusters`` makes them. Seconds are processor time, the least of some:
of preparing (hot nodes, rules, queues), of the search with the plan as a value, and of both.
"""

from __future__ import annotations

import argparse
import time

from bench.loaded_clusters import Shape, loaded_inputs
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.plan import Plan
from rebalancer.planning.planner import Planner


def planned(inputs: PlanningInputs) -> tuple[Plan, float, float]:
    """A plan, and the processor seconds that it took to prepare and to make it."""
    began = time.process_time()
    planner = Planner(inputs)
    prepared = planner.prepared
    assert prepared is not None
    between = time.process_time()
    plan = planner.plan()
    return plan, between - began, time.process_time() - between


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=40)
    parser.add_argument("--hot", type=int, default=11)
    parser.add_argument("--mean", type=float, default=70.0, help="load of all nodes, in percent")
    parser.add_argument("--seeds", default="1-4", help="FIRST-LAST")
    parser.add_argument("--repeat", type=int, default=2)
    arguments = parser.parse_args()
    shape = Shape(arguments.nodes, arguments.hot, arguments.mean)
    first, last = map(int, arguments.seeds.split("-"))
    print("seed  pods  hot  moves  prepare     plan   seconds")
    for seed in range(first, last + 1):
        inputs = loaded_inputs(seed, shape)
        taken: list[tuple[float, float, float]] = []
        for _ in range(arguments.repeat):
            plan, prepare, make = planned(inputs)
            taken.append((prepare + make, prepare, make))
        whole, prepare, make = min(taken)
        print(
            f"{seed:4d} {len(inputs.snapshot.pods):5d} {plan.hot_count:4d} {len(plan.moves):6d} "
            f"{prepare:8.2f} {make:8.2f} {whole:9.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
