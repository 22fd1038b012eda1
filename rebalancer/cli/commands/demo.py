"""``rebalancer demo``: a hot cluster, embedded."""

from __future__ import annotations

import click

from rebalancer.cli.shared_options import all_option


@click.command()
@click.option(
    "--keep", is_flag=True, help="Keep the embedded cluster running afterwards, and show how to reach it."
)
@all_option
def demo(keep: bool, everything: bool) -> int:
    """Watch an embedded hot cluster cool down."""
    from rebalancer.cli import demo_scenario  # noqa: PLC0415 - heavy
    from rebalancer.cli.output import console, style  # noqa: PLC0415

    target = console()
    return int(demo_scenario.play(target, style(target, everything=everything), keep=keep))
