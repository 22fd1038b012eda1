"""Lays out rows of cells in columns that fit a width.

A row is one line, so that twenty moves are twenty lines. When the cells are too wide together, sentences give
way before names, and the widest column before the others, all to the same width, until the row fits:

    room 20, natural widths 14 | 9 | 5, the first two are names  →  8 | 7 | 5

Names are cut in their middle, because Kubernetes tells replicas and nodes apart by their ends; sentences are
cut at their end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from rich.text import Text

from rebalancer.reporting.tables.text import Lines
from rebalancer.reporting.words import shortened


class Cut(Enum):
    """How a cell gives way when its row is too wide."""

    NEVER = "never"
    MIDDLE = "middle"  # names
    END = "end"  # sentences


_LEAST = {Cut.MIDDLE: 9, Cut.END: 12}  # columns; no cell is cut shorter


@dataclass(frozen=True, slots=True)
class Column:
    """A column's title, how its cells are aligned, and how they give way."""

    title: str
    right: bool = False
    cut: Cut = Cut.NEVER


def write_columns(
    lines: Lines, columns: Sequence[Column], rows: Sequence[Sequence[Text]], *, indent: int = 2
) -> None:
    """Add a line of titles, unless the style leaves them out, and a line for each row."""
    if lines.style.markdown:
        lines.markdown_table([column.title for column in columns], [column.right for column in columns], rows)
        return
    gap, widths = 2, _widths(columns, rows, None)
    if sum(widths) + gap * (len(columns) - 1) > lines.style.columns - indent:
        gap, widths = 1, _widths(columns, rows, lines.style.columns - indent - len(columns) + 1)
    if not lines.style.no_headers:
        titles = [Text(column.title, "dim") for column in columns]
        lines.add(" " * indent, _line(columns, titles, widths, lines, gap))
    for row in rows:
        lines.add(" " * indent, _line(columns, row, widths, lines, gap))


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
