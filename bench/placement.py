"""Placements a second, the state updated after each: how fast the model is and how it grows with the cluster.

python -m bench.placement [--nodes 100 1000 5000] [--seconds 3] [--profile]

Plain pods belong to ReplicaSets, so the scheduler's own spread constraints apply to them, as in any cluster.
Constrained pods have a hard and a soft spread constraint, anti-affinity to their own kind and a preference
for another; where they are measured, one workload in ten is of that kind.
"""

from __future__ import annotations

import argparse
import cProfile
import math
import pstats
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from rebalancer.cluster.dumps.listing import Recording, decode_listing
from rebalancer.cluster.kinds import BY_PLURAL
from rebalancer.cluster.snapshot import Snapshot, build_snapshot
from rebalancer.load.scheduler_view import EMPTY_VIEW
from rebalancer.scheduling.framework.cycle import Scheduler
from rebalancer.scheduling.framework.plugin import PluginInputs
from rebalancer.scheduling.registry import load_configuration, make_scheduler
from rebalancer.scheduling.state.cluster_state import ClusterState

PODS_A_NODE = 30
PODS_A_WORKLOAD = 30
CONSTRAINED_WORKLOADS = 10  # one in this many
ZONES = 3
ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
CONFIGURATION = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def a_node(index: int) -> dict[str, Any]:
    name = f"node-{index:05}"
    amounts = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    return {
        "metadata": {"name": name, "labels": {HOSTNAME: name, ZONE: f"zone-{index % ZONES}"}},
        "spec": {},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def a_workload(index: int, constrained: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """A ReplicaSet, and the pod it makes."""
    name = f"app-{index:05}"
    labels = {"app": name, "pod-template-hash": f"{index:x}"}
    own = {"matchLabels": {"app": name}}
    cpu, memory = 100 + 50 * (index % 8), 128 + 64 * (index % 6)
    requests = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
    spec: dict[str, Any] = {
        "schedulerName": "default-scheduler",
        "containers": [{"name": "c", "image": f"registry/{name}:v1", "resources": {"requests": requests}}],
    }
    if constrained:
        other = {"matchLabels": {"app": f"app-{max(index - 1, 0):05}"}}
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": 5,
                "topologyKey": ZONE,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": own,
            },
            {
                "maxSkew": 1,
                "topologyKey": HOSTNAME,
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": own,
            },
        ]
        spec["affinity"] = {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"labelSelector": own, "topologyKey": HOSTNAME}
                ]
            },
            "podAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 10, "podAffinityTerm": {"labelSelector": other, "topologyKey": ZONE}}
                ]
            },
        }
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": name, "controller": True}
    replica_set = {
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"selector": {"matchLabels": labels}},
    }
    pod = {"metadata": {"namespace": "default", "labels": labels, "ownerReferences": [owner]}, "spec": spec}
    return replica_set, pod


def a_cluster(nodes: int, constrained: bool) -> Snapshot:
    """A cluster of ``nodes``; without ``constrained`` nobody uses affinity or constraints of their own."""
    names = [f"node-{index:05}" for index in range(nodes)]
    workloads = max(nodes * PODS_A_NODE // PODS_A_WORKLOAD, 1)
    pods, replica_sets = [], []
    for index in range(workloads):
        replica_set, pod = a_workload(index, constrained and index % CONSTRAINED_WORKLOADS == 1)
        replica_sets.append(replica_set)
        for replica in range(PODS_A_WORKLOAD):
            name = f"{replica_set['metadata']['name']}-{replica:03}"
            where = names[(index * 17 + replica * max(nodes // PODS_A_WORKLOAD, 1)) % nodes]
            pods.append(
                {
                    "metadata": {**pod["metadata"], "name": name, "uid": name},
                    "spec": {**pod["spec"], "nodeName": where},
                    "status": {"phase": "Running"},
                }
            )
    kinds: dict[str, list[Any]] = {
        "nodes": [a_node(index) for index in range(nodes)],
        "pods": pods,
        "replicasets": replica_sets,
        "services": [],
        "namespaces": [{"metadata": {"name": "default"}}],
    }
    encode = msgspec.json.encode
    listings = {
        plural: decode_listing(BY_PLURAL[plural], [msgspec.Raw(encode(item)) for item in items])
        for plural, items in kinds.items()
    }
    return build_snapshot(Recording("bench", listings))


@dataclass(frozen=True, slots=True)
class Measured:
    nodes: int
    placed: int
    seconds: float
    first_milliseconds: float  # a pod class' first placement

    @property
    def rate(self) -> float:
        return self.placed / self.seconds


def rebalance(scheduler: Scheduler, state: ClusterState, pods: deque[int]) -> bool:
    """One move, as the planner makes it: evict, place a replacement, bind it, the old pod goes."""
    pod = pods.popleft()
    pod_class = state.pod_class[pod]
    state.evict(pod)
    placement = scheduler.place(state, pod_class)
    landings = placement.feasible[placement.chance > 0]
    replacement = state.add(pod_class)
    if len(landings):
        state.bind(replacement, int(landings[0]))
        state.remove(pod)
        pods.append(replacement)
    return bool(len(landings))


def measure(nodes: int, constrained: bool, seconds: float) -> tuple[Measured, Callable[[], None]]:
    """The rate over ``seconds``, each workload's pods in turn; and a function that runs on, for profiles."""
    snapshot = a_cluster(nodes, constrained)
    configuration = load_configuration(CONFIGURATION, "bench")
    inputs = PluginInputs.of(snapshot, EMPTY_VIEW)
    scheduler = make_scheduler(configuration, configuration.profiles[0], inputs)
    state = ClusterState.of(snapshot)
    classes = snapshot.pods.classes
    chosen = [
        row
        for row in range(len(snapshot.pods))
        if bool(classes[state.pod_class[row]].spec.topology_spread_constraints) == constrained
    ]
    # The planner places many pods of few workloads: those of hot nodes.
    by_class: dict[int, list[int]] = {}
    for row in chosen:
        by_class.setdefault(state.pod_class[row], []).append(row)
    few = list(by_class.values())[:60]
    pods = deque(row for group in zip(*few, strict=True) for row in group)
    started = time.process_time()
    for group in few:
        scheduler.place(state, state.pod_class[group[0]])
    first = (time.process_time() - started) / len(few) * 1000

    def run(limit: float) -> int:
        count, until = 0, time.process_time() + limit
        while pods and time.process_time() < until:
            count += rebalance(scheduler, state, pods)
        return count

    run(seconds / 10)
    started = time.process_time()
    placed = run(seconds)
    taken = time.process_time() - started
    return Measured(nodes, placed, taken, first), lambda: (run(seconds), None)[1]


def _row(cells: Sequence[str]) -> str:
    return "  ".join(cell.rjust(width) for cell, width in zip(cells, (11, 6, 9, 10, 9, 9, 8), strict=True))


def report(kind: str, results: Sequence[Measured]) -> None:
    """A line a size: the rate, how it compares with the size before, the exponent of the growth in time."""
    before: Measured | None = None
    for result in results:
        ratio = exponent = ""
        if before:
            slower = before.rate / result.rate
            ratio = f"{slower:.2f}x"
            exponent = f"{math.log(slower) / math.log(result.nodes / before.nodes):.2f}"
        cells = (
            kind,
            f"{result.nodes}",
            f"{result.nodes * PODS_A_NODE}",
            f"{result.rate:.0f}/s",
            ratio,
            exponent,
            f"{result.first_milliseconds:.1f} ms",
        )
        print(_row(cells))
        before = result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--nodes", type=int, nargs="+", default=[100, 1000, 5000])
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--profile", action="store_true", help="the hottest functions at the largest size")
    arguments = parser.parse_args()
    print(_row(("pods", "nodes", "running", "placed", "slower", "exponent", "first")))
    for kind, constrained in (("plain", False), ("constrained", True)):
        measured = [measure(nodes, constrained, arguments.seconds) for nodes in arguments.nodes]
        report(kind, [result for result, _ in measured])
        if arguments.profile:
            profile = cProfile.Profile()
            profile.runcall(measured[-1][1])
            pstats.Stats(profile).sort_stats("tottime").print_stats(12)


if __name__ == "__main__":
    main()
