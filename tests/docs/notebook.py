"""The notebook of docs/: its cells are run in order, without Jupyter, and hold what they print and show.

``python -m tests.docs.notebook`` runs them, and writes what they show into the notebook, and the page and the
pictures of the site that are made of it.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "docs" / "analysis.ipynb"
PAGE = NOTEBOOK.with_suffix(".md")
_SHOWN_BY = {"text/html": "_repr_html_", "image/svg+xml": "_repr_svg_"}
_LEAD = "<!-- made of analysis.ipynb by: python -m tests.docs.notebook -->\n\n"
_TAIL = "This page is [a notebook](analysis.ipynb).\n"
_ENDS = re.compile(r" +$", re.MULTILINE)


def read(path: Path = NOTEBOOK) -> dict[str, Any]:
    """The notebook as it is kept."""
    document: dict[str, Any] = json.loads(path.read_text())
    return document


def code(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Its cells of code, in order."""
    return (cell for cell in document["cells"] if cell["cell_type"] == "code")


def run(document: dict[str, Any], folder: Path = NOTEBOOK.parent) -> dict[str, Any]:
    """The notebook with what its cells print and their last lines are, when all run in order."""
    names: dict[str, Any] = {"__name__": "__main__"}
    cells: list[dict[str, Any]] = []
    before = Path.cwd()
    os.chdir(folder)
    try:
        for cell in document["cells"]:
            if cell["cell_type"] == "code":
                number = sum(done["cell_type"] == "code" for done in cells) + 1
                printed, value = _ran("".join(cell["source"]), names)
                outputs = (
                    [{"name": "stdout", "output_type": "stream", "text": _lines(printed)}] if printed else []
                )
                outputs += [] if value is None else [_result(value, number)]
                cells.append({**cell, "execution_count": number, "outputs": outputs})
            else:
                cells.append(cell)
    finally:
        os.chdir(before)
    return {**document, "cells": cells}


def _ran(source: str, names: dict[str, Any]) -> tuple[str, Any]:
    """What a cell prints, and the value of its last line, where that is an expression."""
    tree = ast.parse(source)
    last = tree.body[-1]
    if isinstance(last, ast.Expr):
        tree.body.pop()
    stream = io.StringIO()
    with contextlib.redirect_stdout(stream):
        exec(compile(tree, "cell", "exec"), names)
        value = None
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    return stream.getvalue(), value


def _result(value: Any, number: int) -> dict[str, Any]:
    data = {
        kind: _lines(getattr(value, method)()) for kind, method in _SHOWN_BY.items() if hasattr(value, method)
    }
    text = "an SVG" if "image/svg+xml" in data else repr(value)
    return {
        "data": {**data, "text/plain": _lines(text)},
        "execution_count": number,
        "metadata": {},
        "output_type": "execute_result",
    }


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def text_of(document: dict[str, Any]) -> str:
    """The notebook as a file."""
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def page(document: dict[str, Any]) -> dict[Path, str]:
    """The notebook as a page of the site, and its pictures, by path."""
    parts: list[str] = [_LEAD]
    files: dict[Path, str] = {}
    for cell in document["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(f"{source}\n\n")
            continue
        parts.append(f"```python\n{source}\n```\n\n")
        for output in cell["outputs"]:
            data = output.get("data", {"text/plain": output.get("text")})
            if "image/svg+xml" in data:
                picture = PAGE.parent / "pictures" / f"{PAGE.stem}-{len(files) + 1}.svg"
                files[picture] = "".join(data["image/svg+xml"])
                parts.append(f"![what the cell above shows](pictures/{picture.name})\n\n")
            else:
                parts.append(f"```text\n{_ENDS.sub('', ''.join(data['text/plain'])).rstrip()}\n```\n\n")
    return {PAGE: "".join([*parts, _TAIL]), **files}


def main() -> int:
    """Write what the cells show into the notebook, and its page and pictures."""
    document = run(read())
    for path, text in {NOTEBOOK: text_of(document), **page(document)}.items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
