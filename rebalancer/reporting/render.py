"""Encodes a value in the format that ``-o`` names.

JSON is the value's own encoding, YAML holds the same data, and a table is for people. Equal values give equal
bytes, so that two outputs can be compared with ``diff``. Names, CSV and Parquet list the rows of the main
table.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import msgspec

from rebalancer.errors import InputError
from rebalancer.redaction import TERMINAL_CONTROLS, safe_json
from rebalancer.reporting.words import plain, words

if TYPE_CHECKING:
    from jsonpath import JSONPath
    from pandas import DataFrame


# What ``-o jsonpath=TEMPLATE`` prints, in the dialect that kubectl reads.
#
# A template is text with expressions in braces. An expression is a path, a string in quotes, or a loop:
#
#     {.moves[*].pod.name}                                    api-0 web-3
#     {range .moves[*]}{.pod.name}{"\t"}{.from}{"\n"}{end}     a line a move
#     {.nodes[?(@.hot==true)].name}                           node-2 node-1
#
# A library that follows RFC 9535 finds the values. What kubectl writes differently is rewritten for it: a
# path
# may begin without ``$``, its names may hold dashes, and a dot within a name is written ``\.``. A key that
# is
# not there prints nothing; several values are separated by spaces, and maps and lists are printed as JSON.


Find = Callable[[Any, Any], list[Any]]  # (the whole value, the current one) -> what a path names

_NAME = r"(?:\\.|[^\s.\[\]{}()=<>!,'\"\\|&@$?*])+"
_STEP = re.compile(rf"(?P<deep>\.\.)?\.?(?P<name>{_NAME}|\*)")
_ESCAPED = re.compile(r"\\(.)")
_STRING = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"", re.DOTALL)
_PATH_IN_FILTER = re.compile(rf"{_STRING.pattern}|(?<=[@$])(?P<steps>(?:\.{_NAME})+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Text:
    text: str


@dataclass(frozen=True, slots=True)
class _Path:
    find: Find


@dataclass(frozen=True, slots=True)
class _Loop:
    find: Find
    body: tuple[_Part, ...]


_Part = _Text | _Path | _Loop


@dataclass(frozen=True, slots=True)
class Template:
    """A template that was read, and so can be used."""

    parts: tuple[_Part, ...]

    def render(self, value: Any) -> str:
        """What the template prints of decoded JSON."""
        return "".join(_rendered(self.parts, value, value))


def parse_template(text: str) -> Template:
    """The template; a path without braces is one, too. Raises InputError for what is none."""
    whole = text if "{" in text else "{" + text + "}"
    try:
        tokens = list(_tokens(whole))
        parts, rest = _parts(tokens, looping=False)
        assert not rest
    except ValueError as error:
        raise InputError(
            f"jsonpath {text[:200]!a}: {error}", hint="write e.g. -o jsonpath='{.moves[*].pod.name}'"
        ) from None
    if not any(not isinstance(part, _Text) for part in parts):
        raise InputError(f"jsonpath {text[:200]!a} names no value", hint="write a path in braces: {.kind}")
    return Template(parts)


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    """``("text", "…")`` and, for what is in braces, ``("code", "…")``."""
    position = 0
    while position < len(text):
        start = text.find("{", position)
        if start < 0:
            yield "text", text[position:]
            return
        if start > position:
            yield "text", text[position:start]
        end = _closing(text, start + 1)
        yield "code", text[start + 1 : end].strip()
        position = end + 1


def _closing(text: str, position: int) -> int:
    while position < len(text):
        quoted = _STRING.match(text, position)
        if quoted is not None:
            position = quoted.end()
        elif text[position] == "}":
            return position
        else:
            position += 1
    raise ValueError("a { has no }")


def _parts(
    tokens: Sequence[tuple[str, str]], *, looping: bool
) -> tuple[tuple[_Part, ...], Sequence[tuple[str, str]]]:
    found: list[_Part] = []
    while tokens:
        (kind, code), tokens = tokens[0], tokens[1:]
        if kind == "text":
            found.append(_Text(code))
        elif code == "end":
            if not looping:
                raise ValueError("{end} without {range}")
            return tuple(found), tokens
        elif code == "range" or code.startswith(("range ", "range\t")):
            body, tokens = _parts(tokens, looping=True)
            found.append(_Loop(_finder(code.removeprefix("range").strip()), body))
        elif _STRING.fullmatch(code):
            found.append(_Text(_unquoted(code)))
        else:
            found.append(_Path(_finder(code)))
    if looping:
        raise ValueError("{range} without {end}")
    return tuple(found), tokens


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
    from jsonpath import JSONPathError  # noqa: PLC0415 - only this format needs it

    if not expression:
        raise ValueError("{} is empty")
    absolute = expression.startswith("$")
    steps = expression[1:] if expression[0] in "$@" else expression
    try:
        path = _compiled("$" + _in_brackets(steps))
    except JSONPathError as error:
        reason = str(error).splitlines()[0] if str(error) else "unexpected end"
        raise ValueError(f"{{{expression}}}: {reason}") from None

    def find(whole: Any, current: Any) -> list[Any]:
        try:
            return list(path.findall(whole if absolute else current))
        except JSONPathError as error:
            raise InputError(f"jsonpath {{{expression}}}: {str(error).splitlines()[0]}") from None

    return find


def _compiled(path: str) -> JSONPath:
    from jsonpath import JSONPath, JSONPathEnvironment  # noqa: PLC0415

    found = JSONPathEnvironment(strict=True).compile(path)
    assert isinstance(found, JSONPath)
    return found


def _in_brackets(steps: str) -> str:
    """``.a.b-c[0]`` as ``['a']['b-c'][0]``."""
    found, position = "", 0
    while position < len(steps):
        if steps[position] == "[":
            end = _end_of_brackets(steps, position)
            found += _PATH_IN_FILTER.sub(_path_in_filter, steps[position:end])
            position = end
            continue
        step = _STEP.match(steps, position)
        if step is None:
            raise ValueError(f"{steps[position:][:40]!a} is not part of a path")
        found += (".." if step["deep"] else "") + _bracket(step["name"])
        position = step.end()
    return found


def _path_in_filter(match: re.Match[str]) -> str:
    return _in_brackets(match["steps"]) if match["steps"] else match[0]


def _bracket(name: str) -> str:
    return "[*]" if name == "*" else f"[{json.dumps(_ESCAPED.sub(_unescaped, name))}]"


def _unescaped(match: re.Match[str]) -> str:
    return match[1]


def _end_of_brackets(text: str, position: int) -> int:
    depth = 0
    while position < len(text):
        quoted = _STRING.match(text, position)
        if quoted is not None:
            position = quoted.end()
            continue
        depth += {"[": 1, "]": -1}.get(text[position], 0)
        position += 1
        if not depth:
            return position
    raise ValueError("a [ has no ]")


def _rendered(parts: Sequence[_Part], whole: Any, current: Any) -> Iterator[str]:
    for part in parts:
        if isinstance(part, _Text):
            yield part.text
        elif isinstance(part, _Path):
            yield " ".join(map(_printed, part.find(whole, current)))
        else:
            for item in part.find(whole, current):
                yield from _rendered(part.body, whole, item)


def _printed(value: Any) -> str:
    """A value as kubectl prints it, safe for a terminal."""
    if isinstance(value, str):
        return plain(value)
    if value is None:
        return ""
    return safe_json(json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=True))


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
    PARQUET = "parquet"  # binary, for data frames
    HTML = "html"  # a page to attach to a change request


TABLES = frozenset({Format.TABLE, Format.WIDE, Format.MARKDOWN})
DOCUMENTS = frozenset({Format.JSON, Format.YAML, Format.JSONPATH})  # the whole value, for programs


def to_json(value: Any, *, indent: int = 0) -> str:
    """JSON of msgspec structs, dataclasses, maps and lists, with a newline at its end."""
    encoded = msgspec.json.encode(value, order="deterministic")
    if indent:
        encoded = msgspec.json.format(encoded, indent=indent)
    return safe_json(encoded.decode()) + "\n"


def to_yaml(value: Any) -> str:
    """The data of ``to_json`` as YAML."""
    from rebalancer import documents  # noqa: PLC0415 - only YAML needs it

    encoded = to_json(value)
    text = documents.to_yaml(msgspec.json.decode(encoded))
    # YAML cannot escape these characters in every position. JSON can, and is valid YAML.
    return encoded if TERMINAL_CONTROLS.search(text) else text


def to_jsonpath(value: Any, template: str) -> str:
    """What a jsonpath template prints of the data of ``to_json``, with a newline at its end."""
    text = parse_template(template).render(msgspec.json.decode(msgspec.json.encode(value)))
    return text if not text or text.endswith("\n") else f"{text}\n"


def to_parquet(frame: DataFrame) -> bytes:
    """The rows as a Parquet file; ImportError where pyarrow, an optional library, is not installed."""
    stream = io.BytesIO()
    frame.to_parquet(stream, engine="pyarrow", index=False)
    return stream.getvalue()


def to_csv(frame: DataFrame) -> str:
    """The rows with a line of titles; text is safe for a terminal and for a spreadsheet."""
    text = frame.select_dtypes(["object", "string"]).columns
    text_of_rows: str = frame.assign(**{name: frame[name].map(_cell) for name in text}).to_csv(index=False)
    return text_of_rows


def _cell(value: Any) -> Any:
    """Text without control characters; what a spreadsheet would take for a formula is quoted as it does."""
    if not isinstance(value, str):
        return value
    text = words(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


_FORMULA = ("=", "+", "-", "@")
