"""Many runs that empty nodes, while pods come and go: whether any pod moves too often, or a node fills again.

python -m bench.emptying_cycles [--cycles 50] [--clusters 5] [--churn 0.03] [--seed 0] [--all]

Between two runs some pods end, and the scheduler places those that take their place: one that fills nodes, so
what fills an emptied node again is either a lack of room elsewhere, or a mistake of ours.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np

from bench.emptying_clusters import EVERY_OTHER, PACKING, random_cluster
from rebalancer.cluster.arrays import PodRow
from rebalancer.planning.inputs import PlannerOptions, PlanningInputs
from rebalancer.planning.landing.scenarios import NOWHERE, LandingDraws
from rebalancer.planning.planner import Planner
from rebalancer.scheduling.registry import load_configuration
from rebalancer.state.run_state import MoveHistory, PastMove, RunState, after_moves, memory_seconds
from rebalancer_lab.simulation.cycles import SimulatedExecution, is_again
from rebalancer_lab.simulation.world import LoadShape, SimulatedCluster

_INTERVAL_SECONDS = 600.0


@dataclass
class Cycles:
    """What became of a cluster."""

    emptied: int = 0  # nodes, each as often as it was emptied
    moves: int = 0
    again: int = 0  # moves of a workload inside its cooldown
    landed_on_emptied: int = 0  # moves that filled a node which was emptied before
    emptied_again: int = 0  # nodes that were emptied once more within a day
    refilled: int = 0  # emptied nodes on which the scheduler put pods that came by themselves
    in_use: tuple[int, int] = (0, 0)  # nodes before and after
    last: int = 0  # the cycle of the last move


def run_cycles(inputs: PlanningInputs, cycles: int, churn: float, seed: int) -> Cycles:
    """So many runs, ten minutes apart; between two of them this share of the pods is replaced."""
    cluster = SimulatedCluster(inputs, LoadShape(), np.random.default_rng((seed, 0)))
    random = np.random.default_rng((seed, 1))
    draws = LandingDraws(random)
    state, found, made = RunState(), Cycles(), list[PastMove]()
    emptied_at: dict[int, float] = {}
    before = len(set(cluster.node[cluster.node >= 0].tolist()))
    for number in range(cycles):
        now = cluster.inputs(state)
        planner = Planner(now, options=PlannerOptions(explains=False))
        plan = planner.plan()
        execution, history = SimulatedExecution(planner, random, draws), MoveHistory(made)
        for item in execution.carry_out(plan):
            found.moves, found.last = found.moves + 1, number + 1
            found.again += is_again(history, item.move.pod, now)
            found.landed_on_emptied += int(item.node) in emptied_at
            cluster.place(item.row, item.node, item.pod_class)
        for node in {now.snapshot.nodes.row[move.from_node] for move in plan.moves}:
            if not (cluster.node == node).any():
                found.emptied += 1
                found.emptied_again += cluster.now - emptied_at.get(node, -np.inf) < 86_400
                emptied_at[node] = cluster.now
        made += execution.made
        state = after_moves(state, execution.made, cluster.now, memory_seconds(now.policy))
        _churn(cluster, state, churn, draws, random)
        for node in [node for node in emptied_at if (cluster.node == node).any()]:
            found.refilled += 1
            del emptied_at[node]
        cluster.advance(_INTERVAL_SECONDS)
    found.in_use = before, len(set(cluster.node[cluster.node >= 0].tolist()))
    return found


def _churn(
    cluster: SimulatedCluster,
    state: RunState,
    share: float,
    draws: LandingDraws,
    random: np.random.Generator,
) -> None:
    """Replace some of the pods, each where the scheduler puts the next one."""
    prepared = Planner(cluster.inputs(state)).prepared
    model = prepared.schedulers.state.copy()
    for row in np.flatnonzero((random.random(len(prepared.pods)) < share) & (cluster.node >= 0)).tolist():
        kind = prepared.eviction.replacement(PodRow(row)).pod_class
        model.remove(row)
        node = draws.node(prepared.schedulers.scheduler(kind).place(model, kind))
        if node != NOWHERE:
            model.bind(model.add(kind), node)
        cluster.place(row, node, kind)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cycles", type=int, default=50)
    parser.add_argument("--clusters", type=int, default=5)
    parser.add_argument("--churn", type=float, default=0.03, help="share of pods replaced in each cycle")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--all", action="store_true", help="every other strategy as well")
    given = parser.parse_args()
    configuration = load_configuration(PACKING, "packing")
    print("cluster  in use  emptied  moves  in cooldown  onto emptied  emptied again  refilled  last move")
    for seed in range(given.seed, given.seed + given.clusters):
        inputs = random_cluster(seed, configuration, EVERY_OTHER if given.all else None)
        found = run_cycles(inputs, given.cycles, given.churn, seed)
        print(
            f"{seed:7d} {found.in_use[0]:3d} {found.in_use[1]:3d} {found.emptied:8d} {found.moves:6d} "
            f"{found.again:12d} {found.landed_on_emptied:13d} {found.emptied_again:14d} "
            f"{found.refilled:9d} {found.last:10d}",
            flush=True,
        )


if __name__ == "__main__":
    main()
