"""Which control plane the end-to-end suite of CI runs on: 1.34 and 1.36 by turns.

From 1.35 on the scheduler knows its nodes in no order, which a suite on 1.34 alone would never see.

    python -m tests.ci.e2e_minor --commit $(git rev-parse HEAD)            1.36
    python -m tests.ci.e2e_minor --commit $(git rev-parse HEAD) --other    1.34

A cold build takes a quarter of an hour, so where one of them is built it is that one; the other is built at
the end of a run that has time.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence

MINORS = ("1.34", "1.36")


def minor_of(commit: str, built: Sequence[str]) -> str:
    """The minor for a commit, in hexadecimal: by turns of those that are built; of all where none is."""
    candidates = [minor for minor in MINORS if minor in built] or MINORS
    return candidates[int(commit or "0", 16) % len(candidates)]


def _is_built(minor: str) -> bool:
    command = [sys.executable, "-m", "tests.e2e.assets", "--only-find"]
    environment = {**os.environ, "REBALANCER_E2E_MINOR": minor}
    return subprocess.run(command, env=environment, check=False).returncode == 0


def main(arguments: list[str] | None = None) -> None:
    """Print the minor."""
    parser = argparse.ArgumentParser(prog="e2e-minor", description=__doc__)
    parser.add_argument("--commit", default="", help="hexadecimal; decides whose turn it is")
    parser.add_argument("--other", action="store_true", help="the one whose turn it is not")
    options = parser.parse_args(arguments)
    chosen = minor_of(options.commit, [minor for minor in MINORS if _is_built(minor)])
    if options.other:
        chosen = next(minor for minor in MINORS if minor != chosen)
    sys.stdout.write(f"{chosen}\n")


if __name__ == "__main__":
    main()
