"""What was probably meant by an option or argument that a command does not have."""

from __future__ import annotations

import re
from pathlib import Path

import click

from rebalancer import files

_OF_KUBECTL = {"-f": "--policy FILE", "--file": "--policy FILE", "--filename": "--policy FILE"}
_ROWS = frozenset({"-n", "--namespace", "-l", "--selector", "--field-selector", "--hot"})
_EXTRA = re.compile(r"unexpected extra arguments? \(([^\s)]+)")


def usage_hint(error: click.UsageError) -> str:
    """The suggestion for a mistake, e.g. ``did you mean --policy policy.yaml?``; empty without one."""
    if isinstance(error, click.NoSuchOption):
        name = error.option_name
        if _command(error) == "run" and name in _ROWS:
            return "run carries out the whole plan: limit it in the policy, under evictable or limits"
        return f"did you mean {_OF_KUBECTL[name]}?" if name in _OF_KUBECTL else ""
    extra = _EXTRA.search(error.format_message())
    if extra is None or error.ctx is None:
        return ""
    options = {name for parameter in error.ctx.command.params for name in parameter.opts}
    path = extra[1]
    if path.endswith((".yaml", ".yml")) and "--policy" in options:
        return f"did you mean --policy {path}?"
    if "--from" in options and ("/" in path or files.is_there(Path(path))):
        return f"did you mean --from {path}?"
    return ""


def _command(error: click.UsageError) -> str:
    return (error.ctx.info_name if error.ctx else None) or ""
