"""Words of reports and logs, safe to print whatever a cluster calls its things."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_MAX_WORDS_LENGTH = 20_000  # characters of one message that anybody looks at


def plain(text: str) -> str:
    r"""A text without control, format or line-breaking characters: those are written as ``\x1b``."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def words(text: str) -> str:
    """A message as one line of single-spaced words, safe to print."""
    return plain(" ".join(text[:_MAX_WORDS_LENGTH].split()))


def shortened(text: str, width: int, more: str = "…") -> str:
    """A text cut to a width, the cut marked."""
    return text if len(text) <= width else text[: max(width - len(more), 1)] + more


def counted(number: int, noun: str, plural: str = "") -> str:
    """``1 node``, ``2 nodes``."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def sample(names: Sequence[str], most: int) -> str:
    """A few names, and how many more there are."""
    if len(names) <= most:
        return ", ".join(map(plain, names))
    return f"{', '.join(map(plain, names[:most]))} and {len(names) - most} more"


def amounts(values: Iterable[tuple[str, float]]) -> str:
    """``cpu 12.5, memory 3``: figures by name, in one order."""
    return ", ".join(f"{plain(name)} {value:.1f}".removesuffix(".0") for name, value in sorted(values))
