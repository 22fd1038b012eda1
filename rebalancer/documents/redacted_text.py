"""The text of a document without its secrets.

A text without secrets stays as it is, comments included. One that has some is written anew from its values,
so that no comment keeps what a key has lost.
"""

from __future__ import annotations

import re
from typing import Any

from rebalancer.documents.reading import parse
from rebalancer.documents.writing import to_yaml
from rebalancer.errors import InputError
from rebalancer.redaction import is_secret, redacted, without_secrets

_COMMENTED_KEY = re.compile(r"#[^\n]*?([A-Za-z][A-Za-z0-9_-]*)[\"']?\s*[:=]\s*\S")


def redacted_text(text: str, source: str) -> str:
    """A YAML or JSON text without secrets; also a text within it that is such a document itself.

    Raises InputError when it is not such a document: then its secrets cannot be found.
    """
    value = parse(text, source).value
    safe = redacted_document(value)
    commented = any(is_secret(match[1]) for match in _COMMENTED_KEY.finditer(text))
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
