"""A table that is one test fails where one of its rows does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rows import rows


def test_every_row_that_fails_is_named_and_the_others_are_tried() -> None:
    tried: list[int] = []

    @rows("number, square", [(1, 1), (2, 5), (3, 9), (4, 15)])
    def check(number: int, square: int) -> None:
        tried.append(number)
        assert number * number == square

    with pytest.raises(ExceptionGroup, match="2 of 4 rows") as failure:
        check()
    assert tried == [1, 2, 3, 4]
    notes = [note for error in failure.value.exceptions for note in error.__notes__]
    assert notes == ["in the row {'number': 2, 'square': 5}", "in the row {'number': 4, 'square': 15}"]


def test_a_row_in_which_nothing_is_raised_that_should_be_fails() -> None:
    @rows("value", ["7", "x"])
    def check(value: str) -> None:
        with pytest.raises(ValueError, match="invalid literal"):
            int(value)

    with pytest.raises(BaseExceptionGroup, match="1 of 2 rows"):
        check()


def test_a_table_without_a_row_fails() -> None:
    @rows("value", [])
    def check(value: str) -> None:
        assert value

    with pytest.raises(AssertionError, match="without a row"):
        check()


@rows("kind", [int, str])
def test_rows_share_the_fixtures_of_their_test(tmp_path: Path, kind: type) -> None:
    assert tmp_path.is_dir()
    assert kind() in (0, "")
