"""Text that is safe to print.

Names and messages come from the cluster, where anybody who can create a pod chooses them. Control characters
in them could clear a terminal or forge a log line, so everything that is printed passes through this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rebalancer.redaction import without_secrets

_MAX_WORDS_LENGTH = 20_000  # characters; a longer message is cut


def plain(text: str) -> str:
    r"""The text with every character that is not printable escaped, and without secrets in URLs."""
    text = without_secrets(text)
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def words(text: str) -> str:
    """The message on one line, its words separated by single spaces, safe to print."""
    return plain(" ".join(without_secrets(text)[:_MAX_WORDS_LENGTH].split()))  # a login is cut nowhere


def shortened(text: str, width: int, more: str = "…") -> str:
    """The text, cut to a width and ending in ``more`` if it is longer."""
    return text if len(text) <= width else text[: max(width - len(more), 1)] + more


def minutes(seconds: float) -> str:
    """``10 min``, ``1.5 min``; ``30 s`` where it is less than one."""
    return f"{seconds / 60:g} min" if seconds >= 60 else f"{seconds:g} s"


def figure(value: float | None, digits: int = 0) -> str:
    """A figure with so many digits; a dash where there is none."""
    return "-" if value is None else f"{value:.{digits}f}"


def sample(names: Sequence[str], max_names: int) -> str:
    """The first names, and how many more there are: ``a, b and 3 more``."""
    if len(names) <= max_names:
        return ", ".join(map(plain, names))
    return f"{', '.join(map(plain, names[:max_names]))} and {len(names) - max_names} more"


def amounts(values: Iterable[tuple[str, float]]) -> str:
    """Figures by name, sorted by name: ``cpu 12.5, memory 3``."""
    return ", ".join(f"{plain(name)} {value:.1f}".removesuffix(".0") for name, value in sorted(values))
