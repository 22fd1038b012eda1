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
from msgspec.structs import replace
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
_LEAST_BEGINNING = 12  # characters that names must share at their beginning to be left out
_LEAST_BESIDE = 20  # columns for a message beside its label
Row = TypeVar("Row")


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


UNICODE = Glyphs("█", "▒", "▓", "░", "→", "…", "·▁▂▃▄▅▆▇█")
ASCII = Glyphs("#", "-", "+", ".", "->", "...", "_.:-=+*#@")


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

    def __init__(self, style: Style, nodes: Iterable[str] = (), ending: str = "") -> None:
        """``nodes`` are the names whose common ending is left out of rows and sentences on a terminal.

        Where only one node is named as such, its ``ending`` is given instead.
        """
        self.style = style
        self._text = Text()
        self._block = ""  # of Markdown that is being written: code, list, or none
        self._blank = False  # whether a blank line of Markdown was written last
        left_out = ending or common_ending(nodes)
        self._ending = left_out if style.bounded and not style.markdown else ""

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
        """Add a title with a note beside it, after a blank line where anything is above it."""
        if self.style.markdown:
            self._paragraph(f"### {escaped(title.capitalize())}")
            if note:
                self._paragraph(escaped(note))
            return
        if self._text:
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

    def _list_item(self, text: str, *, nested: bool = False) -> None:
        nested = nested and self._block == "list"
        self._begin("list")
        self._write(f"{'  ' if nested else ''}* {_NOT_A_LIST.sub(_ESCAPED, text)}\n")

    def _write(self, text: str, *, blank: bool = False) -> None:
        self._text.append(text)
        self._blank = blank

    def message(self, message: str, indent: int, style: str = "", max_lines: int | None = None) -> None:
        """Add a message, wrapped between words: whole, or on a screen at most ``max_lines`` lines of it.

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
                self._list_item(escaped(words(message)), nested=indent > 2)
            return
        lines = self._wrapped(words(self.without_ending(message)), self.style.columns - indent)
        if max_lines is not None and len(lines) > max_lines and self.style.summarised:
            more = self.style.glyphs.more
            room = self.style.columns - indent
            last = shortened(lines[max_lines - 1], room - len(more), "").rsplit(" ", 1)[0]
            lines = [*lines[: max_lines - 1], last + more]
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
                self._list_item(f"**{escaped(words(label))}** {escaped(words(message))}")
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
        return _wrapped(text, max(width, _LEAST_BESIDE))

    def headline(self, label: str, text: str, style: str = "bold") -> None:
        """Add what a whole answer comes to: a line that ends where a clause ends, and what is left below it.

        So whoever reads the first line alone, as ``head -1`` does, reads a whole statement.
        """
        if self.style.markdown:
            self.labelled(label, text, style, "bold")
            return
        first, further = _first_clauses(words(self.without_ending(text)), self.style.columns - len(label))
        self.add((label, "bold"), (first, style))
        self.message(further, len(label) or _INDENT, style)

    def more(self, hidden: int, noun: str, indent: int = 2, plural: str = "") -> None:
        """Add a line that says how many rows are hidden, if they have a noun, and how to see them."""
        if hidden > 0 and noun:
            rows = counted(hidden, f"more {noun}", plural and f"more {plural}")
            self.message(f"{self.style.glyphs.more} {rows} (--all)", indent, "dim")

    def first(self, items: Sequence[Row], max_rows: int, noun: str, plural: str = "") -> Iterator[Row]:
        """The items to show; once the last of them was used, a line says how many more there are."""
        shown = items[: self.shown(len(items), max_rows)]
        yield from shown
        self.more(len(items) - len(shown), noun, plural=plural)

    def listed(
        self,
        title: str,
        messages: Sequence[str],
        style: str = "yellow",
        *,
        note: str = "",
        max_rows: int | None = None,
        noun: str = "",
    ) -> None:
        """Add a heading and the messages below it, the first ``max_rows`` of them; nothing without any."""
        if not messages:
            return
        self.heading(title, note)
        if self.style.markdown:
            self._begin("list")
        for message in messages if max_rows is None else self.first(messages, max_rows, noun):
            self.message(message, 2, style)

    def shown(self, total: int, max_rows: int) -> int:
        """How many of ``total`` rows to show: about ``max_rows``, or as many as the style asks for."""
        if self.style.top is not None:
            return min(total, self.style.top)
        whole = self.style.everything or self.style.markdown
        return total if whole or total <= max_rows + 1 else max_rows


class Column(msgspec.Struct, frozen=True):
    """A column: its title, the cell of an item in it, and how cells are aligned.

    A cell is a text, or a pair of a text and its colour.
    """

    title: str
    cell: Callable[[Any], str | Text | tuple[str, str]]
    right: bool = False
    node: bool = False  # the name of a node
    sentence: bool = False  # it is wrapped within its column, or below its row
    below: bool = False  # a sentence, wrapped below its row: only in Markdown a column
    # Of a row that is too wide and becomes a paragraph:
    leads: bool = False  # the column stands in the first line; where none does, the first column leads
    phrase: str = (
        ""  # how the cell is put, such as "from {}"; by default its title before it, unless it leads
    )

    def text(self, row: Any, lines: Lines) -> Text:
        """The cell of a row."""
        cell = self.cell(row)
        if isinstance(cell, Text):
            return cell
        text, colour = cell if isinstance(cell, tuple) else (cell, "")
        if self.node or self.sentence:
            text = lines.without_ending(text)
        return Text(text, colour)


def figure_of(field: str, key: str, form: str = "{:.0f}", unknown: str = "?") -> Callable[[Any], str]:
    """The cell of what a field of the item holds under a key, such as a resource, if it holds it."""

    def cell(row: Any) -> str:
        held = getattr(row, field)
        return form.format(held[key]) if key in held else unknown

    return cell


_INDENT = 2  # columns before a row
_BELOW_INDENT = 6  # before what stands below it
_PARAGRAPH_INDENT = 4  # before the lines of a paragraph after its first
_LEAST_SENTENCE = 24  # columns; in less, a sentence is not worth beginning


def _texts(columns: Sequence[Column], row: Any, lines: Lines) -> list[Text]:
    return [column.text(row, lines) for column in columns]


def write_table(
    lines: Lines, columns: Sequence[Column], items: Sequence[Any], max_rows: int | None = None, noun: str = ""
) -> None:
    """Add a line of titles, unless the style leaves them out, and each item as a row.

    Of the items about ``max_rows`` are shown, if given, and a line says how many more there are.

    A row is one line. Where it is too wide for a terminal, sentences are wrapped within their column first,
    and then below the row. What is still too wide becomes a paragraph an item, without titles, because a
    name that is cut names nothing and titles in two lines are read as none:

        wave 1  shop/checkout-api-7c9d6f5b8f-03
          from ip-10-0-12-22  89→63  to ip-10-0-12-24  100%  33→59  gain 41
    """
    shown = items if max_rows is None else items[: lines.shown(len(items), max_rows)]
    if lines.style.markdown:
        rows = [_texts(columns, row, lines) for row in shown]
        lines.markdown_table([column.title for column in columns], [column.right for column in columns], rows)
        lines.more(len(items) - len(shown), noun)
        return
    layout = _layout(lines, columns, shown)
    if layout is None:
        _write_paragraphs(lines, columns, shown)
    else:
        _write_rows(lines, layout, shown)
    lines.more(len(items) - len(shown), noun)


class _Layout(msgspec.Struct, frozen=True):
    """The columns of a table that fits: the widths of those in a row, and those below it."""

    columns: Sequence[Column]
    widths: Sequence[int]
    gap: int
    below: Sequence[Column]


def _layout(lines: Lines, columns: Sequence[Column], items: Sequence[Any]) -> _Layout | None:
    """How the rows are laid out; None where they are too wide for the terminal in every way."""
    always_below = [column for column in columns if column.below]
    in_row = [column for column in columns if not column.below]
    sentences = [column for column in in_row if column.sentence]
    figures = [column for column in in_row if not column.sentence]
    if lines.style.bounded:
        ways = [(in_row, always_below), (figures, [*sentences, *always_below])]
        room = lines.style.columns - _INDENT
    else:
        ways = [(in_row, always_below)]
        room = None
    for row, below in ways:
        natural = _natural_widths(lines, row, items)
        least = _least_widths(lines, row, items, natural)
        for gap in (2, 1):
            widths = _fitting_widths(natural, least, gap, room)
            if widths is not None:
                return _Layout(row, widths, gap, below)
    return None


def _natural_widths(lines: Lines, columns: Sequence[Column], items: Sequence[Any]) -> list[int]:
    """The widest cell of each column, its title included."""
    widths = []
    for column in columns:
        cells = [column.text(row, lines).cell_len for row in items]
        widths.append(max([len(column.title), *cells]))
    return widths


def _least_widths(
    lines: Lines, columns: Sequence[Column], items: Sequence[Any], natural: Sequence[int]
) -> list[int]:
    """The least that columns may have: of sentences room for their longest word, of others all they need."""
    widths = []
    for column, width in zip(columns, natural, strict=True):
        if column.sentence:
            sentences = [column.text(row, lines).plain for row in items]
            longest = max((len(word) for sentence in sentences for word in sentence.split()), default=0)
            widths.append(min(width, max(_LEAST_SENTENCE, longest)))
        else:
            widths.append(width)
    return widths


def _fitting_widths(
    natural: Sequence[int], least: Sequence[int], gap: int, room: int | None
) -> list[int] | None:
    """The widths of columns so many apart; None where they do not fit, or only a word a line would."""
    if room is None:
        return list(natural)
    left = room - gap * (len(natural) - 1) - sum(least)
    if left < 0 or (gap > 1 and left < sum(natural) - sum(least)):
        return None
    widths = []
    for width, narrowest in zip(natural, least, strict=True):
        more = min(width - narrowest, left)
        widths.append(narrowest + more)
        left -= more
    return widths


def _write_rows(lines: Lines, layout: _Layout, items: Sequence[Any]) -> None:
    if not lines.style.no_headers:
        titles = [Text(column.title, "dim") for column in layout.columns]
        _write_row(lines, layout, titles)
    for row in items:
        _write_row(lines, layout, _texts(layout.columns, row, lines))
        for sentence in _texts(layout.below, row, lines):
            lines.message(sentence.plain, _BELOW_INDENT, str(sentence.style))


def _write_row(lines: Lines, layout: _Layout, row: Sequence[Text]) -> None:
    """Add one line, or several where a sentence is wrapped within its column."""
    cells = [
        _parts_of(column, cell, width)
        for column, cell, width in zip(layout.columns, row, layout.widths, strict=True)
    ]
    for parts in zip_longest(*cells, fillvalue=Text("")):
        line = Text(" " * _INDENT)
        for number, (column, part) in enumerate(zip(layout.columns, parts, strict=True)):
            padding = Text(" " * max(layout.widths[number] - part.cell_len, 0))
            line.append(" " * layout.gap if number else "")
            line.append_text(padding + part if column.right else part + padding)
        lines.add(line)


def _parts_of(column: Column, cell: Text, width: int) -> list[Text]:
    """The lines of a cell: several where it is a sentence that is too wide."""
    if not column.sentence or cell.cell_len <= width:
        return [cell]
    return [Text(part, cell.style) for part in _wrapped(cell.plain, width)]


def _write_paragraphs(lines: Lines, columns: Sequence[Column], items: Sequence[Any]) -> None:
    """Add an item's leading cells as a line, and below it the others, each with what it is, and sentences."""
    leading = [column for column in columns if column.leads] or list(columns[:1])
    others = [column for column in columns if column not in leading]
    widths = _natural_widths(lines, [replace(column, title="") for column in leading], items)
    for row in items:
        cells = []
        for column, width in zip(leading, widths, strict=True):
            cell = column.text(row, lines)
            padding = Text(" " * (width - cell.cell_len))
            before, _, after = (column.phrase or "{}").partition("{}")
            padded = padding + cell if column.right else cell + padding
            cells.append(Text(before).append_text(padded).append(after))
        first = Text(" " * _INDENT).append_text(Text("  ").join(cells))
        first.rstrip()
        if len(cells) > 1 and first.cell_len > lines.style.columns:  # a long name begins a line
            lines.add(Text(" " * _INDENT).append_text(Text("  ").join(cells[:-1])))
            first = Text(" " * _PARAGRAPH_INDENT).append_text(cells[-1])
        lines.add(first)
        _write_phrases(lines, others, row)


def _write_phrases(lines: Lines, columns: Sequence[Column], row: Any) -> None:
    """Add cells with what they are, as many to a line as fit; a sentence that does not begins a line."""
    indent = " " * _PARAGRAPH_INDENT
    line = Text(indent)
    for column in columns:
        cell = column.text(row, lines)
        if not cell.plain.strip():
            continue
        phrase = cell
        if not (column.sentence or column.below):
            before, _, after = (column.phrase or f"{column.title.lower()} {{}}").partition("{}")
            phrase = Text(before).append_text(cell).append(after)
        if line.plain.strip() and line.cell_len + 2 + phrase.cell_len > lines.style.columns:
            lines.add(line)
            line = Text(indent)
        if line.cell_len + phrase.cell_len > lines.style.columns:  # a sentence: no other cell is wrapped
            lines.message(phrase.plain, _PARAGRAPH_INDENT, str(phrase.style))
            continue
        if line.plain.strip():
            line.append("  ")
        line.append_text(phrase)
    if line.plain.strip():
        lines.add(line)


_END_OF_CLAUSE = re.compile(r"; |, |:(?= )")
_NO_BREAK_SPACE = "\N{NO-BREAK SPACE}"


def _wrapped(text: str, width: int) -> list[str]:
    """The lines of a text, broken between words, but neither within a word nor between a figure and its %."""
    together = text.replace(" %", f"{_NO_BREAK_SPACE}%")
    lines = textwrap.wrap(together, width, break_on_hyphens=False, break_long_words=False)
    return [line.replace(f"{_NO_BREAK_SPACE}%", " %") for line in lines]


def _first_clauses(text: str, width: int) -> tuple[str, str]:
    """As many clauses of a text as fit a line, and what is left; words, where a clause is too long."""
    if len(text) <= width:
        return text, ""
    every = [clause.start() for clause in _END_OF_CLAUSE.finditer(text[: width + 2])]
    ends = [end for end in every if end + (text[end] == ":") <= width]  # a colon stays
    if ends and ends[-1] * 3 >= width:  # a shorter line would say little
        at = ends[-1]
        if text[at] == ":":
            return text[: at + 1], text[at + 2 :]
        return text[:at], text[at + 2 :]
    first, *further = _wrapped(text, width)
    return first, " ".join(further)


def common_ending(names: Iterable[str]) -> str:
    """The domain that all names share, such as ``.eu-west-1.compute.internal``; else nothing.

    It begins at a dot and holds a letter, so that addresses stay whole. It is the larger part of every
    domain: what is left of several regions, ``ip-10-0-1-2.eu-west-1.compute``, is no name of anything.
    """
    distinct = set(names)
    if len(distinct) < 2:
        return ""
    # What the first and the last in the order of their ends share, all share.
    ends = sorted(name[::-1] for name in distinct)
    alike = takewhile(lambda pair: pair[0] == pair[1], zip(ends[0], ends[-1], strict=False))
    shared = "".join(letter for letter, _ in alike)[::-1]
    ending = shared[shared.find(".") :] if "." in shared else ""
    domains = (len(name) - name.find(".") for name in distinct)
    useful = bool(ending) and all(2 * len(ending) >= length for length in domains)
    return ending if useful and any(map(str.isalpha, ending)) and ending not in distinct else ""


def common_beginning(names: Iterable[str]) -> str:
    """What all names begin with, such as ``gke-production-web-pool-1-3f2a1b4c-``; else nothing.

    It is long, ends at a hyphen or a dot, and leaves of every name a part with a letter.
    """
    distinct = set(names)
    if len(distinct) < 2:
        return ""
    # What the first and the last in order share, all share.
    alike = takewhile(lambda pair: pair[0] == pair[1], zip(min(distinct), max(distinct), strict=False))
    shared = "".join(letter for letter, _ in alike)
    beginning = shared[: max(shared.rfind("-"), shared.rfind(".")) + 1]
    short = [name.removeprefix(beginning) for name in distinct]
    useful = len(beginning) >= _LEAST_BEGINNING and all(map(_has_letter, short))
    return beginning if useful else ""


def _has_letter(name: str) -> bool:
    return any(map(str.isalpha, name))
