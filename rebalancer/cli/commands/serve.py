"""``rebalancer serve``: a run at every interval, with probes and metrics, until it is asked to stop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from rebalancer import __version__
from rebalancer.cli.options import journal_option, lease_option, max_duration_option, service_pipeline_options
from rebalancer.cli.user_files import refuse_one_file_for_two, refuse_unread_journal
from rebalancer.observe.plan_options import PlanOptions

DEFAULT_LISTEN = "127.0.0.1:8080"
DEFAULT_MAX_DURATION = "5m"
_MAX_PORT = 65535


class Address(click.ParamType[tuple[str, int]]):
    """ADDRESS:PORT to listen on; ``:8080`` is every address, port 0 any port that is free."""

    name = "address"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int]:
        """The address and the port."""
        if isinstance(value, tuple):
            return value
        host, _, port = str(value).rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if ":" not in str(value) or not port.isascii() or not port.isdigit() or int(port) > _MAX_PORT:
            self.fail(f"{str(value)[:60]!a} is not ADDRESS:PORT, such as 127.0.0.1:8080 or :8080", param, ctx)
        return host, int(port)


@click.command(short_help="Plan, or run, again and again for as long as it lives.")
@service_pipeline_options
@click.option("--act", is_flag=True, help="Evict what is planned; without it nothing is ever changed.")
@click.option(
    "--listen",
    type=Address(),
    default=DEFAULT_LISTEN,
    show_default=True,
    metavar="[ADDRESS]:PORT",
    help="Where /healthz, /readyz and /metrics are answered.",
)
@max_duration_option("A run starts no new wave after this time.", DEFAULT_MAX_DURATION)
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
