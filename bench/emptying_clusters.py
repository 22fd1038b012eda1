"""Random clusters of a few nodes of odd sizes, of which some can be emptied."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec.structs import replace

from bench.random_clusters import inputs_of, no_items, node_item, pod_item, replica_set_item
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.policy.schema import RebalancePolicy
from rebalancer.profiles import SchedulerConfiguration

PACKING = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins: {score: {disabled: [{name: NodeResourcesBalancedAllocation}]}}
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated}}
"""
_CORES, _GIB_A_CORE = (8, 16, 16, 32), 4
_REQUESTS = (250, 500, 1000, 1500, 2000, 4000)  # thousandths of a core
MAX_REQUESTED, HOT = 100.0, 92.0
_HELD = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}


EVERY_OTHER = {
    "misplaced": {"preferredNodeAffinity": True, "preferredPodAffinity": True, "preferNoSchedule": True},
    "topologySpread": {"constraints": ["DoNotSchedule", "ScheduleAnyway"], "defaultConstraints": True},
    **dict.fromkeys(("duplicates", "fragmentation", "failed", "lifetime", "restarts"), True),
}


def policy(others: Mapping[str, Any], **settings: Any) -> RebalancePolicy:
    """Limits out of the way; ``others`` are the strategies beside consolidation, which has these settings."""
    consolidation = {"maxNodes": 1000, "maxRequested": MAX_REQUESTED, "minNodeAge": "0s", **settings}
    return RebalancePolicy.model_validate(
        {
            "hotNodes": {"forRuns": 1, "any": [{"utilization": {"cpu": HOT, "memory": HOT}}]},
            "evictable": {"minAge": "0s", "protect": []},
            "limits": {"perRun": 10_000, "perNode": 1000, "perNamespace": 10_000, "perWorkload": "100%"},
            "execution": {"waveSize": 5},
            "planning": {"cooldown": "1h"},
            "strategies": {"consolidation": consolidation, **others},
        }
    )


def random_cluster(
    seed: int, configuration: SchedulerConfiguration, others: Mapping[str, Any] | None = None, **settings: Any
) -> PlanningInputs:
    """4 to 12 nodes that request between a quarter and two thirds of their cpu; a few pods are held."""
    random = np.random.default_rng([seed, 22])
    nodes = int(random.integers(4, 13))
    cores = random.choice(_CORES, nodes)
    items = no_items()
    items["nodes"] = [
        node_item(row, (1000 * int(size), _GIB_A_CORE * int(size)), f"zone-{row % 3}")
        for row, size in enumerate(cores)
    ]
    wanted = random.uniform(0.25, 0.65) * 1000 * cores.sum()
    attraction = random.dirichlet(np.full(nodes, 2.0)) + 0.02
    requested, memory = np.zeros(nodes), np.zeros(nodes)
    usage: dict[str, tuple[float, float]] = {}
    while requested.sum() < wanted:
        name, cpu = f"app-{len(items['replicasets']):03d}", int(random.choice(_REQUESTS))
        mebibytes = int(cpu * random.uniform(0.5, 5.0))
        requests = {"cpu": f"{cpu}m", "memory": f"{mebibytes}Mi"}
        containers = [{"name": "main", "image": "app:v1", "resources": {"requests": requests}}]
        spec: dict[str, Any] = {"schedulerName": "default-scheduler", "containers": containers}
        if random.random() < 0.1:
            spec["nodeSelector"] = {"zone": f"zone-{int(random.integers(3))}"}
        held = _HELD if random.random() < 0.06 else {}
        replicas = int(random.integers(1, 5))
        made = 0
        for _ in range(replicas):
            room = (requested + cpu <= 870 * cores) & (memory + mebibytes <= 890 * _GIB_A_CORE * cores)
            if "nodeSelector" in spec:
                room &= np.array([spec["nodeSelector"]["zone"] == f"zone-{row % 3}" for row in range(nodes)])
            if not room.any():
                break
            chance = np.where(room, attraction, 0.0)
            node = int(random.choice(nodes, p=chance / chance.sum()))
            requested[node] += cpu
            memory[node] += mebibytes
            usage[f"{name}-{made}"] = cpu * float(random.uniform(0.5, 1.0)), mebibytes * 2.0**19
            items["pods"].append(pod_item(f"{name}-{made}", name, node, spec, "default", held))
            made += 1
        items["replicasets"].append(replica_set_item(name, made, spec))
    found = inputs_of(items, usage, f"empty-{seed}", policy(others or {}, **settings))
    return replace(found, schedulers=(replace(found.schedulers[0], configuration=configuration),))
