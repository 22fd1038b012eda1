"""What `make release` does with packages, the chart and the scripts, and that it refuses what is not whole.

The image and the site, which take minutes, are built by `make release` alone.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.release import build, records, verify
from tools.release.versions import ReleaseError

VERSION = "9.8.7"
IMAGE = f"sha256:{'0' * 64}"


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the copy of the commit in ``stage`` and what was built of it in ``release``."""
    folder = tmp_path_factory.mktemp("release")
    stage, release = folder / "stage", folder / "release"
    release.mkdir()
    environment = build.staged(stage, VERSION)
    build.build_chart(stage, release, VERSION, IMAGE)
    build.build_packages(stage, release, environment)
    build.describe(stage, release, VERSION, environment["REVISION"])
    return folder


def test_every_file_has_its_checksum_and_its_provenance(work: Path) -> None:
    (said,) = verify.files(work / "release", VERSION)
    names = {path.name for path in (work / "release").iterdir()}

    assert said.startswith("files: ")
    assert {f"rebalancer-{VERSION}.tar.gz", f"rebalancer-chart-{VERSION}.tgz", "_rebalancer"} <= names


def test_source_distributions_build_the_published_wheels(work: Path, tmp_path: Path) -> None:
    said = list(verify.sources(work / "release", work / "stage", tmp_path))

    assert len(said) == len(list((work / "release").glob("*.whl"))) >= 1
    assert all(line.endswith("byte for byte") for line in said)


def test_the_wheels_work_in_an_empty_home(work: Path, tmp_path: Path) -> None:
    (said,) = verify.installation(work / "release", work / "stage", VERSION, tmp_path)

    assert "installed in an empty home" in said


def test_the_archive_for_krew_holds_the_published_wheel(work: Path, tmp_path: Path) -> None:
    (said,) = verify.krew_and_completions(work / "release", VERSION, tmp_path)

    assert "holds the wheel" in said


def test_the_same_commit_gives_the_same_bytes(work: Path, tmp_path: Path) -> None:
    stage, release = tmp_path / "elsewhere", tmp_path / "again"
    release.mkdir()
    environment = build.staged(stage, VERSION)
    build.build_chart(stage, release, VERSION, IMAGE)
    build.build_packages(stage, release, environment)
    build.describe(stage, release, VERSION, environment["REVISION"])

    assert (release / records.CHECKSUMS).read_text() == (work / "release" / records.CHECKSUMS).read_text()


def test_another_file_in_the_folder_is_refused(work: Path) -> None:
    added = work / "release" / "added"
    added.write_text("by somebody")
    try:
        with pytest.raises(ReleaseError, match="added: has no checksum"):
            list(verify.files(work / "release", VERSION))
    finally:
        added.unlink()
