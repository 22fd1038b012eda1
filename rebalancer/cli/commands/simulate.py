"""``rebalancer simulate``: many rebalancing cycles on a recorded cluster, policies side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from rebalancer import analysis
from rebalancer.cli.fleet import fleet_options, show_rows
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
from rebalancer.cli.studies import study
from rebalancer.errors import ExitCode, InputError
from rebalancer.observe.plan_options import PlanOptions

if TYPE_CHECKING:
    from rebalancer.run.fleet import Cluster
    from rebalancer.simulation.report import Simulation


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
@option(
    *("--replay", PATH, "FOLDER"),
    "Replay a recorded timeline instead: what would have become of it under each policy.",
)
@option(
    *("--descheduler", FILE, "FILE"),
    "With --replay: a DeschedulerPolicy, whose LowNodeUtilization every policy is compared with.",
)
@output_options(*ROW_FORMATS)
@click.pass_context
def simulate(
    context: click.Context,
    options: PlanOptions,
    fleet: tuple[Cluster, ...],
    policies: tuple[Path, ...],
    cycles: int,
    interval: float,
    noise: float,
    daily: float,
    lag: float | None,
    seed: int,
    replay: Path | None,
    descheduler: Path | None,
    output: Output,
) -> int:
    """Run many rebalancing cycles on a recorded cluster. Changes nothing.

    Each cycle plans as a run would and places every replacement on a node drawn from the predicted ones;
    then the load changes. With --replay (rebalancer[lab]) load, arrivals and deployments are as a timeline
    of snapshot record has them, and two rows more show no policy at all, and descheduler's.

    \b
    rebalancer simulate --from recorded/ --cycles 20
    rebalancer simulate --from recorded/ --policy now.yaml -o html > days.html
    rebalancer simulate --replay days/ --policy now.yaml --policy bolder.yaml
    """
    if replay is not None:
        _refuse_beside_replay(context)
        study("commands").replay_timeline(replay, options, policies, descheduler, seed, output)
        return int(ExitCode.DONE)
    if options.source is None or descheduler is not None:
        what = "--descheduler is compared with in a replay" if options.source else "what is simulated?"
        raise InputError(what, hint="name a recorded cluster with --from, or a timeline with --replay")
    from rebalancer.policy.policy_file import load_policy  # noqa: PLC0415 - imports pydantic
    from rebalancer.reporting.tables.fleet import ClusterRow, simulated_rows  # noqa: PLC0415
    from rebalancer.reporting.tables.simulation import simulation_table  # noqa: PLC0415
    from rebalancer.run.questions import inputs_by_policy  # noqa: PLC0415 - not for --help
    from rebalancer.simulation.cycles import SimulationSettings, simulate  # noqa: PLC0415
    from rebalancer.simulation.world import LoadShape  # noqa: PLC0415

    settings = SimulationSettings(cycles, interval, LoadShape(noise, daily, lag or 0.0), seed)
    if fleet:
        for path in policies:  # a mistake in one of them is one error, and not one of each cluster
            load_policy(path)

        def rows_of(name: str, one: PlanOptions) -> list[ClusterRow]:
            return simulated_rows(name, simulate(inputs_by_policy(one, policies), settings))

        return show_rows(fleet, output, rows_of)
    named = with_progress(inputs_by_policy, options, policies)
    with progress_bar("cycles", cycles * len(named)) as advance:
        result = simulate(named, settings, advance)
    names = (f"pod/{move.pod}" for run in result.runs for cycle in run.cycles for move in cycle.moves)
    emit(result, output, simulation_table, Rows(names, analysis.cycles, _page))
    return int(ExitCode.DONE)


def _refuse_beside_replay(context: click.Context) -> None:
    """Refuse what invents a load or names another cluster, beside a recorded one."""
    for name in ("source", "at", "now", "cycles", "interval", "noise", "daily", "lag"):
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            flag = "--from" if name == "source" else f"--{name}"
            raise InputError(f"{flag} has no effect on a replay", hint="leave it out")


def _page(simulation: Simulation) -> str:
    from rebalancer.reporting.html.pages import simulation_page  # noqa: PLC0415 - imports jinja2

    return simulation_page(simulation)
