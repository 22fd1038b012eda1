"""What a plain (unquoted) scalar means: YAML 1.2's core rules, with YAML 1.1's surprises refused.

Tools that read the same file as YAML 1.1 would see something else in ``yes``, ``010`` or ``12:30:45``; so
the author has to state which is meant.
"""

from __future__ import annotations

import math
import re
from typing import TypeAlias

Scalar: TypeAlias = str | int | float | bool | None

_NULLS = frozenset(("", "~", "null", "Null", "NULL"))
_TRUE = frozenset(("true", "True", "TRUE"))
_FALSE = frozenset(("false", "False", "FALSE"))
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)", re.ASCII)
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_MAX_NUMBER_LENGTH = 40

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
