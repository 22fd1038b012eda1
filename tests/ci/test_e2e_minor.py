"""The end-to-end suite of CI runs on both control planes by turns, and on what is built where only one is."""

from __future__ import annotations

import pytest

from tests.ci.e2e_minor import MINORS, minor_of


@pytest.mark.parametrize("built", [(), MINORS])
def test_commits_take_turns_where_both_are_built_or_none_is(built: tuple[str, ...]) -> None:
    assert [minor_of(f"{number:x}", built) for number in range(4)] == ["1.34", "1.36", "1.34", "1.36"]


@pytest.mark.parametrize("minor", MINORS)
def test_the_one_that_is_built_is_not_kept_waiting_for_the_other(minor: str) -> None:
    assert {minor_of(f"{number:x}", (minor,)) for number in range(4)} == {minor}


def test_without_a_commit_the_oldest_runs() -> None:
    assert minor_of("", MINORS) == "1.34"
