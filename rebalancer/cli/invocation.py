"""Under which name the program was started: help must show a command that the user can type again.

An installation brings the same program twice: as ``rebalancer``, and as ``kubectl-rebalance``, which kubectl
runs when somebody types ``kubectl rebalance``.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import PurePath

from rebalancer.errors import ExitCode

PROGRAM = "rebalancer"
_PLUGIN = "kubectl-rebalance"


def program_name() -> str:
    """What the user typed to start the program, as help shows it."""
    return _PLUGIN.replace("-", " ") if PurePath(sys.argv[0]).stem == _PLUGIN else PROGRAM


# The state of one invocation, shared by the edge and the command it runs.


@dataclass(slots=True)
class Session:
    """The global options, the exit code, and whether a signal asked the command to end."""

    verbose: bool = False
    log_format: str = "text"
    exit_code: int = int(ExitCode.DONE)
    interrupted: bool = False
