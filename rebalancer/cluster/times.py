"""RFC 3339 times and Go durations as seconds, and back: the only place that knows their formats."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from functools import lru_cache

EARLIEST = -62_135_596_800.0  # the first second of the year 1, in Unix seconds
LATEST = 253_402_300_799.0  # the last second of the year 9999, in Unix seconds
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)", re.ASCII)

_PART = re.compile(r"(\d{1,12}(?:\.\d{0,9})?)(h|ms|m|s|us|µs|μs|ns)")
_DURATION = re.compile(rf"(?:{_PART.pattern}){{1,6}}", re.ASCII)
_PER_UNIT = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9}


@lru_cache(maxsize=65536)
def parse(text: str) -> float:
    """Unix seconds of a Kubernetes timestamp; ValueError when it is none."""
    if not _TIME.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is not a time such as 2026-11-20T12:00:00Z")
    return checked(datetime.fromisoformat(text).timestamp())  # an offset may lead out of the years


def parse_optional(text: str | None) -> float:
    """As ``parse``, and NaN for an absent time."""
    return parse(text) if text else float("nan")


def parse_if_possible(text: str | None) -> float:
    """As ``parse``, and NaN for an absent time and for one that nobody can read."""
    try:
        return parse_optional(text)
    except ValueError:
        return float("nan")


@lru_cache(maxsize=4096)
def parse_duration(text: str) -> float:
    """Seconds of a duration as Go prints it: ``15s``, ``20.1s``, ``1m0s``; ValueError when it is none."""
    if not _DURATION.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is not a duration such as 15s or 1m0s")
    return sum(float(number) * _PER_UNIT[unit] for number, unit in _PART.findall(text))


def checked(unix_seconds: float) -> float:
    """The same seconds; ValueError outside the years 1 to 9999, where RFC 3339 has no times."""
    if not EARLIEST <= unix_seconds <= LATEST:
        raise ValueError(f"{unix_seconds:g} s is not a time between the years 1 and 9999")
    return float(unix_seconds)


def render(unix_seconds: float) -> str:
    """RFC 3339 in UTC, to the second, as Kubernetes writes a ``Time``.

    Raises ValueError outside the years 1 to 9999.
    """
    return _render(checked(unix_seconds), "seconds")


def render_micro(unix_seconds: float) -> str:
    """RFC 3339 in UTC with six decimals, as the API server demands of a ``MicroTime`` (of Leases and Events).

    Raises ValueError outside the years 1 to 9999.
    """
    return _render(checked(unix_seconds), "microseconds")


def render_optional(unix_seconds: float) -> str | None:
    """RFC 3339 in UTC that parses to the same moment; None for NaN."""
    if math.isnan(unix_seconds):
        return None
    return _render(min(max(unix_seconds, EARLIEST), LATEST), "auto")


def _render(unix_seconds: float, precision: str) -> str:
    moment = datetime.fromtimestamp(unix_seconds, UTC)
    return moment.isoformat(timespec=precision).replace("+00:00", "Z")
