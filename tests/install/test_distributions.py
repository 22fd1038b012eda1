"""What the wheels hold: the program and the embedded cluster that its help advises first; and the studies."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import msgspec
import pytest

from rebalancer import __version__
from rebalancer_demo.hot_cluster import POLICY, hot_cluster
from tests.unit.manifests.documents import ROOT

EXTENDER = ROOT / "extender"
LAB = ROOT / "lab"


def build(project: Path, target: Path) -> zipfile.ZipFile:
    """The wheel of a project, built without a network."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(target)]
    subprocess.run(command, cwd=project, check=True, capture_output=True, timeout=120)
    (wheel,) = target.glob("*.whl")
    return zipfile.ZipFile(wheel)


def files(project: Path, package: str, *patterns: str) -> set[str]:
    """The files of a package of a project like these, as a wheel names them."""
    found = [path for pattern in patterns for path in (project / package).rglob(pattern)]
    return {path.relative_to(project).as_posix() for path in found}


def contents(wheel: zipfile.ZipFile) -> set[str]:
    return {name for name in wheel.namelist() if ".dist-info/" not in name}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the program."""
    with build(ROOT, tmp_path_factory.mktemp("wheel")) as built:
        return Path(str(built.filename))


@pytest.fixture(scope="module")
def runtime(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what an image holds: the wheel, unpacked, without the embedded cluster."""
    folder = tmp_path_factory.mktemp("runtime")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(folder, [name for name in packed.namelist() if name.startswith("rebalancer/")])
    return folder


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an environment into which the runtime wheel was installed."""
    environment = tmp_path_factory.mktemp("installed") / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True, timeout=120)
    python = environment / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python), "install"]
    command = [*install, "--quiet", "--no-index", "--no-deps", "--no-compile", str(wheel)]
    subprocess.run(command, check=True, timeout=120)
    return environment / "bin"


def installed_program(program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program of that environment; its dependencies are those of this interpreter."""
    return subprocess.run(
        [str(program), *arguments],
        cwd=program.parent,
        env={**os.environ, "PYTHONPATH": sysconfig.get_path("purelib")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


# This interpreter finds the embedded cluster and the lab too, as all are developed together.
ALONE = """
import runpy, sys
sys.modules["rebalancer_demo"] = sys.modules["rebalancer_lab"] = None
runpy.run_module("rebalancer", run_name="__main__", alter_sys=True)
"""


def rebalancer(site_packages: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the program of an unpacked wheel; its dependencies are those of this interpreter."""
    return subprocess.run(
        [sys.executable, "-c", ALONE, *arguments],
        cwd=site_packages,  # searched before the checkout
        env={**os.environ, "PYTHONPATH": str(site_packages)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_wheel_holds_the_program_and_the_embedded_cluster_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        held = contents(packed)

    assert {name for name in held if name.endswith(".py")} == (
        files(ROOT, "rebalancer", "*.py") | files(ROOT / "demo", "rebalancer_demo", "*.py")
    )
    assert "rebalancer_demo/api/api_messages.binpb.gz" in held
    assert {name.partition("/")[0] for name in held} == {"rebalancer", "rebalancer_demo"}


def test_the_lab_is_a_wheel_of_its_own_in_the_version_of_the_program(
    tmp_path: Path,
) -> None:
    program = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lab = tomllib.loads((LAB / "pyproject.toml").read_text())["project"]

    with build(LAB, tmp_path) as built:
        assert contents(built) == files(LAB, "rebalancer_lab", "*.py", "*.jinja", "*.gz")
    assert f"{program['name']}=={__version__}" in lab["dependencies"]
    assert lab["version"] == __version__
    assert lab["requires-python"] == program["requires-python"]


def test_the_extender_is_a_wheel_of_its_own_in_the_version_of_the_program(tmp_path: Path) -> None:
    extender = tomllib.loads((EXTENDER / "pyproject.toml").read_text())["project"]

    with build(EXTENDER, tmp_path) as built:
        assert contents(built) == files(EXTENDER, "rebalancer_extender", "*.py")
        (entry_points,) = [name for name in built.namelist() if name.endswith("/entry_points.txt")]
        assert b"[rebalancer.commands]" in built.read(entry_points)
    assert f"rebalancer=={__version__}" in extender["dependencies"]
    assert extender["version"] == __version__


def test_the_lab_brings_its_commands_and_leaves_none_behind(wheel: Path, tmp_path: Path) -> None:
    environment, wheels = tmp_path / "environment", tmp_path / "wheels"
    wheels.mkdir()
    dependencies = tmp_path / "dependencies"
    dependencies.mkdir()
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if "rebalancer" not in entry.name:  # what is developed here is not installed there
            (dependencies / entry.name).symlink_to(entry)
    with build(LAB, wheels) as built:
        lab = Path(str(built.filename))
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True, timeout=120)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "--python"]
    pip.append(str(environment / "bin" / "python"))
    install = [*pip, "install", "--no-index", "--no-deps", "--no-compile"]

    def shown(*arguments: str) -> str:
        program = [str(environment / "bin" / "rebalancer"), *arguments]
        variables = {**os.environ, "PYTHONPATH": str(dependencies)}
        return subprocess.run(
            program, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=120, check=False
        ).stdout

    subprocess.run([*install, str(wheel)], check=True, timeout=120)
    alone = shown("--help"), shown("policy", "--help")
    subprocess.run([*install, str(lab)], check=True, timeout=120)
    together = shown("--help"), shown("policy", "--help")
    subprocess.run([*pip, "uninstall", "--yes", "rebalancer-lab"], check=True, timeout=120)

    assert "rebalancer-lab" not in alone[0]
    assert "Commands of rebalancer-lab:" in together[0]
    section = together[0].partition("Commands of rebalancer-lab:\n")[2].partition("\n\n")[0]
    for name in ("fit", "fleet", "shadow", "simulate", "timeline", "tune", "what-if"):
        assert f"\n  {name} " in f"\n{section}"
    assert ("  test " in alone[1], "  test " in together[1]) == (False, True)
    assert (shown("--help"), shown("policy", "--help")) == alone


def test_the_wheel_prints_its_help(runtime: Path) -> None:
    result = rebalancer(runtime, "--help")

    assert (result.returncode, result.stderr) == (0, "")
    assert "demo" in result.stdout


def test_the_wheel_plans_a_recorded_cluster(runtime: Path, tmp_path: Path) -> None:
    dump, policy = tmp_path / "dump.json", tmp_path / "policy.yaml"
    metrics = [
        {
            "apiVersion": "metrics.k8s.io/v1beta1",
            "kind": "NodeMetrics",
            "metadata": {"name": f"node-{number}"},
            "timestamp": "2026-11-20T12:00:00Z",
            "window": "15s",
            "usage": {"cpu": "500m", "memory": "1Gi"},
        }
        for number in range(1, 7)
    ]
    items = [*hot_cluster(1_795_176_000.0), *metrics]
    dump.write_bytes(msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": items}))
    policy.write_text(POLICY)
    result = rebalancer(
        runtime, "plan", "--from", str(dump), "--policy", str(policy), "--now", "2026-11-20T12:00:10Z"
    )

    assert (result.returncode, result.stderr) == (0, "")
    assert "Plan:" in result.stdout


def test_the_image_says_in_one_line_that_it_has_no_embedded_cluster(runtime: Path) -> None:
    result = rebalancer(runtime, "demo")

    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == (
        "error: the image leaves the embedded cluster out (outside of it, in a clone: pipx install .)\n"
    )


def test_the_command_that_help_advises_first_works_in_an_installation(installed: Path) -> None:
    advised = installed_program(installed / "rebalancer", "--help").stdout
    result = installed_program(installed / "rebalancer", "demo")

    assert "Try `rebalancer demo`" in advised
    assert result.returncode == 0, result.stderr
    assert "Plan: 2 of 2 hot nodes no longer hot" in result.stdout


@pytest.mark.parametrize(
    ("program", "shown"),
    [("rebalancer", "rebalancer"), ("kubectl-rebalance", "kubectl rebalance")],
)
def test_an_installation_brings_the_program_and_the_plugin_of_kubectl(
    installed: Path, program: str, shown: str
) -> None:
    helped = installed_program(installed / program, "--help")
    version = installed_program(installed / program, "--version")

    assert (helped.returncode, helped.stderr) == (0, "")
    assert helped.stdout.startswith(f"Usage: {shown} [OPTIONS] COMMAND")
    assert (version.returncode, version.stderr) == (0, "")
    assert version.stdout.startswith(f"rebalancer {__version__}\n")


def test_an_installation_brings_the_completion_of_the_plugin(installed: Path) -> None:
    answered = installed_program(installed / "kubectl_complete-rebalance", "policy", "val")

    assert (answered.returncode, answered.stderr) == (0, "")
    assert answered.stdout.splitlines()[0].startswith("validate\t")
    assert answered.stdout.splitlines()[-1] == ":4"


# What has our names in a registry is nobody's, or anybody's, as long as nothing is published.
_FROM_A_REGISTRY = re.compile(
    r"\brebalancer(-lab|-extender)?\[[a-z]"
    r"|\b(pip|pipx|uv tool) install (?:-\S+ )*['\"]?rebalancer\b"
    r"|\binstall rebalancer-(lab|extender)\b"
    r"|ghcr\.io/rebalancer\b|docker\.io/"
)


def test_nothing_advises_a_package_or_an_image_that_nobody_has_published() -> None:
    paths = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "Dockerfile", ROOT / "pyproject.toml"]
    folders = (
        "rebalancer",
        "demo",
        "lab",
        "extender",
        "docs",
        "charts",
        "k8s",
        "krew",
        "policies",
        "examples",
    )
    for folder in (*folders, ".github"):
        paths += [
            path for path in (ROOT / folder).rglob("*") if path.suffix in _TEXTS or path.name == "Dockerfile"
        ]

    assert {
        f"{path.relative_to(ROOT)}: {found[0]}"
        for path in paths
        if (found := _FROM_A_REGISTRY.search(path.read_text()))
    } == set()


_TEXTS = frozenset({".py", ".md", ".yaml", ".yml", ".tpl", ".txt", ".toml", ".json", ".jinja", ".ipynb"})
