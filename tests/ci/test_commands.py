"""The commands of the Makefile and of CI name what there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_FOLDERS = "bench|image|krew|lab|tests|tools"


@pytest.mark.parametrize("script", ["Makefile", ".ci/run"])
def test_every_file_that_a_command_names_exists(script: str) -> None:
    text = (ROOT / script).read_text()
    paths = re.findall(rf"(?<![\w/.-])(?:{_FOLDERS})/[\w./-]+", text)

    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("script", ["Makefile", ".ci/run"])
def test_every_module_that_a_command_starts_exists(script: str) -> None:
    text = (ROOT / script).read_text()
    modules = re.findall(rf"-m ((?:{_FOLDERS})(?:\.\w+)*)", text)

    assert modules
    for module in modules:
        path = ROOT / module.replace(".", "/")
        assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), module
