"""What one invocation knows of itself, shared by the edge and the command it runs."""

from __future__ import annotations

from dataclasses import dataclass

import click

from rebalancer.errors import ExitCode


@dataclass(slots=True)
class Session:
    """The global options, and the code to leave with."""

    verbose: bool = False
    log_format: str = "text"
    exit_code: int = int(ExitCode.DONE)


def current_session() -> Session:
    """The session of the command that is running."""
    session = click.get_current_context().find_object(Session)
    return session if session is not None else Session()
