"""The Go modules with which a scheduler is built, and plugins of scheduler-plugins beside it.

The last release of scheduler-plugins is for 1.34. From 1.35 on the interfaces of the scheduler that it
names are in another package. Nothing else has to change, so a build gets a copy of its sources that names
them there.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from rebalancer.scheduling.versions.verified import COMPARED
from tests import go_programs

_TRIMARAN = "sigs.k8s.io/scheduler-plugins"
_PARTS = ("apis", "pkg/noderesources", "pkg/trimaran")
_FITS_UNTIL = 34
_MOVED = "Handle|Plugin|ScorePlugin|ScoreExtensions|NodeScoreList|MaxNodeScore|MinNodeScore"
_OLD_PACKAGE = '\t"k8s.io/kubernetes/pkg/scheduler/framework"\n'
_NEW_PACKAGE = '\tfwk "k8s.io/kube-scheduler/framework"\n'


def module_file(
    go: str, minor: str, module: Path, folder: Path, work_in: Path, environment: Mapping[str, str]
) -> Path:
    """The go.mod to build a minor with: a copy of ``module`` in ``folder``, at the release that is compared.

    From 1.35 on it uses the adapted Trimaran. Raises BuildError when that cannot be fetched.
    """
    text = at_release(module.read_text(), COMPARED.get(minor, ""))
    changed = folder / "go.mod"
    changed.write_text(text)
    shutil.copyfile(module.with_suffix(".sum"), folder / "go.sum")
    if int(minor.split(".")[1]) > _FITS_UNTIL:
        copy = _adapted(go, changed, folder, work_in, environment)
        changed.write_text(f"{text}\nreplace {_TRIMARAN} => {copy}\n")
    return changed


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
    return named[1] if named else "local"


def _adapted(go: str, module: Path, folder: Path, work_in: Path, environment: Mapping[str, str]) -> Path:
    found = subprocess.run(
        [go, "mod", "download", "-json", f"-modfile={module}", _TRIMARAN],
        cwd=work_in,
        env=dict(environment),
        check=False,
        capture_output=True,
        text=True,
    )
    if found.returncode:
        raise go_programs.BuildError(f"{_TRIMARAN} could not be fetched: {found.stderr.strip()[-300:]}")
    original = Path(json.loads(found.stdout)["Dir"])
    copy = folder / "scheduler-plugins"
    sources = [source for part in _PARTS for source in _sources(original / part)]
    for path in (original / "go.mod", *sources):
        target = copy / path.relative_to(original)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(move_interfaces(path.read_text()))
    return copy


def _sources(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.go") if not path.stem.endswith("_test"))


def move_interfaces(source: str) -> str:
    """A file of scheduler-plugins with the interfaces that moved named at their new place."""
    moved = re.sub(rf"\bframework\.({_MOVED})\b", r"fwk.\1", source)
    if moved == source:
        return source
    if _NEW_PACKAGE not in moved:
        moved = moved.replace(_OLD_PACKAGE, _NEW_PACKAGE + _OLD_PACKAGE)
    return moved if re.search(r"\bframework\.[A-Z]", moved) else moved.replace(_OLD_PACKAGE, "")
