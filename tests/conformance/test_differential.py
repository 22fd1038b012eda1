"""What two deciders answer is compared case by case, also where one is asked again."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from tests.conformance.differential import Case, find_differences


def _answer(case: Case, total: int) -> dict[str, Any]:
    node = {"scores": {"NodeResourcesFit": total}, "total": total}
    return {"id": case["id"], "pods": [{"pod": "default/q", "nodes": {"a": node}, "chosen": "a"}]}


def _own(case: Case) -> int:
    return int(case["id"][1:])


class _Program:
    """Answers in the order of the questions, through one pipe, as the oracle does."""

    def __init__(self, *first_totals: int) -> None:
        self._totals = deque(first_totals)  # then each case has its own
        self._pipe: deque[dict[str, Any]] = deque()

    def __call__(self, cases: list[Case]) -> Iterator[dict[str, Any] | Exception]:
        for case in cases:
            self._pipe.append(_answer(case, self._totals.popleft() if self._totals else _own(case)))
        for _ in cases:
            yield self._pipe.popleft()


def _ours(cases: list[Case]) -> Iterator[dict[str, Any] | Exception]:
    yield from (_answer(case, _own(case) if case["id"] != "c1" else 99) for case in cases)


CASES = [{"id": f"c{number}", "family": "f"} for number in range(4)]


def test_a_difference_stays_one_when_the_case_is_asked_again_amid_others() -> None:
    findings = find_differences(_Program(), _ours, CASES)
    assert findings.rates == {"f": (4, 3)}
    assert findings.unsteady == []


def test_a_case_that_is_decided_otherwise_when_asked_again_is_named() -> None:
    findings = find_differences(_Program(50), _ours, CASES)
    assert findings.unsteady == ["c0"]
    assert findings.rates == {"f": (4, 3)}
