"""The samples of the model against the searches of the real scheduler: python -m tests.conformance.samples.

Random clusters on which the scheduler samples are searched from every start, by one worker and by sixteen on
1 to 16 cores. What is shown, for each number of cores: how many searches landed outside the predicted set,
how many nodes that set has on average, the total variation between the predicted chances and what was
observed, and the reliability of the chances: of all nodes predicted with about this chance, how many
searches should have landed there and how many did.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.conformance.decide import decide
from tests.conformance.oracle import build
from tests.conformance.oracle.process import Oracle

PARALLELISM = 16
EDGES = (0.0, 1e-5, 1e-4, 1e-3, 0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
ALONE, AS_HERE, TOGETHER, MIXED = "one worker", "16, this machine", "16 together", "cores unknown"
ZONE = "topology.kubernetes.io/zone"
_HARD, _SOFT = "NoSchedule", "PreferNoSchedule"

Object = dict[str, Any]


def sampled_cluster(seed: int, most_nodes: int) -> Object:
    """A case with one pod to place, where more nodes are feasible than the scheduler looks at."""
    chance = random.Random(seed)
    count = chance.choice([100 + chance.randrange(160), 100 + chance.randrange(most_nodes - 99)])
    distinct = chance.random() < 0.7  # or many nodes alike, so that totals are equal
    nodes, pods = [], []
    for index in range(count):
        nodes.append(_node(chance, index, distinct=distinct))
        for number in range(chance.randrange(4)):
            name = f"r-{index}-{number}"
            pods.append(
                _pod(name, chance.randrange(1, 9) * (113 if distinct else 200), f"n-{index:04}", chance)
            )
    pending = _pod("q", 100 * chance.randrange(1, 6), "", chance)
    pending["spec"]["affinity"] = _affinity(chance)
    if chance.random() < 0.4:
        pending["spec"]["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": chance.choice((ZONE, "kubernetes.io/hostname")),
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"app": pending["metadata"]["labels"]["app"]}},
            }
        ]
    config: Object = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "percentageOfNodesToScore": chance.choice((0, 0, 5, 10, 20, 40)),
    }
    objects = {"nodes": nodes, "pods": pods}
    return {"id": f"s{seed}", "config": json.dumps(config), "objects": objects, "pending": [pending]}


def _node(chance: random.Random, index: int, *, distinct: bool) -> Object:
    cores = chance.choice((4, 8, 16))
    memory = f"{cores * 4096 + (chance.randrange(2000) if distinct else 0)}Mi"
    amounts = {"cpu": str(cores), "memory": memory, "pods": "110"}
    name = f"n-{index:04}"
    draw = chance.random()
    taints = [{"key": "k", "value": "v", "effect": _HARD if draw < 0.1 else _SOFT}] if draw < 0.2 else []
    labels = {
        "kubernetes.io/hostname": name,
        ZONE: chance.choice("abc"),
        "disk": chance.choice(("ssd", "hdd")),
    }
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def _pod(name: str, milli: int, node: str, chance: random.Random) -> Object:
    requests = {"cpu": f"{milli}m", "memory": f"{chance.randrange(1, 20) * 100}Mi"}
    container = {"name": "c", "image": "i", "resources": {"requests": requests}}
    spec: Object = {"schedulerName": "default-scheduler", "containers": [container], "priority": 0}
    return {
        "metadata": {"name": name, "namespace": "default", "labels": {"app": chance.choice("xyz")}},
        "spec": spec | ({"nodeName": node} if node else {}),
        "status": {"phase": "Running" if node else "Pending"},
    }


def _affinity(chance: random.Random) -> Object:
    affinity: Object = {}
    if chance.random() < 0.4:
        term: Object = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
        preference = {"weight": chance.randrange(1, 100), "preference": term}
        affinity["nodeAffinity"] = {"preferredDuringSchedulingIgnoredDuringExecution": [preference]}
    if chance.random() < 0.4:
        term = {
            "topologyKey": chance.choice((ZONE, "kubernetes.io/hostname")),
            "labelSelector": {"matchLabels": {"app": chance.choice("xyz")}},
        }
        preference = {"weight": chance.randrange(1, 100), "podAffinityTerm": term}
        affinity[chance.choice(("podAffinity", "podAntiAffinity"))] = {
            "preferredDuringSchedulingIgnoredDuringExecution": [preference]
        }
    return affinity


@dataclass
class Compared:
    """What a number of searches showed against one prediction."""

    searches: int = 0
    outside: list[str] = field(default_factory=list)
    pods: int = 0
    predicted_nodes: int = 0
    variation: list[float] = field(default_factory=list)
    expected: list[float] = field(default_factory=lambda: [0.0] * (len(EDGES) - 1))
    observed: list[int] = field(default_factory=lambda: [0] * (len(EDGES) - 1))

    def add(self, case: str, predicted: Mapping[str, float], landed: Counter[str]) -> None:
        """Count the landings of one pod."""
        total = landed.total()
        self.searches += total
        self.pods += 1
        self.predicted_nodes += len(predicted)
        self.outside += [
            f"{case}: {count} of {total} on {node}" for node, count in landed.items() if node not in predicted
        ]
        nodes = predicted.keys() | landed.keys()
        self.variation.append(sum(abs(predicted.get(node, 0.0) - landed[node] / total) for node in nodes) / 2)
        for node, probability in predicted.items():
            place = next(index for index, edge in enumerate(EDGES[1:]) if probability <= edge + 1e-12)
            self.expected[place] += probability * total
            self.observed[place] += landed[node]

    def lines(self, name: str) -> Iterator[str]:
        """What was found, in some lines."""
        ordered = sorted(self.variation)
        missed = sum(int(line.split(": ")[1].split()[0]) for line in self.outside)
        yield (
            f"{name}: {self.searches} searches of {self.pods} pods, {missed} outside, "
            f"{self.predicted_nodes / self.pods:.1f} nodes predicted; total variation "
            f"{sum(ordered) / len(ordered):.3f} (90 %: {ordered[int(0.9 * len(ordered))]:.3f}, "
            f"most {ordered[-1]:.3f})"
        )
        for (low, high), expected, observed in zip(
            itertools.pairwise(EDGES), self.expected, self.observed, strict=True
        ):
            if expected or observed:
                yield f"    {low:7.5f} to {high:7.5f}: expected {expected:9.1f}, observed {observed}"
        yield from (f"    outside: {line}" for line in self.outside)


def _modes(cores: list[int]) -> Iterator[tuple[str, Object]]:
    """Name, and what the oracle is asked."""
    yield ALONE, {"workers": 1}
    yield AS_HERE, {"workers": PARALLELISM}
    for count in cores:
        yield f"16 on {count} cores", {"workers": PARALLELISM, "cores": count}
    yield TOGETHER, {"workers": PARALLELISM, "together": True}


def landings_of(case: Object) -> dict[str, float]:
    """The chances of the model, by node."""
    (decision,) = decide({**case, "landings": True})["pods"]
    chances: dict[str, float] = decision["landings"]
    return chances


def compare(
    minor: str, searches: int, seconds: float, seed: int, most_nodes: int, cores: list[int]
) -> dict[str, Compared]:
    """Search clusters until so many searches were made, or so many seconds are over."""
    found: dict[str, Compared] = {}
    made, ends = 0, time.monotonic() + seconds
    with Oracle(build.program(minor), "--parallel", "1") as oracle:
        for number in itertools.count(seed):
            case = sampled_cluster(number, most_nodes) | {"version": minor}
            pooled: Counter[str] = Counter()
            predicted = landings_of(case)
            if len(predicted) < 2:
                continue
            for name, asked in _modes(cores):
                nodes = oracle.answer(case | {"searches": asked})["landings"][0]["nodes"]
                landed = Counter(nodes)
                found.setdefault(name, Compared()).add(f"{name} {case['id']}", predicted, landed)
                if name == ALONE or "cores" in asked:
                    pooled += landed
                made += len(nodes)
            found.setdefault(MIXED, Compared()).add(f"{MIXED} {case['id']}", predicted, pooled)
            if made >= searches or time.monotonic() >= ends:
                return found
    raise AssertionError


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--minor", default="1.35")
    parser.add_argument("--searches", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop after so long")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--nodes", type=int, default=1000, help="the most nodes of a cluster")
    parser.add_argument("--cores", type=int, nargs="*", default=[2, 4, 8, 16])
    options = parser.parse_args()
    found = compare(
        options.minor, options.searches, options.seconds, options.seed, options.nodes, options.cores
    )
    for name, compared in found.items():
        sys.stdout.writelines(f"{line}\n" for line in compared.lines(name))
    sys.exit(any(compared.outside for compared in found.values()))


if __name__ == "__main__":
    main()
