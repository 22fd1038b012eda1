"""The image and what builds it, read as text: there may be no container engine here."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import tomllib
from pathlib import Path

import pytest

from rebalancer import __version__
from tests.unit.manifests.documents import BASE, ROOT, of_kind, pod_template, read
from tests.unit.manifests.images import Instruction, image, instructions_of, stages

PROGRAM, EXTENDER = image("program"), image("extender")


def instructions() -> list[Instruction]:
    """Those of all stages."""
    return [instruction for stage in stages().values() for instruction in stage]


def build_argument(name: str) -> str:
    """The default of a build argument."""
    (value,) = [
        rest.split("=", 1)[1] for word, rest in instructions() if word == "ARG" and f"{name}=" in rest
    ]
    return value


def test_dependencies_are_those_of_the_lock_with_their_hashes() -> None:
    script = (ROOT / "image" / "site_packages.sh").read_text()
    installs = [line for line in re.sub(r"\\\n\s*", " ", script).splitlines() if "-m pip" in line]

    assert ("RUN", "./site_packages.sh /site-packages") in instructions()
    assert "--require-hashes" in installs[0]
    assert "--requirement requirements-runtime.lock" in installs[0]
    assert "--only-binary=:all:" in installs[0]
    assert all("--no-index" in install for install in installs[1:])
    assert "--hash=sha256:" in (ROOT / "requirements-runtime.lock").read_text()


def test_the_image_has_what_sends_traces() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = {re.split(r"[<>=]", item)[0] for item in project["optional-dependencies"]["otel"]}
    locked = set(re.findall(r"^([\w.-]+)==", (ROOT / "requirements-runtime.lock").read_text(), re.MULTILINE))

    assert wanted
    assert wanted <= locked


def test_nothing_that_the_image_leaves_out_is_imported_by_the_program() -> None:
    script = (ROOT / "image" / "site_packages.sh").read_text()
    left_out = set(re.findall(r'"\$target"/([a-z]+)\b', script))
    imported = {
        match
        for path in (ROOT / "rebalancer").rglob("*.py")
        for match in re.findall(r"^\s*(?:import|from) ([a-z_]+)", path.read_text(), re.MULTILINE)
    }

    assert left_out >= {"aiohttp", "yarl"}
    assert not left_out & imported
    assert not [path for path in (ROOT / "rebalancer").rglob("*.py") if "kubernetes.aio" in path.read_text()]


def test_the_packages_of_the_other_image_are_pinned_by_their_content() -> None:
    lines = (ROOT / "image" / "debian.lock").read_text().splitlines()
    packages = [line.split() for line in lines if not line.startswith("#")]

    assert {name for name, *_ in packages} >= {"libc6", "python3.11-minimal", "libssl3", "ca-certificates"}
    assert [
        name
        for name, _, *digests in packages
        if len(digests) != 2 or not all(re.fullmatch("[0-9a-f]{64}", digest) for digest in digests)
    ] == []
    assert packages == sorted(packages)


def test_the_image_without_an_engine_starts_as_that_of_the_dockerfile() -> None:
    builder = (ROOT / "image" / "build.py").read_text()
    images = runpy.run_path(str(ROOT / "image" / "build.py"))["IMAGES"]

    for name, built in (("rebalancer", PROGRAM), ("rebalancer-extender", EXTENDER)):
        assert built.entry_point == ["python3", "-m", "rebalancer"]
        assert list(images[name].projects) == built.projects
        labels = " ".join(rest for word, rest in built.instructions if word == "LABEL")
        assert f'image.title="{name}"' in labels
        assert f'image.description="{images[name].description}"' in labels
        assert f'image.version="{__version__}"' in labels
    assert '"Entrypoint": ["python3", "-m", "rebalancer"]' in builder
    for variable, value in PROGRAM.environment.items():
        assert f'"{variable}={value}"' in builder
    assert "USER = 65532" in builder


def test_the_image_that_is_built_by_default_holds_the_program_alone() -> None:
    assert list(stages())[-1] == "program"
    assert PROGRAM.projects == ["."]
    assert EXTENDER.projects == [".", "extender"]


@pytest.mark.parametrize("stage", ["program", "extender"])
def test_a_final_image_has_no_shell_and_no_root(stage: str) -> None:
    found = instructions_of(stage)

    assert found[0] == ("FROM", "${BASE}@${BASE_DIGEST} AS runtime")
    assert build_argument("BASE") == "gcr.io/distroless/python3-debian12:nonroot"
    assert ("USER", "65532:65532") in found
    assert not [word for word, _ in found if word == "RUN"]


def test_a_base_is_named_by_a_digest_that_the_builder_gives_and_is_no_tag() -> None:
    bases = [rest.partition(" AS ")[0] for word, rest in instructions() if word == "FROM"]
    foreign = [base for base in bases if base not in stages()]

    assert foreign == ["${BUILD}@${BUILD_DIGEST}", "${BASE}@${BASE_DIGEST}"]
    assert {("ARG", "BUILD_DIGEST"), ("ARG", "BASE_DIGEST")} <= set(instructions())  # without a default


def test_the_digests_of_the_bases_are_asked_for_and_become_options_of_the_build(tmp_path: Path) -> None:
    docker = tmp_path / "docker"
    docker.write_text(
        '#!/bin/sh\necho "$*" >> "$(dirname "$0")/asked"\nwc -l < "$(dirname "$0")/asked" | tr -d " "\n'
    )
    docker.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    script = ROOT / "image" / "bases.sh"
    asking = subprocess.run(
        [script], env={"PATH": path}, capture_output=True, text=True, check=True, timeout=60
    )

    assert asking.stdout.splitlines() == ["--build-arg BUILD_DIGEST=1", "--build-arg BASE_DIGEST=2"]
    asked = (tmp_path / "asked").read_text().splitlines()
    assert [line.split()[3] for line in asked] == [build_argument("BUILD"), build_argument("BASE")]

    docker.write_text("#!/bin/sh\nexit 1\n")
    failing = subprocess.run(
        [script], check=False, env={"PATH": path}, capture_output=True, text=True, timeout=60
    )
    assert (failing.returncode, failing.stdout) == (1, "")


def test_wheels_are_built_for_the_python_they_run_on() -> None:
    # distroless/python3-debian12 is Python 3.11 of Debian 12.
    assert ("FROM", "${BUILD}@${BUILD_DIGEST} AS dependencies") in instructions()
    assert build_argument("BUILD") == "python:3.11-slim-bookworm"
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"] == ">=3.11"


@pytest.mark.parametrize("stage", ["program", "extender"])
def test_packages_are_found_where_they_are_copied(stage: str) -> None:
    copies = [rest for word, rest in instructions_of(stage) if word == "COPY"]

    assert copies == [f"--from={stage}-packages /site-packages /site-packages"]
    assert image(stage).environment["PYTHONPATH"] == "/site-packages"


def test_the_build_context_holds_what_is_copied_and_nothing_else() -> None:
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    sources = {
        source
        for word, rest in instructions()
        if word == "COPY" and not rest.startswith("--from")
        for source in rest.split()[:-1]
    }

    assert lines[0] == "*"
    assert {line.removeprefix("!") for line in lines if line.startswith("!")} == sources
    assert all((ROOT / source).exists() for source in sources)


def test_the_image_leaves_the_embedded_cluster_out() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()

    assert "!rebalancer" in lines
    assert "!demo" not in lines


def test_pod_and_image_agree_on_the_user_and_the_version() -> None:
    pod = pod_template(of_kind(BASE, "CronJob"))
    (image,) = read(BASE / "kustomization.yaml")["images"]

    assert f"{pod['securityContext']['runAsUser']}:{pod['securityContext']['runAsGroup']}" == "65532:65532"
    assert image["newTag"] == __version__
    assert pod["containers"][0]["image"] == image["name"]


def test_ci_runs_the_tests_and_the_checks_of_the_makefile() -> None:
    path = ROOT / ".ci" / "run"
    text = path.read_text()

    assert os.access(path, os.X_OK)
    assert "set -euo pipefail" in text
    assert "make test" in text
    assert "make check" in text
    subprocess.run(["bash", "-n", str(path)], check=True, timeout=60)
