"""A parsed document: a plain value, and the position of each part of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from rebalancer.errors import InputError

Path: TypeAlias = tuple[str | int, ...]
Place: TypeAlias = tuple[int, int]


def format_path(path: Sequence[str | int]) -> str:
    """A path as errors show it: ``profiles[1].plugins.score``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.removeprefix(".")


@dataclass(frozen=True, slots=True)
class Document:
    """A plain value with the line and column of each of its parts, counted from 1.

    ``values`` holds where a value begins, ``keys`` where the key of a mapping's entry does.
    """

    value: Any
    source: str
    values: Mapping[Path, Place] = field(repr=False)
    keys: Mapping[Path, Place] = field(repr=False)

    def place(self, path: Path, *, key: bool = False) -> Place:
        """Line and column of the value at a path (of its key with ``key``), else of its nearest ancestor."""
        if key and path in self.keys:
            return self.keys[path]
        while path and path not in self.values:
            path = path[:-1]
        return self.values.get(path, (1, 1))

    def position(self, path: Path = (), *, key: bool = False) -> str:
        """``file:line:column`` of the value at a path."""
        line, column = self.place(path, key=key)
        return f"{self.source}:{line}:{column}"

    def error(self, path: Path, message: str, *, hint: str = "", key: bool = False) -> InputError:
        """An error about the value at a path (or about its key)."""
        where = f"{self.position(path, key=key)} {format_path(path)}".strip()
        return InputError(message, where=where, hint=hint)
