"""Programs in Go that tests build once and keep: named by the content they are built from."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

# The environment of a Go program that ends within seconds: what it leaves is not worth collecting before.
SHORT_LIVED = {"GOGC": "off", "GOMEMLIMIT": "512MiB"}


class BuildError(Exception):
    """A program cannot be built; the message says what is missing."""


def find_go() -> str:
    """The Go command. Raises BuildError when there is none."""
    if (go := shutil.which("go") or shutil.which("/usr/local/go/bin/go")) is None:
        raise BuildError("Go is not installed; install Go >= 1.26 and start again")
    return go


def cache_folder(program: str, module: Path, files: Iterable[Path], settings: object) -> Path:
    """Where a program built from these files of a module, with these settings, is kept."""
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.relative_to(module)}\n".encode() + path.read_bytes())
    digest.update(repr(settings).encode())
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "rebalancer" / program / digest.hexdigest()[:16]


def run_go(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], *, announced_by: str
) -> None:
    """Run a Go command, announced on standard error. Raises BuildError when it fails."""
    sys.stderr.write(f"{announced_by}: {' '.join(command)}\n")
    if subprocess.run(command, cwd=folder, env=environment, check=False).returncode:
        raise BuildError(f"{command[-1]} could not be built: see above")
