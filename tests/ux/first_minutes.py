"""The way of a new user, timed: install, a first plan, a first change, a first explanation.

``python -m tests.ux.first_minutes`` installs this clone with pip into a new environment, from the package
registry, and runs in a folder of its own what the first five minutes of the documentation suggest.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from rebalancer.counting import counted

ROOT = Path(__file__).parents[2]
EXAMPLE = f"--from {ROOT}/examples/hot-cluster"
STEPS: Sequence[tuple[str, Sequence[str]]] = (
    ("install", (f"{sys.executable} -m venv venv", f"venv/bin/pip install --quiet {ROOT}")),
    ("first help", ("venv/bin/rebalancer --help",)),
    ("first plan on a recording", (f"venv/bin/rebalancer plan {EXAMPLE}",)),
    (
        "first policy change",
        (
            "venv/bin/rebalancer policy init policy.yaml",
            "sed -i 's/perWorkload: 10%/perWorkload: 25%/' policy.yaml",
            "venv/bin/rebalancer policy validate policy.yaml",
            f"venv/bin/rebalancer plan {EXAMPLE} --policy policy.yaml",
        ),
    ),
    ("first explanation", (f"venv/bin/rebalancer explain node/node-2 {EXAMPLE} --policy policy.yaml",)),
    ("first report", (f"venv/bin/rebalancer plan {EXAMPLE} --policy policy.yaml -o html > report.html",)),
)


def main() -> int:
    """Run every step; print a line for each, and the whole."""
    whole, busy, commands = 0.0, 0.0, 0
    with tempfile.TemporaryDirectory(prefix="rebalancer-first-minutes-") as folder:
        for title, lines in STEPS:
            began, before = time.monotonic(), _processor_seconds()
            for line in lines:
                ended = subprocess.run(
                    ["bash", "-c", line],
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    check=False,
                )
                if ended.returncode:
                    sys.stderr.write(f"{line}\n{ended.stderr}")
                    return 1
            seconds, used = time.monotonic() - began, _processor_seconds() - before
            whole, busy, commands = whole + seconds, busy + used, commands + len(lines)
            _write(title, seconds, used, len(lines))
    _write("together", whole, busy, commands)
    return 0


def _processor_seconds() -> float:
    """What the commands so far have used of a processor: what they take where nothing else is at work."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _write(title: str, seconds: float, used: float, commands: int) -> None:
    sys.stdout.write(
        f"{title:<26} {seconds:6.1f} s, {used:5.1f} s of a processor, {counted(commands, 'command')}\n"
    )
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
