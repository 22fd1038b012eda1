"""``rebalancer tune``: search a better policy on recorded days, and judge it on others."""

from __future__ import annotations

from pathlib import Path

import click

from rebalancer.cli.options import DOCUMENT_FORMATS, DURATION, FILE, PATH, option, output_options
from rebalancer.cli.output import Output
from rebalancer.cli.studies import study


@click.command()
@click.argument("folders", type=PATH, nargs=-1, required=True, metavar="FOLDER...")
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
    *("--max-cost most_cost", click.FloatRange(0, 100), "TIMES"),
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
def tune(folders: tuple[Path, ...], output: Output, **values: object) -> None:
    """Search for a better policy on recorded timelines. Changes nothing; needs rebalancer[lab] and Optuna.

    Policies of the space are replayed on two days of three. The one with the least excess for today's
    disruption is compared with today's policy on the days held out, and the answer may be that it is no
    better.

    \b
    rebalancer tune --space policies/tuning/space.yaml days/
    rebalancer tune --space space.yaml --policy now.yaml --write chosen.yaml days/
    """
    study("tuning_command").tune_policy(folders, output, **values)
