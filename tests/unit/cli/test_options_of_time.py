"""``--at``: which moments of a recorded timeline can be named."""

from __future__ import annotations

import pytest

from rebalancer.cli.options import _moment
from tests.rows import rows

SIX = 1_795_197_600.0


@rows("text", ["2026-11-20T18:00Z", "2026-11-20T18:00:00Z", "2026-11-20T20:00+02:00", "1795197600"])
def test_a_moment_is_named_to_the_minute_the_second_or_in_unix_seconds(text: str) -> None:
    assert _moment(text) == SIX


@rows("text", ["", "2026-11-20", "2026-11-20T18Z", "2026-11-20T18:00", "2026-13-20T18:00Z"])
def test_what_is_no_moment_is_told_how_to_write_one(text: str) -> None:
    with pytest.raises(ValueError, match=r"write e\.g\. 2026-11-20T12:00:00Z or 1795176000"):
        _moment(text)
