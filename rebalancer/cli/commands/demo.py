"""``rebalancer demo``: a hot cluster, embedded."""

from __future__ import annotations

import click

from rebalancer.cli.shared_options import all_option
from rebalancer.errors import InputError


@click.command()
@click.option(
    "--keep", is_flag=True, help="Keep the embedded cluster running afterwards, and show how to reach it."
)
@all_option
def demo(keep: bool, everything: bool) -> int:
    """Watch an embedded hot cluster cool down."""
    from rebalancer.cli.output import console, style  # noqa: PLC0415 - heavy

    try:
        from rebalancer.sandbox.demo.scenario import play  # noqa: PLC0415 - a distribution of its own
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("rebalancer.sandbox"):
            raise
        raise InputError(
            "the embedded cluster is not part of this installation; install rebalancer[demo]"
        ) from None
    target = console()
    return play(target, style(target, everything=everything), keep=keep)
