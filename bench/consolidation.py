"""How many nodes ``consolidation`` empties, beside the most that any planner could, on small clusters.

python -m bench.consolidation [--clusters 60] [--seed 0] [--from DUMP [--scheduler-config FILE]]

A mixed-integer program chooses which nodes are emptied and where each of their pods lands, among the landings
that filters and the strategy admit, by requests and levels of load. That is a bound, for a pod lands where
the scheduler puts it, and not where that would be good. What can be reached with its landings is found by
trying all sets of nodes, each in some orders. Both count the same nodes and the same landings as admissible.

Needs scipy (the extra ``bench``); ``make quality`` runs it.
"""

from __future__ import annotations

import argparse
import itertools
import time
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_matrix

from bench.emptying_clusters import HOT, MAX_REQUESTED, PACKING, policy, random_cluster
from rebalancer.cluster.arrays import NodeRow, PodRow
from rebalancer.observe.plan_options import PlanOptions
from rebalancer.planning.builder import PartialPlan, PlanBuilder
from rebalancer.planning.planner import Planner
from rebalancer.planning.prepared import PreparedInputs, prepare
from rebalancer.planning.strategies import strategies_of
from rebalancer.planning.strategies.consolidation import Consolidation
from rebalancer.run.plan import planner_of
from rebalancer.scheduling.registry import default_configuration, load_configuration

_ORDERS, _MAX_SETS = 2, 100  # of each set of nodes; of each size
_SECONDS = 20.0


def most_emptied(prepared: PreparedInputs, strategy: Consolidation) -> tuple[int, bool]:
    """The most nodes that can be emptied if landings could be chosen, and whether that is proven."""
    state = prepared.schedulers.state
    leaving = {NodeRow(node): pods for node, (_, pods) in strategy.nodes.candidates.items()}
    empty = {*np.flatnonzero(strategy.nodes.empty).tolist()}
    count = len(prepared.nodes)
    column = {node: at for at, node in enumerate(leaving)}
    pods = [(pod, node) for node, found in leaving.items() for pod in found]
    terms: list[tuple[int, int, float]] = []
    upper: list[float] = []

    def add(row: list[tuple[int, float]], most: float) -> None:
        terms.extend((len(upper), at, value) for at, value in row)
        upper.append(most)

    lands: dict[tuple[PodRow, int], int] = {}
    for pod, node in pods:
        kind = prepared.candidate(pod).replacement
        mask = prepared.schedulers.scheduler(kind).feasible(_emptied_state(prepared), kind)
        options = [at for at in np.flatnonzero(mask).tolist() if at != node and at not in empty]
        row = []
        for target in options:
            at = lands[pod, target] = len(column) + len(lands)
            row.append((at, 1.0))
            if target in column:  # what is emptied takes no pods
                add([(at, 1.0), (column[NodeRow(target)], 1.0)], 1.0)
        add([*row, (column[node], -1.0)], 0.0)
        add([*((at, -1.0) for at, _ in row), (column[node], 1.0)], 0.0)
    classes = state.classes
    requests = {
        pod: classes.vector(classes.requests[prepared.candidate(pod).replacement].incoming) for pod, _ in pods
    }
    load = prepared.inputs.load
    for target in range(count):
        arriving = [(pod, at) for (pod, node), at in lands.items() if node == target]
        for resource in (0, 1):
            room = (
                classes.allocatable[target, resource] * MAX_REQUESTED / 100
                - state.requested[target, resource]
            )
            add(
                [(at, float(requests[pod][resource]) / 1e3 ** (resource + 1)) for pod, at in arriving],
                float(room) / 1e3 ** (resource + 1),
            )
            hot = load.allocatable[target, resource] * HOT / 100 - load.usage[target, resource]
            add(
                [(at, float(load.pod_usage[pod][resource]) / 1e3 ** (resource + 1)) for pod, at in arriving],
                float(hot) / 1e3 ** (resource + 1),
            )
    add([(at, 1.0) for at in column.values()], count - len(empty) - 1.0)
    columns = len(column) + len(lands)
    if not column:
        return 0, True
    rows, places, values = zip(*terms, strict=True)
    matrix = coo_matrix((values, (rows, places)), shape=(len(upper), columns)).tocsr()
    gain = np.zeros(columns)
    gain[: len(column)] = -1.0
    solved = milp(
        gain,
        constraints=LinearConstraint(matrix, ub=np.array(upper)),
        integrality=np.ones(columns),
        bounds=Bounds(0, 1),
        options={"time_limit": _SECONDS},
    )
    return (0 if solved.x is None else round(-solved.fun)), solved.status == 0


def _emptied_state(prepared: PreparedInputs) -> Any:
    """The cluster without pods: what filters admit there, they admit wherever there is room."""
    state = prepared.schedulers.state.copy()
    for row in range(len(prepared.pods)):
        if state.node[row] >= 0:
            state.remove(row)
    return state


def most_reached(
    prepared: PreparedInputs, strategy: Consolidation, found: int, bound: int, *, closes: bool
) -> int:
    """The most nodes of any set, in any of some orders of them and of their pods, that are emptied.

    It shares with the search of the strategy what makes a plan valid; sets above the bound need no trying.
    """
    random = np.random.default_rng(0)
    so_far = PartialPlan(PlanBuilder(prepared, (strategy,)), {})
    movable = {node: pods for node, (_, pods) in strategy.nodes.candidates.items()}
    strategy.closing = closes
    for size in range(min(bound, len(movable)), found, -1):
        for chosen in itertools.islice(itertools.combinations(movable, size), _MAX_SETS):
            for number in range(_ORDERS):
                for node in chosen:
                    pods = movable[node]
                    order = random.permutation(len(pods)) if number else range(len(pods))
                    strategy.nodes.candidates[node] = 1.0, [pods[at] for at in order]
                strategy.order = tuple(chosen[at] for at in random.permutation(size))
                strategy.moved_in_groups(so_far, strategy.node_by_node)
                if len(strategy.emptying) == size:
                    return size
    return found


def small_clusters(count: int, first_seed: int) -> None:
    """Each cluster with a scheduler that prefers empty nodes and a taint, and with one that fills nodes."""
    kinds = [
        ("LeastAllocated, taint", default_configuration(), {"taintFor": "30m"}),
        ("MostAllocated, taint", load_configuration(PACKING, "packing"), {"taintFor": "30m"}),
        ("MostAllocated", load_configuration(PACKING, "packing"), {}),
    ]
    print("scheduler               clusters  emptied  reachable  share  bound  share  proven  s a plan")
    for name, configuration, settings in kinds:
        totals = np.zeros(4)
        proven = 0
        seconds = 0.0
        for seed in range(first_seed, first_seed + count):
            inputs = random_cluster(seed, configuration, None, **settings)
            began = time.process_time()
            plan = Planner(inputs).plan()
            seconds += time.process_time() - began
            prepared = prepare(inputs)
            strategy = next(item for item in strategies_of(prepared) if isinstance(item, Consolidation))
            found = int(plan.strategies["consolidation"].figures["emptied"])
            most, is_proven = most_emptied(prepared, strategy)
            reached = most_reached(prepared, strategy, found, most, closes=bool(settings))
            totals += found, reached, most, 0
            proven += is_proven
        emptied, reachable, bound, _ = totals
        print(
            f"{name:22s} {count:9d} {emptied:8.0f} {reachable:10.0f} {emptied / max(reachable, 1):6.3f} "
            f"{bound:6.0f} {emptied / max(bound, 1):6.3f} {proven:7d} {seconds / count:9.2f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clusters", type=int, default=60, help="how many random clusters")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--from", dest="source", type=Path, help="a recorded cluster")
    parser.add_argument("--scheduler-config", type=Path)
    given = parser.parse_args()
    if given.clusters:
        small_clusters(given.clusters, given.seed)
    if given.source:
        recorded_cluster(given.source, given.scheduler_config)


def recorded_cluster(path: Path, scheduler: Path | None) -> None:
    """What is emptied at once, with and without a taint, and the bound by requests."""
    inputs = planner_of(PlanOptions(source=path, scheduler_config=scheduler)).inputs
    for name, settings in (("no taint", {}), ("taint", {"taintFor": "30m"})):
        began = time.process_time()
        plan = Planner(replace(inputs, policy=policy({}, **settings))).plan()
        took = time.process_time() - began
        print(f"\n{path.name}, {name}: {took:.1f} s, {len(plan.moves)} moves")
        print(plan.strategies["consolidation"].message)


if __name__ == "__main__":
    main()
