"""Plain values to YAML that every reader reads back as the same value; documents without their secrets."""

from __future__ import annotations

import re
from typing import Any

import yaml

from rebalancer import redaction
from rebalancer.documents.reading import ScalarError, parse, resolve
from rebalancer.errors import InputError

_KEY = re.compile(r"(?<![\w-])([\w-]++)[\"']?[ \t]*+[:=]")  # of an entry that a comment holds


_MAX_NESTED_DOCUMENTS = 4  # a document in a text of a document, and so on: each is parsed twice


class _Dumper(yaml.SafeDumper):
    """Quotes every text that some reader would not read as text."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002 - yaml's
        """Indent the items of a list below their key."""
        super().increase_indent(flow, indentless=False)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    try:
        plain = resolve(text) == text and not redaction.TERMINAL_CONTROLS.search(text)
    except ScalarError:
        plain = False
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if plain else '"')


_Dumper.add_representer(str, _text)


def to_yaml(value: Any) -> str:
    """A plain value as block YAML, keys in their order."""
    return redaction.without_controls(
        yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
    )


def redacted_text(text: str, source: str, depth: int = 0) -> str:
    """A YAML or JSON text without secrets; also a text within it that is such a document itself.

    A text without secrets stays as it is, comments included. One that has some is written anew from its
    values, so that no comment keeps what a key has lost. Raises InputError when it is not such a document:
    then its secrets cannot be found.
    """
    value = parse(text, source).value
    safe = redacted_document(value, depth)
    comments = (line.partition("#")[2] for line in text.splitlines())
    commented = any(redaction.is_secret(key) for comment in comments for key in _KEY.findall(comment))
    if safe == value and not commented and redaction.without_secrets(text) == text:
        return text
    return to_yaml(safe)


def redacted_document(value: Any, depth: int = 0) -> Any:
    """A plain value without secrets, also in those of its texts that are documents themselves.

    ``depth`` counts the documents around it; in too many nothing is looked for, and no text is kept.
    """

    def inner(text: str) -> str:
        if ":" not in text and "=" not in text:
            return text
        try:
            document = parse(text, "text").value
        except InputError:
            return text
        if not isinstance(document, dict | list):
            return text
        return redacted_text(text, "text", depth + 1) if depth < _MAX_NESTED_DOCUMENTS else redaction.REDACTED

    return redaction.each_text(redaction.redacted(value), inner, keys=False)
