"""``rebalancer simulate``: many rebalancing cycles on a recorded cluster, policies side by side."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from rebalancer.cli.options import (
    FILE,
    PATH,
    ROW_FORMATS,
    Duration,
    Share,
    neutral_option,
    now_option,
    output_options,
    scheduler_config_option,
)
from rebalancer.cli.output import Output, Rows, emit, progress, progress_bar
from rebalancer.observe.plan_options import PlanOptions

if TYPE_CHECKING:
    from pandas import DataFrame

    from rebalancer.simulation.report import Simulation


@click.command()
@click.option(
    "--from",
    "source",
    type=PATH,
    metavar="PATH",
    required=True,
    help="The recorded cluster: a file or folder of kubectl dumps.",
)
@click.option(
    "--policy",
    "policies",
    type=FILE,
    metavar="FILE",
    multiple=True,
    help="A policy; may be repeated to compare several.",
)
@now_option
@scheduler_config_option
@neutral_option
@click.option(
    "--cycles", type=click.IntRange(1, 10_000), default=10, show_default=True, help="Number of runs."
)
@click.option(
    "--interval",
    type=Duration(),
    default="10m",
    show_default=True,
    metavar="DURATION",
    help="Time between two runs.",
)
@click.option(
    "--noise",
    type=Share(),
    default="0%",
    show_default=True,
    metavar="PERCENT",
    help="Standard deviation of each pod's load, in percent of the load.",
)
@click.option(
    "--daily",
    type=Share(),
    default="0%",
    show_default=True,
    metavar="PERCENT",
    help="Amplitude of a daily curve that starts at the recorded load.",
)
@click.option(
    "--lag",
    type=Duration(),
    metavar="DURATION",
    help="Window over which metrics are averaged; without it they show the current load.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**63 - 1),
    default=0,
    show_default=True,
    help="Seed for landings and noise; the same seed gives the same simulation.",
)
@output_options(*ROW_FORMATS)
def simulate(
    source: Path,
    policies: tuple[Path, ...],
    now: float | None,
    scheduler_config: Path | None,
    assume_neutral: tuple[str, ...],
    cycles: int,
    interval: float,
    noise: float,
    daily: float,
    lag: float | None,
    seed: int,
    output: Output,
) -> None:
    """Run many rebalancing cycles on a recorded cluster. Changes nothing.

    Each cycle plans as a run would and places every replacement on a node drawn from the predicted ones;
    then the load changes.
    """
    from rebalancer.reporting.tables.simulation import simulation_table  # noqa: PLC0415
    from rebalancer.run.questions import inputs_by_policy  # noqa: PLC0415 - not for --help
    from rebalancer.simulation.cycles import SimulationSettings, simulate  # noqa: PLC0415
    from rebalancer.simulation.world import LoadShape  # noqa: PLC0415

    options = PlanOptions(
        source=source, now=now, scheduler_config=scheduler_config, assume_neutral=assume_neutral
    )
    settings = SimulationSettings(cycles, interval, LoadShape(noise, daily, lag or 0.0), seed)
    with progress() as report:
        named = inputs_by_policy(replace(options, progress=report), policies)
    with progress_bar("cycles", cycles * len(named)) as advance:
        result = simulate(named, settings, advance)
    emit(result, output, simulation_table, Rows(_names, _frame, _page))


def _names(simulation: Simulation) -> Iterable[str]:
    return (f"pod/{move.pod}" for run in simulation.runs for cycle in run.cycles for move in cycle.moves)


def _frame(simulation: Simulation) -> DataFrame:
    from rebalancer import analysis  # noqa: PLC0415 - pandas is only for CSV

    return analysis.cycles(simulation)


def _page(simulation: Simulation) -> str:
    from rebalancer.reporting.html.pages import simulation_page  # noqa: PLC0415 - imports jinja2

    return simulation_page(simulation)
