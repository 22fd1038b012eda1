"""The state of one invocation, shared by the edge and the command it runs."""

from __future__ import annotations

from dataclasses import dataclass

from rebalancer.errors import ExitCode


@dataclass(slots=True)
class Session:
    """The global options, the exit code, and whether a signal asked the command to end."""

    verbose: bool = False
    log_format: str = "text"
    exit_code: int = int(ExitCode.DONE)
    interrupted: bool = False
