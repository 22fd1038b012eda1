"""Finds secrets by what they are called, and replaces them before anything is kept or shown.

Reports and recordings leave the machine: they are attached to tickets and pasted into chats. A scheduler's
configuration and a policy may hold tokens, and an address may hold a password, so whatever is written passes
through here. A value is a secret when its key says so, or it is the value of an HTTP header, and so is the
user information of any URL:

    token: abc                            →  token: REDACTED
    headers: {X-Scope-OrgID: north}       →  headers: {X-Scope-OrgID: REDACTED}
    tokenFile: /run/token                 →  unchanged: a path
    address: https://bob:pw@prometheus    →  address: https://REDACTED@prometheus
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
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
_WORD = re.compile(r"\S+")
_END_OF_HOST = re.compile("[/?#]")
_DIGEST = re.compile(r"sha\d{3}:[0-9a-f]{4}")  # an image's digest follows an @ too: name@sha256:…
_PARAMETER = re.compile(
    r"([?&;](?:[a-z_-]*token|[a-z_-]*password|[a-z_-]*secret|api[_-]?key|access[_-]?key|sig|signature)=)[^&\s\"']+",
    re.IGNORECASE,
)
_BEARER = re.compile(r"\b(Bearer|Basic)\s+(?=[A-Za-z0-9+/=._~-]*[0-9=._])[A-Za-z0-9+/=._~-]{8,}")
# DEL, C1 controls, and characters that change the direction of text or are invisible.
TERMINAL_CONTROLS = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


def is_secret(key: str) -> bool:
    """Whether the value of this key is a secret; ``tokenFile`` and its like are paths."""
    return _NOT_LETTERS.sub("", key.lower()).endswith(_SECRET_ENDINGS)


def without_secrets(text: str) -> str:
    """A message without the user information and the secret parameters of its URLs, and without logins."""
    if "://" in text:
        text = _WORD.sub(_without_login, text)
    if "=" in text and ("?" in text or "&" in text or ";" in text):
        text = _PARAMETER.sub(rf"\1{REDACTED}", text)
    if "Bearer" in text or "Basic" in text:
        text = _BEARER.sub(rf"\1 {REDACTED}", text)
    return text


def _without_login(word: re.Match[str]) -> str:
    """A word without the user information of the URL that begins in it.

    User information ends at the last @ before the path. A password may hold the / that begins a path, so that
    after a colon the last @ of the word ends it.
    """
    text = word[0]
    begin = text.find("://") + 3
    if begin < 4:
        return text
    end_of_host = _END_OF_HOST.search(text, begin)
    path = end_of_host.start() if end_of_host else len(text)
    end = text.rfind("@", begin, len(text) if ":" in text[begin:path] else path)
    while end >= 0 and _DIGEST.match(text, end + 1):
        end = text.rfind("@", begin, end)
    return text if end < 0 else f"{text[:begin]}{REDACTED}{text[end:]}"


def redacted(value: Any) -> Any:
    """A plain value with every secret in it replaced; pairs of ``name`` and ``value`` count as keys too."""
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, list | tuple):
        return [redacted(element) for element in value]
    if not isinstance(value, Mapping):
        return value
    named = isinstance(value.get("name"), str) and is_secret(value["name"])
    return {
        key: _hidden(field_value)
        if (isinstance(key, str) and (is_secret(key) or key == "headers")) or (named and key == "value")
        else redacted(field_value)
        for key, field_value in value.items()
    }


def _hidden(value: Any) -> Any:
    """The value of a secret key: the shape stays, every text and number in it goes."""
    if isinstance(value, Mapping):
        return {key: _hidden(field_value) for key, field_value in value.items()}
    if isinstance(value, list | tuple):
        return [_hidden(element) for element in value]
    return value if value is None or isinstance(value, bool) or value == "" else REDACTED


def safe_json(value: Any, *, indent: int = 0) -> str:
    """A value as JSON that a terminal may show, each text in it without the secrets of its URLs.

    Secrets leave the values before they are encoded, so that a text is cut nowhere but within itself. JSON
    leaves characters in strings that act on a terminal or hide text: names and messages come from the
    cluster, where anybody who can create a pod chooses them. Those are escaped, and it is the same JSON.
    """
    import msgspec  # noqa: PLC0415 - slow to import, and every error imports this module

    try:
        encoded = msgspec.json.encode(value, order="deterministic")
    except TypeError:  # keys that are no texts cannot be put in order as they are
        plain = msgspec.to_builtins(value, str_keys=True, order="deterministic")
        encoded = msgspec.json.encode(plain)
    encoded = _without_secrets_in(encoded)
    if indent:
        encoded = msgspec.json.format(encoded, indent=indent)
    return without_controls(encoded.decode())


def _without_secrets_in(encoded: bytes) -> bytes:
    """JSON with ``without_secrets`` of every text in it; what has nothing that marks a secret is not decoded.

    The marks of ``without_secrets`` are written in JSON as they are, so a part of the value whose JSON has
    none of them has no text that would change. Most parts of a plan have none.
    """
    if not _may_change(encoded):
        return encoded
    import msgspec  # noqa: PLC0415 - slow to import, and every error imports this module

    def changed(part: msgspec.Raw) -> bytes:
        text = bytes(part)
        return _without_secrets_in(text) if _may_change(text) else part  # which copies nothing

    if encoded.startswith(b'"'):
        return msgspec.json.encode(without_secrets(msgspec.json.decode(encoded)))
    if encoded.startswith(b"["):
        elements = msgspec.json.decode(encoded, type=list[msgspec.Raw])
        return b"[%b]" % b",".join(map(changed, elements))
    fields = msgspec.json.decode(encoded, type=dict[str, msgspec.Raw])
    pieces: list[bytes] = []
    for key, part in {without_secrets(key): changed(part) for key, part in fields.items()}.items():
        pieces += (b",", msgspec.json.encode(key), b":", part)
    return b"".join((b"{", *pieces[1:], b"}"))


def _may_change(text: bytes) -> bool:
    """Whether ``without_secrets`` may change a text, or any part of one."""
    return (
        b"://" in text
        or (b"=" in text and (b"?" in text or b"&" in text or b";" in text))
        or b"Bearer" in text
        or b"Basic" in text
    )


def without_controls(quoted: str) -> str:
    """JSON or YAML with characters escaped that act on a terminal; they stand in double quotes only."""
    if quoted.isascii() and "\x7f" not in quoted:
        return quoted
    return TERMINAL_CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", quoted)


def each_text(value: Any, changed: Callable[[str], str], *, keys: bool = True) -> Any:
    """A plain value with every text in it changed, those of its ``keys`` too."""
    if isinstance(value, str):
        return changed(value)
    if isinstance(value, Mapping):
        return {
            changed(key) if keys and isinstance(key, str) else key: each_text(field_value, changed, keys=keys)
            for key, field_value in value.items()
        }
    if isinstance(value, list | tuple):
        return [each_text(element, changed, keys=keys) for element in value]
    return value
