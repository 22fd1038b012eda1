"""Clusters placed by what pods use: 60 nodes at 68 %, 15 of them hot, and what one run makes of them.

python -m bench.loaded_clusters [--seeds 101-114]

Each row is a cluster: the hot nodes before and after one run that plans again as runs do, its evictions, pods
that it evicted twice, and processor time. Beside it the fewest evictions that leave at most one node hot, and
that bring all nodes but one to their coolTo, wherever pods land: exact, since only cpu counts.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from bench.random_clusters import inputs_of, no_items, node_item, pod_item, replica_set_item
from bench.requested_clusters import HELD
from rebalancer.cluster.arrays import PodRow
from rebalancer.planning.eviction import why_protected
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.prepared import PreparedInputs, prepare
from rebalancer.policy.schema import RebalancePolicy
from rebalancer_lab.simulation.cycles import SimulationSettings, simulate

NODES, HOT, CORES, MEAN = 60, 15, 16, 68.0
HOT_ABOVE, COOL_TO = 80.0, 65.0
PROTECTED = 0.15
MOST_HOT, MOST_EVICTIONS = 1, 25  # after one run
_VERSION = "1.34"
RULES: dict[str, Any] = {
    "hotNodes": {"forRuns": 1, "any": [{"utilization": {"cpu": HOT_ABOVE}, "coolTo": {"cpu": COOL_TO}}]},
    "evictable": {"minAge": "0s", "protect": []},
    "limits": {"perRun": 50, "perNode": 10, "perNamespace": 50, "perWorkload": "50%"},
    "execution": {"waveSize": 5},
}
"""What of a policy decides which pods may leave."""


@dataclass(frozen=True)
class Workload:
    """Pods that are alike, and the nodes that they are bound to."""

    name: str
    uses: int  # thousandths of a core, as are its requests
    requests: int
    protected: bool
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class Shape:
    """How large a cluster is, and how loaded."""

    nodes: int = NODES
    hot: int = HOT
    mean: float = MEAN  # load of all nodes, in percent


USUAL = Shape()


def _loads(chance: random.Random, shape: Shape) -> dict[str, float]:
    """What each node is to bear, in percent: some are hot, and all of them are at the mean together."""
    hot = [chance.uniform(82.0, 98.0) for _ in range(shape.hot)]
    cool = [chance.uniform(50.0, 72.0) for _ in range(shape.nodes - shape.hot)]
    shift = (shape.mean * shape.nodes - sum(hot) - sum(cool)) / len(cool)
    return {
        f"node-{number:02d}": load for number, load in enumerate([*hot, *(load + shift for load in cool)])
    }


def workloads(seed: int, shape: Shape = USUAL) -> Iterator[Workload]:
    """Workloads that fill the nodes by what they use, whatever they request; always the same for a seed."""
    chance = random.Random(seed)
    room = {
        name: CORES * 10.0 * load for name, load in _loads(chance, shape).items()
    }  # thousandths of a core
    requestable = dict.fromkeys(room, CORES * 970.0)
    number = 0
    while max(room.values()) > 150.0:
        name, replicas = f"app-{number:03d}", chance.choice([1, 2, 2, 3, 3, 4, 6])
        uses = int(min(chance.lognormvariate(6.9, 0.6), 4000.0, max(room.values()) + 50.0))
        request = max(10, int(uses * chance.lognormvariate(-0.4, 0.5)) // 10 * 10)
        nodes: list[str] = []
        for _ in range(replicas):
            fitting = [
                node
                for node in room
                if room[node] > uses - 100.0 and requestable[node] > request and node not in nodes
            ]
            if not fitting:
                break
            node = max(fitting, key=lambda node: (room[node], node))
            room[node] -= uses
            requestable[node] -= request
            nodes.append(node)
        number += 1
        if not nodes:
            if number > 2000:
                break
            continue
        yield Workload(name, uses, request, chance.random() < PROTECTED, tuple(nodes))


def loaded_inputs(seed: int, shape: Shape = USUAL) -> PlanningInputs:
    """What a plan of such a cluster is made from."""
    items = no_items()
    size = 1000 * CORES, 4 * CORES
    items["nodes"] = [node_item(number, size, "") for number in range(shape.nodes)]
    for node in items["nodes"]:
        del node["metadata"]["labels"]["zone"]
    usage: dict[str, tuple[float, float]] = {}
    for workload in workloads(seed, shape):
        name, annotations = workload.name, HELD if workload.protected else {}
        requests = {"cpu": f"{workload.requests}m", "memory": "64Mi"}
        containers = [{"name": "main", "image": "app:v1", "resources": {"requests": requests}}]
        spec = {"schedulerName": "default-scheduler", "containers": containers}
        for number, place in enumerate(workload.nodes):
            pod = f"{name}-{number}"
            row = int(place.removeprefix("node-"))
            items["pods"].append(pod_item(pod, name, row, spec, annotations=annotations))
            usage[pod] = float(workload.uses), 64.0 * 2**20
        items["replicasets"].append(
            replica_set_item(name, len(workload.nodes), spec, annotations=annotations)
        )
    found = inputs_of(items, usage, f"loaded-{seed}", RebalancePolicy.model_validate(RULES))
    return replace(found, schedulers=(replace(found.schedulers[0], version=_VERSION),))


@dataclass(frozen=True)
class OneRun:
    """What a run has made of a cluster."""

    hot: int  # before
    after: int
    evictions: int
    again: int  # pods evicted more than once
    seconds: float  # of processor time
    fewest: int  # evictions that leave no more than MOST_HOT hot
    fewest_cool: int  # that bring all others to their coolTo

    @property
    def meets(self) -> bool:
        """Whether it left few nodes hot with few evictions."""
        return self.after <= MOST_HOT and self.evictions <= MOST_EVICTIONS and not self.again


def one_run(seed: int) -> OneRun:
    """A run on the cluster of a seed, by landings that the model draws."""
    inputs = loaded_inputs(seed)
    prepared = prepare(inputs)
    began = time.process_time()
    run = simulate([("run", inputs)], SimulationSettings(cycles=1, seed=seed)).runs[0]
    seconds = time.process_time() - began
    moved = Counter(move.pod for cycle in run.cycles for move in cycle.moves)
    return OneRun(
        hot=run.cycles[0].hot or 0,
        after=run.after.hot or 0,
        evictions=run.evictions,
        again=sum(count - 1 for count in moved.values()),
        seconds=seconds,
        fewest=fewest_evictions(prepared, HOT_ABOVE),
        fewest_cool=fewest_evictions(prepared, COOL_TO),
    )


def fewest_evictions(prepared: PreparedInputs, level: float) -> int:
    """The fewest that bring all hot nodes but MOST_HOT to so many percent: of each node the largest pods."""
    load, counts = prepared.inputs.load, list[int]()
    for node in prepared.hotness.hot.nonzero()[0].tolist():
        pods = (PodRow(row) for row in prepared.pods.by_node[node].tolist())
        movable = [row for row in pods if why_protected(prepared.eviction, row) is None]
        need = float(load.usage[node, 0]) - level / 100.0 * float(load.allocatable[node, 0])
        count = 0
        for size in sorted(load.pod_usage[movable, 0].tolist(), reverse=True):
            if need <= 0:
                break
            need, count = need - size, count + 1
        counts.append(count)
    return sum(sorted(counts)[: len(counts) - MOST_HOT])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", default="101-114", help="FIRST-LAST")
    first, last = map(int, parser.parse_args().seeds.split("-"))
    print("seed  hot  after  evictions  again  fewest: not hot  cool   seconds")
    found: list[OneRun] = []
    for seed in range(first, last + 1):
        run = one_run(seed)
        found.append(run)
        print(
            f"{seed:4d} {run.hot:4d} {run.after:6d} {run.evictions:10d} {run.again:6d} {run.fewest:16d} "
            f"{run.fewest_cool:5d} {run.seconds:9.1f}{'' if run.meets else '  <'}",
            flush=True,
        )
    few_hot = sum(run.after <= MOST_HOT for run in found)
    few_evictions = sum(run.evictions <= MOST_EVICTIONS for run in found)
    print(
        f"of {len(found)}: at most {MOST_HOT} hot {few_hot}, at most {MOST_EVICTIONS} evictions "
        f"{few_evictions}, both and none again {sum(run.meets for run in found)}; "
        f"{sum(run.evictions for run in found)} evictions in all"
    )


if __name__ == "__main__":
    main()
