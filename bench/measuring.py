"""Measurements, each taken in a process of its own: its time, its processor time and its peak memory."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

ROOT = Path(__file__).parents[1]
REBALANCER = (sys.executable, "-m", "rebalancer")


class Size(msgspec.Struct, frozen=True):
    """A cluster's size."""

    nodes: int
    pods: int


class Measurement(msgspec.Struct, frozen=True, rename="camel"):
    """What one stage cost at one size; the stages without a cluster have no size."""

    stage: str
    size: Size | None
    wall_seconds: float
    user_seconds: float
    system_seconds: float
    peak_bytes: int
    about: dict[str, int] = {}  # what was done: moves planned, pods placed

    @property
    def cpu_seconds(self) -> float:
        """User and system time."""
        return self.user_seconds + self.system_seconds


class Suite(msgspec.Struct, frozen=True, rename="camel"):
    """All measurements of a run, and where they were taken."""

    machine: str
    repeat: int
    results: list[Measurement]


def best(measured: Sequence[Measurement]) -> Measurement:
    """The least of each figure: what else the machine did meanwhile only ever adds."""
    return replace(
        measured[0],
        wall_seconds=min(item.wall_seconds for item in measured),
        user_seconds=min(item.user_seconds for item in measured),
        system_seconds=min(item.system_seconds for item in measured),
        peak_bytes=min(item.peak_bytes for item in measured),
    )


def exponent(before: Measurement, after: Measurement) -> float | None:
    """e in time = c · pods^e between two sizes of a stage; None where it cannot be said."""
    if before.size is None or after.size is None or before.size.pods == after.size.pods:
        return None
    if min(before.cpu_seconds, after.cpu_seconds) <= 0:
        return None
    return math.log(after.cpu_seconds / before.cpu_seconds) / math.log(after.size.pods / before.size.pods)


# A process begins with the peak of the one that started it, and a benchmark may hold a whole cluster. So a
# small one in between starts what is measured. Linux counts its memory in KiB.
_LAUNCHER = """
import json, os, subprocess, sys, time
began = time.perf_counter()
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(process.pid, 0)
figures = time.perf_counter() - began, usage.ru_utime, usage.ru_stime, usage.ru_maxrss << 10
print(json.dumps([os.waitstatus_to_exitcode(status), *figures]))
"""


def of_command(stage: str, size: Size | None, command: Sequence[str]) -> Measurement:
    """A whole program, from its start to its end; its output is dropped."""
    launcher = [sys.executable, "-I", "-S", "-c", _LAUNCHER, *command]
    done = subprocess.run(launcher, capture_output=True, text=True, errors="replace", check=True, cwd=ROOT)
    exit_code, wall, user, system, peak = json.loads(done.stdout)
    if exit_code:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    return Measurement(stage, size, wall, user, system, peak)


def of_stage(stage: str, size: Size, dump: Path, policy: Path) -> Measurement:
    """One stage of a plan: bench.stages does what comes before it first, and measures it alone."""
    command = [sys.executable, "-m", "bench.stages", stage, str(dump), str(policy)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    return Measurement(stage, size, **json.loads(done.stdout))


def machine() -> str:
    """Processor, cores, Python: what figures depend on."""
    model = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    version = ".".join(map(str, sys.version_info[:3]))
    return f"{model}, {len(os.sched_getaffinity(0))} cores, Python {version}"
