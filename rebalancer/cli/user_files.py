"""Files that the program keeps for the user who started it, where no option names one."""

from __future__ import annotations

import os
from pathlib import Path

from rebalancer.errors import InputError


def state_folder() -> Path:
    """The user's own folder for what runs leave: the XDG state folder."""
    home = os.environ.get("XDG_STATE_HOME", "")
    return (Path(home) if home.startswith("/") else Path.home() / ".local" / "state") / "rebalancer"


def default_journal() -> Path:
    """The journal of runs on a terminal."""
    return state_folder() / "journal.jsonl"


def prepare_state_folder() -> None:
    """Create the folder, readable by its owner only; InputError when that cannot be done."""
    folder = state_folder()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"cannot create: {error.strerror or error}", where=str(folder), hint="name a file with --journal"
        ) from error
