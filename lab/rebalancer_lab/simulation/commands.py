"""``rebalancer simulate``: many runs on a recorded cluster, with policies side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rebalancer.cli.options import (
    DURATION,
    FILE,
    PATH,
    PLAN,
    ROW_FORMATS,
    SHARE,
    option,
    output_options,
)
from rebalancer.cli.output import Output, Rows, emit, progress_bar, with_progress
from rebalancer.errors import ExitCode, InputError
from rebalancer.observe.plan_options import PlanOptions
from rebalancer_lab.fleet.options import fleet_options
from rebalancer_lab.simulation import frames

if TYPE_CHECKING:
    from rebalancer_lab.fleet.clusters import Cluster
    from rebalancer_lab.simulation.report import Simulation


@click.command()
@fleet_options(
    *("cycles", "interval", "noise", "daily", "lag", "seed"),
    options={
        "source": option(
            *("--from source", PATH, "PATH"),
            "The recorded cluster: a file or folder of kubectl dumps; of a pattern such as 'recorded/*' all "
            "that match, a row for each.",
        ),
        "policies": option(
            "--policy policies", FILE, "FILE", "A policy; may be repeated to compare several.", multiple=True
        ),
        **{field: PLAN[field] for field in ("at", "now", "scheduler_config", "assume_neutral")},
    },
)
@option("--cycles", click.IntRange(1, 10_000), None, "Number of runs.", default=10, show_default=True)
@option("--interval", DURATION, "DURATION", "Time between two runs.", default="10m", show_default=True)
@option(
    *("--noise", SHARE, "PERCENT", "Standard deviation of each pod's load, in percent of the load."),
    default="0%",
    show_default=True,
)
@option(
    *("--daily", SHARE, "PERCENT", "Amplitude of a daily curve that starts at the recorded load."),
    default="0%",
    show_default=True,
)
@option(
    *("--lag", DURATION, "DURATION"),
    "Window over which metrics are averaged; without it they show the current load.",
)
@option(
    *("--seed", click.IntRange(0, 2**63 - 1), None),
    "Seed for landings and noise; the same seed gives the same simulation.",
    default=0,
    show_default=True,
)
@output_options(*ROW_FORMATS)
def simulate(
    options: PlanOptions,
    fleet: tuple[Cluster, ...],
    policies: tuple[Path, ...],
    cycles: int,
    interval: float,
    noise: float,
    daily: float,
    lag: float | None,
    seed: int,
    output: Output,
) -> int:
    """Run many rebalancing cycles on a recorded cluster. Changes nothing.

    Each cycle plans as a run would and places every replacement on a node drawn from the predicted ones;
    then the load changes. Of several clusters, --from 'recorded/*', each is a row a policy.

    \b
    rebalancer simulate --from recorded/ --cycles 20
    rebalancer simulate --from recorded/ --policy now.yaml -o html > days.html
    rebalancer simulate --from recorded/ --policy now.yaml --policy bolder.yaml
    """
    if options.source is None:
        raise InputError("what is simulated?", hint="name a recorded cluster with --from")
    from rebalancer.run.plan import inputs_by_policy  # noqa: PLC0415 - not for --help
    from rebalancer_lab.simulation.cycles import SimulationSettings, simulate  # noqa: PLC0415
    from rebalancer_lab.simulation.tables import simulation_table  # noqa: PLC0415
    from rebalancer_lab.simulation.world import LoadShape  # noqa: PLC0415

    settings = SimulationSettings(cycles, interval, LoadShape(noise, daily, lag or 0.0), seed)
    if fleet:
        from rebalancer_lab.simulation.fleets import show_simulations  # noqa: PLC0415 - not for --help

        return show_simulations(fleet, output, policies, settings)
    named = with_progress(inputs_by_policy, options, policies)
    with progress_bar("cycles", cycles * len(named)) as advance:
        result = simulate(named, settings, advance)
    names = (f"pod/{move.pod}" for run in result.runs for cycle in run.cycles for move in cycle.moves)
    emit(result, output, simulation_table, Rows(names, frames.cycles, _page))
    return int(ExitCode.DONE)


def _page(simulation: Simulation) -> str:
    from rebalancer_lab.simulation.page import simulation_page  # noqa: PLC0415 - imports jinja2

    return simulation_page(simulation)
