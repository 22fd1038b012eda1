"""``rebalancer extender``, which `rebalancer` finds by the entry point group ``rebalancer.commands``."""

from __future__ import annotations

from pathlib import Path

import click

from rebalancer.cli.options import CONNECTION, FILE, Text, address, option, plan_options
from rebalancer.errors import InputError
from rebalancer.observe.plan_options import PlanOptions


@click.command(short_help="Score nodes for a kube-scheduler, as an HTTP extender.")
@option("--config", FILE, "FILE", "The scores, an ExtenderScores; taken over when it changes.", required=True)
@option(
    *("--listen", Text("address", address), "[ADDRESS]:PORT"),
    "Where the scheduler and probes are answered.",
    default="127.0.0.1:8890",
    show_default=True,
)
@option(
    *("--probes", Text("address", address), "[ADDRESS]:PORT"),
    "Answer probes and Prometheus here too, and no scheduler: for a kubelet beside a loopback --listen.",
)
@option("--tls-cert certificate", FILE, "FILE", "Answer by HTTPS with this certificate.")
@option("--tls-key key", FILE, "FILE", "The key of the certificate.")
@plan_options(**CONNECTION)
def extender(
    options: PlanOptions,
    listen: tuple[str, int],
    probes: tuple[str, int] | None,
    config: Path,
    certificate: Path | None,
    key: Path | None,
) -> int:
    """Answer a kube-scheduler's filter and prioritize with scores from PromQL or plugins.

    The scheduler's configuration names it under extenders, with nodeCacheCapable: true. The policy names its
    scores under scheduler.extenders, so that plans follow them.
    """
    if (certificate is None) != (key is None):
        raise InputError("--tls-cert and --tls-key belong together")
    from rebalancer_extender.serving import ExtenderOptions, serve  # noqa: PLC0415 - imports the model

    host, port = listen
    return serve(
        ExtenderOptions(
            config=config,
            host=host,
            port=port,
            probes=probes,
            certificate=certificate,
            key=key,
            connection=options,
        )
    )
