"""What ``planning.aggressiveness`` changes: moves, what they cost, and what is left, at each level.

    python -m bench.dial [--clusters 6] [--from DUMP [--policy FILE]]

Each row is a kind of cluster at a level; its figures are sums over so many clusters of that kind, since what
the search finds on a single one is chance to some points of excess. No limit of a run binds there:

    cluster           level  hot  moves   cost  excess left  hot left  least  s
    crowded, 65 %         1   78    107  128.4       1315.0        20    2.8  9.1

    cost    1 for each eviction, and what makes it worse
    excess  points above coolTo on the hot nodes; those above a threshold count twice, above 100 % four times
    least   the fewest points above coolTo that a move takes away for each unit of its cost
    s       of processor time
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from bench.loaded_clusters import loaded_inputs
from bench.random_clusters import NODES, random_inputs
from rebalancer.observe.plan_options import PlanOptions
from rebalancer.planning.inputs import PlannerOptions, PlanningInputs
from rebalancer.planning.planner import Planner
from rebalancer.policy.schema import LEVELS, SET_BY_LEVEL, RebalancePolicy
from rebalancer.run.plan import planner_of

_FIRST_LOADED = 101  # the first seed of the clusters of 60 nodes
# Limits of a run that are out of the way.
_UNLIMITED = {"per_run": 10_000, "per_node": 10_000, "per_namespace": 10_000}


@dataclass(frozen=True)
class AtLevel:
    """What a plan at a level comes to."""

    hot: int
    moves: int
    cost: float
    excess: float  # points left
    hot_left: int
    least: float  # points above coolTo that a move takes away for each unit of its cost; inf without moves


def at_level(policy: RebalancePolicy, number: int) -> RebalancePolicy:
    """The policy with another level, with what that level stands for, and without limits of a run."""
    level = LEVELS[number]
    values = {name: getattr(level, name) for name in SET_BY_LEVEL}
    planning = policy.planning.model_copy(update={"aggressiveness": number, **values})
    limits = policy.limits.model_copy(update=_UNLIMITED)
    return policy.model_copy(update={"planning": planning, "limits": limits})


def planned_at(inputs: PlanningInputs, number: int) -> AtLevel:
    """What the plan at a level comes to."""
    options = PlannerOptions(explains=False)
    planner = Planner(replace(inputs, policy=at_level(inputs.policy, number)), options=options)
    plan = planner.plan()
    benefit = plan.benefit
    assert benefit is not None  # every policy here has rules of hot nodes
    return AtLevel(
        hot=plan.hot_count or 0,
        moves=len(plan.moves),
        cost=benefit.cost,
        excess=benefit.excess.after,
        hot_left=int(benefit.hot_nodes.after),
        least=min(relief_by_cost(planner), default=np.inf),
    )


def relief_by_cost(planner: Planner) -> Sequence[float]:
    """By move that relieves a node: the points above coolTo that it takes away, for each unit of its cost.

    A pod that makes room for another one on a cool node relieves none.
    """
    prepared = planner.prepared
    reliefs = []
    for move in planner.decided.moves:
        candidate = move.candidate
        if candidate.wish.makes_room_for is not None:
            continue
        above = prepared.hotness.above(candidate.source, move.before)
        points = float(np.minimum(np.nan_to_num(candidate.points), above).sum())
        cost = 1.0 + float(prepared.disruption.costs([candidate.row])[0])
        reliefs.append(points / cost)
    return reliefs


def clusters(options: argparse.Namespace) -> Mapping[str, Sequence[Callable[[], PlanningInputs]]]:
    """What is planned, by the name of its kind."""
    count = options.clusters
    chosen: dict[str, Sequence[Callable[[], PlanningInputs]]] = {
        "crowded, 65 %": [partial(random_inputs, seed, 0.65, NODES) for seed in range(count)],
        "crowded, 75 %": [partial(random_inputs, seed, 0.75, NODES) for seed in range(count)],
        "60 nodes": [partial(loaded_inputs, _FIRST_LOADED + number) for number in range(count)],
    }
    if options.source is not None:
        recorded = PlanOptions(policy_path=options.policy, source=options.source)
        chosen[options.source.name] = [lambda: planner_of(recorded).inputs]
    return chosen


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clusters", type=int, default=6, help="how many of each kind")
    parser.add_argument("--from", dest="source", type=Path, help="a recorded cluster, beside the others")
    parser.add_argument("--policy", type=Path, help="the policy for the recorded cluster")
    options = parser.parse_args()
    print("cluster           level  hot  moves   cost  excess left  hot left  least      s")
    for name, of_kind in clusters(options).items():
        inputs = [make() for make in of_kind]
        for number in LEVELS:
            began = time.process_time()
            plans = [planned_at(of_one, number) for of_one in inputs]
            print(
                f"{name:17s} {number:5d} {sum(plan.hot for plan in plans):4d} "
                f"{sum(plan.moves for plan in plans):6d} {sum(plan.cost for plan in plans):6.1f} "
                f"{sum(plan.excess for plan in plans):12.1f} {sum(plan.hot_left for plan in plans):9d} "
                f"{min(plan.least for plan in plans):6.2f} {time.process_time() - began:6.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
