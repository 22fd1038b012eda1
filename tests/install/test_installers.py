"""The wheels, installed as users do: pip, pipx and uv, each with its dependencies."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from rebalancer import __version__
from tests.install.environments import ROOT, done, installers

__all__ = ["installers"]

PROGRAMS = ("rebalancer", "kubectl-rebalance", "kubectl_complete-rebalance")


def built(project: Path, folder: Path) -> Path:
    """The wheel of a project."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=project, check=True, capture_output=True, timeout=120)
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module", params=["pip", "pipx", "uv"])
def programs(
    request: pytest.FixtureRequest, wheel: Path, installers: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The folder into which one of the tools installed the programs."""
    home = tmp_path_factory.mktemp(str(request.param))
    target = home / "bin"
    match request.param:
        case "pip":
            done(sys.executable, "-m", "venv", home)
            done(target / "pip", "install", "--quiet", wheel)
        case "pipx":
            done(installers / "pipx", "install", wheel, PIPX_HOME=home, PIPX_BIN_DIR=target)
        case "uv":
            done(installers / "uv", "tool", "install", wheel, UV_TOOL_DIR=home, UV_TOOL_BIN_DIR=target)
    return target


def test_all_its_programs_are_on_the_path(programs: Path) -> None:
    assert [name for name in PROGRAMS if not os.access(programs / name, os.X_OK)] == []


@pytest.mark.parametrize("tool", ["pipx", "uv"])
def test_studies_come_from_the_clone_by_the_lines_of_the_page(
    installers: Path, tmp_path: Path, tool: str
) -> None:
    page = (ROOT / "docs" / "lab" / "index.md").read_text()
    (line,) = re.findall(rf"^\$ ({tool} .*)$", page, re.MULTILINE)
    places = {"PIPX_HOME": tmp_path / "home", "PIPX_BIN_DIR": tmp_path / "bin"}
    places |= {"UV_TOOL_DIR": tmp_path / "home", "UV_TOOL_BIN_DIR": tmp_path / "bin"}
    path = f"{installers}:{os.environ['PATH']}"
    done("sh", "-c", f"cd {shlex.quote(str(ROOT))} && {line}", PATH=path, **places)

    program = tmp_path / "bin" / "rebalancer"
    assert "Commands of rebalancer-lab:" in done(program, "--help")
    assert "1 cluster: 2 hot nodes" in done(
        program, "fleet", "plan", "--from", ROOT / "examples" / "hot-cluster"
    )
    assert "What if: drain node-2" in done(
        program, "what-if", "--drain", "node-2", "--from", ROOT / "examples" / "hot-cluster"
    )


def test_it_shows_its_version_and_plans(programs: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    version = json.loads(done(programs / "rebalancer", "--version", "-o", "json"))
    policy.write_text(done(programs / "rebalancer", "policy", "init"))
    validated = done(programs / "kubectl-rebalance", "policy", "validate", policy)

    assert version["version"] == __version__
    assert "valid, policy" in validated


def test_the_first_command_that_help_advises_works(programs: Path) -> None:
    assert "Try `rebalancer demo`" in done(programs / "rebalancer", "--help")
    assert "Plan: 2 of 2 hot nodes no longer hot" in done(programs / "rebalancer", "demo")
