"""A plan that waited for an answer is checked again, and one that waited too long is not carried out."""

from __future__ import annotations

import pytest

from rebalancer.errors import ExitCode, SafetyError
from rebalancer.run.run import PlanAge
from tests.rows import rows


@rows(
    "seconds, fresh, usable",
    [(0.0, True, True), (30.0, True, True), (31.0, False, True), (180.0, False, True), (181.0, False, False)],
)
def test_a_plan_ages(seconds: float, fresh: bool, usable: bool) -> None:
    clock = iter([100.0, 100.0 + seconds, 100.0 + seconds, 100.0 + seconds])
    age = PlanAge(lambda: next(clock))
    assert age.fresh is fresh
    if usable:
        age.ensure_usable()
        return
    with pytest.raises(SafetyError, match=r"the plan was 181 s old when it was confirmed") as refused:
        age.ensure_usable()
    assert refused.value.exit_code == ExitCode.STOPPED
    assert "--yes" in str(refused.value)
