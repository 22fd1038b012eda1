"""Compares whom we would evict with whom the real descheduler evicts, on random clusters.

``python -m tests.conformance.descheduler.differential --cases 100 --seed 7`` makes that many cases of every
plugin, imports their policies, and prints how many candidates are the same and why others are not. What
differs and has no documented reason fails. ``--record`` keeps cases and answers for ``make test``.
"""

from __future__ import annotations

import argparse
import copy
import random
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from rebalancer.planning.strategies import STRATEGIES
from tests import go_programs
from tests.conformance.descheduler import build, recorded
from tests.conformance.descheduler.candidates import Asked
from tests.conformance.descheduler.deviations import Compared, deviation
from tests.conformance.descheduler.generator import PLUGINS, make_case
from tests.conformance.oracle.process import Oracle

Case = dict[str, Any]
MAX_SHOWN = 10
ABOUT_NODES = ("LowNodeUtilization",)


class Tally(msgspec.Struct):
    """What a plugin and we chose, over some cases."""

    cases: int = 0
    same: int = 0
    theirs: Counter[str] = msgspec.field(default_factory=Counter)  # theirs alone, by deviation
    ours: Counter[str] = msgspec.field(default_factory=Counter)
    unexplained: list[str] = msgspec.field(default_factory=list)

    @property
    def of(self) -> int:
        """How many they chose."""
        return self.same + self.theirs.total()


def comparable(plugin: str) -> bool:
    """Whether a strategy of ours takes the place of a plugin."""
    return plugin in ABOUT_NODES or any(plugin in strategy.replaces for strategy in STRATEGIES)


def without_node_fit(case: Case) -> Case:
    """The case with nodeFit off."""
    changed = copy.deepcopy(case)
    changed["policy"]["profiles"][0]["pluginConfig"][0].get("args", {}).pop("nodeFit", None)
    return changed


def answered(oracle: Oracle, cases: Iterable[Case]) -> Iterator[Case]:
    """Cases with whom the descheduler evicts, and whom without nodeFit; those it refuses are left out."""
    found = list(cases)
    answers = list(oracle.answers(found))  # all of them are read before others are asked for
    others = oracle.answers(map(without_node_fit, found))
    for case, answer, other in zip(found, answers, others, strict=True):
        if "error" not in answer:
            pods = sorted({item["pod"] for item in answer["evictions"]})
            plain = sorted({item["pod"] for item in other.get("evictions", ())})
            yield case | {"evictions": pods} | ({} if plain == pods else {"withoutNodeFit": plain})


def compared(case: Case) -> Compared:
    """A case with what both choose."""
    asked, about_nodes = Asked.of(case), case["family"] in ABOUT_NODES
    ours = {name: why for name, why in asked.wishes().items() if asked.refusal(name) is None}
    theirs: list[str] = case["evictions"]
    plain: list[str] = case.get("withoutNodeFit", theirs)
    if about_nodes:
        on = {
            f"{p['metadata']['namespace']}/{p['metadata']['name']}": p["spec"]["nodeName"]
            for p in case["objects"]["pods"]
        }
        ours = {on[name]: why for name, why in ours.items()}
        theirs, plain = [on[name] for name in theirs], [on[name] for name in plain]
    return Compared(asked, frozenset(theirs), ours, frozenset(plain))


def tally(cases: Iterable[Case]) -> dict[str, Tally]:
    """What is the same and what is not, by plugin."""
    found: dict[str, Tally] = {}
    for case in cases:
        result, both = found.setdefault(case["family"], Tally()), compared(case)
        result.cases += 1
        result.same += len(both.theirs & both.ours.keys())
        for theirs, names in (
            (True, both.theirs - both.ours.keys()),
            (False, both.ours.keys() - both.theirs),
        ):
            for name in sorted(names):
                reason = deviation(both, name, theirs=theirs)
                (result.theirs if theirs else result.ours)[reason or "unexplained"] += 1
                if not reason:
                    who = "they alone" if theirs else "we alone"
                    result.unexplained.append(f"{case['id']}: {who}: {name}: {both.ours.get(name, '')}")
    return found


def lines(found: Mapping[str, Tally]) -> Iterator[str]:
    """The tallies as text."""
    for plugin, result in found.items():
        yield f"{plugin}: same candidates {result.same} of {result.of}, in {result.cases} cases"
        for who, counts in (("they alone", result.theirs), ("we alone", result.ours)):
            for name, count in counts.most_common():
                yield f"  {count:5} {who}: {name}"
        yield from (f"  UNEXPLAINED {text}" for text in result.unexplained[:MAX_SHOWN])


def main(arguments: list[str] | None = None) -> int:
    """Run the comparison; 1 when something is not explained, 2 when it could not be made."""
    parser = argparse.ArgumentParser(prog="descheduler", description=__doc__)
    parser.add_argument("--cases", type=int, default=100, help="cases a plugin (default: %(default)s)")
    parser.add_argument("--seed", type=int, help="another one each time unless given")
    parser.add_argument("--plugin", choices=PLUGINS)
    parser.add_argument("--record", action="store_true", help="keep the cases and their answers")
    options = parser.parse_args(arguments)
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    sys.stdout.write(f"seed {seed}\n")
    plugins = (options.plugin,) if options.plugin else PLUGINS
    made = [make_case(seed, plugin, number) for plugin in plugins for number in range(options.cases)]
    try:
        with Oracle(build.program()) as oracle:
            cases = list(answered(oracle, made))
            if options.record:
                tables = answered(oracle, recorded.read("tables"))
                recorded.write("random", cases)
                recorded.write("tables", tables)
    except (go_programs.BuildError, EOFError) as error:
        sys.stderr.write(f"descheduler: {error}\n")
        return 2
    found = tally(case for case in cases if comparable(case["family"]))
    sys.stdout.write("".join(f"{line}\n" for line in lines(found)))
    return int(any(result.unexplained for result in found.values()))


if __name__ == "__main__":
    sys.exit(main())
