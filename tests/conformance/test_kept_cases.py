"""Minimal cases of differences found on random clusters, each with the real scheduler's decision."""

from __future__ import annotations

import json
from pathlib import Path

from tests.conformance.comparison import compare
from tests.conformance.decide import decide
from tests.rows import rows

KEPT = sorted((Path(__file__).parent / "cases").glob("*.json"))


@rows("path", KEPT)
def test_a_difference_that_was_found_stays_mended(path: Path) -> None:
    case = json.loads(path.read_text())
    result = compare(case["expected"], decide(case))
    assert result.differences == ()
    assert result.equal == len(case["pending"]) > 0


def test_there_are_kept_cases() -> None:
    assert KEPT
