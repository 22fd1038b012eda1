"""A signal that comes at any line of reading ends the reading, not the process by a fault in C code."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.interruptions import READINGS


@pytest.mark.parametrize("reading", READINGS)
def test_reading_that_is_interrupted_anywhere_can_begin_anew(reading: str) -> None:
    command = [sys.executable, "-m", "tests.interruptions", reading]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)

    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) >= 5  # places that were interrupted
