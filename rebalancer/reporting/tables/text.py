"""The bars and lines that every table is made of.

Names and messages come from the cluster and may be hostile. They reach a terminal only through
``words.plain`` and only as spans of a ``Text``, so that neither control characters nor markup in them has any
effect.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

from rebalancer.reporting.markdown import escaped, fenced, table_head, table_row
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
    markdown: bool = False  # headings and tables in Markdown, and all other lines as blocks of code

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


class Lines:
    """Lines being written; none is wider than the style allows, except for names, which are never cut.

    As Markdown, the first line is the headline, rows of columns are a table, and what is between them stays
    as it is laid out, in a block of code.
    """

    def __init__(self, style: Style) -> None:
        self.style = style
        self._text = Text()
        self._in_block = False

    @property
    def text(self) -> Text:
        """Everything that was written."""
        self._end_block()
        return self._text

    def add(self, *parts: str | Text | tuple[str, str]) -> None:
        """Add one line made of parts; a part is a text, or a pair of a text and its colour."""
        line = Text()
        for part in parts:
            if isinstance(part, tuple):
                line.append(*part)
            else:
                line.append(part)
        line.rstrip()
        if self.style.markdown:
            self._add_markdown(line.plain)
            return
        self._text.append_text(line)
        self._text.append("\n")

    def heading(self, title: str, note: str = "") -> None:
        """Add a blank line, and a title with a note beside it."""
        if self.style.markdown:
            self._end_block()
            self._text.append(f"\n### {escaped(title.capitalize())}\n\n")
            self._text.append(f"{escaped(note)}\n\n" if note else "")
            return
        self.add()
        self.add((title, "bold"), (f"  {note}" if note else "", "dim"))

    def markdown_table(
        self, titles: Sequence[str], right: Sequence[bool], rows: Sequence[Sequence[Text]]
    ) -> None:
        """Add rows of cells as a table of Markdown, whose columns have the width that they need."""
        self._end_block()
        self._text.append(table_head(titles, right))
        for row in rows:
            self._text.append(table_row([cell.plain for cell in row]))
        self._text.append("\n")

    def _add_markdown(self, line: str) -> None:
        if not self._text:
            self._text.append(f"## {escaped(line)}\n\n")
        elif line or self._in_block:
            self._text.append("" if self._in_block else "```text\n")
            self._in_block = True
            self._text.append(f"{fenced(line)}\n")

    def _end_block(self) -> None:
        if self._in_block:
            self._text.append("```\n")
        self._in_block = False

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
            rows = counted(hidden, f"more {noun}", plural and f"more {plural}")
            self.add(" " * indent, (f"{self.style.glyphs.more} {rows} (--all)", "dim"))

    def shown(self, total: int, most: int) -> int:
        """How many of ``total`` rows to show: about ``most``, or as many as the style asks for."""
        if self.style.top is not None:
            return min(total, self.style.top)
        return total if self.style.everything or total <= most + 1 else most
