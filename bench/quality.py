"""How good plans are: against exact optima on random clusters, and against others on a recorded one.

python -m bench.quality [--clusters 60] [--busy 20] [--loads 55,65,75] [--nodes 10,20] [--seconds 60]
                        [--bounds] [--from DUMP --policy FILE] [--seed 0]

Needs scipy (the extra ``bench``); the program itself does without. ``make quality DUMP=PATH`` brings it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from bench.baselines import Result, at_random, landed, low_node_utilization, result
from bench.best_known import Known, best_known
from bench.grown_clusters import grown_inputs
from bench.optimum import (
    Optimum,
    departures_alone,
    departures_and_landings,
    least_excess,
    problem_of,
)
from bench.points import points_left
from bench.random_clusters import NODES, random_inputs
from bench.requested_clusters import bold_policy, limited_policy, requested_inputs
from rebalancer.observe.plan_options import PlanOptions
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.landing.scenarios import NOWHERE
from rebalancer.planning.plan import Plan
from rebalancer.planning.planner import Planner
from rebalancer.planning.prepared import prepare
from rebalancer.run.plan import planner_of
from rebalancer_lab.simulation.cycles import SimulatedExecution

_ANY_NUMBER = 1 << 20  # of moves


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


def carry_out(planner: Planner, plan: Plan, random: np.random.Generator) -> Result:
    """The plan landed as the model draws it."""
    prepared = planner.prepared
    execution = SimulatedExecution(planner, random)
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
    planner = Planner(inputs)
    prepared = planner.prepared
    problem = problem_of(prepared)
    found = planner.decided
    plan = planner.plan()
    seconds = time.perf_counter() - began
    return Compared(
        name=name,
        hot=plan.hot_count,
        before=float(np.nanmax(inputs.load.percent[:, 0])),
        planned=len(plan.moves),
        carried_out=carry_out(planner, plan, np.random.default_rng(0)),
        uncooled=len(plan.unsolved),
        optimum=departures_and_landings(prepared, problem),
        alone=departures_alone(prepared, problem),
        placements=found.builder.evaluator.placed,
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
    """A plan of a busy cluster beside the best that is known."""

    moves: int
    before: float  # points of excess
    left: float
    points: float  # by which the planner compares plans: excess left, moves, nodes that stay hot
    known: Known  # by a long random search, landings as the scheduler decides
    bound: float  # if landings could be chosen
    with_chains: float  # and if pods of cool nodes made room
    seconds: float  # of processor time

    @property
    def ratio(self) -> float:
        """How much more excess is left than is known to be reachable; 1.0 where as little is."""
        return (self.left + 1.0) / (min(self.known.excess, self.left) + 1.0)

    @property
    def worth(self) -> float:
        """The same of the points that the planner compares plans by."""
        return (self.points + 1.0) / (min(self.known.points, self.points) + 1.0)


def relieved(inputs: PlanningInputs, seconds: float, *, bounds: bool) -> Relieved:
    """One cluster; the bounds take long where there are many nodes."""
    began = time.process_time()
    planner = Planner(inputs)
    prepared = planner.prepared
    found = planner.decided
    took = time.process_time() - began
    plan = planner.plan()
    benefit = plan.benefit
    assert benefit is not None
    alone, chains = (
        least_excess(prepared, problem_of(prepared, chains=chains), _ANY_NUMBER).excess
        if bounds and benefit.excess.after
        else (np.nan if benefit.excess.after else 0.0)
        for chains in (False, True)
    )
    return Relieved(
        moves=len(found.moves),
        before=benefit.excess.before,
        left=benefit.excess.after,
        points=points_left(prepared, found, plan),
        known=best_known(prepared, seconds),
        bound=alone,
        with_chains=chains,
        seconds=took,
    )


def _kinds(nodes: int) -> dict[str, Callable[[int, float], PlanningInputs]]:
    """The generators, each with its kinds, by name: seed and mean load to a cluster."""
    return {
        "crowded": lambda seed, load: random_inputs(seed, load, nodes),
        **{
            f"requested, {'odd' if odd else 'even'}, {name}": partial(
                requested_inputs, nodes=nodes, odd=odd, policy=policy()
            )
            for odd in (False, True)
            for name, policy in (("bold", bold_policy), ("limited", limited_policy))
        },
        # Kept out of tuning: no setting of the planner was chosen by these.
        "grown, bold": partial(grown_inputs, nodes=nodes, policy=bold_policy()),
        "grown, limited": partial(grown_inputs, nodes=nodes, policy=limited_policy()),
    }


def busy_clusters(
    count: int, first_seed: int, loads: list[int], nodes: int, seconds: float, *, bounds: bool
) -> None:
    """Part (c): the excess left and the moves made, against the best known and the bounds, by mean load."""
    print(f"\nclusters of {nodes} nodes; best known: ", end="")
    print(f"{seconds:g} s of random search for each, or the plan")
    print(
        "generator                 load  clusters  excess: before    left   known  ratio  worst  worth"
        "   bound  chains  moves  known  ratio  s a plan   most"
    )
    for name, inputs_of in _kinds(nodes).items():
        for load in loads:
            found: list[Relieved] = []
            seed = first_seed
            while len(found) < count:
                inputs = inputs_of(seed, load / 100)
                seed += 1
                if prepare(inputs).hotness.hot.any():
                    found.append(relieved(inputs, seconds, bounds=bounds))
            alike = [item for item in found if item.known.excess >= item.left - 0.01]
            more = [(item.moves + 1) / (item.known.moves + 1) for item in alike]
            ratios, seconds_each = [item.ratio for item in found], [item.seconds for item in found]
            print(
                f"{name:25s} {load:3d} % {len(found):9d} {sum(item.before for item in found):15.1f} "
                f"{sum(item.left for item in found):7.1f} "
                f"{sum(min(item.known.excess, item.left) for item in found):7.1f} "
                f"{np.mean(ratios):6.3f} {max(ratios):6.2f} {np.mean([item.worth for item in found]):6.3f} "
                f"{sum(item.bound for item in found):7.1f} {sum(item.with_chains for item in found):7.1f} "
                f"{sum(item.moves for item in found):6d} {sum(item.known.moves for item in found):6d} "
                f"{np.mean(more) if more else 1.0:6.3f} "
                f"{np.mean(seconds_each):9.2f} {max(seconds_each):6.2f}",
                flush=True,
            )
    print(
        "ratios: means over clusters of (points left + 1) / (known + 1); of (moves + 1) / (known + 1) where"
    )
    print(
        "the plan leaves as little. worth: the same ratio of the points that plans are compared by: excess,"
    )
    print("the least relief for each unit of what the moves cost, and ten for each node that stays hot.")
    print("bound: by a mixed-integer program that chooses landings itself, which no")
    print("planner can; chains: that moves pods of cool nodes too")


def recorded_cluster(path: Path, policy: Path | None, scheduler: Path | None, seed: int) -> None:
    """Part (b)."""
    options = PlanOptions(policy_path=policy, source=path, scheduler_config=scheduler)
    planner = planner_of(options)
    inputs = planner.inputs
    began = time.perf_counter()
    prepared = planner.prepared
    found = planner.decided
    plan = planner.plan()
    seconds = time.perf_counter() - began
    alone = departures_alone(prepared, problem_of(prepared))
    before = result(prepared, inputs.load.percent, 0, 0, 0)
    print(f"\n{path}: {plan.node_count} nodes, {plan.hot_count} hot; planned in {seconds:.2f} s, ", end="")
    computed, waves = (
        found.builder.evaluator.placed,
        max((m.wave for m in plan.moves), default=0),
    )
    print(f"{computed} placements, {waves} waves")
    print(f"bound: {alone.departures} departures cool {plan.hot_count - alone.uncooled} of them at best\n")
    print("                             evictions   hot  newly  Pending  back    peak  deviation")
    rows = [
        ("before", before),
        ("this plan", carry_out(planner, plan, np.random.default_rng(seed))),
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
    parser.add_argument("--busy", type=int, default=20, help="how many busy clusters of each kind")
    parser.add_argument("--loads", default="55,65,75", help="mean loads of busy clusters, percent")
    parser.add_argument("--nodes", default=f"10,{NODES}", help="sizes of busy clusters")
    parser.add_argument("--seconds", type=float, default=60.0, help="of random search for the best known")
    parser.add_argument("--bounds", action="store_true", help="with bounds, which take long")
    parser.add_argument("--from", dest="source", type=Path, help="a recorded cluster")
    parser.add_argument("--policy", type=Path, help="the policy for the recorded cluster")
    parser.add_argument("--scheduler-config", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if given.clusters:
        summary(random_clusters(given.clusters, given.seed))
    if given.busy:
        loads = [int(load) for load in given.loads.split(",")]
        for nodes in map(int, given.nodes.split(",")):
            busy_clusters(given.busy, given.seed, loads, nodes, given.seconds, bounds=given.bounds)
    if given.source:
        recorded_cluster(given.source, given.policy, given.scheduler_config, given.seed)


if __name__ == "__main__":
    main()
