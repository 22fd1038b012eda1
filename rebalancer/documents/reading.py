"""YAML or JSON text to a ``Document``: a plain value with the position of each part, bounded in size.

The value is built from libyaml's events: nothing is expanded, what is nested too deeply is refused, and every
refusal has a position. Plain (unquoted) scalars follow YAML 1.2's core rules. Tools that read the same
file as YAML 1.1 would see something else in ``yes``, ``010`` or ``12:30:45``, so the author has to state
which is meant. ``manifests`` reads files that were written for kubectl.
"""

from __future__ import annotations

import contextlib
import math
import os
import pathlib
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO, TypeAlias

import msgspec
import yaml

from rebalancer.errors import InputError
from rebalancer.redaction import without_secrets

Path: TypeAlias = tuple[str | int, ...]
Place: TypeAlias = tuple[int, int]
Scalar: TypeAlias = str | int | float | bool | None

MAX_TEXT_BYTES = 1 << 20
MAX_DEPTH = 64
MAX_VALUES = 50_000  # each has a position, and may be a mistake: half a gigabyte would be both, in a megabyte
MAX_ALIASES = 1000

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NULLS = frozenset(("", "~", "null", "Null", "NULL"))
_TRUE = frozenset(("true", "True", "TRUE"))
_FALSE = frozenset(("false", "False", "FALSE"))
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)", re.ASCII)
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_MAX_NUMBER_LENGTH = 40
_MAX_KEY_SHOWN = 100  # characters
_MAX_MESSAGE = 2000

_SURPRISES: tuple[tuple[re.Pattern[str], str, str], ...] = (
    (re.compile(r"(?i)yes|on|y"), "{} is a boolean to some YAML readers", 'write true, or quote it: "{}"'),
    (re.compile(r"(?i)no|off|n"), "{} is a boolean to some YAML readers", 'write false, or quote it: "{}"'),
    (
        re.compile(r"[-+]?0[0-9_]+|[-+]?0o[0-7_]+", re.ASCII),
        "{} is an octal number to some YAML readers",
        'write it without the leading 0, or quote it: "{}"',
    ),
    (
        re.compile(r"[-+]?0x[0-9a-fA-F_]+|[-+]?0b[01_]+", re.ASCII),
        "{} is a hexadecimal or binary number to some YAML readers",
        'write it in decimal, or quote it: "{}"',
    ),
    (
        re.compile(r"[-+]?[0-9][0-9_]*(\.[0-9_]*)?([eE][-+]?[0-9_]+)?", re.ASCII),
        "{} is a number to some YAML readers",
        'write it without underscores or leading zeros, or quote it: "{}"',
    ),
    (
        re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?", re.ASCII),
        "{} is a number in base 60 to some YAML readers",
        'quote it: "{}", or write a duration as 12h30m45s',
    ),
    (
        re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt \t].*)?", re.ASCII),
        "{} is a timestamp to some YAML readers",
        'quote it: "{}"',
    ),
    (
        re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"),
        "{} is not a finite number",
        'write a number, or quote it: "{}"',
    ),
    (re.compile(r"<<|="), "{} has a special meaning to some YAML readers", 'quote it: "{}"'),
)


def format_path(path: Sequence[str | int]) -> str:
    """A path as errors show it: ``profiles[1].plugins.score``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{_cut(part, _MAX_KEY_SHOWN)}"
    return text.removeprefix(".")


def _cut(text: str, length: int) -> str:
    """What an error shows of a text, which may be a megabyte; its logins are left out before it is cut."""
    return text if len(text) <= length else f"{without_secrets(text)[:length]}…"


class Document(msgspec.Struct, frozen=True):
    """A plain value with the line and column of each of its parts, counted from 1.

    ``values`` holds where a value begins, ``keys`` where the key of a mapping's entry does, ``texts`` how
    numbers and booleans are written.
    """

    value: Any
    source: str
    values: Mapping[Path, Place]
    keys: Mapping[Path, Place]
    texts: Mapping[Path, str] = {}

    def place(self, path: Path, *, key: bool = False) -> Place:
        """Line and column of the value at a path (of its key with ``key``), else of its nearest ancestor."""
        if key and path in self.keys:
            return self.keys[path]
        while path and path not in self.values:
            path = path[:-1]
        return self.values.get(path, (1, 1))

    def position(self, path: Path = (), *, key: bool = False) -> str:
        """``file:line:column`` of the value at a path."""
        line, column = self.place(path, key=key)
        return f"{self.source}:{line}:{column}"

    def error(self, path: Path, message: str, *, hint: str = "", key: bool = False) -> InputError:
        """An error about the value at a path (or about its key)."""
        where = f"{self.position(path, key=key)} {format_path(path)}".strip()
        return InputError(_cut(message, _MAX_MESSAGE), where=where, hint=_cut(hint, _MAX_MESSAGE))


class ScalarError(ValueError):
    """A plain scalar with more than one meaning; ``hint`` suggests what to write."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


def resolve(text: str) -> Scalar:
    """The value of a plain scalar; ScalarError when YAML readers disagree about it."""
    if text in _NULLS:
        return None
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    if _INTEGER.fullmatch(text) or _FLOAT.fullmatch(text):
        return _number(text)
    for pattern, message, hint in _SURPRISES:
        if pattern.fullmatch(text):
            shown = text[:_MAX_NUMBER_LENGTH]
            raise ScalarError(message.format(shown), hint.format(shown))
    return text


def _number(text: str) -> int | float:
    """An integer that fits 64 bits, or a finite float."""
    if len(text) > _MAX_NUMBER_LENGTH:
        raise ScalarError(
            f"{text[:_MAX_NUMBER_LENGTH]}… is too long for a number", "quote it if it is meant as text"
        )
    if _INTEGER.fullmatch(text):
        whole = int(text)
        if abs(whole) >= 1 << 63:
            raise ScalarError(f"{text} does not fit into 64 bits", "quote it if it is meant as text")
        return whole
    number = float(text)
    if not math.isfinite(number):
        raise ScalarError(f"{text} is not a finite number", "quote it if it is meant as text")
    return number


@contextlib.contextmanager
def _reading(where: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", where=where) from error


def _bounded(file: BinaryIO, where: str, largest: int) -> bytes:
    content = file.read(largest + 1)
    if len(content) > largest:
        raise InputError(f"is larger than {largest} bytes", where=where, hint="is this the right file?")
    return content


def read_bytes(path: str | pathlib.Path, *, largest: int) -> bytes:
    """The content of a file of bounded size, or of standard input for ``-``; InputError if unreadable."""
    place = pathlib.Path("/dev/stdin" if str(path) == "-" else path)
    with _reading(str(path)), place.open("rb") as file:
        return _bounded(file, str(path), largest)


def read_text(path: str | pathlib.Path, *, largest: int = MAX_TEXT_BYTES) -> str:
    """The UTF-8 text of a file of bounded size; InputError when it cannot be read."""
    return _decoded(read_bytes(path, largest=largest), str(path))


def read_text_again(path: str | pathlib.Path) -> str:
    """The same of a regular file alone, for what is read again and again while a program runs.

    Whoever opens a pipe waits for a writer, perhaps for ever. InputError for anything but a file.
    """
    with _reading(str(path)):
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise InputError("is not a regular file any more", where=str(path))
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                content = _bounded(file, str(path), MAX_TEXT_BYTES)
        finally:
            os.close(descriptor)
    return _decoded(content, str(path))


def read_stream(stream: BinaryIO, source: str, *, largest: int = MAX_TEXT_BYTES) -> str:
    """The UTF-8 text of an open stream, such as standard input; ``source`` is its name in errors."""
    with _reading(source):
        return _decoded(_bounded(stream, source, largest), source)


def _decoded(content: bytes, source: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"is not UTF-8 text: byte {error.start}", where=source) from error


def parse(text: str, source: str) -> Document:
    """One YAML or JSON document; InputError with file:line:column for anything else."""
    with reading_yaml(text, source, MAX_TEXT_BYTES) as events:
        return DocumentBuilder(source, events).only_document()


@contextlib.contextmanager
def reading_yaml(text: str, source: str, largest: int) -> Iterator[Iterator[Any]]:
    """libyaml's events of a text of bounded size; what is not YAML in it becomes an InputError."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise InputError("contains characters that are not valid Unicode", where=source) from error
    if size > largest:
        raise InputError(f"is larger than {largest} bytes", where=source, hint="is this the right file?")
    try:
        yield yaml.parse(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{source}:{mark.line + 1}:{mark.column + 1}" if mark else source
        lines = text.splitlines()
        if mark and mark.line < len(lines) and lines[mark.line].lstrip(" ").startswith("\t"):
            raise InputError(
                f"line {mark.line + 1} begins with a tab", where=where, hint="YAML indents with spaces"
            ) from error
        raise InputError(f"is not valid YAML: {error.problem or error.context}", where=where) from error
    except yaml.YAMLError as error:
        raise InputError(f"is not valid YAML: {error}", where=source) from error


def check_bounds(text: str, source: str) -> None:
    """InputError for a text that another YAML parser must not get: nested too deeply, or full of aliases.

    Parsers that build a value recurse, and one in C then ends the interpreter. Whether the text is YAML at
    all, that parser says.
    """
    depth = aliases = 0
    with contextlib.suppress(yaml.YAMLError):
        for event in yaml.parse(text, Loader=_LOADER):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            aliases += isinstance(event, yaml.AliasEvent)
            if depth > MAX_DEPTH:
                raise InputError(f"is nested more than {MAX_DEPTH} levels deep", where=source)
            if aliases > MAX_ALIASES:
                raise InputError(f"holds more than {MAX_ALIASES} aliases", where=source)


class DocumentBuilder:
    """Builds the values of documents from libyaml's events, which come one after another."""

    def __init__(self, source: str, events: Iterator[Any]) -> None:
        self._source = source
        self._events = events
        self._values: dict[Path, Place] = {}
        self._keys: dict[Path, Place] = {}
        self._texts: dict[Path, str] = {}

    def only_document(self) -> Document:
        """What the events describe; a text without any document is null."""
        document = Document(None, self._source, {}, {})
        started = False
        for event in self._events:
            if not isinstance(event, yaml.DocumentStartEvent):
                continue
            if started:
                raise self._error(
                    event, (), "a second document starts here", "keep only one document in the file"
                )
            started = True
            document = self.next_document()
        return document

    def next_document(self) -> Document:
        """The document whose start was the last event."""
        self._values = {}
        self._keys = {}
        self._texts = {}
        value = self._value(self._next(), (), 0)
        return Document(value, self._source, self._values, self._keys, self._texts)

    def _next(self) -> Any:
        return next(self._events)

    def _value(self, event: Any, path: Path, depth: int) -> Any:
        """The value that begins with an event, in so many mappings and lists."""
        value = self._scalar(event, path)
        if depth >= MAX_DEPTH and not isinstance(event, yaml.ScalarEvent):
            raise self._refused(event, f"is nested more than {MAX_DEPTH} levels deep")
        if len(self._values) == MAX_VALUES:
            raise self._refused(event, f"holds more than {MAX_VALUES} values")
        self._values[path] = _place(event)
        if isinstance(event, yaml.SequenceStartEvent):
            items: list[Any] = []
            while not isinstance(element := self._next(), yaml.SequenceEndEvent):
                items.append(self._value(element, (*path, len(items)), depth + 1))
            return items
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(path, depth)
        if isinstance(value, (int, float)):
            self._texts[path] = event.value
        return value

    def _mapping(self, path: Path, depth: int) -> dict[str, Any]:
        entries: dict[str, Any] = {}
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            key = self._key(event, path, entries)
            entries[key] = self._value(self._next(), (*path, key), depth + 1)
        return entries

    def _scalar(self, event: Any, path: Path) -> Any:
        """The value of a scalar; None for a mapping or a list, which may have no tag either."""
        if isinstance(event, yaml.AliasEvent):
            raise self._error(
                event, path, f"alias *{event.anchor} is not supported", "write out the value instead"
            )
        is_scalar = isinstance(event, yaml.ScalarEvent)
        if event.tag not in (None, "!"):
            hint = "remove it, and quote text that needs quoting" if is_scalar else "remove it"
            raise self._error(event, path, f"tag {event.tag} is not supported", hint)
        if not is_scalar or event.style or event.tag is not None:
            return event.value if is_scalar else None
        try:
            return self._resolve(event.value)
        except ScalarError as error:
            raise self._error(event, path, str(error), error.hint) from error

    @staticmethod
    def _resolve(text: str) -> Scalar:
        """The value of a plain scalar; ScalarError for one that is refused."""
        return resolve(text)

    @staticmethod
    def _text_of_key(value: Scalar) -> str | None:
        """What a key stands for; None for one that is refused."""
        return value if isinstance(value, str) else None

    def _key(self, event: Any, path: Path, entries: Mapping[str, Any]) -> str:
        """The key of the next entry of the mapping at a path."""
        value = self._scalar(event, path)
        if not isinstance(event, yaml.ScalarEvent):
            raise self._error(event, path, "a key must be text", "write key: value")
        key = self._text_of_key(value)
        if key is None:
            raise self._error(event, path, f"key {event.value!r} is not text", f'quote it: "{event.value}"')
        place = (*path, key)
        if key in entries:
            line = self._keys[place][0]
            raise self._error(event, place, f"key {key} is already set on line {line}", "keep only one")
        self._keys[place] = _place(event)
        return key

    def _error(self, event: Any, path: Path, message: str, hint: str) -> InputError:
        return Document(None, self._source, {path: _place(event)}, {}).error(path, message, hint=hint)

    def _refused(self, event: Any, message: str) -> InputError:
        line, column = _place(event)
        return InputError(message, where=f"{self._source}:{line}:{column}")


def _place(event: Any) -> Place:
    return event.start_mark.line + 1, event.start_mark.column + 1
