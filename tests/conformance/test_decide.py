"""The program that decides cases of others: bad lines are reported, good ones decided all the same."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from tests.conformance.decide import decide_lines
from tests.rows import rows

DATA = Path(__file__).parent / "data"


def _first_case() -> dict[str, Any]:
    with gzip.open(DATA / "resources.cases.jsonl.gz", "rt") as lines:
        found: dict[str, Any] = json.loads(next(lines))
    return found


def _decided(*lines: bytes) -> tuple[list[str], list[dict[str, Any]]]:
    written: list[bytes] = []
    problems = decide_lines(lines, written.append)
    return problems, [json.loads(line) for line in written]


@rows(
    "bad, complaint",
    [
        (b"{", "line 1: DecodeError"),
        (b"[1]", "line 1: ValueError: is no object"),
        (b'{"id": "c-7"}', "line 1, case c-7: KeyError: 'config'"),
        (b'{"id": "c-7", "config": "kind: x", "objects": {}}', "line 1, case c-7: InputError: c-7"),
        (b"\xff\xfe", "line 1: DecodeError"),
    ],
)
def test_a_bad_line_is_one_line_and_the_next_is_decided(bad: bytes, complaint: str) -> None:
    case = _first_case()
    problems, decisions = _decided(bad, b"\n", json.dumps(case).encode())
    assert len(problems) == 1
    assert problems[0].startswith(complaint)
    assert "\n" not in problems[0]
    assert [item["id"] for item in decisions] == [case["id"]]


def test_a_case_with_a_damaged_node_is_refused_whole() -> None:
    case = _first_case()
    case["objects"]["nodes"][0]["status"]["allocatable"]["cpu"] = "much"
    problems, decisions = _decided(json.dumps(case).encode())
    assert decisions == []
    assert "much" in problems[0]


def test_a_pod_of_no_profile_is_reported() -> None:
    case = _first_case()
    case["pending"][0]["spec"]["schedulerName"] = "nobody"
    problems, _ = _decided(json.dumps(case).encode())
    assert problems[0].endswith("ValueError: no profile has schedulerName nobody")
