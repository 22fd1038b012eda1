"""A case shrinks to what shows the difference and nothing else."""

from __future__ import annotations

import json
from typing import Any

from tests.conformance.generator.cases import make_case
from tests.conformance.shrinking import MAX_TRIALS, shrink


def test_only_what_shows_the_difference_is_left() -> None:
    case = make_case(1, "taints", 3)
    case["objects"]["nodes"][1]["spec"]["taints"] = [{"key": "a"}, {"key": "b", "effect": "NoSchedule"}]

    def shows(candidate: dict[str, Any]) -> bool:
        nodes = candidate["objects"].get("nodes", [])
        return any(
            taint.get("effect") == "NoSchedule" for node in nodes for taint in node["spec"].get("taints", [])
        )

    smallest = shrink(case, shows)
    assert shows(smallest)
    assert set(smallest["objects"]) == {"nodes"}
    (node,) = smallest["objects"]["nodes"]
    (taint,) = node["spec"]["taints"]
    assert taint["effect"] == "NoSchedule"
    assert smallest["pending"] == []
    assert json.loads(smallest["config"])["profiles"] == []


def test_the_case_itself_is_not_changed_and_the_search_ends() -> None:
    case = make_case(2, "mixed", 0)
    before = json.dumps(case)
    asked = 0

    def shows(candidate: dict[str, Any]) -> bool:
        nonlocal asked
        asked += 1
        return bool(candidate["pending"]) and asked % 3 == 0

    shrink(case, shows)
    assert json.dumps(case) == before
    assert asked <= MAX_TRIALS
