"""Whatever is generated from the code is in the repository as it would be generated now."""

from __future__ import annotations

from difflib import unified_diff
from pathlib import Path

import pytest

from tools.pages import renewed

ROOT = Path(__file__).parents[3]
FILES = renewed(ROOT)
MOST_LINES = 40  # of what changes in a page


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_generated_file_is_what_would_be_generated_now(path: Path) -> None:
    held, made = path.read_text().splitlines(keepends=True), FILES[path].splitlines(keepends=True)
    changes = list(unified_diff(held, made, "in the repository", "generated now", n=0))
    if changes:
        pytest.fail(
            f"renew it, and all others, with make pages:\n{''.join(changes[:MOST_LINES])}", pytrace=False
        )
