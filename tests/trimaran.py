"""Plugins of scheduler-plugins beside a scheduler newer than the last release of these, which is for 1.34.

From 1.35 on the interfaces of the scheduler that it names are in another package. Nothing else has to change,
so a build gets a copy of its sources that names them there.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

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
    """The go.mod to build a minor with: ``module``, or a copy in ``folder`` that uses the adapted Trimaran.

    Raises BuildError when Trimaran cannot be fetched.
    """
    if int(minor.split(".")[1]) <= _FITS_UNTIL:
        return module
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
    changed = folder / "go.mod"
    changed.write_text(f"{module.read_text()}\nreplace {_TRIMARAN} => {copy}\n")
    shutil.copyfile(module.with_suffix(".sum"), folder / "go.sum")
    return changed


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
