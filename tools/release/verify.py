"""Verifies a release from its files alone, as those who download it have them: in an empty home.

Each check says in a line what it saw; the first that fails ends the release.
"""

from __future__ import annotations

import calendar
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import yaml

from tools.release import records
from tools.release.build import (
    ARCHITECTURES,
    ROOT,
    SHELLS,
    distributions,
    done,
    helm,
    image_digest,
)
from tools.release.versions import ReleaseError


def require(holds: object, message: str) -> None:
    """Raise ReleaseError unless it holds."""
    if not holds:
        raise ReleaseError(message)


def clean(home: Path) -> dict[str, str]:
    """The environment of a new user: an empty home, and what says how the package registry is reached."""
    passed_on = ("PATH", "LANG", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
    environment = {
        name: value
        for name, value in os.environ.items()
        if name in passed_on or name.startswith("PIP_") or name.lower().endswith("_proxy")
    }
    home.mkdir(exist_ok=True)
    return {**environment, "HOME": str(home)}


def verify(release: Path, stage: Path, version: str, work: Path) -> Iterator[str]:
    """Every check in turn, each with what it saw. Raises ReleaseError."""
    yield from files(release, version)
    yield from sources(release, stage, work)
    yield from installation(release, stage, version, work)
    yield from image(release, version)
    yield from chart(release, work)
    yield from krew_and_completions(release, version, work)


def files(release: Path, version: str) -> Iterator[str]:
    """Checksums, provenance and notes say what is there."""
    wrong = records.wrong_checksums(release)
    require(not wrong, "\n".join(wrong))
    statement = json.loads((release / records.PROVENANCE).read_text())
    digest_by_name = {subject["name"]: subject["digest"]["sha256"] for subject in statement["subject"]}
    there = {
        path.name: records.digest(path)
        for path in records.artifacts(release, records.CHECKSUMS, records.PROVENANCE)
    }
    require(digest_by_name == there, f"{records.PROVENANCE}: is not about the files that are there")
    notes = (release / "RELEASE_NOTES.md").read_text()
    require(notes.startswith(f"# rebalancer {version}\n"), "RELEASE_NOTES.md: is about another version")
    yield f"files: {len(there)}, all in checksums and provenance; notes of {len(notes.splitlines())} lines"


def sources(release: Path, stage: Path, work: Path) -> Iterator[str]:
    """Each source distribution builds the very wheel."""
    for archive in sorted(release.glob("*.tar.gz")):
        if not archive.name.startswith(("rebalancer-", "rebalancer_")) or archive.name.endswith(
            "-site.tar.gz"
        ):
            continue
        folder = work / "sources" / archive.stem
        folder.mkdir(parents=True)
        with tarfile.open(archive) as members:
            members.extractall(folder, filter="data")
        (project,) = folder.iterdir()
        command = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "--directory", folder / "dist")
        epoch = {"SOURCE_DATE_EPOCH": _epoch(release)}
        done(*command, folder=project, environment={**clean(work / "home"), **epoch})
        (wheel,) = (folder / "dist").iterdir()
        require(
            records.digest(wheel) == records.digest(release / wheel.name),
            f"{archive.name}: builds another {wheel.name} than is published",
        )
        yield f"{archive.name}: builds {wheel.name}, byte for byte"
    require(len(list(release.glob("*.whl"))) == len(distributions(stage)), "a wheel is missing")


def _epoch(release: Path) -> str:
    """The time in the artifacts, from the wheel itself."""
    (wheel,) = release.glob("rebalancer-*.whl")
    with zipfile.ZipFile(wheel) as members:
        year, month, day, hour, minute, second = members.infolist()[0].date_time
    return str(calendar.timegm((year, month, day, hour, minute, second, 0, 0, 0)))


def installation(release: Path, stage: Path, version: str, work: Path) -> Iterator[str]:
    """The wheels installed by pip in an empty home: version, demo, and the plan of a recorded cluster."""
    environment = clean(work / "home")
    place = work / "installed"
    done(sys.executable, "-m", "venv", place, folder=work, environment=environment)
    pip = (place / "bin" / "python", "-m", "pip", "--disable-pip-version-check")
    wheels = sorted(release.glob("*.whl"))
    done(*pip, "install", "--quiet", *wheels, folder=work, environment=environment)
    done(*pip, "check", folder=work, environment=environment)
    program = place / "bin" / "rebalancer"
    shown = json.loads(done(program, "--version", "-o", "json", folder=work, environment=environment))
    require(shown["version"] == version, f"installed: says that it is {shown['version']}")
    before = time.monotonic()
    played = done(program, "demo", folder=work, environment=environment)
    seconds = time.monotonic() - before
    require("pods restart" in played, "installed: the demo plans nothing")
    recorded = ("--from", stage / "examples" / "hot-cluster", "--policy", stage / "examples" / "policy.yaml")
    plan = json.loads(done(program, "plan", *recorded, "-o", "json", folder=work, environment=environment))
    require(plan["moves"], "installed: the plan of the recorded cluster moves nothing")
    size = sum(path.stat().st_size for path in place.rglob("*") if path.is_file() and not path.is_symlink())
    yield (
        f"{', '.join(path.name for path in wheels)}: installed in an empty home, {size / 1e6:.0f} MB;"
        f" demo in {seconds:.1f} s; the plan of a recorded cluster has {len(plan['moves'])} moves"
    )


def image(release: Path, version: str) -> Iterator[str]:
    """Every blob is what its name says; both architectures are there, and say which version they are."""
    (archive,) = release.glob("*.oci.tar")
    blobs = {}
    with tarfile.open(archive) as members:
        for member in members:
            file = members.extractfile(member)
            if file is not None and member.name.startswith("blobs/sha256/"):
                blobs[f"sha256:{member.name.rpartition('/')[2]}"] = file.read()
    wrong = [
        name for name, content in blobs.items() if name != f"sha256:{hashlib.sha256(content).hexdigest()}"
    ]
    require(not wrong, f"{archive.name}: {wrong[:1]} is not what its name says")
    listed = json.loads(blobs[image_digest(archive)])["manifests"]
    architectures = []
    for entry in listed:
        manifest = json.loads(blobs[entry["digest"]])
        configuration = json.loads(blobs[manifest["config"]["digest"]])
        labels = configuration["config"]["Labels"]
        require(labels["org.opencontainers.image.version"] == version, f"{archive.name}: another version")
        require(
            all(layer["digest"] in blobs for layer in manifest["layers"]),
            f"{archive.name}: a layer is missing",
        )
        architectures.append(configuration["architecture"])
    require(
        sorted(architectures) == sorted(ARCHITECTURES), f"{archive.name}: is for {', '.join(architectures)}"
    )
    yield f"{archive.name}: {' and '.join(architectures)}, {image_digest(archive)}"


ANY_REGISTRY = "registry.invalid/rebalancer"


def chart(release: Path, work: Path) -> Iterator[str]:
    """Helm takes the chart, whose pods run the image by its digest; a control plane too, if there is one."""
    (path,) = release.glob("*.tgz")
    (archive,) = release.glob("*.oci.tar")
    digest = image_digest(archive)
    environment = clean(work / "home")
    done(helm(), "lint", "--strict", path, folder=work, environment=environment)
    for kind in ("CronJob", "Deployment"):
        text = done(
            *(
                helm(),
                "template",
                "rebalancer",
                path,
                "--set",
                f"kind={kind},image.repository={ANY_REGISTRY}",
            ),
            folder=work,
            environment=environment,
        )
        images = {
            line.split(":", 1)[1].strip().strip('"') for line in text.splitlines() if " image: " in line
        }
        require(
            images and all(name.endswith(f"@{digest}") for name in images),
            f"{path.name}: runs {', '.join(images)[:200]}, not the image {digest}",
        )
        require(
            any(manifest and manifest["kind"] == kind for manifest in yaml.safe_load_all(text)),
            f"{path.name}: no {kind}",
        )
    yield f"{path.name}: rendered as CronJob and Deployment, both with the image {digest[:19]}…"
    built = subprocess.run(
        [sys.executable, "-m", "tests.e2e.assets", "--only-find"], cwd=ROOT, capture_output=True, check=False
    )
    if built.returncode:
        yield f"{path.name}: NOT installed on a control plane, because none is built (make e2e-assets)"
        return
    settings = {"REBALANCER_E2E": "1", "REBALANCER_CHART": str(path), "REBALANCER_IMAGE_DIGEST": digest}
    test = "tests/e2e/test_chart.py::test_it_plans_then_acts_and_its_removal_leaves_nothing"
    done(
        *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test),
        folder=ROOT,
        environment={**os.environ, **settings},
    )
    yield f"{path.name}: installed on a control plane, planned, acted, upgraded, and removed without a trace"


def krew_and_completions(release: Path, version: str, work: Path) -> Iterator[str]:
    """krew's manifest names its archive, which holds the wheel that is published; shells take the scripts."""
    manifest = yaml.safe_load((release / "krew-rebalance.yaml").read_text())
    archive = release / f"kubectl-rebalance-{version}.tar.gz"
    for platform in manifest["spec"]["platforms"]:
        require(
            platform["uri"].endswith(f"/v{version}/{archive.name}"),
            "krew-rebalance.yaml: names another archive",
        )
        require(
            platform["sha256"] == records.digest(archive), f"{archive.name}: is not what krew's manifest says"
        )
    with tarfile.open(archive) as members:
        members.extractall(work / "krew", filter="data")
    (wheel,) = (work / "krew").glob("*.whl")
    require(
        records.digest(wheel) == records.digest(release / wheel.name), f"{archive.name}: holds another wheel"
    )
    for shell, name in SHELLS.items():
        require("_REBALANCER_COMPLETE" in (release / name).read_text(), f"{name}: does not ask the program")
        if shutil.which(shell):
            done(shell, "-n", release / name, folder=work, environment=clean(work / "home"))
    yield f"{archive.name}: holds the wheel, the manifest its checksum; completions for {', '.join(SHELLS)}"
