"""Fuzzes all targets, several at once: ``python -m tests.fuzz --seconds 60 --jobs 2 [TARGET ...]``.

Prints executions and findings by target, and fails when there are findings, whose inputs it keeps.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.corpus import begin, grow
from tests.fuzz.targets import ALL
from tests.fuzz.worker import REPORT, TIMEOUT_SECONDS

FINDINGS = Path("fuzz-findings")
_START_SECONDS = 120  # to import everything, on a busy machine


@dataclass(frozen=True)
class Ended:
    """What fuzzing one target came to."""

    name: str
    runs: int
    inputs: int  # that brought something new, seeds included
    findings: dict[str, str] = field(default_factory=dict)


def fuzz(name: str, seconds: float, keep: Path, *, growing: bool = False) -> Ended:
    """Fuzz one target in a process of its own; inputs of findings are copied to ``keep``."""
    with tempfile.TemporaryDirectory() as place:
        folder, corpus = Path(place) / "found", Path(place) / "corpus"
        folder.mkdir()
        begin(ALL[name], corpus)
        words = [sys.executable, "-m", "tests.fuzz.worker", name, str(seconds), str(folder), str(corpus)]
        limit = seconds + TIMEOUT_SECONDS + _START_SECONDS
        try:
            ended = subprocess.run(words, capture_output=True, text=True, check=False, timeout=limit)
            code, output = ended.returncode, ended.stderr
        except subprocess.TimeoutExpired:
            code, output = -1, "did not end"
        report = json.loads((folder / REPORT).read_text()) if (folder / REPORT).exists() else {}
        findings: dict[str, str] = dict(report.get("findings", {}))
        if code != 0:
            last = [line for line in output.splitlines() if line.strip()][-3:]
            findings["process"] = f"ended with {code}: {' | '.join(last)[-500:]}"
        for path in sorted(folder.iterdir()):
            if path.name != REPORT:
                (keep / name).mkdir(parents=True, exist_ok=True)
                shutil.copy(path, keep / name)
        if growing:
            grow(ALL[name], corpus)
        return Ended(name, int(report.get("runs", 0)), len(list(corpus.iterdir())), findings)


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line and fuzz."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", choices=[*ALL, []], metavar="TARGET", help=", ".join(ALL))
    parser.add_argument("--seconds", type=float, default=60.0, help="for each target")
    parser.add_argument("--jobs", type=int, default=1, help="how many targets at once")
    parser.add_argument("--keep", type=Path, default=FINDINGS, help="folder for the inputs of findings")
    parser.add_argument("--grow", action="store_true", help="keep new inputs in tests/fuzz/corpus")
    options = parser.parse_args(arguments)
    found = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        names = options.targets or list(ALL)

        def one(name: str) -> Ended:
            return fuzz(name, options.seconds, options.keep, growing=options.grow)

        for ended in pool.map(one, names):
            count = len(ended.findings)
            found += count
            line = f"fuzz: {ended.name}: {ended.runs} executions, {ended.inputs} inputs, {count} findings"
            sys.stdout.write(line + "\n")
            for place, what in ended.findings.items():
                sys.stdout.write(f"  {place}: {what}\n")
            sys.stdout.flush()
            if ended.runs == 0 and not ended.findings:
                sys.stdout.write("  nothing was run\n")
                found += 1
    if found:
        sys.stdout.write(f"fuzz: {found} findings; their inputs are in {options.keep}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
