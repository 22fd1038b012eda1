"""Builds the real descheduler; ``python -m tests.conformance.descheduler.build`` prints the program's path.

It is kept in a folder named by its sources and versions, so it is built once: some minutes on two cores.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests import go_programs

MODULE = Path(__file__).parent / "program"


def place() -> Path:
    """Where the program is kept once it is built."""
    sources = sorted((*MODULE.glob("*.go"), *MODULE.glob("go.*")))
    return go_programs.cache_folder("descheduler", MODULE, sources, ()) / "descheduler-oracle"


def program() -> Path:
    """The program, built if it is not there. Raises BuildError."""
    built = place()
    if not built.exists():
        built.parent.mkdir(parents=True, exist_ok=True)
        unfinished = built.with_name(f"{built.name}.{os.getpid()}")
        go_programs.run_go(
            [
                go_programs.find_go(),
                "build",
                "-trimpath",
                "-ldflags=-s -w",
                "-p=1",
                "-o",
                str(unfinished),
                ".",
            ],
            MODULE,
            {**os.environ, "GOTOOLCHAIN": "local"},
            announced_by="descheduler",
        )
        unfinished.rename(built)
    return built


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{program()}\n")
    except go_programs.BuildError as error:
        sys.exit(f"descheduler: {error}")
