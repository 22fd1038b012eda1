"""How good plans are: against exact optima on random clusters, and against others on a recorded one.

python -m bench.quality [--clusters 60] [--loads 50,65,75] [--from DUMP --policy FILE] [--seed 0]

Needs scipy (the extra ``bench``); the program itself does without. ``make quality DUMP=PATH`` brings it.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.baselines import Result, at_random, landed, low_node_utilization, result
from bench.optimum import (
    Optimum,
    Relief,
    departures_alone,
    departures_and_landings,
    least_excess,
    problem_of,
)
from bench.random_clusters import NODES, random_inputs
from bench.reachable import reached
from rebalancer.observe.plan_options import PlanOptions
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.plan import Plan
from rebalancer.planning.planner import search
from rebalancer.planning.prepared import PreparedInputs, prepare
from rebalancer.planning.report import build_plan
from rebalancer.run.plan import plan_inputs
from rebalancer.simulation.cycles import NOWHERE, SimulatedExecution

_FEW_NODES, _ALL_SEQUENCES = 4, 400  # so small that mostly every sequence of moves can be tried


@dataclass(frozen=True, slots=True)
class Compared:
    """A plan beside the optimum of its cluster."""

    name: str
    hot: int
    before: float  # peak
    planned: int
    carried_out: Result
    uncooled: int  # hot nodes that the plan leaves above their coolTo
    optimum: Optimum
    alone: Optimum
    placements: int
    seconds: float


def carry_out(prepared: PreparedInputs, plan: Plan, random: np.random.Generator) -> Result:
    """The plan landed as the model draws it."""
    execution = SimulatedExecution(prepared, random)
    load = prepared.inputs.load
    usage = load.usage[:, :2].copy()
    count = load.pod_count.copy()
    pending = back = evictions = 0
    for item in execution.carry_out(plan):
        source = prepared.inputs.snapshot.nodes.row[item.move.from_node]
        evictions += 1
        usage[source] -= load.pod_usage[item.row][:2]
        count[source] -= 1
        if item.node == NOWHERE:
            pending += 1
            continue
        usage[item.node] += load.pod_usage[item.row][:2]
        count[item.node] += 1
        back += item.node == source
    amounts = np.column_stack([usage, count])
    percent = 100.0 * amounts / np.maximum(load.allocatable[:, :3], 1e-9)
    return result(prepared, percent, evictions, pending, back)


def compare(name: str, inputs: PlanningInputs) -> Compared:
    """One cluster."""
    began = time.perf_counter()
    prepared = prepare(inputs)
    problem = problem_of(prepared)
    found = search(prepared)
    plan = build_plan(prepared, found)
    seconds = time.perf_counter() - began
    return Compared(
        name=name,
        hot=plan.hot_count,
        before=float(np.nanmax(inputs.load.percent[:, 0])),
        planned=len(plan.moves),
        carried_out=carry_out(prepared, plan, np.random.default_rng(0)),
        uncooled=len(plan.unsolved),
        optimum=departures_and_landings(prepared, problem),
        alone=departures_alone(prepared, problem),
        placements=found.placements,
        seconds=seconds,
    )


def random_clusters(count: int, first_seed: int) -> list[Compared]:
    """Part (a)."""
    found: list[Compared] = []
    print("cluster    hot  plan  optimum  alone  left: plan optimum  peak before after")
    seed = first_seed
    while len(found) < count:
        inputs = random_inputs(seed)
        seed += 1
        if not prepare(inputs).hotness.hot.any():
            continue  # nothing to plan, nothing to compare
        item = compare(inputs.snapshot.source, inputs)
        found.append(item)
        flag = "" if item.optimum.proven else " (not proven)"
        flag += (
            "  <" if item.planned != item.optimum.departures or item.uncooled > item.optimum.uncooled else ""
        )
        print(
            f"{item.name:10s} {item.hot:3d} {item.planned:5d} {item.optimum.departures:8d} "
            f"{item.alone.departures:6d} {item.uncooled:11d} {item.optimum.uncooled:7d} "
            f"{item.before:12.1f} {item.carried_out.peak:5.1f}{flag}"
        )
    return found


def summary(found: list[Compared]) -> None:
    """The figures of the issue."""
    alike = [item for item in found if item.uncooled == item.optimum.uncooled]
    ratios = [item.planned / item.optimum.departures for item in alike if item.optimum.departures]
    above = [item.planned - item.optimum.departures for item in found]
    hotter = [item.name for item in found if item.carried_out.peak > item.before + 1e-6]
    worse = [item for item in found if item.uncooled > item.optimum.uncooled]
    better = [item for item in found if item.uncooled < item.optimum.uncooled]
    print(
        f"\n{len(found)} clusters: {sum(item.planned for item in found)} evictions planned, optimum "
        f"{sum(item.optimum.departures for item in found)}, ignoring landings "
        f"{sum(item.alone.departures for item in found)}"
    )
    if ratios:
        print(f"where both leave as many nodes above coolTo ({len(alike)}): mean ratio {np.mean(ratios):.3f}")
    print(f"most above the optimum: {max(above)}; least: {min(above)}")
    left, least = sum(item.uncooled for item in found), sum(item.optimum.uncooled for item in found)
    print(f"nodes left above coolTo: plan {left}, optimum {least}; ", end="")
    print(f"plan leaves more in {len(worse)}, fewer in {len(better)}")
    print(
        f"hotter than before: {len(hotter)}; newly hot nodes: {sum(i.carried_out.newly_hot for i in found)}"
    )
    print(f"Pending: {sum(i.carried_out.pending for i in found)}; ", end="")
    print(f"most placements {max(i.placements for i in found)}")


@dataclass(frozen=True, slots=True)
class Relieved:
    """A plan of a busy cluster beside the most relief that there could be."""

    moves: int
    before: float  # points of excess
    left: float
    known: Relief  # the least excess that as many moves are known to reach, landings as the scheduler decides
    known_fewest: Relief  # the fewest moves that are known to reach as little
    least: float  # with as many moves at best, if landings could be chosen
    peak_before: float
    peak_after: float
    placements: int


def relieved(inputs: PlanningInputs, width: int) -> Relieved:
    """One cluster."""
    prepared = prepare(inputs)
    problem, found = problem_of(prepared), search(prepared)
    benefit = build_plan(prepared, found).benefit
    assert benefit is not None
    left, moves = benefit.excess.after, len(found.moves)
    reachable = reached(prepared, width)
    return Relieved(
        moves=moves,
        before=benefit.excess.before,
        left=left,
        known=reachable.with_moves(moves),
        known_fewest=reachable.down_to(left + 0.01),
        least=least_excess(prepared, problem, moves).excess,
        peak_before=benefit.peak["cpu"].before,
        peak_after=benefit.peak["cpu"].after,
        placements=found.placements,
    )


def busy_clusters(count: int, first_seed: int, loads: list[int], nodes: int, width: int) -> None:
    """Part (c): the excess left and the moves made, against the best known and the bound, by mean load."""
    print(f"\nclusters of {nodes} nodes; the best of {width} sequences of each length, landings as scheduled")
    print(
        "load  clusters  moves  known  ratio  excess: before    left   known  ratio   bound  peak up  placed"
    )
    for load in loads:
        found: list[Relieved] = []
        seed = first_seed
        while len(found) < count:
            inputs = random_inputs(seed, load / 100, nodes)
            seed += 1
            if prepare(inputs).hotness.hot.any():
                found.append(relieved(inputs, width))
        fewer = float(np.mean([(item.moves + 1) / (item.known_fewest.moves + 1) for item in found]))
        less = float(np.mean([(item.left + 1) / (item.known.excess + 1) for item in found]))
        exact = sum(item.known.proven for item in found)
        print(
            f"{load:3d} % {len(found):9d} {sum(item.moves for item in found):6d} "
            f"{sum(item.known_fewest.moves for item in found):6d} {fewer:6.3f} "
            f"{sum(item.before for item in found):15.1f} {sum(item.left for item in found):7.1f} "
            f"{sum(item.known.excess for item in found):7.1f} {less:6.3f} "
            f"{np.nansum([item.least for item in found]):7.1f} "
            f"{sum(item.peak_after > item.peak_before + 1e-6 for item in found):8d} "
            f"{max(item.placements for item in found):6d}  ({exact} proven)"
        )
    print("ratios: means over clusters of (moves + 1) / (known + 1), (points left + 1) / (known + 1)")
    print("bound: by a mixed-integer program that chooses landings itself, which no planner can")


def recorded_cluster(path: Path, policy: Path | None, scheduler: Path | None, seed: int) -> None:
    """Part (b)."""
    options = PlanOptions(policy_path=policy, source=path, scheduler_config=scheduler)
    inputs = plan_inputs(options)
    began = time.perf_counter()
    prepared = prepare(inputs)
    found = search(prepared)
    plan = build_plan(prepared, found)
    seconds = time.perf_counter() - began
    alone = departures_alone(prepared, problem_of(prepared))
    before = result(prepared, inputs.load.percent, 0, 0, 0)
    print(f"\n{path}: {plan.node_count} nodes, {plan.hot_count} hot; planned in {seconds:.2f} s, ", end="")
    print(f"{found.placements} placements, {max((m.wave for m in plan.moves), default=0)} waves")
    print(f"bound: {alone.departures} departures cool {plan.hot_count - alone.uncooled} of them at best\n")
    print("                             evictions   hot  newly  Pending  back    peak  deviation")
    rows = [
        ("before", before),
        ("this plan", carry_out(prepared, plan, np.random.default_rng(seed))),
        (
            "random eviction",
            landed(prepared, at_random(prepared, np.random.default_rng(seed)), np.random.default_rng(seed)),
        ),
    ]
    for name, by_requests in (
        ("LowNodeUtilization, requests", True),
        ("LowNodeUtilization, measured", False),
    ):
        chosen = low_node_utilization(prepared, by_requests=by_requests)
        rows.append((name, landed(prepared, chosen, np.random.default_rng(seed))))
    for name, item in rows:
        print(
            f"{name:28s} {item.evictions:9d} {item.hot:5d} {item.newly_hot:6d} {item.pending:8d} "
            f"{item.straight_back:5d} {item.peak:7.1f} {item.deviation:10.2f}"
        )
    for name, why in plan.unsolved.items():
        print(f"left: {name}: {why}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clusters", type=int, default=60, help="how many random clusters")
    parser.add_argument("--busy", type=int, default=12, help="how many busy clusters of each mean load")
    parser.add_argument("--loads", default="50,65,75", help="mean loads of busy clusters, percent")
    parser.add_argument("--width", type=int, default=12, help="sequences of moves the reference follows")
    parser.add_argument("--from", dest="source", type=Path, help="a recorded cluster")
    parser.add_argument("--policy", type=Path, help="the policy for the recorded cluster")
    parser.add_argument("--scheduler-config", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if given.clusters:
        summary(random_clusters(given.clusters, given.seed))
    if given.busy:
        loads = [int(load) for load in given.loads.split(",")]
        busy_clusters(given.busy, given.seed, loads, _FEW_NODES, _ALL_SEQUENCES)
        busy_clusters(given.busy, given.seed, loads, NODES, given.width)
    if given.source:
        recorded_cluster(given.source, given.policy, given.scheduler_config, given.seed)


if __name__ == "__main__":
    main()
