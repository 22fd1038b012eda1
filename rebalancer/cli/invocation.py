"""One invocation: the name that the program was started under, and its state.

An installation brings the same program twice: as ``rebalancer``, and as ``kubectl-rebalance``, which kubectl
runs when somebody types ``kubectl rebalance``. Help must show a command that the user can type again.
"""

from __future__ import annotations

import sys
from pathlib import PurePath

import msgspec

from rebalancer.errors import ExitCode

PROGRAM = "rebalancer"
_PLUGIN = "kubectl-rebalance"


def program_name() -> str:
    """What the user typed to start the program, as help shows it."""
    return _PLUGIN.replace("-", " ") if PurePath(sys.argv[0]).stem == _PLUGIN else PROGRAM


class Session(msgspec.Struct):
    """What the edge and the command share: global options and the exit code."""

    verbose: bool = False
    log_format: str = "text"
    exit_code: int = int(ExitCode.DONE)
