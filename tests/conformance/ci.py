"""The comparison that CI makes: some thousand decisions a minor, on clusters nobody has seen before.

Oracles that are in the cache always run. Of those that are not, one is built: which one rotates with the
commit, so that an empty cache costs one build and a kept one has all of them after some commits. A build
takes minutes, so with ``--only-built`` one is built only where there is none.

    python -m tests.conformance.ci --commit $(git rev-parse HEAD)

The seed is another one each time, and printed first; ``make conformance MINOR=… SEED=… CASES=…`` repeats it.
What differs is printed as a minimal case, which belongs into ``tests/conformance/cases``.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rebalancer.scheduling.versions.verified import VERIFIED
from tests import go_programs
from tests.conformance.differential import Comparing, Findings, compare_minor
from tests.conformance.oracle import build

CASES = 60


def minors_of(
    commit: str, built: Sequence[str], minors: Sequence[str] = VERIFIED, *, only_built: bool = False
) -> list[str]:
    """The minors that run: those that are built, and one more of the others, by the commit.

    ``only_built``: that one only where none is built.
    """
    missing = [minor for minor in minors if minor not in built and not (only_built and built)]
    chosen = missing[int(commit or "0", 16) % len(missing)] if missing else ""
    return [minor for minor in minors if minor in built or minor == chosen]


def main(arguments: list[str] | None = None) -> int:
    """Compare; 1 when a decision differs, 2 when an oracle cannot be built."""
    parser = argparse.ArgumentParser(prog="conformance-ci", description=__doc__)
    parser.add_argument("--commit", default="", help="hexadecimal; decides which missing oracle is built")
    parser.add_argument("--only-built", action="store_true", help="build an oracle only where there is none")
    parser.add_argument("--cases", type=int, default=CASES, help="cases a family (default: %(default)s)")
    parser.add_argument("--seed", type=int, help="another one each time unless given")
    options = parser.parse_args(arguments)
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    sys.stdout.write(f"conformance: seed {seed}, {options.cases} cases a family\n")
    built = [minor for minor in VERIFIED if build.place_of(minor).exists()]
    results: dict[str, Findings] = {}
    try:
        with tempfile.TemporaryDirectory() as folder:
            for minor in minors_of(options.commit, built, only_built=options.only_built):
                found = compare_minor(Comparing(minor, seed, options.cases), Path(folder))
                results[minor] = found
                for path in sorted(Path(folder).glob(f"{minor}-*.json")):
                    sys.stdout.write(f"minimal case {path.name}:\n{path.read_text()}")
    except (go_programs.BuildError, EOFError) as error:
        sys.stderr.write(f"conformance: {error}\n")
        return 2
    for minor, found in results.items():
        compared, equal = (sum(rate[index] for rate in found.rates.values()) for index in (0, 1))
        failed = f", {len(found.failures)} cases failed" if found.failures else ""
        sys.stdout.write(
            f"conformance: {minor}: {equal} of {compared} decisions are equal{failed} (seed {seed})\n"
        )
    return int(any(found.differ for found in results.values()))


if __name__ == "__main__":
    sys.exit(main())
