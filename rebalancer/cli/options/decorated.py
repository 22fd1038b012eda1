"""Several options at once, for functions that give a command a family of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

Command = TypeVar("Command", bound=Callable[..., Any])


def with_options(
    command: Command, wrapped: Callable[..., Any], options: Iterable[Callable[[Any], Any]]
) -> Command:
    """``wrapped`` in a command's place and under its name, with these options in the order of ``--help``."""
    decorated: Any = functools.wraps(command)(wrapped)
    for option in reversed(tuple(options)):
        decorated = option(decorated)
    found: Command = decorated
    return found
