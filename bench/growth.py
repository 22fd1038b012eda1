"""How every stage of a plan grows with pods, with hot nodes and with moves: what `make growth` prints.

    python -m bench.growth [--moves 25,50] [--sizes 1000/30000,2500/75000] [--hot 80,70,60]

A plan is made again and again: with more and more moves on the largest cluster, with more and more of its
nodes hot, and with as many moves on larger and larger clusters; one that needs fewer moves does not count for
the growth by pods. Each exponent is the slope of a straight line through the logarithms of processor time and
of moves, hot nodes or pods: 1 is growth in step, 2 means that twice as many take four times as long. What
does not grow with the moves, such as looking at every pod once,
makes the exponent per move smaller, so the time of a further move is printed too.

    read      the files of the cluster, into columns
    prepare   what precedes the search: which nodes are hot, where Pending pods go, what rules look up
    search    which pods move, and why the others stay
    write     the plan as a value
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec
import numpy as np
from msgspec.structs import replace

from bench.measuring import Size, machine
from bench.suite import CLUSTERS, POLICY, a_dump, sizes_of
from rebalancer.observe.plan_options import PlanOptions
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.planner import Planner
from rebalancer.policy.hotness import UtilizationRule
from rebalancer.run.plan import planner_of

_MOVES = "25,50,100,200"
_SIZES = "1000/30000,2500/75000,5000/150000"
_HOT = "80,70,60"
STAGES = ("read", "prepare", "search", "write")


class Planned(msgspec.Struct, frozen=True):
    """One plan: how large it was, and the processor seconds of its stages."""

    pods: int
    hot: int
    moves: int
    placements: int
    seconds: dict[str, float]


def exponent(amounts: Sequence[float], seconds: Sequence[float]) -> float:
    """e in seconds = c · amount^e: the slope of the line through the logarithms; NaN for fewer than two."""
    if len(set(amounts)) < 2 or min(*amounts, *seconds) <= 0:
        return float("nan")
    return float(np.polyfit(np.log(amounts), np.log(seconds), 1)[0])


def planned(inputs: PlanningInputs, moves: int, hot_above: int | None, repeat: int) -> Planned:
    """The least processor time of each stage of some plans with so many moves at most.

    ``hot_above`` is the percentage of cpu above which nodes are hot, None for that of the policy.
    """
    policy = inputs.policy
    limits = policy.limits.model_copy(update={"per_run": moves, "per_namespace": moves})
    hot_nodes = policy.hot_nodes
    if hot_above is not None:
        rule = UtilizationRule(utilization={"cpu": hot_above}, cool_to={"cpu": hot_above - 10})
        hot_nodes = hot_nodes.model_copy(update={"any": (rule,)})
    inputs = replace(inputs, policy=policy.model_copy(update={"limits": limits, "hot_nodes": hot_nodes}))
    taken: list[dict[str, float]] = []
    for _ in range(repeat):
        clock = [time.process_time()]
        planner = Planner(inputs)
        prepared = planner.prepared
        clock.append(time.process_time())
        found = planner.decided
        clock.append(time.process_time())
        plan = planner.plan()
        clock.append(time.process_time())
        taken.append(dict(zip(("prepare", "search", "write"), np.diff(clock).tolist(), strict=True)))
    least = {stage: min(item[stage] for item in taken) for stage in taken[0]}
    return Planned(
        len(prepared.pods),
        plan.hot_count,
        len(found.moves),
        found.builder.evaluator.placed,
        least,
    )


def inputs_of(size: Size, policy: Path, clusters: Path) -> tuple[PlanningInputs, float]:
    """A generated cluster, and the processor seconds that reading it took."""
    options = PlanOptions(policy_path=policy, source=a_dump(size, clusters))
    began = time.process_time()
    return planner_of(options).inputs, time.process_time() - began


def _show(item: Planned) -> Planned:
    cells = (f"{item.seconds.get(stage, float('nan')):8.2f}" for stage in STAGES)
    click.echo(f"{item.pods:7d} {item.hot:5d} {item.moves:6d} {item.placements:11d} {''.join(cells)}")
    return item


def _grown(axis: str, amounts: Sequence[int], plans: Sequence[Planned]) -> str:
    stages = [stage for stage in STAGES if all(stage in item.seconds for item in plans)]
    by_stage = {stage: [item.seconds[stage] for item in plans] for stage in stages}
    by_stage["all"] = [sum(item.seconds.values()) for item in plans]
    slopes = (f"{stage} {exponent(amounts, seconds):.2f}" for stage, seconds in by_stage.items())
    return f"per {axis}: {', '.join(slopes)}"


@click.command()
@click.option("--moves", default=_MOVES, show_default=True, help="Moves of each plan on the largest cluster.")
@click.option("--sizes", default=_SIZES, show_default=True, help="NODES/PODS of every cluster.")
@click.option("--hot", default=_HOT, show_default=True, help="Percentages of cpu above which nodes are hot.")
@click.option("--repeat", type=click.IntRange(1, 100), default=2, show_default=True, help="The least counts.")
@click.option("--clusters", type=click.Path(file_okay=False, path_type=Path), default=CLUSTERS)
def main(moves: str, sizes: str, hot: str, repeat: int, clusters: Path) -> None:
    """Measure how planning grows."""
    amounts = sorted(int(part) for part in moves.split(","))
    levels = sorted((int(part) for part in hot.split(",")), reverse=True)
    ordered = sorted(sizes_of(sizes), key=lambda size: size.nodes)
    click.echo(f"{machine()}; the least of {repeat}; processor seconds")
    click.echo("   pods   hot  moves  placements " + "".join(f"{stage:>8}" for stage in STAGES))
    inputs, read = inputs_of(ordered[-1], POLICY, clusters)
    by_moves = [_show(planned(inputs, amount, None, repeat)) for amount in amounts]
    by_hot = [_show(planned(inputs, amounts[0], level, repeat)) for level in levels]
    del inputs
    by_pods: list[Planned] = []
    for size in ordered[:-1]:
        smaller, taken = inputs_of(size, POLICY, clusters)
        found = planned(smaller, amounts[0], None, repeat)
        by_pods.append(_show(replace(found, seconds={"read": taken, **found.seconds})))
    by_pods.append(replace(by_moves[0], seconds={"read": read, **by_moves[0].seconds}))
    made, seconds = [item.moves for item in by_moves], [sum(item.seconds.values()) for item in by_moves]
    slope = float(np.polyfit(made, seconds, 1)[0]) if len(set(made)) > 1 else float("nan")
    click.echo(f"{_grown('move', made, by_moves)}; {1000 * slope:.1f} ms for one more")
    click.echo(_grown("hot node", [item.hot for item in by_hot], by_hot))
    alike = [item for item in by_pods if item.moves == by_pods[-1].moves]
    by_pod = _grown("pod", [item.pods for item in alike], alike)
    click.echo(f"{by_pod}; {len(alike)} clusters with as many moves")


if __name__ == "__main__":
    main()
