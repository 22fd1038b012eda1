"""Files that are written for kubectl, read as kubectl reads them.

Such a file may hold several documents, and repeat a part by an alias or a merge key. Plain scalars follow
YAML 1.1 as go-yaml has it: a mode of files is an octal number, ``yes`` is true. A key that is a number or a
boolean is text.

    x-common: &common {app: web}
    metadata: {labels: {<<: *common, tier: front}}     labels app: web and tier: front
    defaultMode: 0755                                  493

Source: sigs.k8s.io/yaml v1.6.0 goyaml.v2/resolve.go, yaml.go convertToJSONableObject.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import yaml

from rebalancer.documents.reading import MAX_ALIASES, Document, DocumentBuilder, Path, Scalar, reading_yaml
from rebalancer.errors import InputError

MAX_MANIFEST_BYTES = 16 << 20  # what helm template writes for a large chart

_CONSTANTS: dict[str, Scalar] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
}
_NUMBER_START = re.compile(r"[-+.0-9]", re.ASCII)
_INTEGER = re.compile(
    r"(?P<sign>[-+]?)(?:0[xX](?P<hexadecimal>[0-9a-fA-F]+)|0[bB](?P<binary>[01]+)|0[oO]?(?P<octal>[0-7]+)"
    r"|(?P<decimal>0|[1-9][0-9]*))",
    re.ASCII,
)
_BASES = {"hexadecimal": 16, "binary": 2, "octal": 8, "decimal": 10}
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_MAX_NUMBER_LENGTH = 400  # no number that Go reads is longer; Python refuses to read one of 4,300 digits
_MERGE = "<<"
_STANDARD_TAGS = "tag:yaml.org,2002:"
_AS_TEXT = (f"{_STANDARD_TAGS}str", f"{_STANDARD_TAGS}binary")
_AS_WRITTEN = tuple(f"{_STANDARD_TAGS}{name}" for name in ("bool", "int", "float", "null", "map", "seq"))


def parse_manifests(text: str, source: str) -> tuple[Document, ...]:
    """The documents of a file as kubectl reads it, without empty ones; InputError with file:line:column."""
    hint = "render it first, e.g. helm template CHART or kubectl kustomize FOLDER" if "{{" in text else ""
    try:
        with reading_yaml(text, source, MAX_MANIFEST_BYTES) as events:
            builder = _ManifestBuilder(source, events)
            return tuple(document for document in builder.documents() if document.value is not None)
    except InputError as error:
        error.hint = hint or error.hint
        raise


def resolve_as_kubectl(text: str) -> Scalar:
    """The value of a plain scalar in a file for kubectl."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if not _NUMBER_START.match(text) or len(text) > _MAX_NUMBER_LENGTH:
        return text
    plain = text.replace("_", "")
    integer = _INTEGER.fullmatch(plain)
    if integer is not None:
        base = str(integer.lastgroup)
        number = int(integer["sign"] + integer[base], _BASES[base])
        return number if -(1 << 63) <= number < 1 << 64 else float(number)
    if _FLOAT.fullmatch(plain) and math.isfinite(float(plain)):
        return float(plain)
    return text


class _ManifestBuilder(DocumentBuilder):
    """Builds the values of documents as kubectl reads them.

    It repeats the events of an anchored part at each alias of it, so an alias counts against the bounds of a
    document with all that it stands for.
    """

    def __init__(self, source: str, events: Iterator[Any]) -> None:
        super().__init__(source, events)
        self._repeated: list[Iterator[Any]] = []  # what comes before further events, the last one first
        self._recordings: list[list[Any]] = []  # the events so far of each anchored part that is open
        self._anchors: dict[str, list[Any]] = {}
        self._aliases = 0

    def documents(self) -> Iterator[Document]:
        """Each document, one after the other."""
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                self._anchors = {}
                yield self.next_document()

    def _next(self) -> Any:
        event = None
        while event is None:
            if not self._repeated:
                event = next(self._events)
            else:
                event = next(self._repeated[-1], None)
                if event is None:
                    self._repeated.pop()
        for recording in self._recordings:
            recording.append(event)
        return event

    def _value(self, event: Any, path: Path, depth: int) -> Any:
        if isinstance(event, yaml.AliasEvent):
            return self._value_again(event, path, depth)
        if event.anchor is None:
            return super()._value(event, path, depth)
        self._anchors.pop(event.anchor, None)
        self._recordings.append([event])
        value = super()._value(event, path, depth)
        self._anchors[event.anchor] = self._recordings.pop()
        return value

    def _value_again(self, event: Any, path: Path, depth: int) -> Any:
        """What an alias stands for."""
        recorded = self._anchors.get(event.anchor)
        if recorded is None:
            raise self._error(
                event, path, f"alias *{event.anchor} stands for nothing that is complete before it", ""
            )
        self._aliases += 1
        if self._aliases > MAX_ALIASES:
            raise self._refused(event, f"holds more than {MAX_ALIASES} aliases")
        for recording in self._recordings:
            recording[-1] = recorded[0]  # instead of the alias
        self._repeated.append(iter(recorded[1:]))
        return self._value(recorded[0], path, depth)

    def _mapping(self, path: Path, depth: int) -> dict[str, Any]:
        entries: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            if _is_merge_key(event):
                merged = self._merged((*path, _MERGE), depth) | merged
                continue
            key = self._key(event, path, entries)
            entries[key] = self._value(self._next(), (*path, key), depth + 1)
        return merged | entries

    def _merged(self, path: Path, depth: int) -> dict[str, Any]:
        """The entries of the mapping that a merge key names, or of several, the first of which wins."""
        event = self._next()
        value = self._value(event, path, depth + 1)
        mappings = value if isinstance(value, list) else [value]
        merged: dict[str, Any] = {}
        for mapping in mappings:
            if not isinstance(mapping, dict):
                raise self._error(event, path, "a merge key takes a mapping, or a list of them", "")
            merged = mapping | merged
        return merged

    def _scalar(self, event: Any, path: Path) -> Any:
        tag = getattr(event, "tag", None)
        if tag in _AS_TEXT and isinstance(event, yaml.ScalarEvent):
            return event.value
        if tag in _AS_WRITTEN:
            return self._resolve(event.value) if isinstance(event, yaml.ScalarEvent) else None
        return super()._scalar(event, path)

    @staticmethod
    def _resolve(text: str) -> Scalar:
        return resolve_as_kubectl(text)

    @staticmethod
    def _text_of_key(value: Scalar) -> str | None:
        if value is None or isinstance(value, str):
            return value
        return str(value).lower() if isinstance(value, bool) else str(value)


def _is_merge_key(event: Any) -> bool:
    return isinstance(event, yaml.ScalarEvent) and event.value == _MERGE and not event.style
