"""RFC 3339 times as Unix seconds."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)", re.ASCII)


@lru_cache(maxsize=65536)
def parse(text: str) -> float:
    """Unix seconds of a Kubernetes timestamp; ValueError when it is none."""
    if not _TIME.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is not a time such as 2026-11-20T12:00:00Z")
    return datetime.fromisoformat(text).timestamp()


def parse_optional(text: str | None) -> float:
    """As ``parse``, and NaN for an absent time."""
    return parse(text) if text else float("nan")


def render(unix_seconds: float) -> str:
    """RFC 3339 in UTC, to the second, as Kubernetes writes it."""
    return datetime.fromtimestamp(unix_seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
