"""Sequences of equal pods on equal nodes against the real scheduler: python -m tests.conformance.ties.

Two to twelve equal pods are placed one after the other on random clusters of 5 to 99 nodes, of which many are
equal to the scheduler, from some of its start indices. What is shown for each minor:

* how many sequences are what the model predicts from just that start, to the last pod;
* how many others are a race: each pod went to one of the nodes that were best where it came;
* how many are outside, with a pod on a node that was not;
* on how many nodes there was more than the model says there may be at most.

Up to 1.34 each pod is drawn for itself, so that every sequence among the best nodes is a predicted one.
``--record`` writes the cases and the sequences, and ``--replay`` compares what was recorded.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rebalancer.planning.landing.scenarios import MAX_SCENARIOS, Scenarios
from rebalancer.scheduling.state.cluster_state import ClusterState
from rebalancer.scheduling.state.nodes import Registered
from tests.conformance.decide import release_of, schedulers_of, snapshot_of
from tests.conformance.oracle import build
from tests.conformance.oracle.process import Oracle
from tests.conformance.recorded import DATA

MINORS = ("1.34", "1.35", "1.36", "1.37")
LAST_MINOR_THAT_DRAWS = 34
ZONE = "topology.kubernetes.io/zone"
CASES, SEQUENCES = DATA / "ties.cases.jsonl.gz", DATA / "ties.sequences.jsonl.gz"
_STARTS = 4  # of each cluster
_UNBOUNDED = 1 << 30

Object = dict[str, Any]


def tied_cluster(seed: int) -> Object:
    """A case with two to twelve equal pods to place, and several nodes that are equally good."""
    chance = random.Random(seed)
    count = chance.randrange(5, 100)
    kinds = chance.choice([1, 1, 2, 3])  # loads that differ, of which the least is best
    zones = chance.choice([0, 0, 2, 3])
    closed = chance.choice([0.0, 0.1, 0.3])
    cores = chance.choice([8, 16, 64])
    nodes, pods = [], []
    for index in range(count):
        name = f"n-{index:02}"
        nodes.append(
            _node(name, cores, zones and chance.choice("abc"[:zones]), closed=chance.random() < closed)
        )
        pods.append(_pod(f"r-{index}", 1000 * chance.randrange(1, kinds + 1), name))
    nodes[0]["spec"]["taints"] = []  # at least one is open
    milli = chance.choice([10, 50, 200, 500, 1000])
    pending = [_pod(f"q-{number}", milli) for number in range(chance.randrange(2, 13))]
    config = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    objects = {"nodes": nodes, "pods": pods}
    starts = chance.sample(range(count), min(_STARTS, count))
    case = {"id": f"t{seed}", "config": json.dumps(config), "objects": objects, "pending": pending}
    return case | {"searches": {"sequence": True, "starts": starts}}


def _node(name: str, cores: int, zone: str | int, *, closed: bool) -> Object:
    amounts = {"cpu": str(cores), "memory": f"{4 * cores}Gi", "pods": "110"}
    taints = [{"key": "k", "value": "v", "effect": "NoSchedule"}] if closed else []
    labels = {"kubernetes.io/hostname": name} | ({ZONE: zone} if zone else {})
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def _pod(name: str, milli: int, node: str = "") -> Object:
    requests = {"cpu": f"{milli}m", "memory": f"{milli // 10 * 32}Mi"}
    container = {"name": "c", "image": "i", "resources": {"requests": requests}}
    spec: Object = {"schedulerName": "default-scheduler", "containers": [container], "priority": 0}
    return {
        "metadata": {"name": name, "namespace": "default", "labels": {"app": name[:1]}},
        "spec": spec | ({"nodeName": node} if node else {}),
        "status": {"phase": "Running" if node else "Pending"},
    }


class TiedCase:
    """A case as the model has it."""

    def __init__(self, case: Object, minor: str) -> None:
        self._case = case | {"version": minor}
        self._snapshot = snapshot_of(case)
        (self._scheduler,) = schedulers_of(case, self._snapshot).values()
        self.names = self._snapshot.nodes.names
        self._rows = [
            self._snapshot.pods.row["default", item["metadata"]["name"]] for item in case["pending"]
        ]
        self.draws = int(minor.split(".")[1]) <= LAST_MINOR_THAT_DRAWS

    def _state(self) -> ClusterState:
        listed = [str(item["metadata"]["name"]) for item in self._case["objects"]["nodes"]]
        return ClusterState.of(self._snapshot, release_of(self._case), [Registered(listed)])

    def scenarios(self, start: int | None = None) -> Scenarios:
        """All that may come of the pods, from one start index or from any."""
        nodes = len(self.names)
        # What is counted here is pods: each uses 1 of a node's 100.
        scenarios = Scenarios(
            self._state(),
            np.zeros((nodes, 1)),
            np.random.default_rng(0),
            np.full((nodes, 2), 100.0),
            np.zeros(nodes, np.int64),
        )
        scenarios.max_scenarios = MAX_SCENARIOS if self.draws else _UNBOUNDED
        if start is not None:
            scenarios.all[0].starts = {0: np.array([start])}
        for row in self._rows:
            placements = [self._place(item.after_termination, row) for item in scenarios.all]
            scenarios.place_pending(row, placements, np.ones(1))
        return scenarios

    def landings(self, start: int) -> list[list[int]]:
        """In each scenario that may come of one start index the row of each pod's node, -1 for none."""
        states = [item.after_termination for item in self.scenarios(start).all]
        return [[state.node[row] for row in self._rows] for state in states]

    def _place(self, state: ClusterState, row: int) -> Any:
        state.forget_bound()
        return self._scheduler.place(state, state.pod_class[row], row)

    def best_at_each_step(self, sequence: Sequence[str]) -> list[bool]:
        """Whether each pod of a sequence went to one of the nodes that could be chosen where it came."""
        state, found = self._state(), []
        for row, name in zip(self._rows, sequence, strict=True):
            placement = self._place(state, row)
            node = self._snapshot.nodes.row.get(name, -1)
            best = placement.feasible[placement.chance > 0].tolist()
            found.append(node in best if name else not best)
            if name:
                state.bind(row, node)
        return found

    def rows(self, sequence: Sequence[str]) -> list[int]:
        """The rows of the nodes of a sequence."""
        return [self._snapshot.nodes.row.get(name, -1) for name in sequence]


@dataclass
class Sequences:
    """What the sequences of one minor were."""

    total: int = 0
    from_start: int = 0  # just as predicted from the start that the scheduler had
    raced: int = 0
    outside: list[str] = field(default_factory=list)
    pods: int = 0

    def add(self, case: Object, minor: str, sequences: Sequence[Sequence[str]]) -> None:
        """Count the sequences of a case, one for each of its starts."""
        model = TiedCase(case, minor)
        for start, sequence in zip(case["searches"]["starts"], sequences, strict=True):
            self.total += 1
            self.pods += len(sequence)
            where = f"{minor} {case['id']} from {start}: {' '.join(sequence)}"
            rows = model.rows(sequence)
            among_best = all(model.best_at_each_step(sequence))
            predicted = not model.draws and model.landings(start) == [rows]
            self.from_start += predicted
            if not among_best:
                self.outside.append(where)
            elif not predicted and not model.draws:
                self.raced += 1

    def line(self, minor: str) -> str:
        """What was found."""
        drawn = "drawn" if int(minor.split(".")[1]) <= LAST_MINOR_THAT_DRAWS else f"{self.raced} raced"
        return (
            f"{minor}: {self.total} sequences of {self.pods} pods; {self.from_start} as predicted from their "
            f"start, {drawn}, {len(self.outside)} outside"
        )


def recorded(one_of: int) -> Iterator[tuple[Object, str, list[list[str]]]]:
    """Case, minor and sequences of one of so many recorded clusters."""
    cases = {case["id"]: case for number, case in enumerate(_lines(CASES)) if number % one_of == 0}
    for line in _lines(SEQUENCES):
        if line["id"] in cases:
            yield cases[line["id"]], line["minor"], line["sequences"]


def _lines(path: Path) -> Iterator[Object]:
    with gzip.open(path, "rt") as lines:
        for line in lines:
            yield json.loads(line)


def _write(path: Path, lines: Iterable[Object]) -> None:
    with path.open("wb") as file, gzip.GzipFile(fileobj=file, mode="wb", mtime=0, filename="") as packed:
        for line in lines:
            packed.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--minor", nargs="*", default=list(MINORS))
    parser.add_argument("--clusters", type=int, default=250)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--record", action="store_true", help="keep the cases and sequences for the tests")
    parser.add_argument("--replay", action="store_true", help="compare what was recorded, without Go")
    options = parser.parse_args()
    if options.replay:
        replayed = {minor: Sequences() for minor in options.minor}
        for case, minor, seen in recorded(1):
            if minor in replayed:
                replayed[minor].add(case, minor, seen)
        sys.stdout.writelines(f"{found.line(minor)}\n" for minor, found in replayed.items())
        return any(found.outside for found in replayed.values())
    cases = [tied_cluster(options.seed + number) for number in range(options.clusters)]
    kept: list[Object] = []
    failed = False
    for minor in options.minor:
        found = Sequences()
        with Oracle(build.program(minor), "--parallel", "1") as oracle:
            for case, answer in zip(cases, oracle.answers(cases), strict=True):
                if "error" in answer:
                    raise SystemExit(f"{minor} {case['id']}: {answer['error']}")
                found.add(case, minor, answer["sequences"])
                kept.append({"id": case["id"], "minor": minor, "sequences": answer["sequences"]})
        sys.stdout.write(f"{found.line(minor)}\n")
        sys.stdout.writelines(f"    {line}\n" for line in found.outside[:5])
        sys.stdout.flush()
        failed |= bool(found.outside)
    if options.record:
        _write(CASES, cases)
        _write(SEQUENCES, kept)
    return failed


if __name__ == "__main__":
    sys.exit(main())
