"""Generates clusters of any size with realistic shapes: a dump that `--from` reads, or in an API server.

    python -m bench.cluster --nodes 5000 --pods 150000 --out /tmp/cluster-5000
    python -m bench.cluster --nodes 700 --pods 20000 --kubeconfig admin.kubeconfig

Pods are 5 to 8 KB with managed fields, as a real API server hands them out: 70 % of Deployments, the rest of
DaemonSets and StatefulSets; zones, taints, spread constraints, inter-pod affinity, budgets, priorities; a
heavy-tailed load, so that a few nodes are hot. The same arguments give the same bytes.
"""

from __future__ import annotations

import contextlib
import json
import math
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import zstandard

from bench.loading import Loader, Server
from rebalancer.cluster.kinds import BY_PLURAL
from rebalancer.sandbox import Sandbox

NOW = "2026-11-20T12:00:00Z"
LONG_AGO = "2026-06-01T00:00:00Z"
ZONES = 3
_SIZES = ((16, 64), (32, 128), (64, 256))  # cores, GiB
_CPU_MILLI = (100, 250, 500, 1000, 2000)
_MEMORY_MIB = (128, 256, 512, 1024, 4096)

FILE = click.Path(dir_okay=False, path_type=Path)

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Workload:
    """A controller, its template and how many pods it wants."""

    kind: str
    name: str
    namespace: str
    replicas: int
    cpu_milli: int
    memory_mib: int
    template: Object
    usage: float  # of its request, on average

    @property
    def controller(self) -> str:
        """The name of what owns its pods."""
        return f"{self.name}-6d4f8b7c9d" if self.kind == "Deployment" else self.name

    @property
    def owner(self) -> Object:
        """The ownerReference of its pods."""
        kind = "ReplicaSet" if self.kind == "Deployment" else self.kind
        return {
            "apiVersion": "apps/v1",
            "kind": kind,
            "name": self.controller,
            "uid": f"uid-{self.namespace}-{self.controller}",
            "controller": True,
            "blockOwnerDeletion": True,
        }


def _managed_fields(padding: int) -> list[Object]:
    """What an API server stores beside a pod: most of its bytes, and of no use to us."""
    fields = {
        f"f:field{index}": {".": {}, "f:lastTransitionTime": {}, "f:status": {}, "f:type": {}}
        for index in range(padding)
    }
    return [
        {
            "manager": manager,
            "operation": "Update",
            "apiVersion": "v1",
            "time": LONG_AGO,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:labels": fields}, "f:spec": fields},
        }
        for manager in ("kube-controller-manager", "kubelet")
    ]


def nodes(count: int, random: np.random.Generator) -> list[Object]:
    """Nodes in three zones; one in twenty tainted for a dedicated use."""
    found = []
    for index in range(count):
        cores, memory = _SIZES[int(random.integers(len(_SIZES)))]
        name = f"node-{index:05}"
        room = {"cpu": str(cores), "memory": f"{memory}Gi", "pods": "110", "ephemeral-storage": "500Gi"}
        free = {**room, "cpu": f"{cores * 1000 - 400}m", "memory": f"{memory - 2}Gi"}
        taints = [{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}] if index % 20 == 7 else []
        found.append(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {
                    "name": name,
                    "uid": f"uid-{name}",
                    "creationTimestamp": LONG_AGO,
                    "labels": {
                        "kubernetes.io/hostname": name,
                        "topology.kubernetes.io/zone": f"zone-{index % ZONES}",
                        "topology.kubernetes.io/region": "region-1",
                        "node.kubernetes.io/instance-type": f"type-{cores}",
                    },
                },
                "spec": {"taints": taints},
                "status": {
                    "capacity": room,
                    "allocatable": free,
                    "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": LONG_AGO}],
                    "images": [
                        {
                            "names": [f"registry.example/app-{(index * 7 + step) % 997}:v1"],
                            "sizeBytes": 80_000_000,
                        }
                        for step in range(20)
                    ],
                },
            }
        )
    return found


def _constraints(index: int, labels: Object) -> Object:
    """Every fifth workload spreads over zones, every tenth keeps its pods apart."""
    selector = {"matchLabels": labels}
    found: Object = {}
    if index % 5 == 0:
        found["topologySpreadConstraints"] = [
            {
                "maxSkew": 2,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "ScheduleAnyway" if index % 2 else "DoNotSchedule",
                "labelSelector": selector,
            }
        ]
    if index % 10 == 3:
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
        found["affinity"] = {
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 50, "podAffinityTerm": term}]
            }
        }
    if index % 20 == 11:
        found["tolerations"] = [{"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}]
    return found


def workloads(node_count: int, pod_count: int, random: np.random.Generator) -> list[Workload]:
    """A DaemonSet, and Deployments (85 %) and StatefulSets of heavy-tailed sizes for the other pods."""
    found = [_workload("DaemonSet", 0, node_count, random)]
    left = pod_count - node_count
    index = 1
    while left > 0:
        replicas = min(left, 1 + int(random.pareto(1.1) * 4), 400)
        found.append(_workload("StatefulSet" if index % 7 == 0 else "Deployment", index, replicas, random))
        left -= replicas
        index += 1
    return found


def _workload(kind: str, index: int, replicas: int, random: np.random.Generator) -> Workload:
    namespace = "kube-system" if kind == "DaemonSet" else f"team-{index % 40:02}"
    name = "agent" if kind == "DaemonSet" else f"app-{index:05}"
    labels = {"app": name, "team": namespace}
    cpu = 100 if kind == "DaemonSet" else int(random.choice(_CPU_MILLI))
    memory = 128 if kind == "DaemonSet" else int(random.choice(_MEMORY_MIB))
    spec: Object = {
        "schedulerName": "default-scheduler",
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "containers": [
            {
                "name": "main",
                "image": f"registry.example/app-{index % 997}:v1",
                "resources": {"requests": {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}},
                "env": [{"name": f"SETTING_{number}", "value": "x" * 24} for number in range(8)],
            }
        ],
        **(
            _constraints(index, {"app": name})
            if kind != "DaemonSet"
            else {"tolerations": [{"operator": "Exists"}]}
        ),
    }
    template = {"metadata": {"labels": labels}, "spec": spec}
    return Workload(
        kind, name, namespace, replicas, cpu, memory, template, float(random.lognormal(-0.7, 0.5))
    )


def place(
    all_nodes: list[Object], all_workloads: list[Workload], random: np.random.Generator
) -> list[tuple[Workload, int]]:
    """Pods by node: an agent on each, the others where a node that attracts many still has room."""
    count = len(all_nodes)
    cpu = np.array([int(node["status"]["allocatable"]["cpu"][:-1]) for node in all_nodes], np.float64)
    memory = np.array(
        [int(node["status"]["allocatable"]["memory"][:-2]) * 1024 for node in all_nodes], np.float64
    )
    pods_left = np.full(count, 109.0)
    tainted = np.array([bool(node["spec"]["taints"]) for node in all_nodes])
    attraction = random.lognormal(0.0, 0.6, count)
    found: list[tuple[Workload, int]] = []
    for workload in all_workloads:
        if workload.kind == "DaemonSet":
            found += [(workload, row) for row in range(count)]
            cpu -= workload.cpu_milli
            memory -= workload.memory_mib
            continue
        fits = (cpu >= workload.cpu_milli * 2) & (memory >= workload.memory_mib * 2) & (pods_left > 1)
        if "tolerations" not in workload.template["spec"]:
            fits &= ~tainted
        chance = np.where(fits, attraction, 0.0)
        if not chance.any():
            continue
        rows = random.choice(count, size=workload.replicas, p=chance / chance.sum())
        taken = np.bincount(rows, minlength=count)
        room = np.minimum(cpu // workload.cpu_milli, np.minimum(memory // workload.memory_mib, pods_left))
        taken = np.minimum(taken, room.astype(np.int64))
        cpu -= taken * workload.cpu_milli
        memory -= taken * workload.memory_mib
        pods_left -= taken
        found += [(workload, row) for row in np.repeat(np.arange(count), taken).tolist()]
    return found


def pods(placed: list[tuple[Workload, int]], all_nodes: list[Object]) -> Iterator[Object]:
    """Running pods as an API server hands them out."""
    fields = [_managed_fields(padding) for padding in range(14, 26)]
    for number, (workload, row) in enumerate(placed):
        name = f"{workload.controller}-{number:06}"
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": workload.namespace,
                "uid": f"uid-pod-{number}",
                "resourceVersion": str(1000 + number),
                "creationTimestamp": LONG_AGO,
                "labels": workload.template["metadata"]["labels"],
                "ownerReferences": [workload.owner],
                "managedFields": fields[number % len(fields)],
            },
            "spec": {
                **workload.template["spec"],
                "nodeName": all_nodes[row]["metadata"]["name"],
                "priority": 0,
            },
            "status": {
                "phase": "Running",
                "podIP": f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}",
                "startTime": LONG_AGO,
                "conditions": [
                    {"type": kind, "status": "True", "lastTransitionTime": LONG_AGO}
                    for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
                ],
                "containerStatuses": [{"name": "main", "ready": True, "restartCount": 0, "image": "app"}],
            },
        }


def controllers(all_workloads: list[Workload], running: dict[str, int]) -> dict[str, list[Object]]:
    """Deployments with their ReplicaSets, StatefulSets, DaemonSets, and a budget for each fourth workload."""
    found: dict[str, list[Object]] = {
        kind: []
        for kind in ("deployments", "replicasets", "statefulsets", "daemonsets", "poddisruptionbudgets")
    }
    for index, workload in enumerate(all_workloads):
        replicas = running.get(workload.controller, 0)
        spec = {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": workload.name}},
            "template": workload.template,
        }
        counts = ("replicas", "readyReplicas", "availableReplicas", "updatedReplicas", "currentReplicas")
        status = dict.fromkeys(counts, replicas)
        metadata: Object = {
            "name": workload.name,
            "namespace": workload.namespace,
            "uid": f"uid-{workload.namespace}-{workload.name}",
        }
        top = {
            "apiVersion": "apps/v1",
            "kind": workload.kind,
            "metadata": metadata,
            "spec": spec,
            "status": status,
        }
        found[f"{workload.kind.lower()}s"].append(top)
        if workload.kind == "Deployment":
            owner = {"apiVersion": "apps/v1", "kind": "Deployment", **metadata, "controller": True}
            owner.pop("namespace")
            own: Object = {
                "name": workload.controller,
                "namespace": workload.namespace,
                "uid": workload.owner["uid"],
                "ownerReferences": [owner],
            }
            found["replicasets"].append({**top, "kind": "ReplicaSet", "metadata": own})
        if index % 4 == 0 and replicas > 1:
            found["poddisruptionbudgets"].append(_budget(workload, replicas))
    return found


def _budget(workload: Workload, replicas: int) -> Object:
    needed = math.ceil(replicas * 0.8)
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": workload.name, "namespace": workload.namespace, "generation": 1},
        "spec": {"minAvailable": "80%", "selector": {"matchLabels": {"app": workload.name}}},
        "status": {
            "disruptionsAllowed": replicas - needed,
            "currentHealthy": replicas,
            "desiredHealthy": needed,
            "expectedPods": replicas,
            "observedGeneration": 1,
        },
    }


def metrics(
    placed: list[tuple[Workload, int]], all_nodes: list[Object], random: np.random.Generator
) -> dict[str, list[Object]]:
    """Pod and node metrics: lognormal around each workload's habit, and what the system uses."""
    cpu = np.full(len(all_nodes), 300.0)
    memory = np.full(len(all_nodes), 1024.0)
    pod_metrics = []
    for number, (workload, row) in enumerate(placed):
        used_cpu = workload.cpu_milli * workload.usage * float(random.lognormal(0.0, 0.5))
        used_memory = workload.memory_mib * min(0.95, float(random.uniform(0.4, 0.9)))
        cpu[row] += used_cpu
        memory[row] += used_memory
        pod_metrics.append(
            {
                "metadata": {"name": f"{workload.controller}-{number:06}", "namespace": workload.namespace},
                "timestamp": NOW,
                "window": "15s",
                "containers": [
                    {
                        "name": "main",
                        "usage": {"cpu": f"{used_cpu * 1e6:.0f}n", "memory": f"{used_memory:.0f}Mi"},
                    }
                ],
            }
        )
    node_metrics = [
        {
            "metadata": {"name": node["metadata"]["name"]},
            "timestamp": NOW,
            "window": "15s",
            "usage": {"cpu": f"{cpu[row] * 1e6:.0f}n", "memory": f"{memory[row]:.0f}Mi"},
        }
        for row, node in enumerate(all_nodes)
    ]
    return {"nodemetrics": node_metrics, "podmetrics": pod_metrics}


def write_list(folder: Path, plural: str, items: Iterator[Object] | list[Object]) -> int:
    """Write one kind as a zstd file, item by item; returns its bytes unpacked."""
    kind = BY_PLURAL[plural]
    head = {
        "apiVersion": kind.api_version,
        "kind": f"{kind.name}List",
        "metadata": {"resourceVersion": "1"},
    }
    written = 0
    with (
        (folder / f"{plural}.json.zst").open("wb") as raw,
        zstandard.ZstdCompressor(level=3).stream_writer(raw) as stream,
    ):
        written += stream.write(json.dumps(head)[:-1].encode() + b',"items":[')
        for position, item in enumerate(items):
            content = (b",\n" if position else b"") + json.dumps(item).encode()
            written += len(content)
            stream.write(content)
        stream.write(b"]}\n")
    return written


def generate(node_count: int, pod_count: int, seed: int = 1) -> dict[str, Iterator[Object] | list[Object]]:
    """The objects of a cluster by kind, pods as they are asked for; a kind without objects is empty."""
    random = np.random.default_rng(seed)
    all_nodes = nodes(node_count, random)
    all_workloads = workloads(node_count, pod_count, random)
    placed = place(all_nodes, all_workloads, random)
    running: dict[str, int] = {}
    for workload, _ in placed:
        running[workload.controller] = running.get(workload.controller, 0) + 1
    namespaces = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        for name in sorted({workload.namespace for workload in all_workloads})
    ]
    return {
        **{plural: [] for plural in BY_PLURAL},  # read, and hold nothing
        "nodes": all_nodes,
        "pods": pods(placed, all_nodes),
        "namespaces": namespaces,
        **controllers(all_workloads, running),
        **metrics(placed, all_nodes, random),
    }


def write_cluster(folder: Path, node_count: int, pod_count: int, seed: int = 1) -> dict[str, int]:
    """Write a cluster as a dump; returns the unpacked bytes of each kind."""
    folder.mkdir(parents=True, exist_ok=True)
    kinds = generate(node_count, pod_count, seed)
    return {plural: write_list(folder, plural, items) for plural, items in kinds.items()}


def serve(kinds: Mapping[str, Iterable[Object]], kubeconfig: Path) -> None:
    """Serve a cluster from an embedded API server, metrics included, until interrupted."""
    lists = (
        {"apiVersion": BY_PLURAL[plural].api_version, "kind": f"{BY_PLURAL[plural].name}List", "items": items}
        for plural, items in kinds.items()
    )
    with Sandbox(lists, controllers=False) as sandbox:
        sandbox.write_kubeconfig(kubeconfig)
        print(f"{sandbox.url}: kubeconfig {kubeconfig}; until Ctrl-C", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()


@click.command()
@click.option("--nodes", "node_count", type=click.IntRange(1, 20_000), default=100, show_default=True)
@click.option("--pods", "pod_count", type=click.IntRange(1, 1_000_000), default=3000, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Write a dump to this folder.")
@click.option("--kubeconfig", type=FILE, help="Create it in this API server, which has no controllers.")
@click.option("--serve", "served", type=FILE, help="Serve it embedded; its kubeconfig is written here.")
def main(
    node_count: int,
    pod_count: int,
    seed: int,
    out: Path | None,
    kubeconfig: Path | None,
    served: Path | None,
) -> None:
    """Make a cluster of this size: as a dump, in an API server, or served by the sandbox."""
    if sum(place is not None for place in (out, kubeconfig, served)) != 1:
        raise click.UsageError("give one of --out, --kubeconfig and --serve")
    if out is not None:
        for plural, size in write_cluster(out, node_count, pod_count, seed).items():
            print(f"{plural:28} {size / 1e6:10.1f} MB")
    elif kubeconfig is not None:
        loader = Loader(Server(kubeconfig))
        for plural, count in loader.load(generate(node_count, pod_count, seed)).items():
            print(f"{plural:28} {count:10}")
    elif served is not None:
        serve(generate(node_count, pod_count, seed), served)


if __name__ == "__main__":
    main()
