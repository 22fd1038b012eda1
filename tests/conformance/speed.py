"""How many decisions a second the model and the real scheduler make: python -m tests.conformance.speed.

Both decide the same random cases, one after the other on one core, and what is counted is processor time: of
the model with the reading of each cluster, of the scheduler with the filling of its caches.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from tests.conformance.decide import decide
from tests.conformance.generator.cases import ALWAYS_COMPARED, make_case
from tests.conformance.oracle import build

Case = dict[str, Any]


def model_seconds(cases: Sequence[Case]) -> float:
    """Processor time of the model, in seconds."""
    begun = time.process_time()
    for case in cases:
        decide(case)
    return time.process_time() - begun


def oracle_seconds(program: Path, cases: Sequence[Case]) -> float:
    """Processor time of the real scheduler, in seconds."""
    begun = _of_children()
    subprocess.run(
        [program, "--parallel", "1"],
        input=b"".join(msgspec.json.encode(case) + b"\n" for case in cases),
        stdout=subprocess.DEVNULL,
        env={**os.environ, "GOMAXPROCS": "1"},
        check=True,
    )
    return _of_children() - begun


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def cases_of(family: str, minor: str, seed: int, count: int) -> list[Case]:
    """Cases of a family that the scheduler does not refuse to start with."""
    made = [make_case(seed, family, number) | {"version": minor} for number in range(count)]
    return [case for case in made if _starts(case)]


def _starts(case: Case) -> bool:
    try:
        decide(case)
    except ValueError:
        return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--minor", default="1.35")
    parser.add_argument("--cases", type=int, default=20, help="of each family (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    program = build.program(options.minor)
    sums = [0.0, 0.0, 0.0]
    sys.stdout.write(f"{'family':14}{'decisions':>10}{'model':>10}{'scheduler':>11}\n")
    for family in ALWAYS_COMPARED:
        cases = cases_of(family, options.minor, options.seed, options.cases)
        pods = sum(len(case["pending"]) for case in cases)
        measured = pods, model_seconds(cases), oracle_seconds(program, cases)
        sums = [total + value for total, value in zip(sums, measured, strict=True)]
        sys.stdout.write(_row(family, *measured))
    sys.stdout.write(_row("all", *sums))


def _row(name: str, decisions: float, ours: float, theirs: float) -> str:
    return f"{name:14}{decisions:10.0f}{decisions / ours:8.0f}/s{decisions / theirs:9.0f}/s\n"


if __name__ == "__main__":
    main()
