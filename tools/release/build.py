"""Builds everything that is published from a copy of a commit, into one folder.

Nothing is taken from the working tree, and nothing depends on the time or the place: the time in artifacts is
that of the commit. What is missing on this machine is said before anything is built, a line each.
"""

from __future__ import annotations

import datetime as dt
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from tests import go_programs
from tests.e2e import helm_program
from tools.release import records, versions
from tools.release.versions import ReleaseError

ROOT = Path(__file__).parents[2]
ARCHITECTURES = ("amd64", "arm64")
SHELLS = {"bash": "rebalancer.bash", "zsh": "_rebalancer", "fish": "rebalancer.fish"}


def missing() -> list[str]:
    """What a release needs and this machine does not have, a line each."""
    lacking = []
    if sys.version_info[:2] != (3, 11):
        lacking.append(
            f"Python 3.11, which the image has, to run this with; this is {sys.version.split()[0]}"
        )
    for program, package in (
        ("git", "git"),
        ("apt-get", "Debian 12"),
        ("dpkg-deb", "dpkg"),
        ("bash", "bash"),
    ):
        if not shutil.which(program):
            lacking.append(f"{program}: install {package}")
    if not mkdocs():
        lacking.append("mkdocs: python -m pip install --require-hashes -r requirements-docs.lock")
    if not helm():
        lacking.append("helm: install it, or Go 1.26, by which it is built")
    return lacking


def mkdocs() -> str:
    """The program beside this Python, or on the path; empty where there is none."""
    beside = Path(sys.executable).with_name("mkdocs")
    return str(beside) if beside.exists() else shutil.which("mkdocs") or ""


def helm() -> str:
    """The program that the end-to-end tests built, or one on the path, or one built now; empty if none."""
    built = helm_program.path()
    if built.exists():
        return str(built)
    try:
        return shutil.which("helm") or str(helm_program.program())
    except go_programs.BuildError:
        return ""


def git(*arguments: str) -> bytes:
    """What git answers about the checkout. Raises ReleaseError."""
    asked = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=False)
    if asked.returncode:
        raise ReleaseError(f"git {arguments[0]}: {asked.stderr.decode(errors='replace').strip()[:200]}")
    return asked.stdout


def done(*command: str | Path, folder: Path, environment: dict[str, str]) -> str:
    """What a command prints. Raises ReleaseError with the end of what it says when it fails."""
    words = [str(word) for word in command]
    ended = subprocess.run(
        words,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
        check=False,
    )
    if ended.returncode:
        message = " ".join((ended.stderr or ended.stdout).split())[-600:]
        raise ReleaseError(f"{' '.join(words)[:120]}: exit code {ended.returncode}: {message}")
    return ended.stdout


def require_committed() -> None:
    """Raise ReleaseError where tracked files differ from the commit that the release is of."""
    changed = git("status", "--porcelain", "--untracked-files=no").decode().splitlines()
    if changed:
        raise ReleaseError(f"uncommitted changes, e.g. {changed[0].strip()}: a release is of a commit")


def staged(target: Path, version: str) -> dict[str, str]:
    """Copy the commit that is checked out to a folder, with the version set everywhere; its environment."""
    revision = git("rev-parse", "HEAD").decode().strip()
    moment = int(git("log", "-1", "--format=%ct").decode())
    with tarfile.open(fileobj=io.BytesIO(git("archive", "HEAD"))) as archive:
        archive.extractall(target, filter="data")
    versions.write(target, version, dt.datetime.fromtimestamp(moment, dt.UTC).date().isoformat())
    wrong = sorted({where for where, stated in versions.written(target).items() if stated != version})
    if wrong:
        raise ReleaseError("\n".join(wrong))
    paths = os.pathsep.join(str(target / name) for name in (".", "demo", "extender", "lab"))
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP_REQ"))},
        "PYTHONPATH": paths,
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHON": sys.executable,
        "REVISION": revision,
        "SOURCE_DATE_EPOCH": str(moment),
        "NO_MKDOCS_2_WARNING": "1",
        "TZ": "UTC",
        "LC_ALL": "C.UTF-8",
    }


def distributions(stage: Path) -> list[Path]:
    """The folders of what is published to PyPI: the program, then what stands beside it."""
    return [stage, *sorted(path.parent for path in stage.glob("*/pyproject.toml"))]


def build_packages(stage: Path, output: Path, environment: dict[str, str]) -> None:
    """Wheel and source distribution of each."""
    for project in distributions(stage):
        command = (sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel")
        done(*command, "--directory", output, folder=project, environment=environment)
    done(sys.executable, "krew/build.py", output, folder=stage, environment=environment)
    (output / "rebalance.yaml").rename(output / "krew-rebalance.yaml")
    for shell, name in SHELLS.items():
        script = done(
            *(sys.executable, "-m", "rebalancer", "completion", shell), folder=stage, environment=environment
        )
        (output / name).write_text(script)


def build_image(stage: Path, output: Path, environment: dict[str, str]) -> str:
    """The image of both architectures, with bills of materials; its digest. Started where root builds it."""
    command: list[str | Path] = [sys.executable, "image/build.py", "--output", output]
    command += [word for name in ARCHITECTURES for word in ("--architecture", name)]
    command += ["--check"] if os.geteuid() == 0 and shutil.which("unshare") else []
    done(*command, folder=stage, environment=environment)
    (archive,) = output.glob("*.oci.tar")
    return image_digest(archive)


def image_digest(archive: Path) -> str:
    """The digest by which a registry will know the image, from its OCI archive."""
    with tarfile.open(archive) as members:
        file = members.extractfile("index.json")
        assert file is not None
        (entry,) = json.loads(file.read())["manifests"]
        return str(entry["digest"])


def build_chart(stage: Path, output: Path, version: str, image: str) -> Path:
    """The chart as Helm packages it, which names the image by its digest.

    IMAGE_REPOSITORY says where whoever releases pushes the image; without it the chart asks who installs it.
    """
    values = stage / "charts" / "rebalancer" / "values.yaml"
    text = values.read_text()
    for key, value in (("digest", image), ("repository", os.environ.get("IMAGE_REPOSITORY", ""))):
        text, count = re.subn(f'(?m)^  {key}: ""$', f'  {key}: "{value}"', text)
        if count != 1:
            raise ReleaseError(f"charts/rebalancer/values.yaml: image.{key} is not there once")
    values.write_text(text)
    chart = output / f"rebalancer-chart-{version}.tgz"
    chart.write_bytes(records.folder_packed(values.parent, "rebalancer/"))
    return chart


def build_site(stage: Path, output: Path, version: str, environment: dict[str, str]) -> None:
    """The documentation; a dead link fails it."""
    site = stage / "build" / "site"
    done(mkdocs(), "build", "--quiet", "--strict", "--site-dir", site, folder=stage, environment=environment)
    (output / f"rebalancer-{version}-site.tar.gz").write_bytes(records.folder_packed(site))


def describe(stage: Path, output: Path, version: str, revision: str) -> None:
    """Notes, the bill of materials, provenance and checksums of what was built."""
    (output / "RELEASE_NOTES.md").write_text(versions.notes((stage / "CHANGELOG.md").read_text(), version))
    lock = stage / "requirements-runtime.lock"
    bill = records.wheel_sbom(lock.read_text(), version)
    (output / f"rebalancer-{version}-wheel.cdx.json").write_text(records.to_json(bill))
    locks = [lock, stage / "image" / "debian.lock", stage / "requirements-docs.lock"]
    builder = os.environ.get("GITHUB_WORKFLOW_REF") or f"{records.REPOSITORY}/blob/main/Makefile"
    statement = records.provenance(output, version, revision, builder, locks)
    (output / records.PROVENANCE).write_text(records.to_json(statement))
    records.write_checksums(output)
