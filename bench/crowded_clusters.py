"""What plans of crowded clusters leave: points, excess, hot nodes; how many moves and how long they take.

    python -m bench.crowded_clusters [--seeds 4]

Points are what the planner compares plans by: the excess left, ten for each node that stays hot, and what the
moves cost.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from functools import partial

from bench.grown_clusters import grown_inputs
from bench.loaded_clusters import loaded_inputs
from bench.points import points_left
from bench.random_clusters import NODES, random_inputs
from bench.requested_clusters import limited_policy
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.planner import Planner

LOADED = range(101, 107)


def clusters(seeds: int) -> Mapping[str, list[Callable[[], PlanningInputs]]]:
    """The clusters of each kind, by name."""
    crowded: dict[str, list[Callable[[], PlanningInputs]]] = {
        f"crowded, {load} %": [partial(random_inputs, seed, load / 100, NODES) for seed in range(seeds)]
        for load in (55, 65, 75)
    }
    grown = partial(grown_inputs, mean_load=0.65, nodes=NODES, policy=limited_policy())
    return {
        **crowded,
        "grown, limited, 65 %": [partial(grown, seed) for seed in range(seeds)],
        "60 nodes": [partial(loaded_inputs, seed) for seed in LOADED],
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=4, help="how many clusters of each kind that is drawn")
    options = parser.parse_args()
    print("clusters               points   excess  hot  moves  s of processor time a plan")
    for name, of_kind in clusters(options.seeds).items():
        points = excess = seconds = 0.0
        hot = moves = 0
        for inputs_of in of_kind:
            inputs = inputs_of()
            began = time.process_time()
            planner = Planner(inputs)
            prepared = planner.prepared
            found = planner.decided
            seconds += time.process_time() - began
            plan = planner.plan()
            moves += len(plan.moves)
            if plan.benefit is not None:
                points += points_left(prepared, found, plan)
                excess += plan.benefit.excess.after
            percent = found.scenarios.mean_percent()
            still_hot = prepared.hotness.resources & (percent > prepared.hotness.hot_above)
            hot += int((prepared.hotness.hot & still_hot.any(axis=1)).sum())
        mean = seconds / len(of_kind)
        print(f"{name:21s} {points:7.0f} {excess:8.0f} {hot:4d} {moves:6d} {mean:7.2f}", flush=True)


if __name__ == "__main__":
    main()
