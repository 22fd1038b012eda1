"""Builds the oracle of a minor on demand; ``python -m tests.conformance.oracle.build 1.34`` prints its path.

The program is kept in a folder named by its sources and that minor's versions, so it is built once. The first build of
a minor compiles its scheduler and client: some minutes on two cores.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests import go_programs

MODULE = Path(__file__).parent
MINORS = tuple(
    sorted((path.stem for path in (MODULE / "minors").glob("*.mod")), key=lambda m: int(m.split(".")[1]))
)
_OLDEST = 31

# Trimaran's last release is for 1.34. From 1.35 on the scheduler's interfaces that it names are in another package;
# nothing else of it has to change.
_TRIMARAN = "sigs.k8s.io/scheduler-plugins"
_TRIMARAN_FITS_UNTIL = 34
_MOVED = "Handle|Plugin|ScorePlugin|ScoreExtensions|NodeScoreList|MaxNodeScore|MinNodeScore"
_OLD_PACKAGE = '\t"k8s.io/kubernetes/pkg/scheduler/framework"\n'
_NEW_PACKAGE = '\tfwk "k8s.io/kube-scheduler/framework"\n'


def program(minor: str) -> Path:
    """The oracle of this minor, built if it is not there. Raises BuildError."""
    if minor not in MINORS:
        raise go_programs.BuildError(f"no oracle for {minor}: there are {', '.join(MINORS)}")
    module, sums = _module_files(minor)
    sources = sorted((*MODULE.glob("*.go"), Path(__file__), module, sums))
    folder = go_programs.cache_folder("oracle", MODULE, sources, minor)
    built = folder / f"oracle-{minor}"
    if not built.exists():
        folder.mkdir(parents=True, exist_ok=True)
        _build(minor, built)
    return built


def _module_files(minor: str) -> tuple[Path, Path]:
    module = MODULE / "minors" / f"{minor}.mod"
    return module, module.with_suffix(".sum")


def _build(minor: str, target: Path) -> None:
    go = go_programs.find_go()
    environment = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local"}
    number = int(minor.split(".")[1])
    module, _ = _module_files(minor)
    if number > _TRIMARAN_FITS_UNTIL:
        module = _with_moved_trimaran(go, minor, target.parent, environment)
    tags = ",".join(f"from1{n}" for n in range(_OLDEST + 1, number + 1))
    flags = ["-trimpath", "-ldflags=-s -w", "-p=1", f"-tags={tags}", f"-modfile={module}"]
    unfinished = target.with_name(f"{target.name}.{os.getpid()}")
    go_programs.run_go(
        [go, "build", *flags, "-o", str(unfinished), "."], MODULE, environment, announced_by="oracle"
    )
    unfinished.rename(target)


def _with_moved_trimaran(go: str, minor: str, folder: Path, environment: dict[str, str]) -> Path:
    """The minor's go.mod with a copy of Trimaran that names the scheduler's interfaces where this minor has them."""
    module, sums = _module_files(minor)
    found = subprocess.run(
        [go, "mod", "download", "-json", f"-modfile={module}", _TRIMARAN],
        cwd=MODULE,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )
    if found.returncode:
        raise go_programs.BuildError(f"{_TRIMARAN} could not be fetched: {found.stderr.strip()[-300:]}")
    original = Path(json.loads(found.stdout)["Dir"])
    copy = folder / "scheduler-plugins"
    for path in (original / "go.mod", *_sources(original / "apis"), *_sources(original / "pkg" / "trimaran")):
        target = copy / path.relative_to(original)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(move_interfaces(path.read_text()))
    changed = folder / "go.mod"
    changed.write_text(f"{module.read_text()}\nreplace {_TRIMARAN} => {copy}\n")
    shutil.copyfile(sums, folder / "go.sum")
    return changed


def _sources(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.go") if not path.stem.endswith("_test"))


def move_interfaces(source: str) -> str:
    """A file of Trimaran with the interfaces that moved named at their new place."""
    moved = re.sub(rf"\bframework\.({_MOVED})\b", r"fwk.\1", source)
    if moved == source:
        return source
    if _NEW_PACKAGE not in moved:
        moved = moved.replace(_OLD_PACKAGE, _NEW_PACKAGE + _OLD_PACKAGE)
    return moved if re.search(r"\bframework\.[A-Z]", moved) else moved.replace(_OLD_PACKAGE, "")


if __name__ == "__main__":
    try:
        for wanted in sys.argv[1:] or MINORS:
            sys.stdout.write(f"{program(wanted)}\n")
    except go_programs.BuildError as error:
        sys.exit(f"oracle: {error}")
