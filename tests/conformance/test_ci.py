"""What CI compares: what is cached always, and one minor more until all are."""

from __future__ import annotations

from tests.conformance.ci import minors_of

MINORS = ("1.31", "1.32", "1.33")


def test_from_an_empty_cache_one_minor_is_built_and_commits_take_turns() -> None:
    chosen = [minors_of(f"{number:x}", (), MINORS) for number in range(6)]
    assert all(len(found) == 1 for found in chosen)
    assert {found[0] for found in chosen} == set(MINORS)


def test_what_is_cached_always_runs_and_what_is_missing_joins_it() -> None:
    assert minors_of("0", ("1.32",), MINORS) == ["1.31", "1.32"]
    assert minors_of("1", ("1.32",), MINORS) == ["1.32", "1.33"]
    assert minors_of("ff", MINORS, MINORS) == list(MINORS)


def test_without_a_commit_one_is_built_all_the_same() -> None:
    assert minors_of("", (), MINORS) == ["1.31"]


def test_where_nothing_may_be_built_what_is_built_runs_and_never_nothing() -> None:
    assert minors_of("0", ("1.32",), MINORS, only_built=True) == ["1.32"]
    assert minors_of("1", (), MINORS, only_built=True) == ["1.32"]
