"""A release that cannot be whole ends before anything is built, with a line for each thing that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.release import __main__ as program
from tools.release import build, versions


def refusal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *words: str) -> list[str]:
    """What the program says as it leaves, and that it left nothing."""
    monkeypatch.setattr("sys.argv", ["release", *words, "--output", str(tmp_path / "out")])
    with pytest.raises(SystemExit) as left:
        program.main()
    assert not (tmp_path / "out").exists()
    return str(left.value).splitlines()


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that has everything, and a checkout without changes."""
    monkeypatch.setattr(build, "missing", list)
    monkeypatch.setattr(build, "require_committed", lambda: None)


def test_what_the_machine_lacks_is_said_a_line_each(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(build, "mkdocs", str)
    monkeypatch.setattr(build, "helm", str)
    monkeypatch.setattr("shutil.which", lambda name: None if name == "apt-get" else name)
    said = refusal(monkeypatch, tmp_path, "0.2.0")

    assert all(line.startswith("release: needs ") for line in said)
    assert [line.split()[2].rstrip(":") for line in said if "Python 3.11" not in line] == [
        "apt-get",
        "mkdocs",
        "helm",
    ]


def test_a_tag_needs_a_commit_that_says_its_version(
    whole: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (said,) = refusal(monkeypatch, tmp_path, "9.8.7", "--tagged")

    assert said == ("release: the commit does not say 9.8.7 everywhere: python -m tools.release 9.8.7 --set")


def test_a_tag_needs_a_readme_that_knows_of_releases(
    whole: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "README.md").write_text("Status: not released yet.")
    monkeypatch.setattr(program, "ROOT", tmp_path)
    monkeypatch.setattr(versions, "written", lambda _root: {"everywhere": "9.8.7"})
    (said,) = refusal(monkeypatch, tmp_path, "9.8.7", "--tagged")

    assert said == "release: README.md: says that nothing is released yet"


def test_a_tag_needs_pages_and_a_chart_that_know_of_releases(
    whole: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    notes = "charts/rebalancer/templates/NOTES.txt"
    said = {
        "README.md": "It is released.",
        "docs/comparison.md": "| maturity | 0.1, not released |",
        "docs/index.md": "What is published.",
        "docs/operating.md": "No image is published yet.",
        "docs/symptoms.md": "no package is published yet",
        notes: "No image is published under {{ .Values.image.repository }} yet",
    }
    for name, text in said.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(program, "ROOT", tmp_path)
    monkeypatch.setattr(versions, "written", lambda _root: {"everywhere": "9.8.7"})
    refused = refusal(monkeypatch, tmp_path, "9.8.7", "--tagged")

    assert refused == [
        f"release: {name}: says that nothing is released yet"
        for name in ("docs/comparison.md", "docs/operating.md", "docs/symptoms.md", notes)
    ]


def test_uncommitted_changes_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(build, "missing", list)
    monkeypatch.setattr(build, "git", lambda *_arguments: b" M README.md\n")
    (said,) = refusal(monkeypatch, tmp_path, "0.2.0")

    assert said == "release: uncommitted changes, e.g. M README.md: a release is of a commit"
