"""``rebalancer snapshot``: record a cluster for offline use, and describe a recording."""

from __future__ import annotations

import math
import time
from pathlib import Path

import click

from rebalancer.cli.invocation import LOGGER
from rebalancer.cli.options import (
    CONNECTION,
    DOCUMENT_FORMATS,
    DURATION,
    FILE,
    LIVE_PLAN,
    PATH,
    PLAN,
    RECORDED,
    FloatRange,
    max_size_option,
    option,
    output_options,
    plan_options,
)
from rebalancer.cli.output import Output, emit, progress, with_progress
from rebalancer.cli.studies import study
from rebalancer.errors import InputError
from rebalancer.observe.plan_options import PlanOptions


@click.group()
def snapshot() -> None:
    """Record a cluster, or describe a recorded one."""


@snapshot.command("save")
@click.argument("path", type=PATH, metavar="PATH")
@plan_options(
    **RECORDED,
    **CONNECTION,
    request_seconds=PLAN["request_seconds"],
    policy_path=PLAN["policy_path"],
    scheduler_config=PLAN["scheduler_config"],
    watcher=option("--watcher", FILE, "FILE", "A file with load-watcher's response, to be recorded."),
    state_path=option(
        "--state state_path", FILE, "FILE", "A file with the state of earlier runs, to be recorded."
    ),
    state_config_map=PLAN["state_config_map"],
)
@output_options(*DOCUMENT_FORMATS)
def save_snapshot(path: Path, options: PlanOptions, watcher: Path | None, output: Output) -> None:
    """Record a cluster into the new folder PATH. Only reads.

    Records nodes, pods, workloads, budgets, volumes and metrics, but no Secrets and no environment
    variables. The scheduler's configuration and the responses of load-watcher and Prometheus are read from
    where the policy names them. With --from, a dump that kubectl printed is recorded instead of a live
    cluster.
    """
    from rebalancer.observe.recording import record_cluster  # noqa: PLC0415 - not for --help
    from rebalancer.reporting.tables.snapshot import snapshot_table  # noqa: PLC0415 - imports rich

    info = with_progress(record_cluster, options, path, watcher, LOGGER.warning)
    emit(info, output, snapshot_table)


@snapshot.command("record")
@click.argument("folder", type=PATH, metavar="FOLDER")
@option("--every", DURATION, "DURATION", "Time between two moments.", default="5m", show_default=True)
@option("--for lasts", DURATION, "DURATION", "End after so long; without it, when asked to stop.")
@max_size_option
@plan_options(**{field: item for field, item in LIVE_PLAN.items() if field != "now"})
def record(folder: Path, every: float, lasts: float | None, max_size: int, options: PlanOptions) -> None:
    """Record a cluster moment by moment into FOLDER, or go on with its timeline. Only reads.

    Each moment writes what changed. Every command that takes --from reads one moment of the folder with
    --at, and simulate --replay all of them.

    \b
    rebalancer snapshot record --every 5m --policy policy.yaml days/
    rebalancer plan --policy policy.yaml --from days/ --at 2026-11-20T18:00Z
    """
    from rebalancer.observe.recording import record_timeline  # noqa: PLC0415 - not for --help
    from rebalancer.signals import stop_on_signal  # noqa: PLC0415

    ends = time.time() + lasts if lasts is not None else math.inf
    with stop_on_signal() as signals:
        record_timeline(options, folder, max_size, every, ends, signals, LOGGER.info, LOGGER.warning)


@snapshot.command("backfill")
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
        field: item
        for field, item in LIVE_PLAN.items()
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
    where it ended. Needs rebalancer[lab].

    \b
    rebalancer snapshot backfill --days 7 --policy policy.yaml days/
    """
    if recording is not None:
        if address is not None or options != PlanOptions():
            raise InputError("--recording is read alone: no cluster is asked", hint="leave out the others")
        study("commands").convert_recording(folder, recording, every, max_size)
        return
    study("commands").backfill_timeline(
        folder, options, address, days * 86_400.0, every, per_second, max_size, output
    )


@snapshot.command("info")
@click.argument("path", type=PATH, metavar="PATH")
@PLAN["at"]
@PLAN["max_dump_bytes"]
@output_options(*DOCUMENT_FORMATS)
def snapshot_info(path: Path, at: float | None, max_dump_bytes: int | None, output: Output) -> None:
    """Show what a recorded cluster contains and what is missing."""
    from rebalancer.observe.recording import describe_recording  # noqa: PLC0415 - not for --help
    from rebalancer.reporting.tables.snapshot import snapshot_table  # noqa: PLC0415 - imports rich

    with progress() as report:
        info = describe_recording(path, report, max_dump_bytes, at)
    emit(info, output, snapshot_table)
