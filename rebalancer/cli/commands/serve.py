"""``rebalancer serve``: a run at every interval, with probes and metrics, until it is asked to stop."""

from __future__ import annotations

from pathlib import Path

import click

from rebalancer import __version__
from rebalancer.cli.options import (
    LIVE_PLAN,
    Text,
    journal_option,
    lease_option,
    max_dump_size_without_effect,
    max_duration_option,
    option,
    plan_options,
)
from rebalancer.cli.user_files import refuse_one_file_for_two, refuse_unread_journal
from rebalancer.observe.plan_options import PlanOptions

_MAX_PORT = 65535


def _address(text: str) -> tuple[str, int]:
    """ADDRESS:PORT to listen on; ``:8080`` is every address, port 0 any port that is free."""
    host, _, port = text.rpartition(":")
    if ":" not in text or not port.isascii() or not port.isdigit() or int(port) > _MAX_PORT:
        raise ValueError(f"{text[:60]!a} is not ADDRESS:PORT, such as 127.0.0.1:8080 or :8080")
    return host.removeprefix("[").removesuffix("]"), int(port)


@click.command(short_help="Plan, or run, again and again for as long as it lives.")
@max_dump_size_without_effect
@plan_options(**{field: item for field, item in LIVE_PLAN.items() if field != "now"})
@click.option("--act", is_flag=True, help="Evict what is planned; without it nothing is ever changed.")
@option(
    *("--listen", Text("address", _address), "[ADDRESS]:PORT"),
    "Where /healthz, /readyz and /metrics are answered.",
    default="127.0.0.1:8080",
    show_default=True,
)
@max_duration_option("A run starts no new wave after this time.", "5m")
@lease_option("The Lease by which one of several replicas leads; runs of other kinds wait for it too.")
@journal_option
def serve(
    options: PlanOptions,
    act: bool,
    listen: tuple[str, int],
    max_duration_seconds: float,
    lease: str,
    journal: Path | None,
) -> int:
    """Plan at every hotNodes.runInterval of the policy, and with --act carry the plan out.

    Begins a run early when a node turns hot, answers probes and Prometheus, takes over a changed policy
    between two runs, and hands over to another replica when it is asked to stop.
    """
    refuse_one_file_for_two(options, {"--journal": journal})
    if act:
        refuse_unread_journal(journal)
    from rebalancer.otlp import LEAVING_SECONDS, MetricsExport, exported_traces  # noqa: PLC0415 - only here
    from rebalancer.service import Service, ServiceOptions  # noqa: PLC0415 - imports the whole pipeline

    host, port = listen
    settings = ServiceOptions(
        act=act,
        host=host,
        port=port,
        lease=lease,
        journal=journal,
        max_duration_seconds=max_duration_seconds,
    )
    with (
        MetricsExport(__version__, LEAVING_SECONDS) as metrics,
        exported_traces(__version__, LEAVING_SECONDS),
    ):
        return Service(options, settings, metrics.send).serve()
