"""Adds our own packages to the packages of an image: ``python image/own_packages.py TARGET PROJECT...``.

A project is a folder with a ``pyproject.toml``: ``.`` is the program, ``extender`` adds a command to it. Both
are pure Python, so copying them is installing them. The program finds the commands that a project brings by
its entry points, which are laid beside it as pip does. The program's embedded cluster stays out.

The bytecode is compiled here, once, because a container's file system is read-only: by content and not by
time, so that the same sources give the same image, and without the paths of this machine.
"""

from __future__ import annotations

import compileall
import shutil
import sys
import tomllib
from pathlib import Path
from py_compile import PycInvalidationMode

INSIDE = "/site-packages"  # where the image has them


def add(target: Path, project: Path) -> None:
    """Copy the package of a project, and its entry points where it has some."""
    described = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    package = described["name"].replace("-", "_")
    shutil.copytree(project / package, target / package, ignore=shutil.ignore_patterns("__pycache__"))
    groups = described.get("entry-points", {})
    if not groups:
        return
    metadata = target / f"{package}-{described['version']}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {described['name']}\nVersion: {described['version']}\n"
    )
    lines = []
    for group, entries in groups.items():
        lines.append(f"[{group}]")
        lines += [f"{name} = {place}" for name, place in entries.items()]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")


def main(target: Path, projects: list[Path]) -> None:
    """Add the projects and compile everything."""
    for project in projects:
        add(target, project)
    compileall.compile_dir(
        str(target),
        quiet=1,
        workers=1,
        stripdir=str(target),
        prependdir=INSIDE,
        invalidation_mode=PycInvalidationMode.UNCHECKED_HASH,
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(project) for project in sys.argv[2:]])
