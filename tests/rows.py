"""One test of a whole table, where its rows are alike and each takes next to no time."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest


def rows(names: str, table: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Call a test with each row of a table: one test, which fails with all rows that fail.

    It is written as ``parametrize`` is, with the names of the arguments in one text: ``"pod, expected"``.
    A row has a value for each; where there is one name, it is the value. Rows share the test's fixtures.
    """
    arguments = [name.strip() for name in names.split(",")]
    all_rows = [tuple(row) if len(arguments) > 1 else (row,) for row in table]

    def with_rows(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def of_all_rows(**fixtures: Any) -> None:
            assert all_rows, "a table without a row"
            failures: list[BaseException] = []
            for row in all_rows:
                values = dict(zip(arguments, row, strict=True))
                try:
                    test(**values, **fixtures)
                except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001, it is raised again below
                    error.add_note(f"in the row {values!r}")
                    failures.append(error)
            if failures:
                raise BaseExceptionGroup(f"{len(failures)} of {len(all_rows)} rows", failures)

        signature = inspect.signature(test)
        fixtures = [value for name, value in signature.parameters.items() if name not in arguments]
        of_all_rows.__signature__ = signature.replace(parameters=fixtures)  # type: ignore[attr-defined]
        return of_all_rows

    return with_rows
