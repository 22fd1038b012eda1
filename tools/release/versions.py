"""The version of everything that is published, wherever it is written: one table of places.

``rebalancer.__version__`` is the source; a test holds the others to it, and a release sets them all at once:

    CHANGELOG.md             ## [Unreleased] 0.1.0     ->  ## [0.2.0] - 2026-11-23
    lab/pyproject.toml       version = "0.1.0"         ->  version = "0.2.0"
    charts/…/Chart.yaml      appVersion: 0.1.0         ->  appVersion: 0.2.0
"""

from __future__ import annotations

import re
from pathlib import Path

VERSION = r"\d+\.\d+\.\d+"  # of PEP 440 and of Helm alike
# Where the version stands: a file, what comes before it in a line, and whether that file may be missing.
_PLACES = (
    ("rebalancer/__init__.py", r'__version__ = "'),
    ("extender/pyproject.toml", r'^version = "'),
    ("extender/pyproject.toml", r'^dependencies = \["rebalancer=='),
    ("lab/pyproject.toml", r'^version = "'),
    ("lab/pyproject.toml", r'^dependencies = \["rebalancer=='),
    ("Dockerfile", r'org\.opencontainers\.image\.version="'),
    ("charts/rebalancer/Chart.yaml", r"^version: "),
    ("charts/rebalancer/Chart.yaml", r"^appVersion: "),
    ("k8s/base/kustomization.yaml", r"^ +newTag: "),
    ("extender/k8s/kustomization.yaml", r"^ +newTag: "),
    ("k8s/overlays/service/kustomization.yaml", r"^ +newTag: "),
)
# What users read of a release, and the words there that are true before the first one only.
_READ = ("README.md", "docs/*.md", "charts/*/templates/NOTES.txt")
_BEFORE_RELEASES = re.compile(r"not released\b|\b(?:nothing|no image|no package) is published", re.IGNORECASE)
_UNRELEASED = re.compile(r"^## \[Unreleased\].*$", re.MULTILINE)


class ReleaseError(Exception):
    """What stands in the way of a release, a line each."""


def written(root: Path) -> dict[str, str]:
    """The version at every place of a checkout. Raises ReleaseError where it does not stand there once."""
    version_by_place = {}
    wrong = []
    for name, before in _PLACES:
        texts = re.findall(f"(?m){before}({VERSION})", (root / name).read_text())
        if len(texts) == 1:
            version_by_place[f"{name}: {before}"] = texts[0]
        else:
            wrong.append(f"{name}: {len(texts)} versions after {before!r}, wanted is one")
    if wrong:
        raise ReleaseError("\n".join(wrong))
    return version_by_place


def before_releases(root: Path) -> list[str]:
    """The files of a checkout that say that nothing is released."""
    paths = [path for pattern in _READ for path in sorted(root.glob(pattern))]
    return [str(path.relative_to(root)) for path in paths if _BEFORE_RELEASES.search(path.read_text())]


def write(root: Path, version: str, date: str) -> None:
    """Set the version at every place of a checkout, and in its changelog. Raises ReleaseError."""
    if not re.fullmatch(VERSION, version):
        raise ReleaseError(f"{version[:40]!a} is no version; write e.g. 0.2.0")
    written(root)
    for name, before in _PLACES:
        path = root / name
        path.write_text(re.sub(f"(?m)({before}){VERSION}", rf"\g<1>{version}", path.read_text()))
    changelog = root / "CHANGELOG.md"
    text = changelog.read_text()
    if f"## [{version}]" not in text:
        text, count = _UNRELEASED.subn(f"## [Unreleased]\n\n## [{version}] - {date}", text, count=1)
        if not count:
            raise ReleaseError(f"CHANGELOG.md: neither [{version}] nor [Unreleased] is a heading")
        changelog.write_text(text)


def notes(changelog: str, version: str) -> str:
    """The changelog's part about a version. Raises ReleaseError where there is none, or it is empty."""
    match = re.search(
        rf"^## \[{re.escape(version)}\][^\n]*\n(.*?)(?=^## \[|\Z)", changelog, re.DOTALL | re.MULTILINE
    )
    text = match[1].strip() if match else ""
    if not re.search(r"^\* ", text, re.MULTILINE):
        raise ReleaseError(f"CHANGELOG.md: nothing is said about {version}")
    return f"# rebalancer {version}\n\n{text}\n"
