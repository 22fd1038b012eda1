"""Releases: one version everywhere, the changelog's part as notes, checksums and bills that are complete."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from rebalancer import __version__
from tests.unit.manifests.documents import ROOT
from tools.release import records, versions
from tools.release.versions import ReleaseError

CHANGELOG = (
    "# Changelog\n\n## [Unreleased] 0.1.0\n\n### Added\n\n* One.\n\n## [0.0.9] - 2026-01-01\n\n* Old.\n"
)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The files that hold a version, alone."""
    for name in (*versions.written(ROOT), "CHANGELOG.md"):
        path = tmp_path / name.partition(":")[0]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((ROOT / name.partition(":")[0]).read_bytes())
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    return tmp_path


def test_every_place_says_the_version_of_the_program() -> None:
    assert set(versions.written(ROOT).values()) == {__version__}


def test_no_other_file_that_is_published_says_a_version() -> None:
    """A place that the table lacks would keep its old version."""
    asked = [
        "git",
        "grep",
        "-lF",
        __version__,
        "--",
        "*.toml",
        "*.yaml",
        "Dockerfile",
        "rebalancer",
        "charts",
        "k8s",
    ]
    found = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    known = {place.partition(":")[0] for place in versions.written(ROOT)}

    assert {path for path in found if not path.startswith(("tests/", "examples/"))} <= known


def test_a_version_is_set_at_every_place_and_in_the_changelog(checkout: Path) -> None:
    versions.write(checkout, "0.2.0", "2026-11-23")

    assert set(versions.written(checkout).values()) == {"0.2.0"}
    assert (
        "## [Unreleased]\n\n## [0.2.0] - 2026-11-23\n\n### Added" in (checkout / "CHANGELOG.md").read_text()
    )


def test_setting_a_version_twice_changes_nothing_more(checkout: Path) -> None:
    versions.write(checkout, "0.2.0", "2026-11-23")
    once = (checkout / "CHANGELOG.md").read_text()
    versions.write(checkout, "0.2.0", "2026-11-24")

    assert (checkout / "CHANGELOG.md").read_text() == once


@pytest.mark.parametrize("version", ["", "v0.2.0", "0.2", "0.2.0rc1", "0.2.0\n", "../x"])
def test_what_is_no_version_is_refused(checkout: Path, version: str) -> None:
    with pytest.raises(ReleaseError, match="is no version"):
        versions.write(checkout, version, "2026-11-23")


def test_a_place_that_lost_its_version_is_named(checkout: Path) -> None:
    (checkout / "Dockerfile").write_text("FROM scratch\n")

    with pytest.raises(ReleaseError, match=r"^Dockerfile: 0 versions"):
        versions.write(checkout, "0.2.0", "2026-11-23")


def test_notes_are_the_part_of_the_changelog_about_one_version() -> None:
    text = CHANGELOG.replace("[Unreleased] 0.1.0", "[0.2.0] - 2026-11-23")

    assert versions.notes(text, "0.2.0") == "# rebalancer 0.2.0\n\n### Added\n\n* One.\n"
    assert versions.notes(text, "0.0.9") == "# rebalancer 0.0.9\n\n* Old.\n"


@pytest.mark.parametrize(
    "changelog", ["", "## [0.2.0]\n", "## [0.2.0]\n\n### Added\n\n## [0.1.0]\n\n* One.\n"]
)
def test_a_release_about_which_nothing_is_said_is_refused(changelog: str) -> None:
    with pytest.raises(ReleaseError, match=r"nothing is said about 0\.2\.0"):
        versions.notes(changelog, "0.2.0")


def a_release(folder: Path) -> Path:
    (folder / "a.whl").write_text("a")
    (folder / "b.tgz").write_text("b")
    records.write_checksums(folder)
    return folder


def test_checksums_are_those_that_sha256sum_checks(tmp_path: Path) -> None:
    command = ["sha256sum", "--check", "--strict", "--quiet", records.CHECKSUMS]

    assert records.wrong_checksums(a_release(tmp_path)) == []
    subprocess.run(command, cwd=tmp_path, check=True)


def test_a_file_that_changed_is_missing_or_was_added_is_named(tmp_path: Path) -> None:
    folder = a_release(tmp_path)
    (folder / "a.whl").write_text("other")
    (folder / "b.tgz").unlink()
    (folder / "c").write_text("c")

    assert records.wrong_checksums(folder) == [
        "a.whl: is not what the checksum says",
        "b.tgz: is not there",
        "c: has no checksum",
    ]


def test_provenance_is_about_every_file_and_the_commit(tmp_path: Path) -> None:
    folder = a_release(tmp_path)
    lock = ROOT / "requirements-runtime.lock"
    found = records.provenance(folder, "0.2.0", "c0ffee", "https://example.com/builder", [lock])
    definition = found["predicate"]["buildDefinition"]

    assert found["predicateType"] == "https://slsa.dev/provenance/v1"
    assert [item["name"] for item in found["subject"]] == ["a.whl", "b.tgz"]
    assert definition["resolvedDependencies"][0]["digest"] == {"gitCommit": "c0ffee"}
    assert definition["resolvedDependencies"][1]["digest"] == {"sha256": records.digest(lock)}
    assert json.loads(records.to_json(found)) == found


def test_the_bill_of_materials_names_what_the_lock_pins_with_hashes() -> None:
    lock = (ROOT / "requirements-runtime.lock").read_text()
    bill = records.wheel_sbom(lock, "0.2.0")
    names = {part["name"] for part in bill["components"]}

    assert {"kubernetes", "pandas", "numpy", "click", "tenacity"} <= names
    assert len(bill["components"]) == lock.count("==") - lock.count("python_full_version ==")
    assert len({part["bom-ref"] for part in bill["components"]}) == len(bill["components"])


def test_a_package_without_a_hash_is_refused() -> None:
    with pytest.raises(ReleaseError, match="a package without a hash"):
        records.wheel_sbom("click==8.5.1\nnumpy==2.4.6 \\\n    --hash=sha256:" + "0" * 64 + "\n", "0.2.0")


def test_an_archive_depends_on_names_and_content_alone(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name / "sub").mkdir(parents=True)
        (tmp_path / name / "sub" / "file").write_text("x")
        (tmp_path / name / "file").write_text("y")
    (tmp_path / "two" / "file").chmod(0o600)

    assert records.folder_packed(tmp_path / "one", "p/") == records.folder_packed(tmp_path / "two", "p/")
    assert records.folder_packed(tmp_path / "one", "p/") != records.folder_packed(tmp_path / "one", "q/")
