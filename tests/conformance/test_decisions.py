"""The model decides what the real scheduler decided: every pod, node, plugin and score, exactly."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.conformance.decide import decide
from tests.conformance.recorded import DATA, FAMILIES
from tests.conftest import SUMMARY, some_of


def _lines(name: str) -> Iterator[dict[str, Any]]:
    with gzip.open(DATA / name, "rt") as lines:
        for line in lines:
            yield json.loads(line)


@pytest.mark.many_cases
@pytest.mark.parametrize("family", FAMILIES)
def test_every_decision_of_the_family_is_the_real_schedulers(
    family: str, record_property: Callable[[str, object], None]
) -> None:
    expected = {decision["id"]: decision for decision in _lines(f"{family}.expected.jsonl.gz")}
    cases = list(_lines(f"{family}.cases.jsonl.gz"))
    decided = 0
    for case in some_of(cases):
        decision = decide(case)
        assert decision == expected[case["id"]], case["id"]
        decided += len(decision["pods"])
    assert expected.keys() == {case["id"] for case in cases}
    assert sum(len(case["pending"]) for case in cases) > 400
    record_property(SUMMARY, f"conformance {family}: {decided} of {decided} decisions exact")
