"""The archive of krew's manifest, unpacked and linked as krew does it, run by kubectl's rules of naming."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

from rebalancer import __version__
from tests.install.environments import ROOT, done, installers

__all__ = ["installers"]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("krew")
    subprocess.run([sys.executable, "krew/build.py", str(folder)], cwd=ROOT, check=True, capture_output=True)
    return folder


def test_the_manifest_names_the_archive_by_its_content(built: Path) -> None:
    manifest = yaml.safe_load((built / "rebalance.yaml").read_text())
    (platform,) = manifest["spec"]["platforms"]
    archive = built / platform["uri"].rsplit("/", 1)[1]

    assert manifest["spec"]["version"] == f"v{__version__}"
    assert platform["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()
    with tarfile.open(archive) as members:
        names = members.getnames()
    assert names == ["LICENSE", "kubectl-rebalance", f"rebalancer-{__version__}-py3-none-any.whl"]


@pytest.mark.parametrize("tool", ["uv", "pipx"])
def test_the_plugin_runs_from_where_krew_puts_it(
    built: Path, installers: Path, tmp_path: Path, tool: str
) -> None:
    store, bin_folder, tools = tmp_path / "store", tmp_path / "bin", tmp_path / "tools"
    for folder in (store, bin_folder, tools):
        folder.mkdir()
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as members:
        members.extractall(store, filter="data")
    (bin_folder / "kubectl-rebalance").symlink_to(store / "kubectl-rebalance")
    (tools / tool).symlink_to(installers / tool)

    helped = done(
        bin_folder / "kubectl-rebalance",
        "--help",
        PATH=f"{tools}:/usr/bin:/bin",
        PIPX_HOME=tmp_path / "pipx",
    )

    assert helped.startswith("Usage: kubectl rebalance [OPTIONS] COMMAND")


def test_without_uv_and_pipx_it_says_what_it_needs(built: Path, tmp_path: Path) -> None:
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as members:
        members.extractall(tmp_path, filter="data")

    ended = subprocess.run(
        [tmp_path / "kubectl-rebalance", "plan"],
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 2
    assert "needs Python 3.11 or newer and uv or pipx" in ended.stderr
