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
from pathlib import Path

import click
import numpy as np
import zstandard

from bench.generated_pods import NOW, Object, Workload, nodes, place, pods, workloads
from bench.loading import Loader, Server
from rebalancer.cluster.kinds import BY_PLURAL
from rebalancer_demo import Sandbox

FILE = click.Path(dir_okay=False, path_type=Path)


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


def generate(
    node_count: int, pod_count: int, seed: int = 1, *, even: bool = False, stateless: bool = False
) -> dict[str, Iterator[Object] | list[Object]]:
    """The objects of a cluster by kind, pods as they are asked for; a kind without objects is empty.

    ``even``: its pods are spread as their constraints ask. ``stateless``: without StatefulSets.
    """
    random = np.random.default_rng(seed)
    all_nodes = nodes(node_count, random)
    all_workloads = workloads(node_count, pod_count, random, stateless=stateless)
    placed = place(all_nodes, all_workloads, random, even=even)
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


def write_cluster(
    folder: Path, node_count: int, pod_count: int, seed: int = 1, *, even: bool = False
) -> dict[str, int]:
    """Write a cluster as a dump; returns the unpacked bytes of each kind."""
    folder.mkdir(parents=True, exist_ok=True)
    kinds = generate(node_count, pod_count, seed, even=even)
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
