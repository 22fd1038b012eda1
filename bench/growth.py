"""How the time to plan grows with the moves and with the nodes: what `make growth` prints.

    python -m bench.growth [--moves 25,50,100,200] [--sizes 1000/30000,2500/75000,5000/150000]

A plan is made again and again: with more and more moves on the largest cluster, then with as many moves as
that on larger and larger ones. Each exponent is the slope of a straight line through the logarithms of
processor time and of moves or nodes: 1 is growth in step, 2 means that twice as many take four times as long.
What does not grow with the moves, such as looking at every pod once, makes the exponent per move smaller, so
the time of a further move is printed too.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
from msgspec.structs import replace

from bench.measuring import Size, machine
from bench.suite import CLUSTERS, POLICY, a_dump, sizes_of
from rebalancer.observe.plan_options import PlanOptions
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.planner import search
from rebalancer.planning.prepared import prepare
from rebalancer.planning.report import build_plan
from rebalancer.run.plan import plan_inputs

_MOVES = "25,50,100,200"
_SIZES = "1000/30000,2500/75000,5000/150000"


@dataclass(frozen=True, slots=True)
class Planned:
    """One plan: how large it was, and what it took."""

    nodes: int
    moves: int
    placements: int
    cpu_seconds: float


def exponent(amounts: Sequence[float], seconds: Sequence[float]) -> float:
    """e in seconds = c · amount^e: the slope of the line through the logarithms; NaN for fewer than two."""
    if len(set(amounts)) < 2:
        return float("nan")
    return float(np.polyfit(np.log(amounts), np.log(seconds), 1)[0])


def planned(inputs: PlanningInputs, moves: int, repeat: int) -> Planned:
    """The least processor time of some plans with so many moves at most."""
    limits = inputs.policy.limits.model_copy(update={"per_run": moves, "per_namespace": moves})
    policy = inputs.policy.model_copy(update={"limits": limits})
    inputs = replace(inputs, policy=policy)
    taken: list[float] = []
    for _ in range(repeat):
        began = time.process_time()
        prepared = prepare(inputs)
        found = search(prepared)
        build_plan(prepared, found)
        taken.append(time.process_time() - began)
    return Planned(len(inputs.snapshot.nodes), len(found.moves), found.placements, min(taken))


def inputs_of(size: Size, policy: Path, clusters: Path) -> PlanningInputs:
    """A generated cluster, read."""
    options = PlanOptions(policy_path=policy, source=a_dump(size, clusters))
    return plan_inputs(options)


def _show(item: Planned) -> Planned:
    click.echo(f"{item.nodes:6d} {item.moves:6d} {item.placements:11d} {item.cpu_seconds:8.2f}")
    return item


@click.command()
@click.option("--moves", default=_MOVES, show_default=True, help="Moves of each plan on the largest cluster.")
@click.option("--sizes", default=_SIZES, show_default=True, help="NODES/PODS of every cluster.")
@click.option("--repeat", type=click.IntRange(1, 100), default=2, show_default=True, help="The least counts.")
@click.option("--clusters", type=click.Path(file_okay=False, path_type=Path), default=CLUSTERS)
def main(moves: str, sizes: str, repeat: int, clusters: Path) -> None:
    """Measure how planning grows."""
    amounts = sorted(int(part) for part in moves.split(","))
    ordered = sorted(sizes_of(sizes), key=lambda size: size.nodes)
    click.echo(f"{machine()}; the least of {repeat}")
    click.echo(" nodes  moves  placements    cpu s")
    inputs = inputs_of(ordered[-1], POLICY, clusters)
    by_moves = [_show(planned(inputs, amount, repeat)) for amount in amounts]
    del inputs
    fewest = amounts[0]
    by_nodes = [
        _show(planned(inputs_of(size, POLICY, clusters), fewest, repeat)) for size in ordered[:-1]
    ] + by_moves[:1]
    made, seconds = [item.moves for item in by_moves], [item.cpu_seconds for item in by_moves]
    slope = float(np.polyfit(made, seconds, 1)[0]) if len(set(made)) > 1 else float("nan")
    click.echo(
        f"per move: exponent {exponent(made, seconds):.2f}, {1000 * slope:.1f} ms for one more "
        f"({by_moves[-1].nodes} nodes)"
    )
    click.echo(
        f"per node: exponent {exponent([i.nodes for i in by_nodes], [i.cpu_seconds for i in by_nodes]):.2f} "
        f"({fewest} moves)"
    )


if __name__ == "__main__":
    main()
