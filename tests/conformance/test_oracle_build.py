"""The oracle of a minor is found by its number; Trimaran is adapted without touching its arithmetic."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import go_programs, trimaran
from tests.conformance import differential
from tests.conformance.oracle import build

SOURCE = """package trimaran

import (
\t"k8s.io/kubernetes/pkg/scheduler/framework"
)

func New(handle framework.Handle) int64 { return framework.MaxNodeScore }
"""


def test_an_unknown_minor_is_refused_with_those_there_are() -> None:
    with pytest.raises(go_programs.BuildError, match=r"no oracle for 1\.12: there are 1\.31, .*1\.36"):
        build.program("1.12")


def test_interfaces_that_moved_are_named_at_their_new_place() -> None:
    moved = trimaran.move_interfaces(SOURCE)
    assert "handle fwk.Handle" in moved
    assert "return fwk.MaxNodeScore" in moved
    assert '\tfwk "k8s.io/kube-scheduler/framework"\n' in moved
    assert "pkg/scheduler/framework" not in moved


def test_an_import_that_is_still_used_stays() -> None:
    moved = trimaran.move_interfaces(SOURCE + "var amount framework.Resource\n")
    assert '"k8s.io/kubernetes/pkg/scheduler/framework"' in moved
    assert "framework.Resource" in moved


def test_a_file_without_them_is_left_alone() -> None:
    assert trimaran.move_interfaces("package trimaran\n") == "package trimaran\n"


def test_without_go_the_comparison_ends_with_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("tests.go_programs.shutil.which", lambda _: None)
    assert differential.main(["--minor", "1.35", "--seed", "1"]) == 2
    assert capsys.readouterr().err == (
        "conformance: Go is not installed; install Go >= 1.26 and start again\n"
    )
