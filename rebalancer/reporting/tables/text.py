"""The bars, lines and columns that every table is made of, for a terminal or as GitHub's Markdown.

Names and messages come from the cluster and may be hostile. They reach a terminal only through
``words.plain`` and only as spans of a ``Text``, so that neither control characters nor markup in them has any
effect. In Markdown they could forge rows, load pictures or call people by ``@name``, so every character with
a meaning is escaped.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import takewhile, zip_longest
from typing import Any, TypeVar

import msgspec
from rich.text import Text

from rebalancer.counting import counted
from rebalancer.reporting.words import plain, shortened, words

_MEANS_SOMETHING = re.compile(r"([\\`*_{}\[\]#|~!])")
_LINKS = re.compile(
    r"(www|mailto|xmpp)(?=[.:])", re.IGNORECASE
)  # which GitHub makes a link of what begins so
_NOT_A_LIST = re.compile(r"^(\d*)([-+=.)])")  # nor a rule, at the beginning of a line
_ESCAPED = r"\1\\\2"
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_NAMES = re.compile(r"[\w.-]+")
MIN_WIDTH = 40  # columns; lines are not made narrower
_LEAST_BESIDE = 20  # columns for a message beside its label
Item = TypeVar("Item")


def escaped(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    shown = "".join(_ENTITIES.get(character, character) for character in plain(text))
    shown = _MEANS_SOMETHING.sub(r"\\\1", shown)
    return _LINKS.sub("\\1<!-- -->", shown.replace("@", "@<!-- -->").replace("://", ":&#8203;//"))


def table_row(cells: Sequence[str]) -> str:
    """``| a | b |``."""
    return f"| {' | '.join(escaped(cell.strip()) for cell in cells)} |\n"


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

    width: int = 80  # columns that sentences are wrapped to
    bounded: bool = True  # rows fit the width, on a terminal; elsewhere a row is one line, as wide as it is
    everything: bool = False
    glyphs: Glyphs = UNICODE
    wide: bool = False  # more columns
    top: int | None = None  # rows of a list that are shown, instead of each list's own number
    no_headers: bool = False
    markdown: bool = False  # headings, tables, lists and paragraphs in Markdown; lines laid out stay so

    @property
    def columns(self) -> int:
        """The width that lines are wrapped to."""
        return max(self.width, MIN_WIDTH)

    @property
    def summarised(self) -> bool:
        """Whether lists and sentences of lesser weight may be left out: to a person, on a screen."""
        return self.bounded and not self.everything and not self.markdown


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

    As Markdown, the first line is the headline, rows of columns are a table, and messages are the items of a
    list or paragraphs, none of them wrapped. Only lines laid out by hand, such as bars, are a block of code.
    """

    def __init__(self, style: Style, nodes: Iterable[str] = ()) -> None:
        """``nodes`` are the names whose common ending is left out of rows and sentences on a terminal."""
        self.style = style
        self._text = Text()
        self._block = ""  # of Markdown that is being written: code, list, or none
        self._blank = False  # whether a blank line of Markdown was written last
        self._ending = common_ending(nodes) if style.bounded and not style.markdown else ""

    def say_what_is_left_out(self) -> None:
        """Add a line that says which ending node names lack, if they lack one."""
        if self._ending:
            self.labelled("names    ", f"of nodes end in {plain(self._ending)}, left out here", "dim")

    def without_ending(self, text: str) -> str:
        """The text with node names as they are shown."""
        return _NAMES.sub(self._shown, text) if self._ending else text

    def _shown(self, word: re.Match[str]) -> str:
        name = word[0].rstrip(".")
        if name == self._ending:
            return word[0]
        return name.removesuffix(self._ending) + word[0][len(name) :]

    @property
    def text(self) -> Text:
        """Everything that was written."""
        if self._block == "code":
            self._write("```\n")
            self._block = ""
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
            if not self._text:
                self._paragraph(f"## {escaped(line.plain)}")
            elif line.plain or self._block == "code":
                self._begin("code")
                self._write(plain(line.plain).replace("`", "'") + "\n")  # which cannot end the block
            return
        self._text.append_text(line)
        self._text.append("\n")

    def heading(self, title: str, note: str = "") -> None:
        """Add a blank line, and a title with a note beside it."""
        if self.style.markdown:
            self._paragraph(f"### {escaped(title.capitalize())}")
            if note:
                self._paragraph(escaped(note))
            return
        self.add()
        if note:
            self.labelled(f"{title}  ", note, "dim", "bold")
        else:
            self.add((title, "bold"))

    def markdown_table(
        self, titles: Sequence[str], right: Sequence[bool], rows: Sequence[Sequence[Text]]
    ) -> None:
        """Add rows of cells as a table of Markdown, whose columns have the width that they need."""
        self._begin("")
        rule = " | ".join("---:" if aligned else "---" for aligned in right)
        self._write(f"{table_row(titles)}| {rule} |\n")
        for row in rows:
            self._write(table_row([cell.plain for cell in row]))
        self._write("\n", blank=True)

    def _begin(self, block: str) -> None:
        """End the block that is being written, if it is another, and begin this one."""
        if self._block == block:
            return
        if self._block == "code":
            self._write("```\n")
        if self._text and not self._blank:
            self._write("\n", blank=True)
        self._block = block
        if block == "code":
            self._write("```text\n")

    def _paragraph(self, text: str) -> None:
        self._begin("")
        self._write(f"{_NOT_A_LIST.sub(_ESCAPED, text)}\n\n", blank=True)

    def _item(self, text: str, *, nested: bool = False) -> None:
        nested = nested and self._block == "list"
        self._begin("list")
        self._write(f"{'  ' if nested else ''}* {_NOT_A_LIST.sub(_ESCAPED, text)}\n")

    def _write(self, text: str, *, blank: bool = False) -> None:
        self._text.append(text)
        self._blank = blank

    def message(self, message: str, indent: int, style: str = "", most: int | None = None) -> None:
        """Add a message, wrapped between words: whole, or on a screen at most ``most`` lines of it.

        An empty one adds nothing, not even an item without words to Markdown.
        """
        if not message.strip():
            return
        if self.style.markdown:
            if not self._text:
                self.add(words(message))
            elif indent == 0 or (style == "dim" and self._block != "list"):
                self._paragraph(escaped(words(message)))
            else:
                self._item(escaped(words(message)), nested=indent > 2)
            return
        lines = self._wrapped(words(self.without_ending(message)), self.style.columns - indent)
        if most is not None and len(lines) > most and self.style.summarised:
            more = self.style.glyphs.more
            room = self.style.columns - indent
            last = shortened(lines[most - 1], room - len(more), "").rsplit(" ", 1)[0]
            lines = [*lines[: most - 1], last + more]
        for line in lines:
            self.add(" " * indent, (line, style))

    def labelled(self, label: str, message: str, style: str = "", label_style: str = "dim") -> None:
        """Add a message whose lines stand beside its label, or below it where there is too little room.

        Nothing is added for an empty one.
        """
        if not message.strip():
            return
        if self.style.markdown:
            if not self._text:
                self.add(label, words(message))
            else:
                self._item(f"**{escaped(words(label))}** {escaped(words(message))}")
            return
        text = words(self.without_ending(message))
        width = self.style.columns - len(label)
        if max(_LEAST_BESIDE, *map(len, text.split())) > width:
            self.add((label, label_style))
            self.message(text, 4, style)
            return
        for line in self._wrapped(text, width):
            self.add((label, label_style), (line, style))
            label = " " * len(label)

    @staticmethod
    def _wrapped(text: str, width: int) -> list[str]:
        return textwrap.wrap(text, max(width, _LEAST_BESIDE), break_on_hyphens=False, break_long_words=False)

    def more(self, hidden: int, noun: str, indent: int = 2, plural: str = "") -> None:
        """Add a line that says how many rows are hidden, if they have a noun, and how to see them."""
        if hidden > 0 and noun:
            rows = counted(hidden, f"more {noun}", plural and f"more {plural}")
            self.message(f"{self.style.glyphs.more} {rows} (--all)", indent, "dim")

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
        if self.style.markdown:
            self._begin("list")
        for message in messages if most is None else self.first(messages, most, noun):
            self.message(message, 2, style)

    def shown(self, total: int, most: int) -> int:
        """How many of ``total`` rows to show: about ``most``, or as many as the style asks for."""
        if self.style.top is not None:
            return min(total, self.style.top)
        whole = self.style.everything or self.style.markdown
        return total if whole or total <= most + 1 else most


class Column(msgspec.Struct, frozen=True):
    """A column: its title, the cell of an item in it, and how cells are aligned.

    A cell is a text, or a pair of a text and its colour.
    """

    title: str
    cell: Callable[[Any], str | Text | tuple[str, str]]
    right: bool = False
    node: bool = False  # the name of a node
    sentence: bool = False  # it is wrapped within its column
    begins_line: bool = False  # with those up to the next such column, where they do not fit beside others
    below: bool = False  # a sentence, wrapped below its row: only in Markdown a column

    def text(self, item: Any, lines: Lines) -> Text:
        """The cell of an item."""
        cell = self.cell(item)
        if isinstance(cell, Text):
            return cell
        text, colour = cell if isinstance(cell, tuple) else (cell, "")
        return Text(lines.without_ending(text) if self.node or self.sentence else text, colour)


def figure_of(field: str, key: str, form: str = "{:.0f}", unknown: str = "?") -> Callable[[Any], str]:
    """The cell of what a field of the item holds under a key, such as a resource, if it holds it."""

    def cell(item: Any) -> str:
        held = getattr(item, field)
        return form.format(held[key]) if key in held else unknown

    return cell


_INDENT = 2  # columns before the first line of a row, and before its others
_LATER_INDENT = 7
_BELOW_INDENT = 6  # of sentences below a row
_LEAST_SENTENCE = 24  # columns; in less, a sentence is not worth beginning


def _texts(columns: Sequence[Column], row: Any, lines: Lines) -> list[Text]:
    return [column.text(row, lines) for column in columns]


def _widest(cells: Iterable[Text]) -> int:
    return max(cell.cell_len for cell in cells)


def write_table(
    lines: Lines, columns: Sequence[Column], items: Sequence[Any], most: int | None = None, noun: str = ""
) -> None:
    """Add a line of titles, unless the style leaves them out, and each item as a row.

    Of the items about ``most`` are shown, if given, and a line says how many more there are.

    A row is one line. Where it is too wide for a terminal, sentences are wrapped within their column first,
    and then every row takes several lines, because a name that is cut names nothing:

        1  shop/checkout-api-7c9d6f5b8f-03  ip-10-0-12-22  89→63
             ip-10-0-12-24  100%  33→59  41
    """
    shown = items if most is None else items[: lines.shown(len(items), most)]
    if lines.style.markdown:
        rows = [_texts(columns, row, lines) for row in shown]
        lines.markdown_table([column.title for column in columns], [column.right for column in columns], rows)
        lines.more(len(items) - len(shown), noun)
        return
    below = [column for column in columns if column.below]
    columns = [column for column in columns if not column.below]
    sentences = [_texts(below, row, lines) for row in shown]
    rows = [_texts(columns, row, lines) for row in shown]
    titles = [Text(column.title, "dim") for column in columns]
    natural = [_widest(cells) for cells in zip(titles, *rows, strict=True)]
    gap, bands = _bands(columns, natural, lines.style.columns if lines.style.bounded else None)
    head: list[tuple[list[Text], list[Text]]] = [] if lines.style.no_headers else [(titles, [])]
    for row, said in [*head, *zip(rows, sentences, strict=True)]:
        for number, band in enumerate(bands):
            _write_band(lines, columns, row, band, gap, _LATER_INDENT if number else _INDENT)
        for sentence in said:
            lines.message(sentence.plain, _BELOW_INDENT, str(sentence.style))
    lines.more(len(items) - len(shown), noun)


def common_ending(names: Iterable[str]) -> str:
    """The domain that all names share, such as ``.eu-west-1.compute.internal``; else nothing.

    It begins at a dot and holds a letter, so that addresses stay whole.
    """
    known = set(names)
    if len(known) < 2:
        return ""
    # What the first and the last in the order of their ends share, all share.
    ends = sorted(name[::-1] for name in known)
    alike = takewhile(lambda pair: pair[0] == pair[1], zip(ends[0], ends[-1], strict=False))
    shared = "".join(one for one, _ in alike)[::-1]
    ending = shared[shared.find(".") :] if "." in shared else ""
    return ending if any(map(str.isalpha, ending)) and ending not in known else ""


def _bands(
    columns: Sequence[Column], natural: list[int], width: int | None
) -> tuple[int, list[list[tuple[int, int]]]]:
    """The gap between columns, and for each line of a row its columns and their widths."""
    every = list(enumerate(natural))
    for gap in (2, 1):
        room = None if width is None else width - _INDENT - gap * (len(columns) - 1)
        fixed = sum(size for at, size in every if not columns[at].sentence)
        sentences = [at for at, _ in every if columns[at].sentence]
        if room is None or sum(natural) <= room:
            return gap, [every]
        if gap == 1 and sentences and room - fixed >= _LEAST_SENTENCE * len(sentences):
            share = (room - fixed) // len(sentences)
            return gap, [[(at, min(size, share) if columns[at].sentence else size) for at, size in every]]
    least = [
        min(size, _LEAST_SENTENCE) if column.sentence else size
        for column, size in zip(columns, natural, strict=True)
    ]
    starts = [at for at, column in enumerate(columns) if column.begins_line]
    bands: list[list[tuple[int, int]]] = [[]]
    left = (width or 0) - _INDENT
    for at, size in every:
        end = next((start for start in starts if start > at), len(columns)) if at in starts else at + 1
        if bands[-1] and sum(least[at:end]) + 2 * (end - at - 1) > left:
            bands.append([])
            left = (width or 0) - _LATER_INDENT
        taken = max(least[at], min(size, left)) if columns[at].sentence else size
        bands[-1].append((at, taken))
        left -= taken + 2
    return 2, bands


def _wrapped(column: Column, cell: Text, width: int) -> list[Text]:
    """The lines of a cell: several where it is a sentence that is too wide."""
    if not column.sentence or cell.cell_len <= width:
        return [cell]
    return [Text(part, cell.style) for part in textwrap.wrap(cell.plain, width, break_on_hyphens=False)]


def _write_band(
    lines: Lines,
    columns: Sequence[Column],
    row: Sequence[Text],
    band: Sequence[tuple[int, int]],
    gap: int,
    indent: int,
) -> None:
    """Add one line of a row, or several where a sentence is wrapped; nothing where all cells are empty."""
    cells = [_wrapped(columns[at], row[at], width) for at, width in band]
    if indent == _LATER_INDENT and not any(cell.plain.strip() for parts in cells for cell in parts):
        return
    for parts in zip_longest(*cells, fillvalue=Text("")):
        line = Text(" " * indent)
        for number, ((at, width), part) in enumerate(zip(band, parts, strict=True)):
            padding = Text(" " * max(width - part.cell_len, 0))
            line.append(" " * gap if number else "")
            line.append_text(padding + part if columns[at].right else part + padding)
        lines.add(line)
