"""The workflow that publishes, read as text: what it may do, what it runs, and in which order."""

from __future__ import annotations

import re
from typing import Any

import yaml

from tests.unit.manifests.documents import ROOT

PATH = ROOT / ".github" / "workflows" / "release.yml"


def jobs() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(PATH.read_text())["jobs"]
    return found


def test_every_action_is_pinned_to_a_commit_and_says_its_version() -> None:
    used = re.findall(r"uses: (\S+)(.*)", PATH.read_text())

    assert len(used) >= 8
    assert [name for name, _ in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", name)] == []
    assert [name for name, comment in used if not re.fullmatch(r"  # v\d+\.\d+\.\d+", comment)] == []


def test_what_builds_has_no_right_and_what_publishes_has_the_one_it_needs() -> None:
    assert yaml.safe_load(PATH.read_text())["permissions"] == {}
    assert {name: job["permissions"] for name, job in jobs().items()} == {
        "build": {"contents": "read"},
        "registry": {"id-token": "write", "packages": "write"},
        "pypi": {"id-token": "write"},
        "page": {"contents": "write"},
    }
    assert "secrets." not in PATH.read_text()


def test_nothing_is_published_before_the_same_bytes_were_built_twice_and_pypi_comes_after_signing() -> None:
    (build,) = [step["run"] for step in jobs()["build"]["steps"] if "run" in step]

    assert build.count("make release") == 2
    assert build.count("ARGS=--tagged") == 2
    assert "cmp first" in build
    assert jobs()["registry"]["needs"] == "build"
    assert set(jobs()["pypi"]["needs"]) == {"build", "registry"}
    assert set(jobs()["page"]["needs"]) == {"build", "registry", "pypi"}
    for name in ("registry", "pypi", "page"):
        checking = next(step["run"] for step in jobs()[name]["steps"] if "run" in step)
        assert "sha256sum --check --strict" in checking


def test_no_value_of_an_event_is_pasted_into_a_script() -> None:
    for job in jobs().values():
        for step in job["steps"]:
            assert "${{" not in step.get("run", "")
