"""The Go module of a minor's scheduler, at the release of it that is compared.

A go.mod names every part of Kubernetes by its version. They are of one release, which stands in one line of
``COMPARED``; another one there needs no change of the go.mod. Go fetches what its go.sum lacks then, and
checks it by the checksum database.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from rebalancer.scheduling.versions.verified import COMPARED


def pinned(minor: str, module: Path, folder: Path) -> Path:
    """A copy of the go.mod of a minor in ``folder``, with its go.sum, at the release that is compared."""
    copy = folder / "pinned.mod"
    copy.write_text(at_release(module.read_text(), COMPARED.get(minor, "")))
    shutil.copyfile(module.with_suffix(".sum"), copy.with_suffix(".sum"))
    return copy


def at_release(module: str, release: str) -> str:
    """A go.mod that names the parts of Kubernetes at a release of its own minor, such as 1.38.0."""
    _, _, minor_and_patch = release.partition(".")
    minor, _, _ = minor_and_patch.partition(".")
    if not minor:
        return module
    return re.sub(
        rf"(?<![\w.])(k8s\.io/[\w-]+ v[01])\.{minor}\.[^\s]+",
        lambda found: f"{found[1]}.{minor_and_patch}",
        module,
    )


def toolchain(module: Path) -> str:
    """GOTOOLCHAIN for a go.mod: what its line ``toolchain`` names, which Go fetches, or the installed one."""
    named = re.search(r"^toolchain (\S+)$", module.read_text(), re.MULTILINE)
    if named is None:
        return "local"
    return named[1]
