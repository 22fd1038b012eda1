"""Files whose names are no text of the locale: bytes that a program has no letter for."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Program
from tests.unit.cli.hot_dumps import a_hot_dump

ODD = "x\udcff"  # how Python has the byte 255 of a name


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a recorded cluster, policies and assertions of such names."""
    monkeypatch.chdir(tmp_path)
    try:
        a_hot_dump(tmp_path / ODD)
    except OSError as error:
        pytest.skip(f"this file system has no such names: {error}")
    policy = "{apiVersion: rebalancer/v1alpha1, kind: RebalancePolicy}"
    for name in ("one", "two"):
        (tmp_path / f"{name}{ODD}.yaml").write_text(policy)
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        ("plan",),
        ("plan", "--policy", f"one{ODD}.yaml", "--diff", f"two{ODD}.yaml"),
        ("snapshot", "info"),
    ],
    ids=" ".join,
)
@pytest.mark.usefixtures("folder")
def test_documents_escape_what_is_no_letter_in_them(
    rebalancer_program: Program, words: tuple[str, ...]
) -> None:
    source = [ODD] if words[:2] == ("snapshot", "info") else ["--from", ODD]

    result = rebalancer_program(*words, *source, "-o", "json")

    assert (result.exit_code, result.stderr) == (0, "")
    assert json.loads(result.stdout)
    assert os.fsencode(ODD).decode(errors="backslashreplace") in json.dumps(
        json.loads(result.stdout), ensure_ascii=False
    ).replace("\\\\", "\\")
