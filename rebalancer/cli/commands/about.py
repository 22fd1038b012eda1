"""The commands about the program itself: its demonstration, and completion in a shell."""

from __future__ import annotations

import sys

import click
from click.shell_completion import get_completion_class

from rebalancer.cli.invocation import PROGRAM
from rebalancer.cli.output import Output, console, style
from rebalancer.errors import InputError

_VARIABLE = f"_{PROGRAM.upper()}_COMPLETE"  # where click expects the shell's question


@click.command()
@click.option(
    "--keep", is_flag=True, help="Start the cluster, leave it hot, and show step by step what to try."
)
@click.option("--all", "everything", is_flag=True, help="Show every row of a table instead of a summary.")
def demo(keep: bool, everything: bool) -> int:
    """Watch an embedded hot cluster cool down."""
    try:
        from rebalancer_demo.scenario import play  # noqa: PLC0415 - the image leaves it out
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("rebalancer_demo"):
            raise
        raise InputError(
            "the image leaves the embedded cluster out", hint="outside of it, in a clone: pipx install ."
        ) from None
    target = console()
    return play(target, style(target, Output(everything=everything)), keep=keep)


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    \b
    bash:  rebalancer completion bash \\
             > ~/.local/share/bash-completion/completions/rebalancer
    zsh:   rebalancer completion zsh > "${fpath[1]}/_rebalancer"
    fish:  rebalancer completion fish > ~/.config/fish/completions/rebalancer.fish

    `kubectl rebalance` needs no script of its own: kubectl's completion asks kubectl_complete-rebalance.
    """
    script = get_completion_class(shell)
    assert script is not None, shell
    sys.stdout.write(script(ctx.find_root().command, {}, PROGRAM, _VARIABLE).source())
