"""The notebook of docs/ runs, and holds what it prints today."""

from __future__ import annotations

from tests.docs.notebook import code, read, run, shown


def test_every_cell_prints_what_the_notebook_shows() -> None:
    document = read()

    printed = run(document)

    assert [shown(cell) for cell in code(document)] == printed, "python -m tests.docs.notebook writes it anew"
    assert len(printed) >= 5
