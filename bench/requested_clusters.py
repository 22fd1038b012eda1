"""Random clusters as a scheduler leaves them that goes by requests, while pods use something else.

Pods are spread by what they request, so no node has much more of that than another. What a replica uses is
drawn log-normally around its request, alike for the replicas of a workload. So nodes are hot by bad luck, any
of them may be, and where a pod could go is decided by requests that say little of load. 15 % of the workloads
may not be evicted. Nodes are alike, or of odd sizes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.random_clusters import inputs_of, no_items, node_item, pod_item, replica_set_item
from rebalancer.cluster.arrays import FloatArray
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.policy.schema import RebalancePolicy

_EVEN_CORES, _ODD_CORES = (16,), (8, 16, 16, 32)
_GIB_A_CORE = 4
_PODS_FOR_16_CORES = 9
_NAMESPACES = 5
_ZONES = 3
_REPLICAS = (1, 2, 2, 3, 3, 4, 6, 8, 12)
_REQUESTS = (100, 200, 250, 500, 500, 1000, 1500, 2000)  # thousandths of a core
_MEMORY = (128, 256, 512, 1024, 2048)  # MiB
_APPETITE = 0.8  # sigma of what replicas use of what they request
_UNLIKE = 0.25, 0.3  # sigma of cpu and memory among the replicas of a workload
_PROTECTED = 0.15  # of the workloads
_BUSIEST = 1.15  # of what a node has: it does not use much more, so its pods are scaled down to that
HELD = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
_HOT = {
    "forRuns": 1,
    "any": [{"utilization": {"cpu": 80, "memory": 85}, "coolTo": {"cpu": 65, "memory": 75}}],
}
_EVICTABLE = {"minAge": "0s", "protect": ["LocalStorage"]}
_UNLIMITED = {"perRun": 1000, "perNode": 1000, "perNamespace": 1000, "perWorkload": "100%"}
_WAVES = {"firstWave": 1, "waveSize": 5}


def bold_policy() -> RebalancePolicy:
    """Limits out of the way, and every improvement is wanted."""
    return RebalancePolicy.model_validate(
        {
            "hotNodes": _HOT,
            "evictable": _EVICTABLE,
            "planning": {"aggressiveness": 5},
            "limits": _UNLIMITED,
            "execution": _WAVES,
        }
    )


def limited_policy() -> RebalancePolicy:
    """Limits and a cooldown as large clusters have them, and the usual level of aggressiveness."""
    limits = {"perRun": 20, "perNode": 4, "perNamespace": 10, "perWorkload": "10%"}
    return RebalancePolicy.model_validate(
        {
            "hotNodes": _HOT,
            "evictable": _EVICTABLE,
            "limits": limits,
            "planning": {"cooldown": "1h"},
            "execution": _WAVES,
        }
    )


def requested_inputs(
    seed: int, mean_load: float, nodes: int, *, odd: bool, policy: RebalancePolicy
) -> PlanningInputs:
    """A cluster that uses so much of its cpu, a fraction; always the same for a seed."""
    random = np.random.default_rng([seed, nodes, round(100 * mean_load), odd])
    cores = random.choice(_ODD_CORES if odd else _EVEN_CORES, nodes)
    items = no_items()
    items["nodes"] = [
        node_item(row, (1000 * int(size), _GIB_A_CORE * int(size)), f"zone-{row % _ZONES}")
        for row, size in enumerate(cores)
    ]
    placed, amounts = _place(random, items, cores)
    amounts[:, 0] *= mean_load * 1000.0 * cores.sum() / amounts[:, 0].sum()
    used = np.bincount(placed, amounts[:, 0], minlength=nodes)
    amounts[:, 0] *= np.minimum(_BUSIEST * 1000.0 * cores / np.maximum(used, 1.0), 1.0)[placed]
    names = [item["metadata"]["name"] for item in items["pods"]]
    usage = {name: (cpu, memory * 2**20) for name, (cpu, memory) in zip(names, amounts.tolist(), strict=True)}
    return inputs_of(items, usage, f"requested-{seed}", policy)


def _place(
    random: np.random.Generator, items: dict[str, list[dict[str, Any]]], cores: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Workloads, each replica on about the node with most room by requests.

    Returns the (pods,) nodes, and (pods, 2) what each uses in thousandths of a core and MiB.
    """
    room = 980.0 * cores
    requested = np.zeros(len(cores))
    placed: list[int] = []
    amounts: list[tuple[float, float]] = []
    while len(placed) < _PODS_FOR_16_CORES * cores.sum() / 16:
        number, request = len(items["replicasets"]), int(random.choice(_REQUESTS))
        memory = int(random.choice(_MEMORY))
        appetite = request * random.lognormal(0.0, _APPETITE) + 50.0
        annotations = HELD if random.random() < _PROTECTED else {}
        name, namespace = f"app-{number:04d}", f"team-{number % _NAMESPACES}"
        requests = {"cpu": f"{request}m", "memory": f"{memory}Mi"}
        containers = [{"name": "main", "image": "app:v1", "resources": {"requests": requests}}]
        spec = {"schedulerName": "default-scheduler", "containers": containers}
        siblings = np.zeros(len(cores))
        for replica in range(int(random.choice(_REPLICAS))):
            share = requested / room + random.normal(0.0, 0.1, len(cores)) + 0.15 * siblings
            share[requested + request > room] = np.inf
            node = int(np.argmin(share))
            if not np.isfinite(share[node]):
                break
            requested[node] += request
            siblings[node] += 1
            placed.append(node)
            unlike = random.lognormal(0.0, _UNLIKE[0]), random.lognormal(-0.2, _UNLIKE[1])
            amounts.append((appetite * unlike[0], memory * unlike[1]))
            items["pods"].append(pod_item(f"{name}-{replica}", name, node, spec, namespace, annotations))
        count = int(siblings.sum())
        items["replicasets"].append(replica_set_item(name, count, spec, namespace, annotations))
        if not count:
            break
    return np.array(placed), np.array(amounts)
