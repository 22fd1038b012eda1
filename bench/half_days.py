"""Half a day of runs under load that comes and goes: whether pods are moved back and forth.

python -m bench.half_days [--kinds over under mixed inverse] [--seeds 3-6] [--cycles 72]

Clusters of 12 nodes that use 62 % of their cpu, with 24 workloads of 8 replicas on random nodes, and a run
every ten minutes. The load of each pod has a noise of 25 % and a daily curve of 15 %, and metrics show it
five minutes late. Pods request more than they use (over), or less (under); half of the workloads the one
and half the other (mixed); or those that use much request little (inverse):

    kind     policy   seed  evictions  hot: first, last third  back  again  unexpected
    mixed    default     3         39           3         2.5     0      0           0

``default`` has limits as clusters of hundreds of nodes have them, and a cooldown of an hour; ``bold`` wants
every improvement, without limits worth the name, and leaves a workload alone for ten minutes only. ``back``
are evictions of a pod from a node that a replica of its workload had been moved to, ``again`` those of them
within an hour.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bench.random_clusters import inputs_of, no_items, node_item, pod_item, replica_set_item
from bench.requested_clusters import bold_policy, limited_policy
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.policy.schema import RebalancePolicy
from rebalancer_lab.simulation.cycles import SimulationSettings, simulate
from rebalancer_lab.simulation.report import SimulatedMove
from rebalancer_lab.simulation.world import LoadShape

KINDS = ("over", "under", "mixed", "inverse")
_NODES, _CORES, _GIB, _MEAN = 12, 16, 64, 0.62
_WORKLOADS, _REPLICAS = 24, 8
_MUCH, _LITTLE, _MOST = 1200, 50, 1400  # thousandths of a core, requested
_SHAPE = LoadShape(noise=0.25, daily=0.15, lag_seconds=300.0)
_INTERVAL_SECONDS, _SOON_SECONDS = 600.0, 3600.0


@dataclass(frozen=True)
class HalfDay:
    """What the runs on a cluster have made of it."""

    evictions: int
    hot_first: int
    hot_last: float  # the mean over the last third of the runs
    back: int  # evictions off a node that a replica of the workload had been moved to
    again: int  # those of them within an hour
    unexpected: int  # landings that the plans ruled out


def policies() -> dict[str, RebalancePolicy]:
    """The policies that are compared, by name."""
    bold = bold_policy()
    soon = bold.planning.model_copy(update={"cooldown": _INTERVAL_SECONDS})
    return {"default": limited_policy(), "bold": bold.model_copy(update={"planning": soon})}


def changing_inputs(kind: str, seed: int, policy: RebalancePolicy) -> PlanningInputs:
    """A cluster whose pods request what its kind says; always the same for a seed."""
    random, items = np.random.default_rng(seed), no_items()
    size = 1000 * _CORES, _GIB
    items["nodes"] = [node_item(row, size, f"zone-{row % 3}") for row in range(_NODES)]
    used: dict[str, float] = {}
    for number in range(_WORKLOADS):
        name, places = f"app-{number:02d}", random.integers(_NODES, size=_REPLICAS).tolist()
        appetite = float(random.lognormal(0.0, 0.8))
        requests = {
            "over": _MUCH,
            "under": _LITTLE,
            "mixed": _MUCH if number % 2 else _LITTLE,
            "inverse": _LITTLE if appetite > 1.0 else _MOST,
        }[kind]
        resources = {"requests": {"cpu": f"{requests}m", "memory": "512Mi"}}
        containers = [{"name": "main", "image": "app:v1", "resources": resources}]
        spec = {"schedulerName": "default-scheduler", "containers": containers}
        items["replicasets"].append(replica_set_item(name, _REPLICAS, spec))
        for replica, node in enumerate(places):
            pod = f"{name}-{replica}"
            items["pods"].append(pod_item(pod, name, node, spec))
            used[pod] = appetite * float(random.lognormal(0.0, 0.2))
    share = _MEAN * 1000.0 * _CORES * _NODES / sum(used.values())
    usage = {pod: (share * amount, 256.0 * 2**20) for pod, amount in used.items()}
    return inputs_of(items, usage, f"{kind}-{seed}", policy)


def moved_back(moves: Sequence[Sequence[SimulatedMove]]) -> list[int]:
    """After how many runs pods left nodes to which replicas of their workloads had been moved; by run."""
    arrived, waits = dict[tuple[str, str], int](), list[int]()
    for number, made in enumerate(moves):
        left = [(move.workload, move.from_node) for move in made]
        waits += [number - arrived[place] for place in left if place in arrived]
        arrived |= {(move.workload, move.node): number for move in made}
    return waits


def half_day(inputs: PlanningInputs, cycles: int) -> HalfDay:
    """So many runs, one every ten minutes."""
    settings = SimulationSettings(cycles, _INTERVAL_SECONDS, _SHAPE, seed=5)
    run = simulate([("half a day", inputs)], settings).runs[0]
    waits = moved_back([cycle.moves for cycle in run.cycles])
    hot = [cycle.hot or 0 for cycle in run.cycles]
    return HalfDay(
        evictions=run.evictions,
        hot_first=hot[0],
        hot_last=float(np.mean(hot[-(cycles // 3) :])),
        back=len(waits),
        again=sum(wait * _INTERVAL_SECONDS <= _SOON_SECONDS for wait in waits),
        unexpected=run.unexpected,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--seeds", default="3-6", help="FIRST-LAST")
    parser.add_argument("--cycles", type=int, default=72, help="runs, ten minutes apart")
    arguments = parser.parse_args()
    first, _, last = arguments.seeds.partition("-")
    print("kind     policy   seed  evictions  hot: first, last third  back  again  unexpected  seconds")
    for kind in arguments.kinds:
        for name, policy in policies().items():
            for seed in range(int(first), int(last or first) + 1):
                began = time.process_time()
                found = half_day(changing_inputs(kind, seed, policy), arguments.cycles)
                print(
                    f"{kind:8} {name:8} {seed:4d} {found.evictions:10d} {found.hot_first:11d} "
                    f"{found.hot_last:11.1f} {found.back:5d} {found.again:6d} {found.unexpected:11d} "
                    f"{time.process_time() - began:8.1f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
