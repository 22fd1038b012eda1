"""The units of a policy: durations, percentages, and a number or a percentage of a total.

Each is parsed strictly and printed back as text that parses to the same value.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Annotated

import msgspec
from pydantic import BeforeValidator, InstanceOf, PlainSerializer, ValidationInfo, WithJsonSchema

DURATION_PATTERN = (
    r"(?=\d)(?:(\d{1,6}(?:\.\d{1,6})?)h)?(?:(\d{1,6}(?:\.\d{1,6})?)m(?!s))?"
    r"(?:(\d{1,9}(?:\.\d{1,6})?)s)?(?:(\d{1,9})ms)?"
)
_DURATION = re.compile(DURATION_PATTERN, re.ASCII)
_PERCENTAGE = re.compile(r"(\d{1,3}(?:\.\d{1,2})?)%", re.ASCII)
_AMOUNT = re.compile(r"(\d{1,9})(%?)", re.ASCII)
_MAX_SECONDS = 3_600_000_000.0  # what the largest number of hours in a text comes to
_MILLISECONDS = {"h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}


def parse_duration(text: str) -> float:
    """Seconds of a Kubernetes duration such as 10m, 1h30m or 500ms; ValueError otherwise."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:40]!r} is not a duration; write e.g. 90s, 10m, 1h30m")
    parts = zip(match.groups(), _MILLISECONDS.values(), strict=True)
    return round(sum(Fraction(number) * size for number, size in parts if number)) / 1000


def format_duration(seconds: float) -> str:
    """The shortest text in hours, minutes, seconds and milliseconds that parses back to the same duration."""
    left = round(seconds * 1000)
    text = ""
    for unit, size in _MILLISECONDS.items():
        count, left = divmod(left, size)
        text += f"{count}{unit}" if count else ""
    return text or "0s"


def parse_percentage(text: str) -> float:
    """The fraction, 0 to 1, that a percentage such as 80%, 99.5% or 80 stands for; ValueError otherwise."""
    match = _PERCENTAGE.fullmatch(text) or _PERCENTAGE.fullmatch(f"{text}%")
    if match is not None and not text.endswith("%") and 0 < Fraction(match[1]) <= 1:
        raise ValueError(f"{text[:40]} or {float(match[1]) * 100:g}%? Write it with the percent sign")
    if match is None or Fraction(match[1]) > 100:
        raise ValueError(f"{text[:40]!r} is not a percentage from 0% to 100%; write e.g. 80%")
    return float(Fraction(match[1]) / 100)


def format_percentage(fraction: float) -> str:
    """A fraction as a percentage with up to two decimals."""
    return f"{fraction * 100:.2f}".rstrip("0").rstrip(".") + "%"


class Amount(msgspec.Struct, frozen=True):
    """A number, or a percentage of a total known later."""

    number: int
    percent: bool = False

    def of(self, total: int) -> int:
        """How many of ``total`` this is; a percentage is rounded up."""
        return -(-total * self.number // 100) if self.percent else self.number

    def __str__(self) -> str:
        """The text a policy holds, e.g. 3 or 10%."""
        return f"{self.number}%" if self.percent else str(self.number)


def parse_amount(text: str) -> Amount:
    """A whole number, or a whole percentage up to 100%; ValueError otherwise."""
    match = _AMOUNT.fullmatch(text)
    if match is None or (match[2] and int(match[1]) > 100):
        raise ValueError(
            f"{text[:40]!r} is neither a whole number nor a percentage up to 100%; write e.g. 3 or 10%"
        )
    return Amount(int(match[1]), percent=bool(match[2]))


def _duration(value: object, info: ValidationInfo) -> float:
    """Text anywhere; a bare number only from Python, where the type means seconds."""
    if isinstance(value, str):
        return parse_duration(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= _MAX_SECONDS:
        if info.mode == "json":
            raise ValueError(f"{value} has no unit; write e.g. {format_duration(value)}")
        return round(value * 1000) / 1000
    raise ValueError("should be a duration; write e.g. 90s, 10m, 1h30m")


def _percentage(value: object, info: ValidationInfo) -> float:
    """Text anywhere; a bare fraction only from Python."""
    if isinstance(value, str):
        return parse_percentage(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if info.mode == "json":
            return parse_percentage(f"{value:g}")
        if 0 <= value <= 1:
            return round(value, 4)
    raise ValueError("should be a percentage from 0% to 100%; write e.g. 80%")


def _amount(value: object) -> Amount:
    """A whole number or text."""
    if isinstance(value, Amount):
        return value
    if isinstance(value, (int, str)) and not isinstance(value, bool):
        return parse_amount(str(value))
    raise ValueError("should be a whole number or a percentage; write e.g. 3 or 10%")


Duration = Annotated[
    float,
    BeforeValidator(_duration),
    PlainSerializer(format_duration, return_type=str, when_used="json"),
    WithJsonSchema(
        {"type": "string", "pattern": f"^{DURATION_PATTERN}$", "examples": ["90s", "10m", "1h30m"]}
    ),
]
"""Seconds; written as Kubernetes writes durations."""

Percentage = Annotated[
    float,
    BeforeValidator(_percentage),
    PlainSerializer(format_percentage, return_type=str, when_used="json"),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": r"^\d{1,3}(\.\d{1,2})?%?$"},
                {"type": "number", "minimum": 0, "maximum": 100},
            ],
            "examples": ["80%"],
        }
    ),
]
"""A fraction from 0 to 1; written as a percentage."""

AmountField = Annotated[
    InstanceOf[Amount],
    BeforeValidator(_amount),
    PlainSerializer(lambda value: str(value) if value.percent else value.number, when_used="json"),
    WithJsonSchema(
        {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": r"^\d{1,3}%$"}]}
    ),
]
"""An :class:`Amount` as a field of a policy."""
