"""``rebalancer snapshot``: record a cluster for offline use, and describe a recording."""

from __future__ import annotations

from pathlib import Path

import click

from rebalancer.cli.invocation import LOGGER
from rebalancer.cli.options import (
    CONNECTION,
    DOCUMENT_FORMATS,
    FILE,
    PATH,
    PLAN,
    RECORDED,
    option,
    output_options,
    plan_options,
)
from rebalancer.cli.output import Output, emit, progress, with_progress
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
