"""``rebalancer simulate`` and ``tune``: policies side by side on recordings, and the search for a better."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from rebalancer import analysis
from rebalancer.cli.options import (
    DOCUMENT_FORMATS,
    DURATION,
    FILE,
    PATH,
    PLAN,
    ROW_FORMATS,
    SHARE,
    FloatRange,
    option,
    output_options,
)
from rebalancer.cli.output import Output, Rows, emit, progress_bar, with_progress
from rebalancer.cli.studies import Cluster, fleet_options, study
from rebalancer.errors import ExitCode, InputError
from rebalancer.observe.plan_options import PlanOptions

if TYPE_CHECKING:
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
    from rebalancer.reporting.tables.simulation import simulation_table  # noqa: PLC0415
    from rebalancer.run.questions import inputs_by_policy  # noqa: PLC0415 - not for --help
    from rebalancer.simulation.cycles import SimulationSettings, simulate  # noqa: PLC0415
    from rebalancer.simulation.world import LoadShape  # noqa: PLC0415

    settings = SimulationSettings(cycles, interval, LoadShape(noise, daily, lag or 0.0), seed)
    if fleet:
        return int(study("fleet").show_simulations(fleet, output, policies, settings))
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


@click.command()
@click.argument("places", type=click.Path(), nargs=-1, required=True, metavar="FOLDER|URL...")
@option("--space", FILE, "FILE", "The settings to search over, and their bounds.", required=True)
@option("--policy policy_path", FILE, "FILE", "Today's policy; without it, all defaults apply.")
@option("--trials", click.IntRange(1, 10_000), "N", "Policies to try.", default=64, show_default=True)
@option(
    *("--population", click.IntRange(2, 1000), "N", "Policies that are asked for at once."),
    default=8,
    show_default=True,
)
@option(
    *("--block", DURATION, "DURATION", "What is tuned on, or held out, as a whole."),
    default="24h",
    show_default=True,
)
@option(
    *("--hold-out every", click.IntRange(2, 100), "N", "Every Nth block of a timeline is held out."),
    default=3,
    show_default=True,
)
@option(
    *("--max-cost most_cost", FloatRange(0, 100), "TIMES"),
    "Disruption that the chosen policy may cause, as a multiple of today's.",
    default=1.0,
    show_default=True,
)
@option("--workers", click.IntRange(1, 256), "N", "Processes that replay.", default=2, show_default=True)
@option("--dask", None, "ADDRESS", "A Dask scheduler whose workers replay instead, e.g. tcp://host:8786.")
@option("--storage", FILE, "FILE", "Optuna's journal of the trials: begun, or gone on with.")
@option("--write", FILE, "FILE", "Where the chosen policy is written, if it is better.")
@option(
    *("--seed", click.IntRange(0, 2**31 - 1), None, "The same seed finds the same."),
    default=0,
    show_default=True,
)
@output_options(*DOCUMENT_FORMATS)
def tune(places: tuple[str, ...], output: Output, **values: object) -> None:
    """Search for a better policy on recorded timelines. Changes nothing; needs rebalancer[lab] and Optuna.

    Policies of the space are replayed on two days of three. The one with the least excess for today's
    disruption is compared with today's policy on the days held out, and the answer may be that it is no
    better.

    \b
    rebalancer tune --space policies/tuning/space.yaml days/
    rebalancer tune --space space.yaml --policy now.yaml --write chosen.yaml days/
    rebalancer tune --space space.yaml --dask tcp://dask:8786 s3://recordings/eu
    """
    study("tuning_command").tune_policy(places, output, **values)
