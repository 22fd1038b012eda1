"""The command line of a kube-scheduler as far as it decides placements: its feature gates, and nothing else.

Command lines of other containers are dropped as soon as they are decoded, because they may hold secrets.

    command: [kube-scheduler, --config=/etc/c.yaml, --feature-gates=A=true]    is kept as
    command: [kube-scheduler], args: [--feature-gates=A=true]
    command: [sh, -c, "kube-scheduler $FLAGS"]                                 is kept as nothing: not known
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

PROGRAM = "kube-scheduler"
_FLAG = "--feature-gates"
_BOOLEANS = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}


def is_scheduler(image: str) -> bool:
    """Whether an image is that of a kube-scheduler."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0] == PROGRAM


def kept_arguments(image: str, command: Sequence[str], arguments: Sequence[str]) -> list[str] | None:
    """The feature gates on a kube-scheduler's command line; None for any other, or if not understood."""
    tokens = [*command, *arguments]
    if not is_scheduler(image) or not tokens:
        return None
    if tokens[0].rpartition("/")[2] == PROGRAM:
        del tokens[0]
    if tokens and not tokens[0].startswith("-"):
        return None  # a shell, or another program that starts it
    return [f"{_FLAG}={text}" for text in _values(tokens)]


def _values(tokens: Sequence[str]) -> list[str]:
    """The values of the flag, given with = or as the next token."""
    found = [token.removeprefix(f"{_FLAG}=") for token in tokens if token.startswith(f"{_FLAG}=")]
    return found + [value for flag, value in itertools.pairwise(tokens) if flag == _FLAG]


def stated_gates(arguments: Iterable[str]) -> dict[str, bool] | None:
    """The feature gates of arguments that were kept; None when a value is not a boolean."""
    found: dict[str, bool] = {}
    for text in _values(list(arguments)):
        for item in filter(None, text.split(",")):
            name, _, value = item.partition("=")
            state = _BOOLEANS.get(value.strip().lower())
            if state is None:
                return None
            found[name.strip()] = state
    return found
