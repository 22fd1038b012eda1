"""Builds the oracle of a minor on demand; ``python -m tests.conformance.oracle.build 1.34`` prints its path.

The program is kept in a folder named by its sources and that minor's versions, so it is built once. The first
build of a minor compiles its scheduler and client: some minutes on two cores.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from rebalancer.scheduling.versions.verified import COMPARED
from tests import go_programs, kubernetes_modules, trimaran

MODULE = Path(__file__).parent
MINORS = tuple(
    sorted((path.stem for path in (MODULE / "minors").glob("*.mod")), key=lambda m: int(m.split(".")[1]))
)
_OLDEST = 20


def program(minor: str) -> Path:
    """The oracle of this minor, built if it is not there. Raises BuildError."""
    built = place_of(minor)
    if not built.exists():
        built.parent.mkdir(parents=True, exist_ok=True)
        _build(minor, built)
    return built


def place_of(minor: str) -> Path:
    """Where the oracle of this minor is kept once it is built. Raises BuildError for a minor without one."""
    if minor not in MINORS:
        raise go_programs.BuildError(f"no oracle for {minor}: there are {', '.join(MINORS)}")
    module, sums = _module_files(minor)
    sources = sorted((*MODULE.glob("*.go"), Path(__file__), module, sums))
    settings = (minor, COMPARED.get(minor), Path(trimaran.__file__).read_text())
    return go_programs.cache_folder("oracle", MODULE, sources, settings) / f"oracle-{minor}"


def _module_files(minor: str) -> tuple[Path, Path]:
    module = MODULE / "minors" / f"{minor}.mod"
    return module, module.with_suffix(".sum")


def _build(minor: str, target: Path) -> None:
    go = go_programs.find_go()
    number = int(minor.split(".")[1])
    module, _ = _module_files(minor)
    environment = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": kubernetes_modules.toolchain(module)}
    module = kubernetes_modules.pinned(minor, module, target.parent)
    module = trimaran.module_file(go, minor, module, target.parent, MODULE, environment)
    tags = ",".join(f"from1{n}" for n in range(_OLDEST + 1, number + 1))
    flags = ["-trimpath", "-ldflags=-s -w", "-p=1", f"-tags={tags}", "-mod=mod", f"-modfile={module}"]
    unfinished = target.with_name(f"{target.name}.{os.getpid()}")
    go_programs.run_go(
        [go, "build", *flags, "-o", str(unfinished), "."], MODULE, environment, announced_by="oracle"
    )
    unfinished.rename(target)


if __name__ == "__main__":
    try:
        for wanted in sys.argv[1:] or MINORS:
            sys.stdout.write(f"{program(wanted)}\n")
    except go_programs.BuildError as error:
        sys.exit(f"oracle: {error}")
