"""Compares the model with the real scheduler of a minor on random clusters that nobody has chosen.

``python -m tests.conformance.differential --minor 1.35 --cases 100 --seed 7`` decides that many cases of
every family twice, prints how many decisions are equal, and keeps a minimal case of every kind of difference.
With ``--against 1.34`` two real schedulers are compared: what a rule must say by minor. ``--gates A=true``
gives both sides feature gates, as on kube-scheduler's command line.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rebalancer.scheduling.versions.verified import VERIFIED
from tests import go_programs
from tests.conformance.comparison import CHOSEN, TOTAL, Difference, compare
from tests.conformance.decide import decide
from tests.conformance.generator.cases import ALWAYS_COMPARED, FAMILIES, make_case
from tests.conformance.generator.versions import as_known_to, families_of
from tests.conformance.oracle import build
from tests.conformance.oracle.process import Oracle
from tests.conformance.rates import Rates, write_table
from tests.conformance.shrinking import shrink

BATCH = 50
MAX_FAILURES_SHOWN = 10
Case = dict[str, Any]
Answer = dict[str, Any]
# Answers to cases in their order; an exception in place of one that cannot be given.
Decider = Callable[[list[Case]], Iterator[Answer | Exception]]
Signature = tuple[str, str]


@dataclass
class Findings:
    """What a run found: rates by family, and by kind of difference how often and an example."""

    rates: Rates = field(default_factory=dict)
    occurrences: Counter[Signature] = field(default_factory=Counter)
    examples: dict[Signature, Case] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    unsteady: list[str] = field(
        default_factory=list
    )  # cases the scheduler decided otherwise when asked again

    @property
    def differ(self) -> bool:
        """Whether any decision differs, or any case could not be decided by one of the two."""
        return bool(self.occurrences or self.failures)


def main(arguments: list[str] | None = None) -> int:
    """Run the comparison; 1 when something differs, 2 when it could not be made."""
    options = _parser().parse_args(arguments)
    minors = VERIFIED if options.minor == "all" else (options.minor,)
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    sys.stdout.write(f"seed {seed}\n")
    families = ALWAYS_COMPARED if options.family == "all" else (options.family,)
    different = False
    try:
        for minor in minors:
            asked_for = Comparing(minor, seed, options.cases, families, options.gates, options.against)
            findings = compare_minor(asked_for, Path(options.keep) if options.keep else None)
            different |= findings.differ
            if options.table or options.add_to_table:
                write_table(minor, findings.rates, seed, options.cases, add=options.add_to_table)
    except (go_programs.BuildError, EOFError) as error:
        sys.stderr.write(f"conformance: {error}\n")
        return 2
    return int(different)


@dataclass(frozen=True)
class Comparing:
    """What is compared: the cases of a seed, decided by the scheduler of a minor and by the model."""

    minor: str
    seed: int
    cases: int  # of each family
    families: tuple[str, ...] = ALWAYS_COMPARED
    gates: str = ""  # A=true,B=false
    against: str = ""  # a minor whose scheduler decides instead of the model


def compare_minor(asked_for: Comparing, keep: Path | None = None) -> Findings:
    """Compare, report, and keep minimal cases of what differs. Raises BuildError."""
    flags = [f"--feature-gates={asked_for.gates}"] if asked_for.gates else []
    with ExitStack() as programs:
        real = asked(programs.enter_context(Oracle(build.program(asked_for.minor), *flags)))
        other: Decider = model
        if asked_for.against:
            other = asked(programs.enter_context(Oracle(build.program(asked_for.against), *flags)))
        findings = find_differences(real, other, _cases(asked_for))
        _report(asked_for.minor, findings)
        if keep is not None:
            _keep(real, other, asked_for.minor, findings, keep)
    return findings


def asked(oracle: Oracle) -> Decider:
    """The answers of a real scheduler."""

    def answers(cases: list[Case]) -> Iterator[Answer | Exception]:
        for answer in oracle.answers(cases):
            yield answer if "pods" in answer else ValueError(f"oracle: {answer.get('error')}")

    return answers


def model(cases: list[Case]) -> Iterator[Answer | Exception]:
    """The answers of our model."""
    for case in cases:
        try:
            yield decide(case)
        except Exception as error:  # noqa: BLE001 - a case that fails is a finding, the others go on
            yield error


def find_differences(real: Decider, other: Decider, cases: Iterable[Case]) -> Findings:
    """Decide every case twice and compare."""
    findings = Findings()
    for batch in _batches(cases):
        answers = list(real(batch))  # all of them are read before a case is asked about again
        for case, right, ours in zip(batch, answers, other(batch), strict=True):
            if isinstance(right, Exception) or isinstance(ours, Exception):
                if not (isinstance(right, Exception) and isinstance(ours, Exception)):
                    wrong = right if isinstance(right, Exception) else ours
                    findings.failures.append(f"{case['id']}: {type(wrong).__name__}: {str(wrong)[:200]}")
                continue
            result = compare(right, ours)
            if result.differences:
                # On a busy machine the caches of the scheduler's plugins may lag behind its informers.
                again = next(real([case]))
                if not isinstance(again, Exception) and (second := compare(again, ours)) != result:
                    findings.unsteady.append(case["id"])
                    result = second
            compared, equal = findings.rates.get(case["family"], (0, 0))
            findings.rates[case["family"]] = (compared + result.compared, equal + result.equal)
            for _, signature in sorted({(d.pod, d.signature) for d in _causes(result.differences)}):
                findings.occurrences[signature] += 1
                findings.examples.setdefault(signature, case)
    return findings


def minimal_case(real: Decider, other: Decider, case: Case, signature: Signature) -> Case:
    """The smallest case found that shows a difference of this kind."""
    return shrink(
        case, lambda candidate: signature in {found.signature for found in _found(real, other, candidate)}
    )


def _found(real: Decider, other: Decider, case: Case) -> list[Difference]:
    """What differs in a case; nothing where one of the two has no answer."""
    right, ours = next(real([case])), next(other([case]))
    if isinstance(right, Exception) or isinstance(ours, Exception):
        return []
    return _causes(compare(right, ours).differences)


def _causes(differences: Iterable[Difference]) -> list[Difference]:
    """Totals and choices follow from scores and filters; they are causes only where nothing else differs."""
    found = list(differences)
    causes = [difference for difference in found if difference.kind not in (TOTAL, CHOSEN)]
    return causes or found


def _cases(asked_for: Comparing) -> Iterator[Case]:
    gates = {name: text == "true" for name, text in parse_gates(asked_for.gates)}
    known = {"version": asked_for.minor, "featureGates": gates}
    minor = int(asked_for.minor.split(".")[1])
    return (
        as_known_to(minor, make_case(asked_for.seed, name, number)) | known
        for name in families_of(minor, asked_for.families)
        for number in range(asked_for.cases)
    )


def _batches(cases: Iterable[Case]) -> Iterator[list[Case]]:
    batch: list[Case] = []
    for case in cases:
        batch.append(case)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _report(minor: str, findings: Findings) -> None:
    for family, (compared, equal) in findings.rates.items():
        sys.stdout.write(f"{minor} {family:14}{equal:6} of {compared:6}\n")
    compared, equal = (sum(rate[index] for rate in findings.rates.values()) for index in (0, 1))
    sys.stdout.write(f"{minor} {'all':14}{equal:6} of {compared:6}\n")
    for (kind, plugin), count in findings.occurrences.most_common():
        sys.stdout.write(f"  {count:6} {kind} {plugin} ({findings.examples[kind, plugin]['id']})\n")
    if findings.unsteady:
        sys.stdout.write(f"  decided otherwise when asked again: {', '.join(findings.unsteady)}\n")
    for failure in findings.failures[:MAX_FAILURES_SHOWN]:
        sys.stdout.write(f"  failed: {failure}\n")
    sys.stdout.flush()


def _keep(real: Decider, other: Decider, minor: str, findings: Findings, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for (kind, plugin), case in findings.examples.items():
        smallest = minimal_case(real, other, case, (kind, plugin))
        path = folder / f"{minor}-{kind}-{''.join(filter(str.isalnum, plugin)) or 'any'}.json"
        shown = smallest | {
            "differences": [str(difference) for difference in _found(real, other, smallest)],
            "expected": next(real([smallest])),
        }
        path.write_text(json.dumps(shown, indent=1) + "\n")
        sys.stdout.write(f"  kept {path}\n")


def parse_gates(text: str) -> list[tuple[str, str]]:
    """``A=true,B=false`` as pairs."""
    pairs = (item.partition("=") for item in text.split(",") if item)
    return [(name, value) for name, _, value in pairs]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="conformance", description=__doc__)
    parser.add_argument("--minor", default="1.35", help="a minor, or all (default: %(default)s)")
    parser.add_argument("--cases", type=int, default=100, help="cases a family (default: %(default)s)")
    parser.add_argument("--seed", type=int, help="another one each time unless given")
    parser.add_argument("--family", default="all", choices=["all", *FAMILIES])
    parser.add_argument(
        "--against", default="", metavar="MINOR", help="the real scheduler of this minor instead of the model"
    )
    parser.add_argument("--gates", default="", metavar="A=true,B=false", help="feature gates of both sides")
    parser.add_argument("--keep", metavar="FOLDER", help="write a minimal case of every kind of difference")
    parser.add_argument("--table", action="store_true", help="write the rates to RESULTS.md beside this")
    parser.add_argument("--add-to-table", action="store_true", help="add them to those that stand there")
    return parser


if __name__ == "__main__":
    sys.exit(main())
