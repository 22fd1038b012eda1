"""Environments to install into."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def done(*command: str | Path, **environment: str | Path) -> str:
    """What a command writes to standard output. Raises CalledProcessError when it fails."""
    without = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    finished = subprocess.run(
        [str(word) for word in command],
        env={**without, **{name: str(value) for name, value in environment.items()}},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


@pytest.fixture(scope="module")
def installers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an environment that holds pip, pipx and uv."""
    folder = tmp_path_factory.mktemp("installers")
    done(sys.executable, "-m", "venv", folder)
    done(folder / "bin" / "pip", "install", "--quiet", "pipx==1.18.4", "uv==0.13.9")
    return folder / "bin"
