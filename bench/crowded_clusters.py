"""What plans of crowded clusters leave: points, excess, hot nodes; how many moves and how long they take.

    python -m bench.crowded_clusters [--seeds 4] [--every | --mixed | --packed]
        [--row NAME] [--known SECONDS] [--starts COUNT [--start-seconds SECONDS]]

Points are what the planner compares plans by: the excess left, ten for each node that stays hot, and what the
moves cost. ``--every`` measures fifteen kinds of twenty nodes: crowded ones, some of odd sizes that are
filled by requests, and some that were grown node by node, each at three mean loads. ``--mixed`` measures
clusters of 20 to 40 nodes as companies run them, by which no setting of the planner was chosen. ``--packed``
measures crowded ones and those of 60 nodes whose scheduler has TargetLoadPacking. ``--row`` measures one row
of a table alone.

``--known`` searches for better plans of each cluster at random, for so many seconds of processor time;
``--starts`` by the planner's own search, so many times, with other drafts each time and up to twice as many
rounds, each going on until ``--start-seconds`` have passed. Either adds the points of the best, and the mean
and the greatest of the ratios (points + 1) / (points known + 1).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from bench.best_known import best_known, best_of_starts
from bench.grown_clusters import grown_inputs
from bench.loaded_clusters import loaded_inputs
from bench.mixed_clusters import mixed_inputs
from bench.packed_clusters import packed
from bench.points import points_at, points_left
from bench.random_clusters import NODES, random_inputs
from bench.requested_clusters import bold_policy, limited_policy, requested_inputs
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.planner import Planner
from rebalancer.planning.prepared import PreparedInputs

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


def mixed_clusters(seeds: int) -> Clusters:
    """Mixed ones of 20 to 40 nodes, by name."""
    inputs_of = partial(mixed_inputs, policy=limited_policy())
    return {
        f"mixed, limited, {load} %": [partial(inputs_of, seed, load / 100) for seed in range(seeds)]
        for load in LOADS
    }


def usual_kinds(seeds: int) -> Clusters:
    """Those by which a change of the search is judged, by name."""
    grown = partial(grown_inputs, mean_load=0.65, nodes=NODES, policy=limited_policy())
    return {
        **crowded_clusters(seeds),
        "grown, limited, 65 %": [partial(grown, seed) for seed in range(seeds)],
        "60 nodes": [partial(loaded_inputs, seed) for seed in LOADED],
    }


def packed_clusters(seeds: int) -> Clusters:
    """Those whose scheduler packs nodes by their measured load, by name."""
    clusters = dict(crowded_clusters(seeds))
    clusters["60 nodes"] = [partial(loaded_inputs, seed) for seed in LOADED]
    return {f"packed {name}": [_packed(inputs) for inputs in of_kind] for name, of_kind in clusters.items()}


def _packed(inputs: Inputs) -> Inputs:
    return lambda: packed(inputs())


@dataclass(frozen=True)
class PlanFigures:
    """What a plan makes of its cluster."""

    before: float  # points, as all below
    points: float
    searched: float  # of the best plan that the random search found; those of the plan where it did not run
    excess: float
    hot_before: int  # nodes
    hot: int  # nodes that were hot and still are
    moves: int
    seconds: float  # of processor time

    @property
    def ratio(self) -> float:
        """How many more points are left than by the random search; below 1.0 where fewer are."""
        return (self.points + 1.0) / (self.searched + 1.0)


def plan_figures(
    inputs: PlanningInputs, known_seconds: float, search: Callable[[PreparedInputs], float] | None = None
) -> PlanFigures:
    """One cluster, and other plans of it: found at random in so many seconds, and by a search.

    The search returns the points of the best plan that it finds. 0 seconds, and None, look for none.
    """
    began = time.process_time()
    planner = Planner(inputs)
    prepared = planner.prepared
    partial_plan = planner.decided
    seconds = time.process_time() - began
    plan = planner.plan()
    before = 0.0
    points = 0.0
    excess = 0.0
    if plan.benefit is not None:
        before = points_at(prepared, prepared.start.mean_percent(), ())
        points = points_left(prepared, partial_plan, plan)
        excess = plan.benefit.excess.after
    searched = points
    if known_seconds and prepared.hotness.hot.any():
        searched = best_known(prepared, known_seconds).points
    if search is not None and prepared.hotness.hot.any():
        searched = min(searched, search(prepared))
    still_above = partial_plan.scenarios.mean_percent() > prepared.hotness.hot_above
    still_hot = prepared.hotness.hot & (prepared.hotness.resources & still_above).any(axis=1)
    return PlanFigures(
        before=before,
        points=points,
        searched=searched,
        excess=excess,
        hot_before=int(prepared.hotness.hot.sum()),
        hot=int(still_hot.sum()),
        moves=len(plan.moves),
        seconds=seconds,
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=4, help="how many clusters of each kind that is drawn")
    parser.add_argument("--known", type=float, default=0.0, help="seconds of random search for each cluster")
    parser.add_argument("--starts", type=int, default=0, help="searches of the planner's own besides")
    parser.add_argument("--start-seconds", type=float, default=0.0, help="that each of these goes on for")
    parser.add_argument("--row", help="the name of the only row that is measured")
    kinds_of = parser.add_mutually_exclusive_group()
    kinds_of.add_argument("--every", action="store_true", help="fifteen kinds of twenty nodes")
    kinds_of.add_argument("--mixed", action="store_true", help="20 to 40 nodes as companies run them")
    kinds_of.add_argument("--packed", action="store_true", help="whose scheduler has TargetLoadPacking")
    options = parser.parse_args()
    kinds = usual_kinds(options.seeds)
    if options.every:
        kinds = every_kind(options.seeds)
    elif options.mixed:
        kinds = mixed_clusters(options.seeds)
    elif options.packed:
        kinds = packed_clusters(options.seeds)
    if options.row is not None:
        if options.row not in kinds:
            parser.error(f"no row {options.row!a}; there are: {', '.join(kinds)}")
        kinds = {options.row: kinds[options.row]}
    search = None
    if options.starts:
        search = partial(best_of_starts, starts=options.starts, seconds=options.start_seconds)
    heading = "clusters               before  points   excess  hot: before  after  moves"
    heading += "  s of processor time a plan"
    if options.known or search:
        heading += "   known  ratio  worst"
    print(heading)
    for name, of_kind in kinds.items():
        figures = [plan_figures(inputs_of(), options.known, search) for inputs_of in of_kind]
        row = (
            f"{name:21s} {sum(plan.before for plan in figures):7.0f} "
            f"{sum(plan.points for plan in figures):7.0f} {sum(plan.excess for plan in figures):8.0f} "
            f"{sum(plan.hot_before for plan in figures):12d} {sum(plan.hot for plan in figures):6d} "
            f"{sum(plan.moves for plan in figures):6d} {np.mean([plan.seconds for plan in figures]):28.2f}"
        )
        if options.known or search:
            ratios = [plan.ratio for plan in figures]
            row += f" {sum(plan.searched for plan in figures):7.0f} {np.mean(ratios):6.2f} {max(ratios):6.2f}"
        print(row, flush=True)


if __name__ == "__main__":
    main()
