"""Files of the user: two options may not name the same one, and each has a default place."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from rebalancer.cli.edge import stderr_was_closed
from rebalancer.errors import InputError
from rebalancer.files import state_folder
from rebalancer.observe.plan_options import PlanOptions


def default_journal() -> Path:
    """The journal of runs on a terminal. Raises InputError for a user without a home."""
    folder = state_folder()
    if folder is None:
        raise InputError("this user has no home folder, where journals are kept", hint="name a file")
    return folder / "journal.jsonl"


def prepare_state_folder() -> None:
    """Create the folder, readable by its owner only; InputError when that cannot be done."""
    folder = default_journal().parent
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"cannot create: {error.strerror or error}", where=str(folder), hint="name a file with --journal"
        ) from error


def refuse_unread_journal(journal: Path | None) -> None:
    """InputError when the journal of evictions would go to a stderr that nobody can ever read."""
    if journal is None and stderr_was_closed():
        raise InputError("stderr is closed, where the journal goes", hint="name a file with --journal")


def refuse_one_file_for_two(options: PlanOptions, written: Mapping[str, Path | None]) -> None:
    """InputError when an option names a file to be written that another option names too."""
    read = {
        "--policy": options.policy_path,
        "--kubeconfig": options.kubeconfig,
        "--scheduler-config": options.scheduler_config,
    }
    taken: dict[str, str] = {
        os.path.realpath(path): option for option, path in read.items() if path is not None
    }
    for option, path in {"--state": options.state_path, **written}.items():
        if path is None:
            continue
        other = taken.setdefault(os.path.realpath(path), option)
        if other != option:
            raise InputError(
                f"{other} and {option} name the same file, and one would destroy the other",
                where=str(path),
                hint="name two files",
            )
