"""The descheduler and rebalancer side by side on the same random clusters, the real scheduler placing.

python -m bench.strategies [--clusters 12] [--seeds 7 31] [--minor 1.35] [--write]

For each plugin of the descheduler: random clusters with something to do for it, its policy (the evictor's
arguments are those of the chart), and the same policy imported. Both evict whom they choose; what owns the
pods makes others, which the real kube-scheduler of a minor places; five cycles follow. ``--write`` puts the
table into bench/RESULTS.md and its sum into the README. Needs Go, for the first build of both programs.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from rebalancer.planning.report import build_plan
from rebalancer.planning.search import search
from rebalancer.planning.strategies import strategies_of
from tests.conformance.descheduler import build as descheduler
from tests.conformance.descheduler.candidates import Asked
from tests.conformance.descheduler.deviations import full_name
from tests.conformance.descheduler.generator import PLUGINS, make_case
from tests.conformance.oracle import build as scheduler
from tests.conformance.oracle.process import Oracle

Case = dict[str, Any]
_CYCLES_AFTER = 5
_ROOT = Path(__file__).parents[1]
_PAGE, _README = _ROOT / "bench" / "RESULTS.md", _ROOT / "README.md"
_BEGIN, _END = "<!-- strategies: written by `make quality` -->\n", "<!-- end of strategies -->"
_CONFIGURATION = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
_CHART = {"podProtections": {"defaultDisabled": ["PodsWithLocalStorage"], "extraEnabled": ["PodsWithPVC"]}}
_BY_AGE = ("PodLifeTime", "RemoveFailedPods")  # their aim is met by any new pod, or by none


class Outcome(msgspec.Struct):
    """What came of the evictions of one of the two, over some clusters."""

    evictions: int = 0  # of the first cycle
    better: int = 0  # landed elsewhere, where the rule holds
    no_better: int = 0  # landed elsewhere, and would have to move again
    same_node: int = 0
    pending: int = 0  # or gone for good
    removed: int = 0  # had finished: nothing is to take their place
    left: int = 0  # pods that the rule would still move after the first cycle
    again: int = 0  # evictions of replacements in the next five cycles

    def add(self, other: Outcome) -> None:
        """Count another one beside this."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class World:
    """A cluster that pods are evicted from, with a scheduler that places what is made in their stead."""

    def __init__(self, case: Case, placing: Oracle) -> None:
        self.case, self._placing = copy.deepcopy(case), placing
        self.replacements: set[str] = set()
        self._made = 0

    @property
    def _pods(self) -> list[Case]:
        pods: list[Case] = self.case["objects"]["pods"]
        return pods

    def evict(self, names: list[str]) -> Iterator[tuple[str, str, Case | None]]:
        """Each pod's name, the node it left, and its replacement, if anything makes one."""
        found = {full_name(pod): pod for pod in self._pods}
        gone = [found[name] for name in names if name in found]
        self.case["objects"]["pods"] = [pod for pod in self._pods if not any(pod is item for item in gone)]
        made = [self._replacement(pod) for pod in gone]
        pending = [pod for pod in made if pod is not None]
        objects = {"nodes": [], **self.case["objects"]}
        asked = {"id": "c", "config": _CONFIGURATION, "objects": objects, "pending": pending}
        chosen = (
            {item["pod"]: item.get("chosen") for item in self._placing.answer(asked)["pods"]}
            if pending
            else {}
        )
        for old, new in zip(gone, made, strict=True):
            if new is not None:
                self._bind(new, chosen.get(full_name(new)))
            yield full_name(old), old["spec"]["nodeName"], new

    def _replacement(self, pod: Case) -> Case | None:
        """What the owner makes; nothing for a pod of nobody, or one that has been replaced as it finished."""
        owners = pod["metadata"].get("ownerReferences")
        if pod["status"]["phase"] == "Failed" or not owners:
            return None
        self._made += 1
        made = copy.deepcopy(pod)
        kept = owners[0]["kind"] == "StatefulSet"
        made["metadata"] |= {"uid": f"made-{self._made}", "creationTimestamp": self.case["now"]}
        made["metadata"]["name"] += "" if kept else f"-r{self._made}"
        made["metadata"].pop("deletionTimestamp", None)
        made["spec"].pop("nodeName")
        made["status"] = {"phase": "Pending"}
        return made

    def _bind(self, pod: Case, node: str | None) -> None:
        if node:
            pod["spec"]["nodeName"] = node
            ready = {"type": "Ready", "status": "True", "lastTransitionTime": self.case["now"]}
            pod["status"] = {"phase": "Running", "startTime": self.case["now"], "conditions": [ready]}
        self.replacements.add(pod["metadata"]["uid"])
        self._pods.append(pod)

    def wishes(self) -> dict[str, str]:
        """Whom the rule would move, and whom it could."""
        asked = Asked.of(self.case)
        return {name: why for name, why in asked.wishes().items() if asked.refusal(name) is None}


def theirs(case: Case, oracle: Oracle) -> list[list[str]]:
    """Whom the descheduler evicts, all at once."""
    answer = oracle.answer(case)
    return [list(dict.fromkeys(item["pod"] for item in answer.get("evictions", ())))]


def ours(case: Case) -> list[list[str]]:
    """Whom a plan of the imported policy removes, and whom it moves by wave."""
    prepared = Asked.of(case).prepared
    strategies = strategies_of(prepared)
    plan = build_plan(prepared, search(prepared, strategies), strategies)
    numbers = sorted({move.wave for move in plan.moves})
    removed = [cleanup.pod.full_name for cleanup in plan.cleanups]
    waves = [[move.pod.full_name for move in plan.moves if move.wave == number] for number in numbers]
    return [removed, *waves]


def run(case: Case, placing: Oracle, oracle: Oracle | None) -> Outcome:
    """One cluster: a cycle, what came of it, and five more."""
    world, result = World(case, placing), Outcome()
    aged = case["family"] in _BY_AGE
    landed: list[tuple[str, Case | None]] = []
    finished = {full_name(pod) for pod in case["objects"]["pods"] if pod["status"]["phase"] == "Failed"}
    for wave in ours(world.case) if oracle is None else theirs(world.case, oracle):
        for name, source, made in world.evict(wave):
            result.evictions += 1
            result.removed += name in finished
            if name not in finished:
                landed.append((source, made))
    after = world.wishes()
    result.left = len(after)
    for source, made in landed:
        node = made["spec"].get("nodeName") if made else None
        if made is None or node is None:
            result.pending += 1
        elif node == source and not aged:
            result.same_node += 1
        elif full_name(made) in after:
            result.no_better += 1
        else:
            result.better += 1
    for _ in range(_CYCLES_AFTER):
        waves = ours(world.case) if oracle is None else theirs(world.case, oracle)
        pods = {full_name(pod): pod["metadata"]["uid"] for pod in world.case["objects"]["pods"]}
        for wave in waves:
            result.again += sum(1 for name in wave if pods.get(name) in world.replacements)
            list(world.evict(wave))
    return result


def cluster(seed: int, plugin: str, number: int) -> Case:
    """A random cluster for a plugin, with the evictor of the chart and volumes that any node can mount."""
    case = make_case(seed, plugin, number)
    case["policy"]["profiles"][0]["pluginConfig"][0]["args"] = copy.deepcopy(_CHART)
    kinds = ("replicasets", "statefulsets", "daemonsets")
    specs = [item["spec"]["template"]["spec"] for kind in kinds for item in case["objects"].get(kind, ())]
    for spec in (*specs, *(pod["spec"] for pod in case["objects"]["pods"])):
        for volume in spec.get("volumes", ()):
            if volume.pop("persistentVolumeClaim", None):
                volume["emptyDir"] = {}
    return case


_COLUMNS = ("evictions", "better", "no better", "same node", "Pending", "removed", "left", "again")


def table(found: dict[str, tuple[Outcome, Outcome]], title: str) -> str:
    """The outcomes in Markdown: theirs before the arrow, ours after it."""
    lines = [title, "", f"| plugin | {' | '.join(_COLUMNS)} |", "|---" + "|--:" * len(_COLUMNS) + "|"]
    total = Outcome(), Outcome()
    for pair in found.values():
        for whole, part in zip(total, pair, strict=True):
            whole.add(part)
    for name, (there, here) in {**found, "**all**": total}.items():
        cells = [f"{getattr(there, c)} → {getattr(here, c)}" for c in Outcome.__struct_fields__]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def summary(found: dict[str, tuple[Outcome, Outcome]], clusters: int, minor: str) -> str:
    """The sum in a sentence."""
    there, here = Outcome(), Outcome()
    for first, second in found.values():
        there.add(first)
        here.add(second)

    return (
        f"Over {len(found)} strategies on {clusters * len(found)} random clusters, placed by the real "
        f"kube-scheduler {minor}:\n\n"
        f"* The descheduler made {_spent(there)}.\n"
        f"* rebalancer made {_spent(here)}.\n\n"
        "[By strategy](bench/RESULTS.md#beside-the-descheduler-strategy-by-strategy).\n"
    )


def _spent(outcome: Outcome) -> str:
    """What became of the evictions, after "the tool made"."""
    useless = outcome.no_better + outcome.same_node + outcome.pending
    return (
        f"{outcome.evictions} evictions: {useless} helped nobody, and {outcome.again} pods were evicted again"
    )


def put(page: Path, text: str) -> None:
    """Renew the generated part of a page."""
    before, rest = page.read_text().split(_BEGIN)
    page.write_text(f"{before}{_BEGIN}\n{text}\n{_END}{rest.split(_END)[1]}")


def main() -> int:
    """Measure, print, and write."""
    parser = argparse.ArgumentParser(prog="bench.strategies", description=__doc__)
    parser.add_argument(
        "--clusters", type=int, default=12, help="of each plugin and seed (default: %(default)s)"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[7, 31])
    parser.add_argument("--minor", default="1.35", help="whose scheduler places (default: %(default)s)")
    parser.add_argument("--write", action="store_true", help="renew bench/RESULTS.md and the README")
    options = parser.parse_args()
    found: dict[str, tuple[Outcome, Outcome]] = {}
    with Oracle(scheduler.program(options.minor)) as placing, Oracle(descheduler.program()) as oracle:
        for plugin in PLUGINS:
            there, here = found.setdefault(plugin, (Outcome(), Outcome()))
            for seed, number in itertools.product(options.seeds, range(options.clusters)):
                case = cluster(seed, plugin, number)
                there.add(run(case, placing, oracle))
                here.add(run(case, placing, None))
            sys.stdout.write(f"{plugin}\n  {there}\n  {here}\n")
            sys.stdout.flush()
    clusters = options.clusters * len(options.seeds)
    seeds = " and ".join(map(str, options.seeds))
    title = (
        f"{clusters} random clusters of 3 to 7 nodes a plugin (seeds {seeds}), placed by the real "
        f"kube-scheduler {options.minor}; first the descheduler v0.36.0, then rebalancer with the same "
        "policy imported."
    )
    sys.stdout.write(table(found, title) + summary(found, clusters, options.minor))
    if options.write:
        put(_PAGE, table(found, title))
        put(_README, summary(found, clusters, options.minor))
    return 0


if __name__ == "__main__":
    sys.exit(main())
