"""Random clusters to rebalance: nodes of all sorts, workloads with constraints, a third of the nodes hot."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.e2e import clusters
from tests.e2e.clusters import Object
from tests.e2e.loads import CPU_MILLI, MEMORY_MIB, Load

ZONE, DISK = "topology.kubernetes.io/zone", "e2e/disk"
ZONES, DISKS = ("a", "b", "c"), ("ssd", "hdd")
IMAGES = {f"registry.example/app-{number}:1": 40 + 90 * number for number in range(8)}  # MB
PRIORITIES = {"batch": -100, "web": 1000, "gold": 100_000}
DEDICATED: Object = {"key": "e2e/dedicated", "value": "batch", "effect": "NoSchedule"}
NOISY: Object = {"key": "e2e/noisy", "value": "yes", "effect": "PreferNoSchedule"}
TERMINATES_AFTER = "e2e/terminates-after"
# Pods are put on the hot nodes until their requests fill so much of them, then on the others.
_HOT_FILL = 0.75


@dataclass(frozen=True)
class Situation:
    """What a random cluster is like; the seed says the rest."""

    seed: int
    nodes: int
    scheduler: str
    going: tuple[str, ...] = ("0s", "1s")  # how long pods may take to go; a workload one of them
    most_moves: int = 100
    hot_every: int = 3  # one of so many nodes is hot
    cool_fill: tuple[float, float] = (0.2, 0.45)  # what is requested of the others, at least and at most
    large: bool = False  # nodes report no images, and those that are not hot come while the scheduler runs


@dataclass(frozen=True)
class RandomCluster:
    """The objects of a cluster, in the order of their creation, and what its nodes bear."""

    nodes: list[Object]
    hot: frozenset[str]
    on_hot: list[Object]  # workloads made while only the hot nodes take pods
    on_all: list[Object]
    loads: dict[str, Load]


def priority_classes() -> Iterator[Object]:
    """The priority classes that pods have."""
    for name, value in PRIORITIES.items():
        yield {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            "preemptionPolicy": "Never",
        }


def random_cluster(situation: Situation) -> RandomCluster:
    """The cluster of a situation: the same situation, the same cluster."""
    chance = random.Random(situation.seed)
    nodes = [_node(chance, number, images=not situation.large) for number in range(situation.nodes)]
    names = [node["metadata"]["name"] for node in nodes]
    hot = frozenset(names[:: situation.hot_every])
    fill = situation.cool_fill
    return RandomCluster(
        nodes,
        hot,
        list(_workloads(chance, "hot", _cores(nodes, hot) * _HOT_FILL, situation)),
        list(
            _workloads(
                chance,
                "all",
                _cores(nodes, set(names) - hot) * chance.uniform(*fill),
                situation,
            )
        ),
        {name: _load(chance, name in hot) for name in names},
    )


def _cores(nodes: list[Object], among: set[str] | frozenset[str]) -> float:
    return sum(
        float(node["status"]["capacity"]["cpu"]) for node in nodes if node["metadata"]["name"] in among
    )


def _load(chance: random.Random, hot: bool) -> Load:
    cpu = chance.uniform(78.0, 95.0) if hot else chance.uniform(8.0, 42.0)
    return Load(cpu, chance.uniform(15.0, 55.0), chance.uniform(1.0, 14.0), chance.uniform(0.5, 8.0))


def _node(chance: random.Random, number: int, *, images: bool) -> Object:
    cores = chance.choice((4, 6, 8, 12))
    taints = [DEDICATED] if chance.random() < 0.12 else [NOISY] if chance.random() < 0.15 else []
    reported = chance.sample(sorted(IMAGES), chance.randint(1, 5)) if images else []
    return clusters.node(
        f"node-{number:03d}",
        cpu=str(cores),
        memory=f"{cores * chance.choice((2, 4, 5)) * 1024 + 8 * number}Mi",
        labels={ZONE: chance.choice(ZONES), DISK: chance.choice(DISKS)},
        taints=taints,
        images=[{"names": [name], "sizeBytes": IMAGES[name] << 20} for name in reported],
    )


def _workloads(chance: random.Random, group: str, cores: float, situation: Situation) -> Iterator[Object]:
    number = 0
    while cores > 0:
        milli = chance.randint(10, 42) * 10 + 1 + number % 7
        replicas = chance.randint(1, 3)
        cores -= milli * replicas / 1000
        yield _workload(chance, f"{group}-{number:03d}", milli, replicas, situation)
        number += 1


def _workload(chance: random.Random, name: str, milli: int, replicas: int, situation: Situation) -> Object:
    memory = chance.randint(64, 900)
    annotations = {CPU_MILLI: str(int(milli * chance.uniform(0.3, 1.2))), MEMORY_MIB: str(memory // 2)}
    annotations[TERMINATES_AFTER] = chance.choice(situation.going)
    workload = clusters.deployment(
        name,
        replicas,
        cpu=f"{milli}m",
        memory=f"{memory}Mi",
        image=chance.choice(sorted(IMAGES)),
        scheduler=situation.scheduler if chance.random() < 0.85 else "default-scheduler",
        annotations=annotations,
        pod=_constraints(chance, name, situation),
    )
    if chance.random() < 0.05:
        workload["kind"] = "StatefulSet"
        workload["spec"] |= {"serviceName": name, "podManagementPolicy": "Parallel"}
    return workload


def _constraints(chance: random.Random, name: str, situation: Situation) -> Object:
    """What of the pods' spec speaks of where they may run."""
    spec: Object = {}
    affinity: dict[str, Any] = {}
    own = {"matchLabels": {"app": name}}
    if chance.random() < 0.5:
        spec["priorityClassName"] = chance.choice(sorted(PRIORITIES))
    if chance.random() < 0.25:
        spec["tolerations"] = [{"key": DEDICATED["key"], "operator": "Exists"}]
    if chance.random() < 0.3:
        affinity["nodeAffinity"] = _node_affinity(chance)
    draw = chance.random()
    if draw < 0.12:
        affinity["podAntiAffinity"] = {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": own}
            ]
        }
    elif draw < 0.3:
        term = {"topologyKey": chance.choice((ZONE, "kubernetes.io/hostname")), "labelSelector": own}
        kind = chance.choice(("podAntiAffinity", "podAffinity"))
        affinity[kind] = {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": chance.randint(1, 100), "podAffinityTerm": term}
            ]
        }
    if chance.random() < 0.35:
        spec["topologySpreadConstraints"] = [_spread(chance, own)]
    if affinity:
        spec["affinity"] = affinity
    return spec


def _node_affinity(chance: random.Random) -> Object:
    if chance.random() < 0.5:
        wanted = {"key": ZONE, "operator": "In", "values": chance.sample(ZONES, 2)}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}
        return {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    liked = {"key": DISK, "operator": "In", "values": [chance.choice(DISKS)]}
    preference = {"weight": chance.randint(1, 100), "preference": {"matchExpressions": [liked]}}
    return {"preferredDuringSchedulingIgnoredDuringExecution": [preference]}


def _spread(chance: random.Random, selector: Object) -> Object:
    hard = chance.random() < 0.3
    return {
        "maxSkew": chance.randint(2, 4) if hard else 1,
        "topologyKey": ZONE if hard else chance.choice((ZONE, "kubernetes.io/hostname")),
        "whenUnsatisfiable": "DoNotSchedule" if hard else "ScheduleAnyway",
        "labelSelector": selector,
    }
