"""Two hours of runs on crowded clusters under steady load: whether what plans promise is what is left.

    python -m bench.crowded_cycles [--first 0] [--clusters 40] [--cycles 12] [--seed 0] [--cooldown 600]
                                   [--differences]

The clusters are those of ``bench.crowded_clusters``, at three mean loads by turns. A run is made every ten
minutes, as the program makes it: wave by wave, by landings that the model draws, with plans that follow where
moves went otherwise or nodes stay hot, and with the moves of earlier runs remembered.

    load seed | before promised left after | points promised  left after | moves first plans drawn ...
      65    1 |      7        2    2     2 |           112.4 112.4 112.4 |    31    31     2     3

Nodes and points are those of the first run: ``promised`` by its first plan, ``left`` once that is carried
out, and ``after`` the run, which may plan again. All that follows is over all runs:

    moves     evictions, and those of them in the first run
    plans     that were made
    drawn     replacements that may land on several nodes by their plan
    unlisted  replacements that landed on none of the nodes that their plan lists
    skipped   moves that no longer held when it was their turn
    differ    plans of which other nodes or points were left than they promised
    apart     those of them that foresaw no course like the one taken, though nothing was skipped or unlisted
    newly     nodes that a run leaves hot and has not found hot
    again     evictions of a replica that was evicted within the hour before
    back      those of them whose replacement is on the node that was left then
    workload  evictions of a workload that an earlier run moved within that hour
    stopped   runs that ended early, after an unacceptable landing or none

``--cooldown`` leaves workloads alone for so long instead of two hours, and ``--differences`` prints each plan
that differs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace

from bench.crowded_clusters import LOADS
from bench.points import points_at
from bench.random_clusters import NODES, random_inputs
from rebalancer.cluster.arrays import FloatArray
from rebalancer.planning.inputs import PlannerOptions, PlanningInputs
from rebalancer.planning.landing.scenarios import NOWHERE, LandingDraws
from rebalancer.planning.plan import Move
from rebalancer.planning.planner import Planner
from rebalancer.planning.prepared import PreparedInputs
from rebalancer.state.run_state import RunState, after_moves, after_plan, memory_seconds
from rebalancer_lab.simulation.cycles import CarriedOutPlan, SimulatedRun
from rebalancer_lab.simulation.world import LoadShape, SimulatedCluster

_INTERVAL_SECONDS, _SOON_SECONDS = 600.0, 3600.0
# Points or percent by which sums of the same figures differ: runs remember what a pod uses in thousandths of
# a thousandth of a core, and there are many moves.
_ROUNDING = 1e-3


@dataclass(frozen=True)
class KeptPromise:
    """What a plan promised, and what was left once it was carried out."""

    planned: int  # moves
    hot_promised: int  # of the nodes that were hot before the plan
    hot_left: int
    points_promised: float
    points_left: float
    drawn: int  # replacements that may land on several nodes by the plan
    unlisted: int  # replacements that landed where the plan did not list
    skipped: int  # moves that did not hold when it was their turn
    apart: float  # percent of allocatable by which the closest course that the plan foresees is off, at most

    @property
    def differs(self) -> bool:
        """Whether something else is left than was promised, in nodes or in points."""
        return self.hot_left != self.hot_promised or abs(self.points_left - self.points_promised) > _ROUNDING

    @property
    def is_apart(self) -> bool:
        """Whether the plan foresaw no course like the one taken, though every move went as listed."""
        return not self.skipped and not self.unlisted and self.apart > _ROUNDING


@dataclass(frozen=True)
class OneRun:
    """What one run made of a cluster."""

    plans: tuple[KeptPromise, ...]
    moves: int
    hot_before: int
    hot_after: int  # of those
    points_after: float  # on those, with what all moves cost
    newly_hot: int  # nodes that are hot now and were not before
    again: int  # evictions of a replica that was evicted within the hour before
    back: int  # those of them whose replacement is on the node left then
    same_workload: int  # evictions of a workload that an earlier run moved within the hour before
    stopped: bool


@dataclass(frozen=True)
class Eviction:
    """A replica that was evicted; the one that takes its place is the same replica."""

    replica: int  # row of the pod
    workload: str
    from_node: str
    to_node: str  # empty while Pending
    at: float  # seconds

    def nodes_left(self, earlier: Sequence[Eviction]) -> list[str]:
        """The nodes from which the replica was evicted within the hour before."""
        return [
            other.from_node
            for other in earlier
            if other.replica == self.replica and self.at - other.at <= _SOON_SECONDS
        ]

    def repeats_workload(self, earlier: Sequence[Eviction]) -> bool:
        """Whether an earlier run evicted a replica of the workload within the hour before."""
        return any(
            other.workload == self.workload and 0 < self.at - other.at <= _SOON_SECONDS for other in earlier
        )


def kept_promise(carried_out: CarriedOutPlan, percent: FloatArray) -> KeptPromise:
    """What a plan promised beside (nodes, resources) percent, which it has left."""
    prepared = carried_out.planner.prepared
    scenarios = carried_out.planner.decided.scenarios
    promised = scenarios.mean_percent()
    plan = carried_out.plan
    listed = {move.pod.uid: move.landing_nodes for move in plan.moves}
    made = [outcome.move for outcome in carried_out.outcomes]
    to_nodes = [eviction.to_node for eviction in evictions_of(carried_out, prepared.inputs.now)]
    # (scenarios,) the most that a figure of any node differs by in each course.
    differences = np.abs(scenarios.levels() - percent).max(axis=(1, 2))
    return KeptPromise(
        planned=len(plan.moves),
        hot_promised=_still_hot(prepared, promised),
        hot_left=_still_hot(prepared, percent),
        points_promised=points_at(prepared, promised, plan.moves),
        points_left=points_at(prepared, percent, made),
        drawn=sum(len(listed[move.pod.uid]) > 1 for move in made),
        unlisted=sum(node not in listed[move.pod.uid] for move, node in zip(made, to_nodes, strict=True)),
        skipped=carried_out.skipped,
        apart=float(differences.min()),
    )


def _still_hot(prepared: PreparedInputs, percent: FloatArray) -> int:
    """How many of the nodes that were hot before a plan are hot at (nodes, resources) percent."""
    hot = np.flatnonzero(prepared.hotness.hot)
    return int(np.count_nonzero(prepared.hotness.hot_at(hot, percent[hot])))


def evictions_of(carried_out: CarriedOutPlan, now: float) -> list[Eviction]:
    """What was evicted by a plan at a moment."""
    names = carried_out.planner.prepared.nodes.names
    evictions = []
    for outcome in carried_out.outcomes:
        pod = outcome.move.pod
        to_node = "" if outcome.node == NOWHERE else names[outcome.node]
        workload = f"{pod.namespace}/{pod.workload}"
        evictions.append(Eviction(outcome.row, workload, outcome.move.from_node, to_node, now))
    return evictions


def run_cycles(inputs: PlanningInputs, cycles: int, seed: Sequence[int]) -> Iterator[OneRun]:
    """So many runs, one every ten minutes."""
    cluster = SimulatedCluster(inputs, LoadShape(), np.random.default_rng((*seed, 0)))
    random = np.random.default_rng((*seed, 1))
    draws = LandingDraws(random)
    state = RunState()
    earlier: list[Eviction] = []
    for _ in range(cycles):
        planner = Planner(cluster.inputs(state), options=PlannerOptions(explains=False))
        prepared = planner.prepared
        hot = prepared.hotness.hot
        plan = planner.plan()
        run = SimulatedRun(cluster, state, random, draws)
        plans: list[KeptPromise] = []
        made: list[Move] = []
        again = back = same_workload = 0
        for carried_out in run.plan_by_plan(planner, plan):
            plans.append(kept_promise(carried_out, cluster.percent()))
            made += [outcome.move for outcome in carried_out.outcomes]
            for eviction in evictions_of(carried_out, cluster.now):
                nodes_left = eviction.nodes_left(earlier)
                again += bool(nodes_left)
                back += eviction.to_node in nodes_left
                same_workload += eviction.repeats_workload(earlier)
                earlier.append(eviction)
        percent = cluster.percent()
        hot_now = (percent > prepared.hotness.makes_hot).any(axis=1)
        yield OneRun(
            plans=tuple(plans),
            moves=len(made),
            hot_before=int(np.count_nonzero(hot)),
            hot_after=int(np.count_nonzero(hot & hot_now)),
            points_after=points_at(prepared, percent, made),
            newly_hot=int(np.count_nonzero(hot_now & ~hot)),
            again=again,
            back=back,
            same_workload=same_workload,
            stopped=bool(run.stopped),
        )
        spacing = inputs.policy.hot_nodes.run_spacing_seconds
        remembered = after_plan(state, plan.hot_names, cluster.now, spacing)
        state = after_moves(remembered, run.made, cluster.now, memory_seconds(inputs.policy))
        cluster.advance(_INTERVAL_SECONDS)


def crowded_inputs(number: int, cooldown_seconds: float | None = None) -> tuple[int, int, PlanningInputs]:
    """The mean load in percent, the seed and what a plan is made from, of one of many crowded clusters."""
    load = LOADS[number % len(LOADS)]
    seed = number // len(LOADS)
    inputs = random_inputs(seed, load / 100, NODES)
    if cooldown_seconds is not None:
        planning = inputs.policy.planning.model_copy(update={"cooldown": cooldown_seconds})
        inputs = replace(inputs, policy=inputs.policy.model_copy(update={"planning": planning}))
    return load, seed, inputs


def figures_of(runs: Sequence[OneRun]) -> dict[str, float]:
    """What became of a cluster, by the column of the table."""
    first = runs[0]
    first_plan = first.plans[0]
    plans = [plan for run in runs for plan in run.plans]
    return {
        "before": first.hot_before,
        "promised": first_plan.hot_promised,
        "left": first_plan.hot_left,
        "after": first.hot_after,
        "points promised": first_plan.points_promised,
        "points left": first_plan.points_left,
        "points after": first.points_after,
        "moves": sum(run.moves for run in runs),
        "first": first.moves,
        "plans": len(plans),
        "drawn": sum(plan.drawn for plan in plans),
        "unlisted": sum(plan.unlisted for plan in plans),
        "skipped": sum(plan.skipped for plan in plans),
        "differ": sum(plan.differs for plan in plans),
        "apart": sum(plan.is_apart for plan in plans),
        "newly": sum(run.newly_hot for run in runs),
        "again": sum(run.again for run in runs),
        "back": sum(run.back for run in runs),
        "workload": sum(run.same_workload for run in runs),
        "stopped": sum(run.stopped for run in runs),
    }


def row_of(figures: Mapping[str, float]) -> str:
    """A row of the table, each figure as wide as its heading."""
    return " ".join(f"{figure:{max(len(name), 5)}.{_digits(name)}f}" for name, figure in figures.items())


def _digits(column: str) -> int:
    return 1 if column.startswith("points") else 0


def sum_of(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The figures of several clusters together."""
    return {name: sum(figures[name] for figures in rows) for name in rows[0]}


def differences(runs: Sequence[OneRun]) -> Iterator[str]:
    """A line on each plan of which something else is left than it promised."""
    for number, run in enumerate(runs, start=1):
        for place, plan in enumerate(run.plans, start=1):
            if plan.differs:
                yield (
                    f"    run {number}, plan {place} of {plan.planned} moves: "
                    f"hot {plan.hot_promised} promised, {plan.hot_left} left; "
                    f"points {plan.points_promised:.4f} promised, {plan.points_left:.4f} left; "
                    f"{plan.drawn} drawn, {plan.unlisted} unlisted, {plan.skipped} skipped; "
                    f"{plan.apart:.6f} % from the closest course"
                )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--first", type=int, default=0, help="number of the first cluster")
    parser.add_argument("--clusters", type=int, default=40, help="how many")
    parser.add_argument("--cycles", type=int, default=12, help="runs, ten minutes apart")
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn where nodes are alike")
    parser.add_argument("--cooldown", type=float, help="seconds for which a moved workload is left alone")
    parser.add_argument("--differences", action="store_true", help="print each plan that differs")
    options = parser.parse_args()
    rows_by_load: dict[int, list[dict[str, float]]] = {}
    began = time.process_time()
    for number in range(options.first, options.first + options.clusters):
        load, seed, inputs = crowded_inputs(number, options.cooldown)
        runs = list(run_cycles(inputs, options.cycles, (options.seed, load, seed)))
        figures = figures_of(runs)
        if not rows_by_load:
            print("load seed", " ".join(f"{name:>5}" for name in figures))
        print(f"{load:4d} {seed:4d}", row_of(figures), flush=True)
        if options.differences:
            for line in differences(runs):
                print(line, flush=True)
        rows_by_load.setdefault(load, []).append(figures)
    for load, rows in sorted(rows_by_load.items()):
        print(f"{load:4d}  {len(rows):2d}x", row_of(sum_of(rows)))
    every = [figures for rows in rows_by_load.values() for figures in rows]
    print(f" all  {len(every):2d}x", row_of(sum_of(every)))
    print(f"{time.process_time() - began:.0f} s of processor time")


if __name__ == "__main__":
    main()
