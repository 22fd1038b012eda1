"""The notebook of docs/ runs, and it and its page hold what it shows today."""

from __future__ import annotations

from tests.docs.notebook import NOTEBOOK, code, page, read, run, text_of


def test_every_cell_shows_what_the_notebook_and_its_page_hold() -> None:
    document = run(read())
    wanted = {NOTEBOOK: text_of(document), **page(document)}

    held = {path: path.read_text() if path.exists() else "" for path in wanted}

    assert held == wanted, "python -m tests.docs.notebook writes them anew"
    assert len(list(code(document))) >= 5
    assert any(path.suffix == ".svg" for path in wanted)
