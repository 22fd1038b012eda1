"""``rebalancer demo``: a hot cluster, embedded."""

from __future__ import annotations

import click

from rebalancer.errors import InputError


@click.command()
@click.option(
    "--keep", is_flag=True, help="Start the cluster, leave it hot, and show step by step what to try."
)
@click.option("--all", "everything", is_flag=True, help="Show every row of a table instead of a summary.")
def demo(keep: bool, everything: bool) -> int:
    """Watch an embedded hot cluster cool down."""
    from rebalancer.cli.output import Output, console, style  # noqa: PLC0415 - heavy

    try:
        from rebalancer_demo.scenario import play  # noqa: PLC0415 - a distribution of its own
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("rebalancer_demo"):
            raise
        raise InputError(
            "the embedded cluster is not part of this installation; install rebalancer[demo]"
        ) from None
    target = console()
    return play(target, style(target, Output(everything=everything)), keep=keep)
