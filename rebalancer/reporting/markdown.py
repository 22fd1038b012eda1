"""Tables as GitHub's Markdown, to paste into a pull request.

Names and messages come from the cluster, where anybody who can create a pod chooses them: in Markdown they
could forge rows, load pictures or call people by ``@name``. So every character with a meaning is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rebalancer.reporting.words import plain

_MEANS_SOMETHING = re.compile(r"([\\`*_{}\[\]#|~!])")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def escaped(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    shown = "".join(_ENTITIES.get(character, character) for character in plain(text))
    shown = _MEANS_SOMETHING.sub(r"\\\1", shown)
    return shown.replace("@", "@<!-- -->").replace("://", ":&#8203;//")


def fenced(text: str) -> str:
    """A line for a block of code, which it cannot end."""
    return plain(text).replace("`", "'")


def table_row(cells: Sequence[str]) -> str:
    """``| a | b |``."""
    return f"| {' | '.join(escaped(cell.strip()) for cell in cells)} |\n"


def table_head(titles: Sequence[str], right: Sequence[bool]) -> str:
    """The line of titles, and the one that says which columns are aligned to the right."""
    rule = " | ".join("---:" if aligned else "---" for aligned in right)
    return f"{table_row(titles)}| {rule} |\n"
