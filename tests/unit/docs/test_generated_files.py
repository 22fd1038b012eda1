"""Whatever is generated from the code is in the repository as it would be generated now."""

from __future__ import annotations

from difflib import unified_diff
from pathlib import Path

from tools.pages import renewed

ROOT = Path(__file__).parents[3]
MOST_LINES = 40  # of what changes in a page


def test_each_generated_file_is_what_would_be_generated_now() -> None:
    changes: list[str] = []
    for path, made_now in renewed(ROOT).items():
        name = str(path.relative_to(ROOT))
        in_repository = path.read_text().splitlines(keepends=True)
        difference = unified_diff(in_repository, made_now.splitlines(keepends=True), name, name, n=0)
        changes += list(difference)[:MOST_LINES]
    assert "".join(changes) == "", "renew all of them with make pages"
