"""``rebalancer snapshot``: record a cluster for offline use, and describe a recording."""

from __future__ import annotations

from pathlib import Path

import click

from rebalancer.cli.logs import LOGGER
from rebalancer.cli.options import (
    DOCUMENT_FORMATS,
    FILE,
    PATH,
    check_source,
    check_state,
    context_option,
    kubeconfig_option,
    max_dump_size_option,
    output_options,
    policy_option,
    request_timeout_option,
    scheduler_config_option,
    source_option,
    state_config_map_option,
)
from rebalancer.cli.output import Output, emit, progress
from rebalancer.observe.plan_options import PlanOptions


@click.group()
def snapshot() -> None:
    """Record a cluster, or describe a recorded one."""


@snapshot.command("save")
@click.argument("path", type=PATH, metavar="PATH")
@source_option
@max_dump_size_option
@kubeconfig_option
@context_option
@request_timeout_option
@policy_option
@scheduler_config_option
@click.option(
    "--watcher", type=FILE, metavar="FILE", help="A file with load-watcher's response, to be recorded."
)
@click.option(
    "--state",
    "state_path",
    type=FILE,
    metavar="FILE",
    help="A file with the state of earlier runs, to be recorded.",
)
@state_config_map_option
@output_options(*DOCUMENT_FORMATS)
def save_snapshot(
    path: Path,
    source: Path | None,
    max_dump_bytes: int | None,
    kubeconfig: Path | None,
    context: str | None,
    request_seconds: float | None,
    policy_path: Path | None,
    scheduler_config: Path | None,
    watcher: Path | None,
    state_path: Path | None,
    state_config_map: str | None,
    output: Output,
) -> None:
    """Record a cluster into the new folder PATH. Only reads.

    Records nodes, pods, workloads, budgets, volumes and metrics, but no Secrets and no environment
    variables. The scheduler's configuration and the responses of load-watcher and Prometheus are read from
    where the policy names them. With --from, a dump that kubectl printed is recorded instead of a live
    cluster.
    """
    from rebalancer.observe.recording import record_cluster  # noqa: PLC0415 - not for --help
    from rebalancer.reporting.tables.snapshot import snapshot_table  # noqa: PLC0415 - imports rich

    check_source(source, kubeconfig, context)
    check_state(source, state_path, state_config_map)
    with progress() as report:
        options = PlanOptions(
            policy_path=policy_path,
            source=source,
            kubeconfig=kubeconfig,
            context=context,
            request_seconds=request_seconds,
            state_path=state_path,
            state_config_map=state_config_map,
            scheduler_config=scheduler_config,
            max_dump_bytes=max_dump_bytes,
            progress=report,
        )
        info = record_cluster(path, options, watcher, LOGGER.warning)
    emit(info, output, snapshot_table)


@snapshot.command("info")
@click.argument("path", type=PATH, metavar="PATH")
@max_dump_size_option
@output_options(*DOCUMENT_FORMATS)
def snapshot_info(path: Path, max_dump_bytes: int | None, output: Output) -> None:
    """Show what a recorded cluster contains and what is missing."""
    from rebalancer.observe.recording import describe_recording  # noqa: PLC0415 - not for --help
    from rebalancer.reporting.tables.snapshot import snapshot_table  # noqa: PLC0415 - imports rich

    with progress() as report:
        info = describe_recording(path, report, max_dump_bytes)
    emit(info, output, snapshot_table)
