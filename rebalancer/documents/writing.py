"""Plain values to YAML that every reader reads back as the same value; documents without their secrets."""

from __future__ import annotations

import re
from typing import Any

import yaml

from rebalancer.documents.reading import ScalarError, parse, resolve
from rebalancer.errors import InputError
from rebalancer.redaction import is_secret, redacted, without_secrets

_KEY = re.compile(r"(?<![\w-])([\w-]++)[\"']?[ \t]*+[:=]")  # of an entry that a comment holds


class _Dumper(yaml.SafeDumper):
    """Quotes every text that some reader would not read as text."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002 - yaml's
        """Indent the items of a list below their key."""
        super().increase_indent(flow, indentless=False)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    try:
        plain = resolve(text) == text
    except ScalarError:
        plain = False
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if plain else '"')


_Dumper.add_representer(str, _text)


def to_yaml(value: Any) -> str:
    """A plain value as block YAML, keys in their order."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


def redacted_text(text: str, source: str) -> str:
    """A YAML or JSON text without secrets; also a text within it that is such a document itself.

    A text without secrets stays as it is, comments included. One that has some is written anew from its
    values, so that no comment keeps what a key has lost. Raises InputError when it is not such a document:
    then its secrets cannot be found.
    """
    value = parse(text, source).value
    safe = redacted_document(value)
    comments = (line.partition("#")[2] for line in text.splitlines())
    commented = any(is_secret(key) for comment in comments for key in _KEY.findall(comment))
    if safe == value and not commented and without_secrets(text) == text:
        return text
    return to_yaml(safe)


def redacted_document(value: Any) -> Any:
    """A plain value without secrets, also in those of its texts that are documents themselves."""
    return _inner(redacted(value))


def _inner(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _inner(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_inner(item) for item in value]
    if not isinstance(value, str) or (":" not in value and "=" not in value):
        return value
    try:
        document = parse(value, "text").value
    except InputError:
        return value
    return redacted_text(value, "text") if isinstance(document, dict | list) else value
