"""``rebalancer completion``: the script with which a shell completes commands and options."""

from __future__ import annotations

import sys

import click
from click.shell_completion import get_completion_class

from rebalancer.cli.invocation import PROGRAM

_VARIABLE = f"_{PROGRAM.upper()}_COMPLETE"  # where click expects the shell's question


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
