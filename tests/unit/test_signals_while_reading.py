"""A signal that comes at any line of reading ends the reading, not the process by a fault in C code."""

from __future__ import annotations

import faulthandler
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from tests.forked import PROCESSES
from tests.interruptions import READINGS, interrupted_everywhere


def count_places(name: str, faults: Path, counted: Connection) -> None:
    """How many places of a reading can be interrupted."""
    with faults.open("w") as file:
        faulthandler.enable(file)
        reading = READINGS[name]()
        reading()  # what it imports and compiles at first use is there
        counted.send(interrupted_everywhere(reading))
        faulthandler.disable()


@pytest.mark.parametrize("reading", READINGS)
def test_reading_that_is_interrupted_anywhere_can_begin_anew(reading: str, tmp_path: Path) -> None:
    faults = tmp_path / "faults"
    counted, sent = PROCESSES.Pipe(duplex=False)
    process = PROCESSES.Process(target=count_places, args=(reading, faults, sent))
    process.start()
    sent.close()
    process.join()

    assert process.exitcode == 0, faults.read_text()
    assert counted.recv() >= 5  # places that were interrupted
