"""The model decides what the real scheduler decided: every pod, node, plugin and score, exactly."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.conformance.decide import decide
from tests.conformance.recorded import DATA, FAMILIES
from tests.conftest import SUMMARY


def _lines(name: str) -> Iterator[dict[str, Any]]:
    with gzip.open(DATA / name, "rt") as lines:
        for line in lines:
            yield json.loads(line)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_decision_of_the_family_is_the_real_schedulers(
    family: str, record_property: Callable[[str, object], None]
) -> None:
    expected = {item["id"]: item for item in _lines(f"{family}.expected.jsonl.gz")}
    decided = 0
    for case in _lines(f"{family}.cases.jsonl.gz"):
        decision = decide(case)
        assert decision == expected.pop(case["id"]), case["id"]
        decided += len(decision["pods"])
    assert not expected
    assert decided > 400
    record_property(SUMMARY, f"conformance {family}: {decided} of {decided} decisions exact")
