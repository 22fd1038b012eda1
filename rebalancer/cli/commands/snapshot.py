"""``rebalancer snapshot``: record a cluster for offline use, and say what a recording holds."""

from __future__ import annotations

import time
from pathlib import Path

import click

from rebalancer.cli.logs import LOGGER
from rebalancer.cli.options import (
    FILE,
    PATH,
    all_option,
    check_source,
    context_option,
    kubeconfig_option,
    output_option,
    policy_option,
    scheduler_config_option,
    source_option,
)
from rebalancer.cli.output import emit, progress
from rebalancer.reporting.render import Format


@click.group()
def snapshot() -> None:
    """Record a cluster, or describe a recorded one."""


@snapshot.command("save")
@click.argument("path", type=PATH, metavar="PATH")
@source_option
@kubeconfig_option
@context_option
@policy_option
@scheduler_config_option
@click.option("--watcher", type=FILE, metavar="FILE", help="What load-watcher answers, to record it.")
@click.option(
    "--state", "state_path", type=FILE, metavar="FILE", help="The state of earlier runs, to record it."
)
@output_option
@all_option
def save_snapshot(
    path: Path,
    source: Path | None,
    kubeconfig: Path | None,
    context: str | None,
    policy_path: Path | None,
    scheduler_config: Path | None,
    watcher: Path | None,
    state_path: Path | None,
    output_format: Format,
    everything: bool,
) -> None:
    """Record a cluster into the new folder PATH. Only reads.

    Nodes, pods, workloads, budgets, volumes and metrics; no secrets, no environment variables. The
    scheduler's configuration, load-watcher's answer and Prometheus' are recorded from where the policy says
    they are.
    With --from a dump that kubectl printed is recorded instead of a live cluster.
    """
    from rebalancer.cluster.live import open_api  # noqa: PLC0415 - heavy
    from rebalancer.pipeline import recording  # noqa: PLC0415 - heavy
    from rebalancer.policy import default_policy, load_policy  # noqa: PLC0415
    from rebalancer.reporting.tables.snapshot import snapshot_table  # noqa: PLC0415

    check_source(source, kubeconfig, context)
    loaded = load_policy(policy_path) if policy_path is not None else default_policy()
    files = recording.DocumentFiles(scheduler_config, watcher, state_path)
    documents = recording.documents_from_files(files)
    api = None if source is not None else open_api(kubeconfig, context)
    documents |= recording.policy_documents(loaded, files, api, LOGGER.warning)
    with progress() as tell:
        if api is not None:
            read, now = (
                recording.record_live(api, time.time, documents, tell, loaded, LOGGER.warning),
                time.time(),
            )
        elif source is not None:
            read, now = recording.convert(source, documents, time.time, tell)
        recording.save(read, path, now)
        info = recording.describe(path)
    emit(info, output_format, snapshot_table, everything=everything)


@snapshot.command("info")
@click.argument("path", type=PATH, metavar="PATH")
@output_option
@all_option
def snapshot_info(path: Path, output_format: Format, everything: bool) -> None:
    """Say what a recorded cluster holds, and what it lacks."""
    from rebalancer.pipeline import recording  # noqa: PLC0415 - heavy
    from rebalancer.reporting.tables.snapshot import snapshot_table  # noqa: PLC0415

    with progress() as tell:
        info = recording.describe(path, tell)
    emit(info, output_format, snapshot_table, everything=everything)
