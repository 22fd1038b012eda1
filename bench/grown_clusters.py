"""Random clusters that have grown: node after node was added when the ones before were full by requests.

The oldest nodes are full of what was deployed first, the newest ones have little by requests, so the
scheduler sends almost every replacement there. Load is uneven in time: what was deployed together is busy
together, so whole generations of nodes are warm. 15 % of the workloads may not be evicted, and 10 % run in
one of two pools of nodes only. No setting of the planner was chosen by these clusters.
"""

from __future__ import annotations

import numpy as np

from bench.random_clusters import inputs_of, no_items, node_item, pod_item, replica_set_item
from bench.requested_clusters import HELD
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.policy.schema import RebalancePolicy

_CORES, _GIB_A_CORE = 16, 4
_FULL = 0.85, 0.97  # by requests, at which the next node is added
_REPLICAS = (1, 2, 3, 3, 4, 6)
_REQUESTS = (100, 250, 500, 500, 1000, 2000)  # thousandths of a core
_NEWEST = 0.2  # of the nodes, which are half empty by requests
_UNLIKE = 0.5  # sigma of what pods use of what they request
_GENERATION = 6  # nodes whose pods are busy together
_PROTECTED, _POOLED = 0.15, 0.1  # of the workloads
_BUSIEST = 1.1  # of what a node has


def grown_inputs(seed: int, mean_load: float, nodes: int, *, policy: RebalancePolicy) -> PlanningInputs:
    """A cluster that uses so much of its cpu, a fraction; always the same for a seed."""
    random = np.random.default_rng([7, seed, nodes, round(100 * mean_load)])
    items = no_items()
    items["nodes"] = [node_item(row, (1000 * _CORES, _GIB_A_CORE * _CORES), "zone") for row in range(nodes)]
    for row, item in enumerate(items["nodes"]):
        item["metadata"]["labels"]["pool"] = "ab"[row % 2]
    full = 1000.0 * _CORES * random.uniform(*_FULL, nodes)
    full[round((1.0 - _NEWEST) * nodes) :] *= random.uniform(0.3, 0.7)
    busy = random.lognormal(0.0, 0.35, nodes // _GENERATION + 1)
    requested, usage, placed = np.zeros(nodes), dict[str, tuple[float, float]](), list[int]()
    while True:
        number, request = len(items["replicasets"]), int(random.choice(_REQUESTS))
        pool = "ab"[int(random.integers(2))] if random.random() < _POOLED else ""
        annotations = HELD if random.random() < _PROTECTED else {}
        requests = {"cpu": f"{request}m", "memory": "256Mi"}
        spec = {"containers": [{"name": "main", "image": "app:v1", "resources": {"requests": requests}}]}
        spec |= {"nodeSelector": {"pool": pool}} if pool else {}  # type: ignore[dict-item]
        spec["schedulerName"] = "default-scheduler"  # type: ignore[assignment]
        name, count = f"app-{number:04d}", 0
        for replica in range(int(random.choice(_REPLICAS))):
            fits = requested + request <= full
            if pool:
                fits &= np.arange(nodes) % 2 == "ab".index(pool)
            if not fits.any():
                break
            node = int(np.flatnonzero(fits)[: 1 + count][-1])  # the oldest with room, siblings apart
            requested[node] += request
            uses = request * random.lognormal(0.0, _UNLIKE) * busy[node // _GENERATION]
            items["pods"].append(pod_item(f"{name}-{replica}", name, node, spec, annotations=annotations))
            usage[f"{name}-{replica}"] = float(uses), 128.0 * 2**20
            placed.append(node)
            count += 1
        items["replicasets"].append(replica_set_item(name, count, spec, annotations=annotations))
        if not count and request == min(_REQUESTS):
            break
    uses = np.array([cpu for cpu, _ in usage.values()])
    uses *= mean_load * 1000.0 * _CORES * nodes / uses.sum()
    on = np.bincount(placed, uses, minlength=nodes)
    uses *= np.minimum(_BUSIEST * 1000.0 * _CORES / np.maximum(on, 1.0), 1.0)[placed]
    usage = {pod: (cpu, usage[pod][1]) for pod, cpu in zip(usage, uses.tolist(), strict=True)}
    return inputs_of(items, usage, f"grown-{seed}", policy)
