"""The images as the Dockerfile makes them: what their containers start with, and a folder in their place.

There may be no container engine here. ``lay`` makes what an image has in /site-packages: the packages of the
lock, from this environment, and our own as ``image/own_packages.py`` adds them.
"""

from __future__ import annotations

import functools
import json
import re
import runpy
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from tests.unit.manifests.documents import ROOT

Instruction = tuple[str, str]
SITE_PACKAGES = "/site-packages"


class Image(NamedTuple):
    """What a stage of the Dockerfile becomes."""

    environment: dict[str, str]
    entry_point: list[str]
    projects: list[str]  # whose packages it holds
    instructions: list[Instruction]


@functools.cache
def stages() -> dict[str, list[Instruction]]:
    """The Dockerfile's stages by name, each with its instructions; continued lines are joined."""
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    joined = re.sub(r"\\\n\s*", " ", "\n".join(line for line in lines if not line.lstrip().startswith("#")))
    found: dict[str, list[Instruction]] = {"": []}
    stage = ""
    for line in joined.splitlines():
        if not line.strip():
            continue
        word, rest = line.split(None, 1)
        if word == "FROM":
            stage = rest.rpartition(" AS ")[2]
            found[stage] = []
        found[stage].append((word, " ".join(rest.split())))
    return found


def instructions_of(stage: str) -> list[Instruction]:
    """Those of a stage after those of the stages that it begins from."""
    parent = stages()[stage][0][1].partition(" AS ")[0]
    before = instructions_of(parent) if parent in stages() else []
    return [*before, *stages()[stage]]


def image(stage: str) -> Image:
    """The image of a stage."""
    instructions = instructions_of(stage)
    environment: dict[str, str] = {}
    projects: list[str] = []
    for word, rest in instructions:
        if word == "ENV":
            for setting in rest.split():
                name, _, value = setting.partition("=")
                environment[name] = value
        if word == "COPY" and rest.startswith("--from="):
            source = rest.partition(" ")[0].removeprefix("--from=")
            for command in (run for step, run in instructions_of(source) if step == "RUN"):
                if command.startswith(f"python own_packages.py {SITE_PACKAGES} "):
                    projects += command.split()[3:]
    (entry_point,) = [rest for word, rest in instructions if word == "ENTRYPOINT"]
    return Image(environment, json.loads(entry_point), projects, instructions)


def lay(stage: str, target: Path) -> Path:
    """A folder with what the image of a stage has in its site-packages."""
    target.mkdir(parents=True)
    lock = (ROOT / "requirements-runtime.lock").read_text()
    for name in re.findall(r"^([\w.-]+)==", lock, re.MULTILINE):
        try:
            files = metadata.files(name) or []
        except metadata.PackageNotFoundError:  # for another platform or Python
            continue
        for file in files:
            top = file.parts[0]
            place = Path(str(metadata.distribution(name).locate_file(top)))
            if top not in ("..", "__pycache__") and not (target / top).exists():
                (target / top).symlink_to(place)
    add = runpy.run_path(str(ROOT / "image" / "own_packages.py"))["add"]
    for project in image(stage).projects:
        add(target, ROOT / project)
    return target
