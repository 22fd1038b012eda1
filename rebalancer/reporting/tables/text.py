"""The bars, lines and columns that every table is made of, for a terminal or as GitHub's Markdown.

Names and messages come from the cluster and may be hostile. They reach a terminal only through
``words.plain`` and only as spans of a ``Text``, so that neither control characters nor markup in them has any
effect. In Markdown they could forge rows, load pictures or call people by ``@name``, so every character with
a meaning is escaped.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Any, TypeVar

import msgspec
from rich.text import Text

from rebalancer.reporting.words import counted, plain, shortened, words

_MEANS_SOMETHING = re.compile(r"([\\`*_{}\[\]#|~!])")
_LINKS = re.compile(
    r"(www|mailto|xmpp)(?=[.:])", re.IGNORECASE
)  # which GitHub makes a link of what begins so
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
MIN_WIDTH = 80  # columns; tables are not made narrower
Item = TypeVar("Item")


def escaped(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    shown = "".join(_ENTITIES.get(character, character) for character in plain(text))
    shown = _MEANS_SOMETHING.sub(r"\\\1", shown)
    return _LINKS.sub("\\1<!-- -->", shown.replace("@", "@<!-- -->").replace("://", ":&#8203;//"))


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


class Glyphs(msgspec.Struct, frozen=True):
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


class Style(msgspec.Struct, frozen=True):
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
    colour = "red" if (before if after is None else after) >= 80 else "cyan"
    text.append(glyphs.full * min(start, end), colour)
    text.append(glyphs.leaves * (start - end), "green")
    text.append(glyphs.arrives * (end - start), "yellow")
    text.append(glyphs.empty * (width - max(start, end)), "dim")
    return text


def _cells(percent: float, width: int) -> int:
    return min(max(round(percent * width / 100), 0), width)


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
        """Add a line that says how many rows are hidden, if they have a noun, and how to see them."""
        if hidden > 0 and noun:
            rows = counted(hidden, f"more {noun}", plural and f"more {plural}")
            self.add(" " * indent, (f"{self.style.glyphs.more} {rows} (--all)", "dim"))

    def first(self, items: Sequence[Item], most: int, noun: str, plural: str = "") -> Iterator[Item]:
        """The items to show; once the last of them was used, a line says how many more there are."""
        shown = items[: self.shown(len(items), most)]
        yield from shown
        self.more(len(items) - len(shown), noun, plural=plural)

    def listed(
        self,
        title: str,
        messages: Sequence[str],
        style: str = "yellow",
        *,
        note: str = "",
        most: int | None = None,
        noun: str = "",
    ) -> None:
        """Add a heading and the messages below it, the first ``most`` of them; nothing if there is none."""
        if not messages:
            return
        self.heading(title, note)
        for message in messages if most is None else self.first(messages, most, noun):
            self.message(message, 2, style)

    def shown(self, total: int, most: int) -> int:
        """How many of ``total`` rows to show: about ``most``, or as many as the style asks for."""
        if self.style.top is not None:
            return min(total, self.style.top)
        return total if self.style.everything or total <= most + 1 else most


class Cut(Enum):
    """How a cell gives way when its row is too wide."""

    NEVER = "never"
    MIDDLE = "middle"  # names
    END = "end"  # sentences


_LEAST = {Cut.MIDDLE: 9, Cut.END: 12}  # columns; no cell is cut shorter


class Column(msgspec.Struct, frozen=True):
    """A column: its title, the cell of an item in it, how cells are aligned, and how they give way.

    A cell is a text, or a pair of a text and its colour.
    """

    title: str
    cell: Callable[[Any], str | Text | tuple[str, str]]
    right: bool = False
    cut: Cut = Cut.NEVER

    def text(self, item: Any) -> Text:
        """The cell of an item."""
        cell = self.cell(item)
        return cell if isinstance(cell, Text) else Text(*cell) if isinstance(cell, tuple) else Text(cell)


def write_table(
    lines: Lines, columns: Sequence[Column], items: Sequence[Any], most: int | None = None, noun: str = ""
) -> None:
    """Add a line of titles, unless the style leaves them out, and a line for each item.

    Of the items about ``most`` are shown, if given, and a line says how many more there are.

    A row is one line, so that twenty moves are twenty lines. When the cells are too wide together, sentences
    give way before names, and the widest column before the others, all to the same width, until the row fits:

        room 20, natural widths 14 | 9 | 5, the first two are names  →  8 | 7 | 5

    Names are cut in their middle, because Kubernetes tells replicas and nodes apart by their ends; sentences
    are cut at their end.
    """
    indent, shown = 2, items if most is None else items[: lines.shown(len(items), most)]
    rows = [[column.text(item) for column in columns] for item in shown]
    if lines.style.markdown:
        lines.markdown_table([column.title for column in columns], [column.right for column in columns], rows)
        lines.more(len(items) - len(shown), noun)
        return
    gap, widths = 2, _widths(columns, rows, None)
    if sum(widths) + gap * (len(columns) - 1) > lines.style.columns - indent:
        gap, widths = 1, _widths(columns, rows, lines.style.columns - indent - len(columns) + 1)
    if not lines.style.no_headers:
        titles = [Text(column.title, "dim") for column in columns]
        lines.add(" " * indent, _line(columns, titles, widths, lines, gap))
    for row in rows:
        lines.add(" " * indent, _line(columns, row, widths, lines, gap))
    lines.more(len(items) - len(shown), noun)


def middle_cut(text: str, width: int, more: str) -> str:
    """The text, its middle replaced so that it is at most ``width`` long; its end keeps the larger part."""
    if len(text) <= width:
        return text
    kept = max(width - len(more), 2)
    end = (kept + 1) // 2
    return text[: kept - end] + more + text[-end:]


def _widths(columns: Sequence[Column], rows: Sequence[Sequence[Text]], room: int | None) -> list[int]:
    """Each column's natural width, or narrower so that all fit the room."""
    natural = [
        max(len(column.title), *(row[index].cell_len for row in rows), 0)
        for index, column in enumerate(columns)
    ]
    if room is None:
        return natural
    for giving in (Cut.END, Cut.MIDDLE):
        indexes = [index for index, column in enumerate(columns) if column.cut is giving]
        _narrow(natural, indexes, [_LEAST[columns[index].cut] for index in indexes], room)
    return natural


def _narrow(widths: list[int], indexes: Sequence[int], least: Sequence[int], room: int) -> None:
    """Narrow these columns until all fit the room, or each has its least width."""
    left = room - sum(widths) + sum(widths[index] for index in indexes)
    if sum(widths) <= room:
        return
    # All columns narrower than the common width keep their own; the others share what is left.
    by_width = sorted(zip(indexes, least, strict=True), key=lambda item: widths[item[0]])
    for narrower, (index, shortest) in enumerate(by_width):
        common = max(left // (len(indexes) - narrower), min(widths[index], shortest))
        widths[index] = min(widths[index], common)
        left -= widths[index]


def _line(
    columns: Sequence[Column], cells: Sequence[Text], widths: Sequence[int], lines: Lines, gap: int
) -> Text:
    line = Text()
    for index, (column, cell, width) in enumerate(zip(columns, cells, widths, strict=True)):
        fitting = cell if cell.cell_len <= width else _shortened(column, cell, width, lines.style.glyphs.more)
        padding = Text(" " * max(width - fitting.cell_len, 0))
        line.append_text(padding + fitting if column.right else fitting + padding)
        if index < len(columns) - 1:
            line.append(" " * gap)
    return line


def _shortened(column: Column, cell: Text, width: int, more: str) -> Text:
    if column.cut is Cut.MIDDLE:
        return Text(middle_cut(cell.plain, width, more), cell.style)
    return Text(shortened(cell.plain, width, more), cell.style)
