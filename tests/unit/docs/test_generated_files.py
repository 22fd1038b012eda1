"""Whatever is generated from the code is in the repository as it would be generated now."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.pages import renewed

ROOT = Path(__file__).parents[3]
FILES = renewed(ROOT)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_generated_file_is_what_would_be_generated_now(path: Path) -> None:
    assert path.read_text() == FILES[path], "renew it, and all others: make pages"
