"""The oracle decides what was recorded of the real scheduler, or it is no oracle; so it is in every minor."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.comparison import compare
from tests.conformance.oracle import build
from tests.conformance.oracle.process import Oracle
from tests.conformance.recorded import DATA, FAMILIES
from tests.conftest import ORACLE_MINOR

# Minors that decide like the one the decisions were recorded with.
ALIKE = ("1.34", "1.35")


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    with Oracle(build.program(ORACLE_MINOR)) as program:
        yield program


def _lines(name: str) -> list[dict[str, Any]]:
    path = DATA / name
    with gzip.open(path, "rt") as lines:
        return [json.loads(line) for line in lines]


@pytest.mark.parametrize("family", FAMILIES)
def test_the_oracle_decides_as_recorded(family: str, oracle: Oracle) -> None:
    cases = _lines(f"{family}.cases.jsonl.gz")
    expected = {item["id"]: item for item in _lines(f"{family}.expected.jsonl.gz")}
    for case, answer in zip(cases, oracle.answers(cases), strict=True):
        assert [pod["pod"] for pod in answer["pods"]] == [pod["pod"] for pod in expected[case["id"]]["pods"]]
        if ORACLE_MINOR in ALIKE:
            result = compare(expected[case["id"]], answer)
            assert result.differences == (), case["id"]
            assert result.equal == len(case["pending"])


def test_a_case_that_cannot_be_decided_is_answered_with_what_is_wrong(oracle: Oracle) -> None:
    answer = oracle.answer({"id": "c", "config": "kind: Nothing", "objects": {}, "pending": []})
    assert answer["id"] == "c"
    assert answer["error"].startswith("config: ")
