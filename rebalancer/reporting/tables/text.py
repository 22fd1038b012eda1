"""The bars and lines that every table is made of.

Names and messages come from the cluster and may be hostile. They reach a terminal only through
``words.plain`` and only as spans of a ``Text``, so that neither control characters nor markup in them has any
effect.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field

from rich.text import Text

from rebalancer.reporting.words import counted, words

MIN_WIDTH = 80  # columns; tables are not made narrower


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The characters of bars and arrows."""

    full: str
    leaves: str
    arrives: str
    empty: str
    arrow: str
    more: str
    steps: str  # of a histogram, from nothing to most


UNICODE = Glyphs("█", "▒", "▓", "░", "→", "…", " ▁▂▃▄▅▆▇█")
ASCII = Glyphs("#", "-", "+", ".", "->", "...", " .:-=+*#@")


@dataclass(frozen=True, slots=True)
class Style:
    """How wide a table may be, how much of it is shown, and which characters it is drawn with."""

    width: int = 80
    everything: bool = False
    glyphs: Glyphs = UNICODE
    wide: bool = False  # whole names and more columns
    top: int | None = None  # rows of a list that are shown, instead of each list's own number
    no_headers: bool = False

    @property
    def columns(self) -> int:
        """The width that lines are wrapped to."""
        return max(self.width, MIN_WIDTH)


def bar(before: float, after: float | None, width: int, glyphs: Glyphs) -> Text:
    """Percentages as a bar: what stays, what leaves, what arrives."""
    start = _cells(before, width)
    end = start if after is None else _cells(after, width)
    text = Text()
    text.append(glyphs.full * min(start, end), _colour(before if after is None else after))
    text.append(glyphs.leaves * (start - end), "green")
    text.append(glyphs.arrives * (end - start), "yellow")
    text.append(glyphs.empty * (width - max(start, end)), "dim")
    return text


def _cells(percent: float, width: int) -> int:
    return min(max(round(percent * width / 100), 0), width)


def _colour(percent: float) -> str:
    return "red" if percent >= 80 else "cyan"


@dataclass(slots=True)
class Lines:
    """Lines being written; none is wider than the style allows, except for names, which are never cut."""

    style: Style
    text: Text = field(default_factory=Text)

    def add(self, *parts: str | Text | tuple[str, str]) -> None:
        """Add one line made of parts; a part is a text, or a pair of a text and its colour."""
        line = Text()
        for part in parts:
            if isinstance(part, tuple):
                line.append(*part)
            else:
                line.append(part)
        line.rstrip()
        self.text.append_text(line)
        self.text.append("\n")

    def heading(self, title: str, note: str = "") -> None:
        """Add a blank line, and a title with a note beside it."""
        self.add()
        self.add((title, "bold"), (f"  {note}" if note else "", "dim"))

    def message(self, message: str, indent: int, style: str = "", most: int = 2) -> None:
        """Add a message, wrapped between words: ``most`` lines, or all if the style shows everything."""
        width = self.style.columns - indent
        lines = textwrap.wrap(words(message), width, break_on_hyphens=False)
        if len(lines) > most and not self.style.everything:
            more = self.style.glyphs.more
            last = lines[most - 1]
            if len(last) + len(more) > width:
                last = last[: width - len(more)]
            lines = [*lines[: most - 1], last + more]
        for line in lines:
            self.add(" " * indent, (line, style))

    def more(self, hidden: int, noun: str, indent: int = 2, plural: str = "") -> None:
        """Add a line that says how many rows are hidden, and how to see them."""
        if hidden > 0:
            self.add(
                " " * indent,
                (f"{self.style.glyphs.more} {counted(hidden, f'more {noun}', plural)} (--all)", "dim"),
            )

    def shown(self, total: int, most: int) -> int:
        """How many of ``total`` rows to show: about ``most``, or as many as the style asks for."""
        if self.style.top is not None:
            return min(total, self.style.top)
        return total if self.style.everything or total <= most + 1 else most
