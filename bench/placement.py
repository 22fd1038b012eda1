"""What a placement with its chances costs, in processor time, and how that grows with the cluster.

python -m bench.placement [--nodes 20 60 1000 5000] [--kinds plain constrained] [--rounds 7] [--profile]

Plain pods belong to ReplicaSets, so the scheduler's own spread constraints apply to them, as in any cluster.
Constrained pods have a hard and a soft spread constraint, anti-affinity to their own kind and a preference
for another; where they are measured, one workload in ten is of that kind.

Placements are those of a planner: *in a move* a pod is evicted, its replacement placed and bound, and the pod
removed; *after a restore* a pod is evicted, its replacement placed and the eviction undone, as for a
candidate that is only looked at. All sizes take turns, and of each the least mean of all rounds counts.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import time
from collections import deque
from collections.abc import Sequence
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

KINDS = ("plain", "constrained")
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


def objects_of(nodes: int, constrained: bool) -> dict[str, list[dict[str, Any]]]:
    """What a cluster of ``nodes`` holds, by the plural of its kind.

    Without ``constrained`` nobody uses affinity or constraints of their own.
    """
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
    return {
        "nodes": [a_node(index) for index in range(nodes)],
        "pods": pods,
        "replicasets": replica_sets,
        "services": [],
        "namespaces": [{"metadata": {"name": "default"}}],
    }


def a_cluster(nodes: int, constrained: bool) -> Snapshot:
    """The cluster of these objects."""
    encode = msgspec.json.encode
    listings = {
        plural: decode_listing(BY_PLURAL[plural], [msgspec.Raw(encode(item)) for item in items])
        for plural, items in objects_of(nodes, constrained).items()
    }
    return build_snapshot(Recording("bench", listings))


PLACEMENTS_A_ROUND = 300


@dataclass(frozen=True, slots=True)
class Microseconds:
    """Of one placement."""

    in_a_move: float
    whole_move: float  # with the eviction, the binding and the removal
    after_a_restore: float


def rebalance(scheduler: Scheduler, state: ClusterState, pods: deque[int]) -> tuple[bool, float]:
    """One move, as the planner makes it: evict, place a replacement, bind it, the old pod goes.

    Returns whether there was a node for it, and the seconds that its placement took.
    """
    pod = pods.popleft()
    pod_class = state.pod_class[pod]
    state.evict(pod)
    started = time.process_time()
    placement = scheduler.place(state, pod_class)
    taken = time.process_time() - started
    landings = placement.feasible[placement.chance > 0]
    if not len(landings):
        state.restore(pod, state.node[pod])
        pods.append(pod)
        return False, taken
    replacement = state.add(pod_class)
    state.bind(replacement, int(landings[0]))
    state.remove(pod)
    pods.append(replacement)
    return True, taken


class Cluster:
    """A cluster whose pods are placed, those of a few workloads in turn, as of hot nodes."""

    def __init__(self, nodes: int, constrained: bool) -> None:
        self.nodes = nodes
        snapshot = a_cluster(nodes, constrained)
        configuration = load_configuration(CONFIGURATION, "bench")
        inputs = PluginInputs.of(snapshot, EMPTY_VIEW)
        self._scheduler = make_scheduler(configuration, configuration.profiles[0], inputs)
        self._state = ClusterState.of(snapshot)
        classes = snapshot.pods.classes
        by_class: dict[int, list[int]] = {}
        for row in range(len(snapshot.pods)):
            pod_class = self._state.pod_class[row]
            if bool(classes[pod_class].spec.topology_spread_constraints) == constrained:
                by_class.setdefault(pod_class, []).append(row)
        few = list(by_class.values())[:60]
        self._pods = deque(row for group in zip(*few, strict=True) for row in group)
        started = time.process_time()
        for group in few:
            self._scheduler.place(self._state, self._state.pod_class[group[0]])
        self.first = (time.process_time() - started) / len(few) * 1e6  # µs, of a class's first placement

    def move(self) -> float:
        """Move one pod; returns the seconds that its placement took."""
        return rebalance(self._scheduler, self._state, self._pods)[1]

    def look(self) -> float:
        """Look where a pod's replacement would land; returns the seconds that its placement took."""
        state = self._state
        pod = self._pods[0]
        self._pods.rotate(-1)
        state.evict(pod)
        started = time.process_time()
        self._scheduler.place(state, state.pod_class[pod])
        taken = time.process_time() - started
        state.restore(pod, state.node[pod])
        return taken

    def measure(self) -> Microseconds:
        """The means of one round."""
        started = time.process_time()
        in_moves = sum(self.move() for _ in range(PLACEMENTS_A_ROUND))
        moves = time.process_time() - started
        after_restores = sum(self.look() for _ in range(PLACEMENTS_A_ROUND))
        scale = 1e6 / PLACEMENTS_A_ROUND
        return Microseconds(in_moves * scale, moves * scale, after_restores * scale)


def least(rounds: Sequence[Microseconds]) -> Microseconds:
    """The least of each figure."""
    return Microseconds(
        min(measured.in_a_move for measured in rounds),
        min(measured.whole_move for measured in rounds),
        min(measured.after_a_restore for measured in rounds),
    )


def _row(cells: Sequence[str]) -> str:
    return "  ".join(cell.rjust(width) for cell, width in zip(cells, (11, 6, 8, 9, 10, 13, 8), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--nodes", type=int, nargs="+", default=[20, 60, 1000, 5000])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--profile", action="store_true", help="the hottest functions at the largest size")
    arguments = parser.parse_args()
    print("µs of one placement")
    print(_row(("pods", "nodes", "running", "in a move", "whole move", "after restore", "first")))
    for kind in arguments.kinds:
        clusters = [Cluster(nodes, constrained=kind == "constrained") for nodes in arguments.nodes]
        rounds = [[cluster.measure() for cluster in clusters] for _ in range(arguments.rounds)]
        for cluster, measured in zip(clusters, zip(*rounds, strict=True), strict=True):
            best = least(measured)
            figures = (best.in_a_move, best.whole_move, best.after_a_restore, cluster.first)
            counts = (f"{cluster.nodes}", f"{cluster.nodes * PODS_A_NODE}")
            print(_row((kind, *counts, *(f"{figure:.0f}" for figure in figures))))
        if arguments.profile:
            profile = cProfile.Profile()
            profile.runcall(clusters[-1].measure)
            pstats.Stats(profile).sort_stats("tottime").print_stats(25)


if __name__ == "__main__":
    main()
