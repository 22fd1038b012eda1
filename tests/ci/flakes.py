"""Whether a suite passed when what failed ran once more: ``python -m tests.ci.flakes FIRST.xml SECOND.xml``.

A test that fails and then passes is flaky, and says so with its seed. Where it guards what must never happen
(marked ``safety``: budgets, crashes, faults, brakes, two runs at once) a failure that does not repeat is a
defect seen by luck, and fails the run like one that does:

    first run     second run          landings: FLAKY, passes
    landings  F   landings  .         budgets:  FLAKY, fails
    budgets   F   budgets   .         crashes:  FAILED
    crashes   F   crashes   F
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SEED, SAFETY = "seed", "safety"  # properties of a test in the report


@dataclass(frozen=True)
class Ended:
    """How one test ended."""

    failed: bool
    safety: bool = False
    seeds: tuple[str, ...] = ()


Report = Mapping[str, Ended]
"""By the test's id."""


@dataclass(frozen=True)
class Decision:
    """Whether the suite passed, and the lines that say what was seen."""

    passed: bool
    lines: tuple[str, ...]


def decide(first: Report, second: Report | None) -> Decision:
    """Judge a suite by its first run and by that of what failed in it; None when there was no second."""
    lines, passed = [], bool(first)
    if not first:
        lines.append("FAILED the suite: its first run left no report of any test")
    for test, ended in first.items():
        if not ended.failed:
            continue
        seeds = f" seed {', '.join(ended.seeds)}" if ended.seeds else ""
        again = second.get(test) if second is not None else None
        if again is None:
            lines.append(f"FAILED {test}{seeds}: it was not run again")
            passed = False
        elif again.failed:
            lines.append(f"FAILED {test}{seeds}: twice")
            passed = False
        elif ended.safety:
            lines.append(f"FLAKY {test}{seeds}: a safety test, so this fails the run")
            passed = False
        else:
            lines.append(f"FLAKY {test}{seeds}")
    for test, ended in (second or {}).items():
        if ended.failed and not (test in first and first[test].failed):
            lines.append(f"FAILED {test}: in the second run only")
            passed = False
    return Decision(passed, tuple(lines))


def read_report(path: Path) -> Report:
    """The tests of a report that ``pytest --junitxml`` wrote; none when there is no such file.

    A test that fails and whose teardown fails too is listed twice, and failed.
    """
    found: dict[str, Ended] = {}
    if not path.exists():
        return found
    for case in ET.parse(path).iter("testcase"):
        test = f"{case.get('classname', '')}::{case.get('name', '')}"
        failed = any(case.find(name) is not None for name in ("failure", "error"))
        properties = [(item.get("name"), item.get("value", "")) for item in case.iter("property")]
        seeds = tuple(value for name, value in properties if name == SEED)
        ended = Ended(failed, any(name == SAFETY for name, _ in properties), seeds)
        before = found.get(test)
        found[test] = ended if before is None or not before.failed else before
    return found


def main(arguments: Sequence[str]) -> int:
    """Print the decision on one or two reports; 0 when the suite passed."""
    first = read_report(Path(arguments[0]))
    second = read_report(Path(arguments[1])) if len(arguments) > 1 else None
    decision = decide(first, second)
    for line in decision.lines:
        sys.stdout.write(line + "\n")
    return 0 if decision.passed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
