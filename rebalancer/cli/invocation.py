"""Under which name the program was started: help must show a command that the user can type again.

An installation brings the same program twice: as ``rebalancer``, and as ``kubectl-rebalance``, which kubectl
runs when somebody types ``kubectl rebalance``.
"""

from __future__ import annotations

import sys
from pathlib import PurePath

PROGRAM = "rebalancer"
_PLUGIN = "kubectl-rebalance"


def program_name() -> str:
    """What the user typed to start the program, as help shows it."""
    return _PLUGIN.replace("-", " ") if PurePath(sys.argv[0]).stem == _PLUGIN else PROGRAM
