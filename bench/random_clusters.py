"""Random clusters to plan: some of their nodes are loved too much.

Two kinds. Plain ones have nodes of three sizes, and pods that differ in size and appetite. Those of a mean
load have what makes planning hard besides: nodes of odd sizes, cpu and memory both near that load, pods that
may not be evicted, spread and affinity, and a quota without much room.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from rebalancer.cluster.arrays import FloatArray, IntArray
from rebalancer.cluster.dumps.listing import Recording, decode_listing
from rebalancer.cluster.kinds import BY_PLURAL, KINDS, METRICS
from rebalancer.cluster.snapshot import build_snapshot
from rebalancer.load.report import build_report
from rebalancer.load.usage import NodeUsage, PodUsage
from rebalancer.planning.inputs import PlanningInputs, SchedulerFacts
from rebalancer.policy.schema import RebalancePolicy
from rebalancer.scheduling.registry import default_configuration

NODES, PODS_A_NODE, PODS_A_WORKLOAD = 20, 10, 5
_QUOTA_ROOM = 3  # replacements that the quota lets stand beside their predecessors
LONG_AGO = "2026-01-01T00:00:00Z"
NOW = 1_780_000_000.0
_SIZES = ((8_000, 32), (16_000, 64), (32_000, 128))  # thousandths of a core, GiB
_ODD_SIZES = ((6_000, 20), (11_000, 48), (24_000, 64), (48_000, 192))
_BUSIEST_PERCENT = 104.0  # measured nodes do not use much more than there is
NO_ANNOTATIONS: Mapping[str, str] = {}


def policy() -> RebalancePolicy:
    """Hot above 80 % cpu or 85 % memory, cool at 65 % and 75 %; limits out of the way."""
    return RebalancePolicy.model_validate(
        {
            "hotNodes": {
                "forRuns": 1,
                "any": [{"utilization": {"cpu": 80, "memory": 85}, "coolTo": {"cpu": 65, "memory": 75}}],
            },
            "evictable": {"minAge": "0s", "protect": ["SingleReplica", "LocalStorage"]},
            "limits": {"perRun": 10_000, "perNode": 1000, "perNamespace": 10_000, "perWorkload": "100%"},
            "execution": {"waveSize": 5},
        }
    )


def random_inputs(seed: int, mean_load: float | None = None, nodes: int = NODES) -> PlanningInputs:
    """A cluster of nodes with ten pods each, always the same for a seed; ``mean_load`` is a fraction."""
    random = np.random.default_rng(seed)
    items = no_items()
    choices = _SIZES if mean_load is None else _ODD_SIZES
    sizes = [choices[int(random.integers(len(choices)))] for _ in range(nodes)]
    zones = [f"zone-{int(random.integers(3))}" for _ in range(nodes)]
    items["nodes"] = [node_item(index, sizes[index], zones[index]) for index in range(nodes)]
    usage = _place_pods(random, items, sizes, zones, mean_load)
    if mean_load is not None:
        amount = {"pods": str(len(items["pods"]) + _QUOTA_ROOM)}
        used = {"pods": str(len(items["pods"]))}
        quota = {"metadata": {"name": "pods", "namespace": "default"}, "spec": {"hard": amount}}
        items["resourcequotas"].append({**quota, "status": {"hard": amount, "used": used}})
    return inputs_of(items, usage, f"random-{seed}", policy())


def no_items() -> dict[str, list[dict[str, Any]]]:
    """An empty cluster whose every kind was read."""
    return {kind.plural: [] for kind in KINDS if kind not in METRICS}


def node_item(index: int, size: tuple[int, int], zone: str) -> dict[str, Any]:
    room = {"cpu": f"{size[0]}m", "memory": f"{size[1]}Gi", "pods": "110"}
    return {
        "metadata": {
            "name": f"node-{index:02d}",
            "uid": f"node-{index}",
            "labels": {"kubernetes.io/hostname": f"node-{index:02d}", "zone": zone},
        },
        "spec": {},
        "status": {
            "allocatable": room,
            "capacity": room,
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": LONG_AGO}],
        },
    }


def _place_pods(
    random: np.random.Generator,
    items: dict[str, list[dict[str, Any]]],
    sizes: list[tuple[int, int]],
    zones: list[str],
    mean_load: float | None,
) -> dict[str, tuple[float, float]]:
    """Workloads of a few pods each, on nodes that attract; what each pod uses, by name."""
    room = np.array([[cpu, memory * 1024] for cpu, memory in sizes], np.float64)  # milli, MiB
    left, used = room.copy(), np.zeros_like(room)
    attraction = random.dirichlet(np.full(len(sizes), 0.7)) + 0.005
    usage: dict[str, tuple[float, float]] = {}
    workloads = len(sizes) * PODS_A_NODE // PODS_A_WORKLOAD
    cpus = random.choice([100, 250, 500, 1000, 2000, 3000], workloads)
    memories = random.choice([128, 256, 512, 1024, 2048, 4096], workloads)
    appetites = random.uniform(0.4, 2.2, workloads)
    # Plain clusters use between a third and just over half of all cpu: there is room, in the wrong places.
    wanted = float(random.uniform(0.33, 0.55) if mean_load is None else mean_load)
    appetites *= wanted * room[:, 0].sum() / float((cpus * appetites).sum() * PODS_A_WORKLOAD)
    hunger = 1.0 if mean_load is None else wanted * room[:, 1].sum() / _total(memories, appetites)
    for workload in range(workloads):
        cpu, memory, appetite = int(cpus[workload]), int(memories[workload]), float(appetites[workload])
        zone = f"zone-{int(random.integers(3))}" if random.random() < 0.15 else ""
        single = random.random() < 0.1
        name = f"app-{workload:02d}"
        spec = _spec(cpu, memory, zone)
        if mean_load is not None:
            spec |= _CONSTRAINTS[int(random.integers(len(_CONSTRAINTS)))](name)
        items["replicasets"].append(replica_set_item(name, 1 if single else PODS_A_WORKLOAD, spec))
        for number in range(PODS_A_WORKLOAD):
            wants = np.array([cpu * appetite, memory * appetite * hunger]) * random.uniform(0.7, 1.3, 2)
            fits = (left >= (cpu, memory)).all(axis=1)
            fits &= ((used + wants) <= room * _BUSIEST_PERCENT / 100).all(axis=1)
            fits &= np.array([not zone or zone == here for here in zones])
            if not fits.any():
                continue
            chance = np.where(fits, attraction, 0.0)
            node = int(random.choice(len(sizes), p=chance / chance.sum()))
            left[node] -= (cpu, memory)
            used[node] += wants
            pod = f"{name}-{number}"
            items["pods"].append(pod_item(pod, name, node, spec))
            usage[pod] = (float(wants[0]), float(wants[1]) * 1024 * 1024)
    return usage


def _spec(cpu: int, memory: int, zone: str) -> dict[str, Any]:
    requests = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
    selector = {"nodeSelector": {"zone": zone}} if zone else {}
    containers = [{"name": "main", "image": "app:v1", "resources": {"requests": requests}}]
    return {"schedulerName": "default-scheduler", "containers": containers, **selector}


def _total(amounts: IntArray, appetites: FloatArray) -> float:
    return float((amounts * appetites).sum() * PODS_A_WORKLOAD)


def _free(_name: str) -> dict[str, Any]:
    return {}


def _on_disk(_name: str) -> dict[str, Any]:
    """Protected: it keeps data on its node."""
    return {"volumes": [{"name": "data", "emptyDir": {}}]}


def _spread(name: str) -> dict[str, Any]:
    own = {"labelSelector": {"matchLabels": {"app": name}}}
    return {
        "topologySpreadConstraints": [
            {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", **own}
        ]
    }


def _apart(name: str) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": {"app": name}}, "topologyKey": "kubernetes.io/hostname"}
    preferred = [{"weight": 50, "podAffinityTerm": term}]
    return {"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}}


_CONSTRAINTS = (_free, _free, _free, _on_disk, _spread, _apart)


def replica_set_item(
    name: str,
    replicas: int,
    spec: dict[str, Any],
    namespace: str = "default",
    annotations: Mapping[str, str] = NO_ANNOTATIONS,
) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": name}, "annotations": annotations}, "spec": spec}
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": name, "generation": 1},
        "spec": {"replicas": replicas, "template": template, "selector": {"matchLabels": {"app": name}}},
        "status": {
            "replicas": replicas,
            "readyReplicas": replicas,
            "availableReplicas": replicas,
            "updatedReplicas": replicas,
            "observedGeneration": 1,
        },
    }


def pod_item(
    name: str,
    owner: str,
    node: int,
    spec: dict[str, Any],
    namespace: str = "default",
    annotations: Mapping[str, str] = NO_ANNOTATIONS,
) -> dict[str, Any]:
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner}
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": name,
            "creationTimestamp": LONG_AGO,
            "labels": {"app": owner},
            "annotations": annotations,
            "ownerReferences": [{**reference, "controller": True}],
        },
        "spec": {**spec, "nodeName": f"node-{node:02d}"},
        "status": {
            "phase": "Running",
            "startTime": LONG_AGO,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def inputs_of(
    items: dict[str, list[dict[str, Any]]],
    usage: dict[str, tuple[float, float]],
    name: str,
    policy: RebalancePolicy,
) -> PlanningInputs:
    """What a plan is made from; ``usage`` is in thousandths of a core and bytes, by the name of the pod."""
    listings = {
        plural: decode_listing(BY_PLURAL[plural], [msgspec.Raw(msgspec.json.encode(item)) for item in found])
        for plural, found in items.items()
    }
    snapshot = build_snapshot(Recording(name, listings, {}, {}))
    pod_usage = np.array([usage[name] for name in snapshot.pods.names], np.float64)
    total = np.zeros((len(snapshot.nodes), 2))
    np.add.at(total, snapshot.pods.node, pod_usage)
    figures = NodeUsage("random", total, np.full(total.shape, NOW), np.zeros(len(total)))
    measured = PodUsage(pod_usage, np.full(len(pod_usage), NOW))
    load = build_report(
        snapshot.nodes, snapshot.pods, [figures], measured, pod_usage, now=NOW, max_age_seconds=180
    )
    return PlanningInputs(
        snapshot,
        load,
        (SchedulerFacts(default_configuration(), acts_on=("default-scheduler",)),),
        policy,
        None,
        NOW,
        f"sha256:{name}",
    )
