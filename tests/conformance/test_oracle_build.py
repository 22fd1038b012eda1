"""The oracle of a minor is found by its number; Trimaran is adapted without touching its arithmetic."""

from __future__ import annotations

from pathlib import Path

import pytest

from rebalancer.scheduling.versions.verified import COMPARED
from tests import go_programs, kubernetes_modules, trimaran
from tests.conformance import differential
from tests.conformance.oracle import build
from tests.rows import rows

MODULE = """module rebalancer/oracle

go 1.27.0

toolchain go1.27.4

require (
\tk8s.io/api v0.38.0-beta.0
\tk8s.io/klog/v2 v2.140.0
\tsigs.k8s.io/scheduler-plugins v0.34.7
\tgolang.org/x/net v0.38.0
)

replace k8s.io/kubernetes => k8s.io/kubernetes v1.38.0-beta.0
"""
SOURCE = """package trimaran

import (
\t"k8s.io/kubernetes/pkg/scheduler/framework"
)

func New(handle framework.Handle) int64 { return framework.MaxNodeScore }
"""


def test_an_unknown_minor_is_refused_with_those_there_are() -> None:
    with pytest.raises(go_programs.BuildError, match=r"no oracle for 1\.12: there are 1\.2\d, .*1\.36"):
        build.program("1.12")


def test_a_scheduler_is_built_from_the_release_that_is_compared() -> None:
    module = kubernetes_modules.at_release(MODULE, "1.38.1")
    assert "k8s.io/api v0.38.1\n" in module
    assert "k8s.io/kubernetes => k8s.io/kubernetes v1.38.1\n" in module
    assert "beta" not in module
    for other in ("k8s.io/klog/v2 v2.140.0", "scheduler-plugins v0.34.7", "golang.org/x/net v0.38.0"):
        assert other in module


@rows("minor", COMPARED)
def test_each_verified_minor_has_an_oracle_of_its_release(minor: str) -> None:
    module = kubernetes_modules.at_release(
        (build.MODULE / "minors" / f"{minor}.mod").read_text(), COMPARED[minor]
    )
    assert f"k8s.io/kubernetes => k8s.io/kubernetes v{COMPARED[minor]}\n" in module


def test_a_module_that_needs_a_newer_go_names_what_is_fetched(tmp_path: Path) -> None:
    module = tmp_path / "go.mod"
    module.write_text(MODULE)
    assert kubernetes_modules.toolchain(module) == "go1.27.4"
    module.write_text(MODULE.replace("toolchain go1.27.4", ""))
    assert kubernetes_modules.toolchain(module) == "local"


def test_the_documentation_names_the_release_of_every_oracle() -> None:
    page = (Path(__file__).parents[2] / "docs" / "conformance.md").read_text()
    for minor, release in COMPARED.items():
        assert f"| {minor} | {release} |" in page


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
