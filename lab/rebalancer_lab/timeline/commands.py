"""``rebalancer timeline``: days of a cluster; ``rebalancer tune``: the search for a better policy on them."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import click

from rebalancer.cli.invocation import LOGGER
from rebalancer.cli.options import (
    DOCUMENT_FORMATS,
    DURATION,
    FILE,
    LIVE_PLAN,
    PATH,
    PLAN,
    ROW_FORMATS,
    FloatRange,
    max_size_option,
    option,
    output_options,
    plan_options,
)
from rebalancer.cli.output import Output
from rebalancer.deadlines import StopRequest
from rebalancer.errors import InputError
from rebalancer.observe.plan_options import PlanOptions
from rebalancer.signals import stop_on_signal


@click.group()
def timeline() -> None:
    """Record days of a cluster, fill them in, or replay them."""


@timeline.command("record")
@click.argument("folder", type=PATH, metavar="FOLDER")
@option("--every", DURATION, "DURATION", "Time between two moments.", default="5m", show_default=True)
@option("--for lasts", DURATION, "DURATION", "End after so long; without it, when asked to stop.")
@max_size_option
@plan_options(**{field: plan_option for field, plan_option in LIVE_PLAN.items() if field != "now"})
def record(folder: Path, every: float, lasts: float | None, max_size: int, options: PlanOptions) -> None:
    """Record a cluster moment by moment into FOLDER, or go on with its timeline. Only reads.

    Each moment writes what changed. Every command that takes --from reads one moment of the folder with
    --at, and rebalancer timeline replay all of them.

    \b
    rebalancer timeline record --every 5m --policy policy.yaml days/
    rebalancer plan --policy policy.yaml --from days/ --at 2026-11-20T18:00Z
    """
    from rebalancer_lab.timeline.recording import record_timeline  # noqa: PLC0415 - not for --help

    ends = time.time() + lasts if lasts is not None else math.inf
    stop = StopRequest()
    with stop_on_signal(stop):
        record_timeline(options, folder, max_size, every, ends, stop, LOGGER.info, LOGGER.warning)


@timeline.command("backfill")
@click.argument("folder", type=PATH, metavar="FOLDER")
@option(
    *("--prometheus address", None, "URL"),
    "The Prometheus to ask; by default that of the policy, with its login.",
)
@option(
    *("--recording", FILE, "FILE"),
    "Instead of a Prometheus: what kube-scheduler-simulator's recorder wrote, in JSON lines.",
)
@option("--days", FloatRange(0.01, 365), "N", "How far back.", default=7.0, show_default=True)
@option("--every", DURATION, "DURATION", "Time between two moments.", default="5m", show_default=True)
@option(
    *("--queries-per-second per_second", FloatRange(0.01, 100), "N", "Ask no more often than that."),
    default=5.0,
    show_default=True,
)
@max_size_option
@plan_options(
    source=PLAN["source"],
    **{
        field: plan_option
        for field, plan_option in LIVE_PLAN.items()
        if field not in ("now", "state_path", "state_config_map")
    },
)
@output_options(*DOCUMENT_FORMATS)
def backfill(
    folder: Path,
    address: str | None,
    recording: Path | None,
    days: float,
    every: float,
    per_second: float,
    max_size: int,
    options: PlanOptions,
    output: Output,
) -> None:
    """Write a timeline of days that nobody recorded into FOLDER, from Prometheus. Only reads.

    Pods, nodes, requests and usage come from kube-state-metrics and cAdvisor (or node_exporter), all else
    from the objects that are there now; what cannot be known is marked and said. Started again, it goes on
    where it ended.

    \b
    rebalancer timeline backfill --days 7 --policy policy.yaml days/
    """
    from rebalancer_lab.timeline.backfill_command import (  # noqa: PLC0415 - imports the whole pipeline
        backfill_timeline,
        convert_recording,
    )

    if recording is not None:
        if address is not None or options != PlanOptions():
            raise InputError("--recording is read alone: no cluster is asked", hint="leave out the others")
        convert_recording(folder, recording, every, max_size)
        return
    backfill_timeline(folder, options, address, days * 86_400.0, every, per_second, max_size, output)


@timeline.command("replay")
@click.argument("folder", type=PATH, metavar="FOLDER")
@option("--policy policies", FILE, "FILE", "A policy; may be repeated to compare several.", multiple=True)
@option(
    *("--descheduler", FILE, "FILE"),
    "A DeschedulerPolicy, whose LowNodeUtilization every policy is compared with.",
)
@option(
    *("--seed", click.IntRange(0, 2**63 - 1), None),
    "Seed for landings; the same seed gives the same replay.",
    default=0,
    show_default=True,
)
@plan_options(scheduler_config=PLAN["scheduler_config"], assume_neutral=PLAN["assume_neutral"])
@output_options(*ROW_FORMATS)
def replay(
    folder: Path,
    policies: tuple[Path, ...],
    descheduler: Path | None,
    seed: int,
    options: PlanOptions,
    output: Output,
) -> None:
    """Replay a recorded timeline: what would have become of it under each policy. Changes nothing.

    Load, arrivals and deployments are as recorded. Two rows more show no policy at all, and descheduler's.

    \b
    rebalancer timeline replay days/ --policy now.yaml --policy bolder.yaml
    """
    from rebalancer_lab.timeline.replay_command import replay_timeline  # noqa: PLC0415 - imports the whole pipeline

    replay_timeline(folder, options, policies, descheduler, seed, output)


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
def tune(places: tuple[str, ...], output: Output, **values: Any) -> None:
    """Search for a better policy on recorded timelines. Changes nothing.

    Policies of the space are replayed on two days of three. The one with the least excess for today's
    disruption is compared with today's policy on the days held out, and the answer may be that it is no
    better.

    \b
    rebalancer tune --space policies/tuning/space.yaml days/
    rebalancer tune --space space.yaml --policy now.yaml --write chosen.yaml days/
    rebalancer tune --space space.yaml --dask tcp://dask:8786 s3://recordings/eu
    """
    from rebalancer_lab.timeline.tuning_command import tune_policy  # noqa: PLC0415 - imports the whole pipeline

    tune_policy(places, output, **values)
