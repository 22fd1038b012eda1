"""The folders of Go modules, as Go itself unpacks them; downloaded where they are not there yet."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.go_programs import BuildError, find_go


def module_folder(module: str, version: str) -> Path:
    """Where a Go module of this version lies. Raises BuildError when Go does not find it."""
    command = [find_go(), "mod", "download", "-json", f"{module}@{version}"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise BuildError(f"{module}@{version} cannot be downloaded: {ended.stdout}{ended.stderr}")
    return Path(json.loads(ended.stdout)["Dir"])
