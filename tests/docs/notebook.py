"""The notebook of docs/: its cells are run in order, without Jupyter, and hold what they print.

``python -m tests.docs.notebook`` runs them and writes what they print into the notebook.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "docs" / "analysis.ipynb"


def read(path: Path = NOTEBOOK) -> dict[str, Any]:
    """The notebook as it is kept."""
    document: dict[str, Any] = json.loads(path.read_text())
    return document


def code(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Its cells of code, in order."""
    return (cell for cell in document["cells"] if cell["cell_type"] == "code")


def run(document: dict[str, Any], folder: Path = NOTEBOOK.parent) -> list[str]:
    """What each cell of code prints when all run in order, in one namespace."""
    names: dict[str, Any] = {"__name__": "__main__"}
    printed = []
    before = Path.cwd()
    os.chdir(folder)
    try:
        for number, cell in enumerate(code(document), 1):
            stream = io.StringIO()
            with contextlib.redirect_stdout(stream):
                exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)
            printed.append(stream.getvalue())
    finally:
        os.chdir(before)
    return printed


def shown(cell: dict[str, Any]) -> str:
    """What a cell is kept with."""
    return "".join("".join(output["text"]) for output in cell["outputs"])


def main() -> int:
    """Write what the cells print into the notebook."""
    document = read()
    for number, (cell, text) in enumerate(zip(code(document), run(document), strict=True), 1):
        lines = text.splitlines(keepends=True)
        cell["outputs"] = [{"name": "stdout", "output_type": "stream", "text": lines}] if text else []
        cell["execution_count"] = number
    NOTEBOOK.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
