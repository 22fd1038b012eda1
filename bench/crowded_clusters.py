"""What plans of crowded clusters leave: points, excess, hot nodes; how many moves and how long they take.

    python -m bench.crowded_clusters [--seeds 4] [--every]

Points are what the planner compares plans by: the excess left, ten for each node that stays hot, and what the
moves cost. ``--every`` measures fifteen kinds of twenty nodes: crowded ones, some of odd sizes that are
filled by requests, and some that were grown node by node, each at three mean loads.
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
from bench.requested_clusters import bold_policy, limited_policy, requested_inputs
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.planner import Planner

LOADED = range(101, 107)
LOADS = (55, 65, 75)

Inputs = Callable[[], PlanningInputs]
Clusters = Mapping[str, list[Inputs]]


def crowded_clusters(seeds: int) -> Clusters:
    """Crowded ones of twenty nodes, by name."""
    return {
        f"crowded, {load} %": [partial(random_inputs, seed, load / 100, NODES) for seed in range(seeds)]
        for load in LOADS
    }


def every_kind(seeds: int) -> Clusters:
    """Fifteen kinds of twenty nodes, by name."""
    kinds = dict(crowded_clusters(seeds))
    for policy_name, policy in (("bold", bold_policy()), ("limited", limited_policy())):
        requested = partial(requested_inputs, nodes=NODES, odd=True, policy=policy)
        grown = partial(grown_inputs, nodes=NODES, policy=policy)
        for generator, inputs_of in (("odd", requested), ("grown", grown)):
            for load in LOADS:
                clusters: list[Inputs] = [partial(inputs_of, seed, load / 100) for seed in range(seeds)]
                kinds[f"{generator}, {policy_name}, {load} %"] = clusters
    return kinds


def usual_kinds(seeds: int) -> Clusters:
    """Those by which a change of the search is judged, by name."""
    grown = partial(grown_inputs, mean_load=0.65, nodes=NODES, policy=limited_policy())
    return {
        **crowded_clusters(seeds),
        "grown, limited, 65 %": [partial(grown, seed) for seed in range(seeds)],
        "60 nodes": [partial(loaded_inputs, seed) for seed in LOADED],
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=4, help="how many clusters of each kind that is drawn")
    parser.add_argument("--every", action="store_true", help="fifteen kinds of twenty nodes")
    options = parser.parse_args()
    kinds = every_kind(options.seeds) if options.every else usual_kinds(options.seeds)
    print("clusters               points   excess  hot  moves  s of processor time a plan")
    for name, of_kind in kinds.items():
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
