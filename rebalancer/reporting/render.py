"""Encodes a value in the format that ``-o`` names.

JSON is the value's own encoding, YAML holds the same data, and a table is for people. Equal values give equal
bytes, so that two outputs can be compared with ``diff``. Names and CSV list the rows of the main table.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import msgspec

from rebalancer.cluster import times
from rebalancer.errors import InputError
from rebalancer.redaction import safe_json
from rebalancer.reporting.words import plain, words

if TYPE_CHECKING:
    from pandas import DataFrame


_NAME = r"(?:\\.|[^\s.\[\]{}()=<>!,'\"\\|&@$?*])+"
_STEP = re.compile(rf"(?P<deep>\.\.)?\.?(?P<name>{_NAME}|\*)")
_ESCAPED = re.compile(r"\\(.)")
# One without its closing quote goes to the end, where it is refused: it is not begun at each quote in it.
_STRING = re.compile(r"'(?:\\.|[^'\\])*+(?:'|\\?\Z)|\"(?:\\.|[^\"\\])*+(?:\"|\\?\Z)", re.DOTALL)
_CODE = re.compile(rf"\{{((?>{_STRING.pattern}|[^{{}}'\"])*+)\}}", re.DOTALL)
_BRACKET_OR_STRING = re.compile(rf"{_STRING.pattern}|[\[\]]", re.DOTALL)
_PATH_IN_FILTER = re.compile(rf"{_STRING.pattern}|(?<=[@$])(?P<steps>(?:\.{_NAME})+)", re.DOTALL)
# What a spreadsheet takes for the beginning of a formula, at full width too.
_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")

Find = Callable[[Any, Any], list[Any]]  # (the whole value, the current one) -> what a path names


class Format(StrEnum):
    """The formats that ``-o`` accepts."""

    TABLE = "table"
    WIDE = "wide"  # a table of whole names and more columns
    NAME = "name"  # kind/name, one a line
    MARKDOWN = "markdown"  # a table for a pull request
    JSON = "json"
    YAML = "yaml"
    JSONPATH = "jsonpath"  # =TEMPLATE: the values that kubectl's template language names
    CSV = "csv"
    HTML = "html"  # a page to attach to a change request


TABLES = frozenset({Format.TABLE, Format.WIDE, Format.MARKDOWN})
DOCUMENTS = frozenset({Format.JSON, Format.YAML, Format.JSONPATH})  # the whole value, for programs


def to_json(value: Any, *, indent: int = 0) -> str:
    """JSON of msgspec structs, dataclasses, maps and lists, with a newline at its end."""
    return safe_json(value, indent=indent) + "\n"


def to_yaml(value: Any) -> str:
    """The data of ``to_json`` as YAML."""
    from rebalancer.documents.writing import to_yaml as dump_yaml  # noqa: PLC0415 - only YAML needs it

    return dump_yaml(msgspec.json.decode(to_json(value)))


def to_jsonpath(value: Any, template: str) -> str:
    """What a jsonpath template prints of the data of ``to_json``, with a newline at its end."""
    text = parse_template(template).render(msgspec.json.decode(msgspec.json.encode(value)))
    return text if not text or text.endswith("\n") else f"{text}\n"


def to_csv(frame: DataFrame) -> str:
    """The rows with a line of titles; text is safe for a terminal and for a spreadsheet.

    Times and what is true or false are written as in JSON.
    """
    columns = frame.select_dtypes(["object", "string", "bool", "datetimetz"]).columns
    written = {name: frame[name].astype("object").map(_cell, na_action="ignore") for name in columns}
    text_of_rows: str = frame.assign(**written).to_csv(index=False)
    return text_of_rows


def _cell(value: Any) -> Any:
    """Text without control characters; what a spreadsheet would take for a formula is quoted as it does."""
    if isinstance(value, datetime):
        return times.render_optional(value.timestamp())
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        return value
    text = words(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


class _Loop(msgspec.Struct, frozen=True):
    find: Find
    body: Sequence[_Part]


_Part = str | Find | _Loop


class Template(msgspec.Struct, frozen=True):
    r"""What ``-o jsonpath=TEMPLATE`` prints, in the dialect that kubectl reads.

    A template is text with expressions in braces. An expression is a path, a string in quotes, or a loop:

        {.moves[*].pod.name}                                    api-0 web-3
        {range .moves[*]}{.pod.name}{"\t"}{.from}{"\n"}{end}     a line a move
        {.nodes[?(@.hot==true)].name}                           node-2 node-1

    A library that follows RFC 9535 finds the values. What kubectl writes differently is rewritten for it: a
    path may begin without ``$``, its names may hold dashes, and a dot within a name is written ``\.``. A key
    that is not there prints nothing; several values are separated by spaces, and maps and lists are printed
    as JSON.
    """

    parts: Sequence[_Part]

    def render(self, value: Any) -> str:
        """What the template prints of decoded JSON."""
        return "".join(_rendered(self.parts, value, value))


def parse_template(text: str) -> Template:
    """The template; a path without braces is one, too. Raises InputError for what is none."""
    try:
        parts = _parts(text if "{" in text else "{" + text + "}")
    except ValueError as error:
        raise InputError(
            f"jsonpath {text[:200]!a}: {error}", hint="write e.g. -o jsonpath='{.moves[*].pod.name}'"
        ) from None
    if all(isinstance(part, str) for part in parts):
        raise InputError(f"jsonpath {text[:200]!a} names no value", hint="write a path in braces: {.kind}")
    return Template(parts)


def _parts(text: str) -> list[_Part]:
    """Text and code in turn; a loop that is open waits with the parts before it until its end."""
    outer: list[tuple[Find, list[_Part]]] = []
    parts: list[_Part] = []
    for index, token in enumerate(_CODE.split(text)):
        code = token.strip()
        if index % 2 == 0:
            if "{" in token:
                raise ValueError("a { has no }")
            parts += [token] if token else []
        elif code == "end":
            if not outer:
                raise ValueError("{end} without {range}")
            find, before = outer.pop()
            parts = [*before, _Loop(find, parts)]
        elif code == "range" or code.startswith(("range ", "range\t")):
            outer.append((_finder(code.removeprefix("range").strip()), parts))
            parts = []
        else:
            parts.append(_unquoted(code) if _STRING.fullmatch(code) else _finder(code))
    if outer:
        raise ValueError("{range} without {end}")
    return parts


def _unquoted(text: str) -> str:
    inner = text[1:-1]
    if text[0] == "'":
        inner = inner.replace("\\'", "'").replace('"', '\\"')
    try:
        return str(json.loads(f'"{inner}"'))
    except ValueError:
        raise ValueError(f"{text} is not a string") from None


def _finder(expression: str) -> Find:
    """What finds the values of a path, from the whole value if the path begins with ``$``."""
    from jsonpath import JSONPathEnvironment, JSONPathError  # noqa: PLC0415 - only this format needs it

    if not expression:
        raise ValueError("{} is empty")
    absolute = expression.startswith("$")
    steps = expression[1:] if expression[0] in "$@" else expression
    try:
        path = JSONPathEnvironment(strict=True).compile("$" + _in_brackets(steps))
    except JSONPathError as error:
        reason = str(error).splitlines()[0] if str(error) else "unexpected end"
        raise ValueError(f"{{{expression}}}: {reason}") from None

    def find(whole: Any, current: Any) -> list[Any]:
        try:
            return list(path.findall(whole if absolute else current))
        except JSONPathError as error:
            raise InputError(f"jsonpath {{{expression}}}: {str(error).splitlines()[0]}") from None

    return find


def _in_brackets(steps: str) -> str:
    """``.a.b-c[0]`` as ``['a']['b-c'][0]``."""
    path = ""
    position = 0
    while position < len(steps):
        if steps[position] == "[":
            end = _end_of_brackets(steps, position)
            path += _PATH_IN_FILTER.sub(
                lambda match: _in_brackets(match["steps"]) if match["steps"] else match[0],
                steps[position:end],
            )
            position = end
            continue
        step = _STEP.match(steps, position)
        if step is None:
            raise ValueError(f"{steps[position:][:40]!a} is not part of a path")
        name = json.dumps(_ESCAPED.sub(r"\1", step["name"]))
        path += ".." if step["deep"] else ""
        path += "[*]" if step["name"] == "*" else f"[{name}]"
        position = step.end()
    return path


def _end_of_brackets(text: str, position: int) -> int:
    depth = 0
    for token in _BRACKET_OR_STRING.finditer(text, position):
        depth += {"[": 1, "]": -1}.get(token[0], 0)
        if not depth:
            return token.end()
    raise ValueError("a [ has no ]")


def _rendered(parts: Sequence[_Part], whole: Any, current: Any) -> Iterator[str]:
    for part in parts:
        if isinstance(part, str):
            yield part
        elif isinstance(part, _Loop):
            for member in part.find(whole, current):
                yield from _rendered(part.body, whole, member)
        else:
            yield " ".join(map(_printed, part(whole, current)))


def _printed(value: Any) -> str:
    """A value as kubectl prints it, safe for a terminal."""
    if isinstance(value, str):
        return plain(value)
    if value is None:
        return ""
    return safe_json(value)
