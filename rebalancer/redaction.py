"""Finds secrets by what they are called, and replaces them before anything is kept or shown.

Reports and recordings leave the machine: they are attached to tickets and pasted into chats. A scheduler's
configuration and a policy may hold tokens, and an address may hold a password, so whatever is written passes
through here. A value is a secret when its key says so, and so is the user information of any URL:

    token: abc                            →  token: REDACTED
    tokenFile: /run/token                 →  unchanged: a path
    address: https://bob:pw@prometheus    →  address: https://REDACTED@prometheus
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

REDACTED = "REDACTED"

_SECRET_ENDINGS = (
    "token",
    "bearer",
    "password",
    "passwd",
    "passphrase",
    "secret",
    "authorization",
    "apikey",
    "accesskey",
    "accesskeyid",
    "secretkey",
    "privatekey",
    "keydata",
    "credential",
    "credentials",
    "kubeconfig",
    "cookie",
)
_NOT_LETTERS = re.compile("[^a-z0-9]")
# User information ends at the last @ before the path; an image's digest (name@sha256:…) is none.
_USER_INFORMATION = re.compile(r"(\b[a-zA-Z][a-zA-Z0-9+.-]{0,30}://)[^\s/?#@]*(?:@[^\s/?#@]*)*@(?!sha\d{3}:)")
_PARAMETER = re.compile(
    r"([?&;](?:[a-z_-]*token|[a-z_-]*password|[a-z_-]*secret|api[_-]?key|access[_-]?key|sig|signature)=)[^&\s\"']+",
    re.IGNORECASE,
)
_BEARER = re.compile(r"\b(Bearer|Basic)\s+(?=[A-Za-z0-9+/=._~-]*[0-9=._])[A-Za-z0-9+/=._~-]{8,}")


def is_secret(key: str) -> bool:
    """Whether the value of this key is a secret; ``tokenFile`` and its like are paths."""
    return _NOT_LETTERS.sub("", key.lower()).endswith(_SECRET_ENDINGS)


def without_secrets(text: str) -> str:
    """A message without the user information and the secret parameters of its URLs, and without logins."""
    if "://" in text:
        text = _USER_INFORMATION.sub(rf"\1{REDACTED}@", text)
    if "=" in text and ("?" in text or "&" in text or ";" in text):
        text = _PARAMETER.sub(rf"\1{REDACTED}", text)
    if "Bearer" in text or "Basic" in text:
        text = _BEARER.sub(rf"\1 {REDACTED}", text)
    return text


def redacted(value: Any) -> Any:
    """A plain value with every secret in it replaced; pairs of ``name`` and ``value`` count as keys too."""
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, list | tuple):
        return [redacted(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    named = isinstance(value.get("name"), str) and is_secret(value["name"])
    return {
        key: _hidden(item)
        if (isinstance(key, str) and is_secret(key)) or (named and key == "value")
        else redacted(item)
        for key, item in value.items()
    }


def _hidden(value: Any) -> Any:
    """The value of a secret key: the shape stays, every text and number in it goes."""
    if isinstance(value, Mapping):
        return {key: _hidden(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_hidden(item) for item in value]
    return value if value is None or isinstance(value, bool) or value == "" else REDACTED


# DEL, C1 controls, and characters that change the direction of text or are invisible.
TERMINAL_CONTROLS = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


def safe_json(text: str) -> str:
    """JSON that a terminal may show, without the secrets of its URLs; still the same JSON.

    JSON leaves characters in strings that act on a terminal or hide text. Names and messages come from the
    cluster, where anybody who can create a pod chooses them, so JSON that is written passes through here.
    """
    return TERMINAL_CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", without_secrets(text))
