"""What one placement costs, ours beside the real kube-scheduler's own code, in processor time.

    python -m bench.beside_scheduler [--minor 1.36] [--nodes 20 60 1000 5000] [--kinds plain constrained]

Both place the same pods on the clusters of ``bench.placement``, one after the other, each counted on its node
for those after it. The scheduler's time is that of ``SchedulePod``: a scheduling cycle up to the node that it
suggests, by the oracle of the conformance suite (built once with Go), on one processor. Ours is that of
``Scheduler.place``, which finds every node that the pod may land on, with its chance; each pod is then bound
where the scheduler put it. The first placement of each workload is not counted, and of several rounds the one
with the least mean counts.

``predicted`` is how many of the scheduler's nodes were among ours.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from bench.measuring import machine
from bench.placement import CONFIGURATION, CONSTRAINED_WORKLOADS, PODS_A_WORKLOAD, a_workload, objects_of
from rebalancer.scheduling.state.cluster_state import ClusterState
from rebalancer.scheduling.state.nodes import Registered
from tests.conformance.decide import Case, release_of, schedulers_of, snapshot_of
from tests.conformance.oracle import build

KINDS = ("plain", "constrained")
NODES = (20, 60, 1000, 5000)
MOST_WORKLOADS = 60
MOST_PLACEMENTS = 240
MOST_REPLICAS = 20  # that are pending, of one workload: constrained ones take a node each
_HEADINGS = ("pods", "nodes", "placed", "ours µs", "theirs µs", "ratio", "predicted")
_WIDTHS = (11, 6, 7, 9, 10, 7, 10)


@dataclass(frozen=True)
class Theirs:
    """What the scheduler made of a case: the node of each pod, and the mean of its best round."""

    nodes: list[str]  # "" where a pod fitted nowhere
    microseconds: float


@dataclass(frozen=True)
class Ours:
    """What the model made of it: how many of those nodes it named, and the mean of its best round."""

    predicted: int
    microseconds: float


def a_case(nodes: int, constrained: bool, minor: str) -> tuple[Case, int]:
    """A cluster as a conformance case, and the number of workloads whose pods are pending, in turn."""
    objects = objects_of(nodes, constrained)
    indices = range(len(objects["replicasets"]))
    if constrained:
        indices = range(1, len(objects["replicasets"]), CONSTRAINED_WORKLOADS)
    chosen = indices[:MOST_WORKLOADS]
    replicas = min(MOST_PLACEMENTS // len(chosen), MOST_REPLICAS)
    pending = [_pending(index, replica, constrained) for replica in range(replicas) for index in chosen]
    case = {
        "id": f"{nodes}-nodes",
        "version": minor,
        "config": CONFIGURATION,
        "objects": objects,
        "pending": pending,
    }
    return case, len(chosen)


def _pending(index: int, replica: int, constrained: bool) -> dict[str, Any]:
    """A further pod of a workload, which waits for a node."""
    _, pod = a_workload(index, constrained)
    name = f"pending-{index:05}-{replica:03}"
    metadata = {**pod["metadata"], "name": name, "uid": name}
    return {"metadata": metadata, "spec": pod["spec"], "status": {"phase": "Pending"}}


def theirs_of(program: Path, case: Case, first: int, rounds: int) -> Theirs:
    """The scheduler's searches, one after the other; the ``first`` of a round do not count."""
    searches = {"sequence": True, "timed": True, "starts": [0], "repeats": rounds}
    answered = subprocess.run(
        [program, "--parallel", "1"],
        input=msgspec.json.encode({**case, "searches": searches}) + b"\n",
        stdout=subprocess.PIPE,
        env={**os.environ, "GOMAXPROCS": "1"},
        check=True,
    )
    answer = msgspec.json.decode(answered.stdout)
    if "error" in answer:
        raise SystemExit(f"oracle: {answer['error']}")
    means: list[float] = []
    for microseconds in answer["microseconds"]:
        counted = microseconds[first:]
        means.append(sum(counted) / len(counted))
    return Theirs(answer["sequences"][0], min(means))


def ours_of(case: Case, nodes: Sequence[str], first: int, rounds: int) -> Ours:
    """The placements of these pods, each bound to its one of ``nodes``; the ``first`` do not count."""
    snapshot = snapshot_of(case)
    registered = Registered([node["metadata"]["name"] for node in case["objects"]["nodes"]])
    means: list[float] = []
    predicted = 0
    for _ in range(rounds):
        # Both are new in each round, so that no placement can be known from the round before.
        (scheduler,) = schedulers_of(case, snapshot).values()
        state = ClusterState.of(snapshot, release_of(case), [registered])
        seconds: list[float] = []
        predicted = 0
        for pending, name in zip(case["pending"], nodes, strict=True):
            pod = snapshot.pods.row["default", pending["metadata"]["name"]]
            began = time.process_time()
            placement = scheduler.place(state, state.pod_class[pod], pod)
            seconds.append(time.process_time() - began)
            if name:
                node = snapshot.nodes.row[name]
                predicted += node in placement.feasible[placement.chance > 0]
                state.bind(pod, node)
        counted = seconds[first:]
        means.append(1e6 * sum(counted) / len(counted))
    return Ours(predicted, min(means))


def _row(cells: Sequence[str]) -> str:
    return "".join(cell.rjust(width) for cell, width in zip(cells, _WIDTHS, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minor", default="1.36")
    parser.add_argument("--nodes", type=int, nargs="+", default=NODES)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    program = build.program(arguments.minor)
    print(f"{machine()}; scheduler {arguments.minor}; load {os.getloadavg()[0]:.0f}")
    print(_row(_HEADINGS))
    for kind in arguments.kinds:
        constrained = kind == "constrained"
        for nodes in arguments.nodes:
            if constrained and nodes <= PODS_A_WORKLOAD:
                continue  # each of its nodes has a pod of the workload already
            case, first = a_case(nodes, constrained, arguments.minor)
            theirs = theirs_of(program, case, first, arguments.rounds)
            ours = ours_of(case, theirs.nodes, first, arguments.rounds)
            placed = sum(map(bool, theirs.nodes))
            cells = (
                kind,
                f"{nodes}",
                f"{placed}",
                f"{ours.microseconds:.0f}",
                f"{theirs.microseconds:.0f}",
                f"{ours.microseconds / theirs.microseconds:.2f}",
                f"{ours.predicted}/{placed}",
            )
            print(_row(cells), flush=True)


if __name__ == "__main__":
    main()
