"""Completion of ``kubectl rebalance``: the program that kubectl looks for as ``kubectl_complete-rebalance``.

kubectl hands the words of the command line over as arguments, the unfinished one last, and reads one
candidate per line, its description behind a tab. The last line is a colon and a number, which tells kubectl's
completion library what else the shell should do.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from click.shell_completion import ShellComplete

from rebalancer.cli.main import main

_FILES_TOO = 0  # cobra's ShellCompDirectiveDefault: the shell completes file names if there is no candidate
_NO_FILES = 4  # cobra's ShellCompDirectiveNoFileComp


def answer(words: Sequence[str]) -> str:
    """What to complete the last of these words to, as kubectl reads it."""
    *arguments, incomplete = words or [""]
    completer = ShellComplete(main, {}, "kubectl rebalance", "")
    items = completer.get_completions(arguments, incomplete)
    candidates = [item for item in items if item.type == "plain"]
    lines = [f"{item.value}\t{item.help}" if item.help else str(item.value) for item in candidates]
    return "\n".join([*lines, f":{_NO_FILES if len(candidates) == len(items) else _FILES_TOO}"]) + "\n"


def complete() -> None:
    """Answer kubectl about the words in this process's arguments."""
    sys.stdout.write(answer(sys.argv[1:]))
