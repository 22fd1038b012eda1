"""Random clusters as companies run them: pools of unlike nodes, workloads of every kind, and what binds them.

The other generators vary one thing each: how nodes attract pods, what pods request, how a cluster has grown.
Here everything is mixed, so that a plan is also judged where no setting of the planner was chosen:

* 20 to 40 nodes in three zones, of four pools. Any pod may run on general nodes and on a few large ones; the
  memory-heavy and the spot nodes are tainted, and some workloads need the nodes of one pool.
* 1 to 30 replicas, spread over zones or kept apart on hosts in part, by rules and by preferences. Databases
  and queues are StatefulSets whose volumes stay in their zones. Three DaemonSets run everywhere. Some small
  tools request nothing, some pods keep data on their nodes or must not be evicted, and most workloads have a
  budget.
* A scheduler that goes by requests has placed all of it. Nodes were added as the others were full, and since
  then workloads were scaled down and deleted, which left holes. One to three nodes have just been added, and
  only DaemonSets run there.
* What a pod uses differs from its request: by its workload, among the replicas (partitions of a queue more
  than web servers), and by the time of day. A few are noisy and use many times what is usual.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bench.random_clusters import NO_ANNOTATIONS, inputs_of, no_items, node_item, pod_item, replica_set_item
from bench.requested_clusters import HELD
from rebalancer.cluster.arrays import BoolArray, FloatArray, IntArray
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.policy.schema import RebalancePolicy

Object = dict[str, Any]
FEWEST_NODES, MOST_NODES = 20, 40
_ZONES = 3
_NAMESPACES = 6
_ZONE_LABEL, _HOST_LABEL, _POOL_LABEL = "topology.kubernetes.io/zone", "kubernetes.io/hostname", "pool"
_DRIVER = "disks.csi.example.com"
_DISKS_A_NODE = 25
_RESERVED_MILLI, _RESERVED_GIB = 300, 3  # of each node, for the kubelet and the system
_MOST_RECENT = 3  # nodes that have just been added
_RECENTLY = "2026-05-28T20:00:00Z"  # half an hour before the moment of the plan
_FIRST_NODES = 0.6  # of each pool, which were there from the beginning; the others came one after the other
_FULL = 0.75, 0.9  # cpu requested, of all nodes but the newest, when nothing more is deployed
_REFUSED = 12  # workloads in a row without room for a pod, after which nothing more is deployed
_MOST_PODS = 100  # on a node
_DELETED, _SCALED_DOWN = 0.08, 0.25  # of the workloads, since they were deployed
_ON_DISK, _HELD, _BUDGETS, _TIGHT = 0.08, 0.04, 0.65, 0.08  # of the workloads; the last: of the budgets
_APPETITE = 0.6, 0.6  # the median of what pods use of what they request, and its sigma
_UNREQUESTED = 100.0, 256.0  # thousandths of a core and MiB that pods without requests use, about
_NOISY, _NOISE = 0.02, (3.0, 6.0)  # of the pods; how many times what they would use otherwise
_LEADER = 2.0  # times what the other replicas of a StatefulSet use
_MEMORY = 0.8, 0.3  # the median of what workloads use of the memory that they request, and its sigma
_UNLIKE_MEMORY = 0.1  # its sigma among the replicas of a workload
_BUSIEST_CPU, _BUSIEST_MEMORY = 1.05, 0.95  # of what a node has
_SIBLING_ON_HOST, _SIBLING_IN_ZONE, _PREFERENCE, _CHANCE = 0.1, 0.03, 0.3, 0.05  # beside the room of a node


@dataclass(frozen=True)
class Pool:
    """Nodes that are alike."""

    name: str
    cores: int
    gib: int
    share: float  # of the nodes
    taint: str = ""  # the key of the taint that keeps other pods away

    @property
    def size(self) -> tuple[int, int]:
        """What pods may request of a node, in thousandths of a core and GiB."""
        return 1000 * self.cores - _RESERVED_MILLI, self.gib - _RESERVED_GIB


GENERAL = Pool("general", 16, 64, 0.5)
MEMORY = Pool("memory", 8, 64, 0.22, taint="memory-only")
SPOT = Pool("spot", 8, 32, 0.18, taint="spot")
LARGE = Pool("large", 48, 192, 0.1)
_POOLS = (GENERAL, MEMORY, SPOT, LARGE)


@dataclass(frozen=True)
class Kind:
    """Workloads that serve the same purpose; one of each tuple of values is drawn for a workload."""

    name: str
    share: float  # of the workloads
    replicas: tuple[int, ...]
    cpu_milli: tuple[int, ...]  # 0: its pods request nothing
    gib_a_core: tuple[float, ...]
    needs: Pool | None = None  # whose nodes its pods must have
    prefers: Pool | None = None  # whose nodes its pods may and would rather have
    peak_hour: float = 12.0
    daily: float = 0.0  # how much more than on average it uses at its peak
    unlike: float = 0.2  # sigma of what its replicas use
    spread: float = 0.0  # chance of a constraint over zones
    apart: float = 0.0  # chance that it would rather keep its pods on different hosts
    stateful: bool = False  # a StatefulSet with volumes, whose pods must be on different hosts


_KINDS = (
    Kind(
        "web",
        0.25,
        replicas=(2, 3, 4, 6, 9, 14, 24),
        cpu_milli=(250, 500, 1000),
        gib_a_core=(2.0, 4.0),
        peak_hour=14.0,
        daily=0.5,
        unlike=0.15,
        spread=0.7,
        apart=0.3,
    ),
    Kind(
        "api",
        0.25,
        replicas=(1, 2, 2, 3, 3, 5, 8),
        cpu_milli=(100, 250, 500, 1000, 2000),
        gib_a_core=(2.0, 4.0, 6.0),
        peak_hour=11.0,
        daily=0.3,
        unlike=0.25,
        spread=0.3,
        apart=0.3,
    ),
    Kind(
        "worker",
        0.16,
        replicas=(1, 2, 4, 8, 16, 30),
        cpu_milli=(250, 500, 1000, 2000),
        gib_a_core=(2.0, 4.0),
        prefers=SPOT,
        peak_hour=2.0,
        daily=0.7,
        unlike=0.6,
    ),
    Kind(
        "cache",
        0.08,
        replicas=(2, 3, 4, 6),
        cpu_milli=(250, 500, 1000),
        gib_a_core=(8.0, 12.0),
        needs=MEMORY,
        peak_hour=14.0,
        daily=0.3,
        unlike=0.4,
        apart=0.5,
    ),
    Kind(
        "database",
        0.08,
        replicas=(1, 3, 3, 5),
        cpu_milli=(500, 1000, 2000),
        gib_a_core=(6.0, 10.0),
        needs=MEMORY,
        peak_hour=13.0,
        daily=0.2,
        unlike=0.3,
        stateful=True,
    ),
    Kind(
        "queue",
        0.04,
        replicas=(3, 5),
        cpu_milli=(500, 1000),
        gib_a_core=(2.0, 4.0),
        peak_hour=14.0,
        daily=0.3,
        unlike=0.5,
        stateful=True,
    ),
    Kind(
        "analysis",
        0.04,
        replicas=(1, 2, 3),
        cpu_milli=(4000, 6000),
        gib_a_core=(3.0, 4.0),
        needs=LARGE,
        peak_hour=3.0,
        daily=0.5,
        unlike=0.4,
    ),
    Kind("tool", 0.1, replicas=(1, 1, 2), cpu_milli=(0, 50, 100), gib_a_core=(2.0,), unlike=0.6),
)
_AGENTS = (("network", 100, 128), ("logs", 100, 256), ("node-exporter", 50, 64))  # milli, MiB


@dataclass(frozen=True)
class Node:
    """A node, by its place among all of them."""

    row: int
    pool: Pool
    zone: str
    recent: bool

    @property
    def name(self) -> str:
        """Its name, as ``node_item`` gives it."""
        return f"node-{self.row:02d}"


@dataclass(frozen=True)
class Workload:
    """A controller, its template, and what its pods request and use."""

    name: str
    namespace: str
    controller: str  # ReplicaSet, StatefulSet or DaemonSet
    cpu_milli: int
    memory_mib: int
    spec: Object
    uses: tuple[float, float]  # thousandths of a core and MiB, a replica on average
    unlike: float = 0.2  # sigma of what its replicas use
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class MixedCluster:
    """The objects of a cluster, by the plural of their kind, and what each pod uses, by its name."""

    nodes: Sequence[Node]
    items: Mapping[str, list[Object]]
    usage: Mapping[str, tuple[float, float]]  # thousandths of a core and bytes


def mixed_inputs(
    seed: int, mean_load: float, *, policy: RebalancePolicy, node_count: int | None = None
) -> PlanningInputs:
    """What a plan of such a cluster is made from."""
    cluster = mixed_cluster(seed, mean_load, node_count)
    return inputs_of(dict(cluster.items), dict(cluster.usage), f"mixed-{seed}", policy)


def mixed_cluster(seed: int, mean_load: float, node_count: int | None = None) -> MixedCluster:
    """A cluster that uses so much of its cpu, a fraction; always the same for a seed."""
    random = np.random.default_rng([23, seed, round(100 * mean_load)])
    if node_count is None:
        node_count = int(random.integers(FEWEST_NODES, MOST_NODES + 1))
    nodes = _nodes(random, node_count)
    scheduler = _Scheduler(random, nodes)
    agents = [_agent(*values) for values in _AGENTS]
    for agent in agents:
        scheduler.add_to_every_node(agent)
    placed = [(agent, {node.row: node.row for node in nodes}) for agent in agents]
    placed += _without_those_that_left(random, _deployed(random, scheduler))

    items = no_items()
    items["nodes"] = [_node_object(node) for node in nodes]
    items["csinodes"] = [_disks_of(node) for node in nodes]
    items["namespaces"] = [_namespace(f"team-{number}") for number in range(_NAMESPACES)]
    items["namespaces"].append(_namespace("kube-system"))
    items["storageclasses"].append(
        {
            "metadata": {"name": "disk"},
            "provisioner": _DRIVER,
            "volumeBindingMode": "WaitForFirstConsumer",
        }
    )
    for workload, node_of_replica in placed:
        _add_objects(random, items, nodes, workload, node_of_replica)
    return MixedCluster(nodes, items, _usage(random, nodes, placed, mean_load))


def _nodes(random: np.random.Generator, count: int) -> list[Node]:
    """Nodes pool by pool, each pool in all zones; the last of the general ones are new."""
    sizes = {pool: max(2, round(pool.share * count)) for pool in _POOLS if pool != GENERAL}
    sizes = {GENERAL: count - sum(sizes.values()), **sizes}
    recent = 1 + int(random.integers(_MOST_RECENT))
    nodes: list[Node] = []
    for pool, size in sizes.items():
        for number in range(size):
            is_recent = pool == GENERAL and number >= size - recent
            nodes.append(Node(len(nodes), pool, f"zone-{number % _ZONES}", is_recent))
    return nodes


class _Scheduler:
    """Places pods about as kube-scheduler does: where they are admitted and most is left by requests."""

    def __init__(self, random: np.random.Generator, nodes: Sequence[Node]) -> None:
        self._random = random
        self._nodes = nodes
        self._zone = np.array([int(node.zone.removeprefix("zone-")) for node in nodes])
        self._room = np.array([(node.pool.size[0], 1024 * node.pool.size[1]) for node in nodes], np.float64)
        self._requested = np.zeros_like(self._room)  # (nodes, 2) thousandths of a core, MiB
        self._pods = np.zeros(len(nodes), np.int64)
        self._old = np.array([not node.recent for node in nodes])
        self._added = np.zeros(len(nodes), bool)  # so far
        self.add_nodes(0.0)

    @property
    def requested_share(self) -> float:
        """The cpu requested, of all nodes but the newest."""
        return float(self._requested[self._old, 0].sum() / self._room[self._old, 0].sum())

    def add_nodes(self, grown: float) -> None:
        """Those of each pool that are there when the cluster has grown to such a fraction of its size."""
        share = _FIRST_NODES + (1.0 - _FIRST_NODES) * min(grown, 1.0)
        for pool in _POOLS:
            rows = [node.row for node in self._nodes if node.pool == pool and not node.recent]
            self._added[rows[: max(2, round(share * len(rows)))]] = True

    def add_to_every_node(self, workload: Workload) -> None:
        """A pod on each node, also on those to come."""
        self._requested += (workload.cpu_milli, workload.memory_mib)
        self._pods += 1

    def place(self, kind: Kind, workload: Workload, replicas: int) -> dict[int, int]:
        """The nodes of its replicas, by their numbers; fewer where no node can be added for the others."""
        node_of_replica: dict[int, int] = {}
        siblings = np.zeros(len(self._nodes), np.int64)
        admitted = self._admitted(kind)
        request = workload.cpu_milli, workload.memory_mib
        for replica in range(replicas):
            fits = self._fits(workload, request, siblings) & admitted
            if not (fits & self._added).any():
                to_add = np.flatnonzero(fits & self._old)
                if not len(to_add):
                    break
                self._added[to_add[0]] = True
            node = self._best(kind, fits & self._added, siblings)
            self._requested[node] += request
            self._pods[node] += 1
            siblings[node] += 1
            node_of_replica[replica] = node
        return node_of_replica

    def _admitted(self, kind: Kind) -> BoolArray:
        """The nodes whose taints it tolerates and that it does not rule out."""
        if kind.needs is not None:
            return np.array([node.pool == kind.needs for node in self._nodes])
        return np.array([not node.pool.taint or node.pool == kind.prefers for node in self._nodes])

    def _fits(self, workload: Workload, request: tuple[int, int], siblings: IntArray) -> BoolArray:
        """The nodes with room for one more replica, as far as its siblings allow."""
        fits = (self._requested + request <= self._room).all(axis=1) & (self._pods < _MOST_PODS)
        if workload.controller == "StatefulSet":
            fits &= siblings == 0
        for constraint in workload.spec.get("topologySpreadConstraints", ()):
            if constraint["whenUnsatisfiable"] == "DoNotSchedule":
                in_zone = np.bincount(self._zone, siblings, minlength=_ZONES)
                fits &= in_zone[self._zone] + 1 - in_zone.min() <= constraint["maxSkew"]
        return np.asarray(fits)

    def _best(self, kind: Kind, fits: BoolArray, siblings: IntArray) -> int:
        """The node with most room by requests, away from siblings; other things are left to chance."""
        score = 1.0 - (self._requested / self._room).mean(axis=1)
        score -= _SIBLING_ON_HOST * siblings
        score -= _SIBLING_IN_ZONE * np.bincount(self._zone, siblings, minlength=_ZONES)[self._zone]
        score += self._random.normal(0.0, _CHANCE, len(score))
        if kind.prefers is not None:
            score[[node.pool == kind.prefers for node in self._nodes]] += _PREFERENCE
        score[~fits] = -np.inf
        return int(np.argmax(score))


Placed = list[tuple[Workload, dict[int, int]]]  # each with the nodes of its replicas, by their numbers


def _deployed(random: np.random.Generator, scheduler: _Scheduler) -> Placed:
    """Workloads, one after the other until the cluster is full by requests."""
    full = float(random.uniform(*_FULL))
    hour = float(random.uniform(0.0, 24.0))
    shares = np.array([kind.share for kind in _KINDS])
    placed: Placed = []
    refused = 0
    number = 0
    while refused < _REFUSED and scheduler.requested_share < full:
        kind = _KINDS[int(random.choice(len(_KINDS), p=shares / shares.sum()))]
        workload = _workload(random, kind, number, hour)
        scheduler.add_nodes(scheduler.requested_share / full)
        node_of_replica = scheduler.place(kind, workload, int(random.choice(kind.replicas)))
        number += 1
        if node_of_replica:
            placed.append((workload, node_of_replica))
            refused = 0
        else:
            refused += 1
    return placed


def _without_those_that_left(random: np.random.Generator, placed: Placed) -> Placed:
    """What is left of workloads since they were deployed: some were deleted, and some scaled down."""
    left: Placed = []
    for workload, node_of_replica in placed:
        if random.random() < _DELETED:
            continue
        replicas = list(node_of_replica)
        if len(replicas) >= 3 and random.random() < _SCALED_DOWN:
            count = len(replicas) - len(replicas) // 3
            # A StatefulSet loses its last replicas, a ReplicaSet any.
            if workload.controller != "StatefulSet":
                replicas = random.permutation(replicas).tolist()
            replicas = sorted(replicas[:count])
        left.append((workload, {replica: node_of_replica[replica] for replica in replicas}))
    return left


def _workload(random: np.random.Generator, kind: Kind, number: int, hour: float) -> Workload:
    """One of a kind, as busy as it is at this hour of the day."""
    name = f"{kind.name}-{number:03d}"
    cpu = int(random.choice(kind.cpu_milli))
    memory = round(1.024 * cpu * float(random.choice(kind.gib_a_core)))
    median, sigma = _APPETITE
    # The curve of a day is a cosine with its maximum at the peak.
    time_of_day = 1.0 + kind.daily * np.cos(2.0 * np.pi * (hour - kind.peak_hour) / 24.0)
    appetite = float(median * random.lognormal(0.0, sigma) * time_of_day)
    memory_appetite = float(_MEMORY[0] * random.lognormal(0.0, _MEMORY[1]))
    uses = _UNREQUESTED[0] * appetite, _UNREQUESTED[1] * memory_appetite
    if cpu:
        uses = cpu * appetite, memory * memory_appetite
    return Workload(
        name=name,
        namespace=f"team-{number % _NAMESPACES}",
        controller="StatefulSet" if kind.stateful else "ReplicaSet",
        cpu_milli=cpu,
        memory_mib=memory,
        spec=_template(cpu, memory) | _constraints(random, kind, name),
        uses=uses,
        unlike=kind.unlike,
        annotations=HELD if random.random() < _HELD else NO_ANNOTATIONS,
    )


def _agent(name: str, cpu: int, memory: int) -> Workload:
    """A DaemonSet."""
    spec = _template(cpu, memory)
    spec["tolerations"] = [{"operator": "Exists"}]
    spec["priority"] = 2_000_001_000
    return Workload(name, "kube-system", "DaemonSet", cpu, memory, spec, uses=(0.5 * cpu, float(memory)))


def _template(cpu: int, memory: int) -> Object:
    container: Object = {"name": "main", "image": "app:v1"}
    if cpu:
        container["resources"] = {"requests": {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}}
    return {"schedulerName": "default-scheduler", "containers": [container]}


def _constraints(random: np.random.Generator, kind: Kind, name: str) -> Object:
    """The fields of a template that decide where its pods may and would rather run, and what binds them."""
    spec: Object = {}
    own = {"labelSelector": {"matchLabels": {"app": name}}}
    on_host = {**own, "topologyKey": _HOST_LABEL}
    affinity: Object = {}
    pool = kind.needs or kind.prefers
    if pool is not None and pool.taint:
        spec["tolerations"] = [{"key": pool.taint, "operator": "Exists", "effect": "NoSchedule"}]
    if pool is not None:
        of_pool = {"matchExpressions": [{"key": _POOL_LABEL, "operator": "In", "values": [pool.name]}]}
        if kind.needs is not None:
            required = {"nodeSelectorTerms": [of_pool]}
            affinity["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": required}
        else:
            preferred = [{"weight": 80, "preference": of_pool}]
            affinity["nodeAffinity"] = {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
    if kind.stateful:
        affinity["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [on_host]}
    elif random.random() < kind.apart:
        weighted = [{"weight": 50, "podAffinityTerm": on_host}]
        affinity["podAntiAffinity"] = {"preferredDuringSchedulingIgnoredDuringExecution": weighted}
    if affinity:
        spec["affinity"] = affinity
    if random.random() < kind.spread:
        unsatisfiable = "DoNotSchedule" if random.random() < 0.5 else "ScheduleAnyway"
        over_zones = {"maxSkew": 1, "topologyKey": _ZONE_LABEL, "whenUnsatisfiable": unsatisfiable, **own}
        spec["topologySpreadConstraints"] = [over_zones]
    if not kind.stateful and random.random() < _ON_DISK:
        spec["volumes"] = [{"name": "scratch", "emptyDir": {}}]
    return spec


def _node_object(node: Node) -> Object:
    node_object = node_item(node.row, node.pool.size, node.zone)
    labels = node_object["metadata"]["labels"]
    labels[_ZONE_LABEL] = node.zone
    labels[_POOL_LABEL] = node.pool.name
    if node.pool.taint:
        node_object["spec"]["taints"] = [{"key": node.pool.taint, "value": "true", "effect": "NoSchedule"}]
    if node.recent:
        node_object["metadata"]["creationTimestamp"] = _RECENTLY
        node_object["status"]["conditions"][0]["lastTransitionTime"] = _RECENTLY
    return node_object


def _disks_of(node: Node) -> Object:
    """The CSINode of a node."""
    driver = {"name": _DRIVER, "nodeID": node.name, "allocatable": {"count": _DISKS_A_NODE}}
    return {"metadata": {"name": node.name}, "spec": {"drivers": [driver]}}


def _namespace(name: str) -> Object:
    return {"metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}}}


def _add_objects(
    random: np.random.Generator,
    items: dict[str, list[Object]],
    nodes: Sequence[Node],
    workload: Workload,
    node_of_replica: Mapping[int, int],
) -> None:
    """Its controller, its pods, the volumes of those, and perhaps a budget."""
    name = workload.name
    namespace = workload.namespace
    count = len(node_of_replica)
    for replica, row in node_of_replica.items():
        pod_name = f"{name}-{replica}"
        pod = pod_item(pod_name, name, row, workload.spec, namespace, workload.annotations)
        pod["metadata"]["ownerReferences"][0]["kind"] = workload.controller
        if workload.controller == "StatefulSet":
            pod["metadata"]["labels"] = {"app": name, "controller-revision-hash": f"{name}-1"}
            claim = f"data-{pod_name}"
            volume = {"name": "data", "persistentVolumeClaim": {"claimName": claim}}
            pod["spec"] = {**pod["spec"], "volumes": [volume]}
            _add_volume(items, claim, namespace, nodes[row].zone)
        items["pods"].append(pod)
    if workload.controller == "DaemonSet":
        return  # no plan needs to know more of them than their pods say
    controller = replica_set_item(name, count, workload.spec, namespace, workload.annotations)
    if workload.controller == "StatefulSet":
        controller["status"]["currentRevision"] = f"{name}-1"
        controller["status"]["updateRevision"] = f"{name}-1"
        items["statefulsets"].append(controller)
    else:
        items["replicasets"].append(controller)
    if count > 1 and random.random() < _BUDGETS:
        is_tight = bool(random.random() < _TIGHT)
        items["poddisruptionbudgets"].append(_budget(workload, count, is_tight=is_tight))


def _budget(workload: Workload, count: int, *, is_tight: bool) -> Object:
    """A budget that lets a quarter of the pods be away, or one of a StatefulSet; a tight one lets none."""
    selector = {"matchLabels": {"app": workload.name}}
    if is_tight:
        allowed = 0
        spec: Object = {"minAvailable": count}
    elif workload.controller == "StatefulSet":
        allowed = 1
        spec = {"maxUnavailable": 1}
    else:
        allowed = -(-count // 4)  # the disruption controller rounds up
        spec = {"maxUnavailable": "25%"}
    return {
        "metadata": {"name": workload.name, "namespace": workload.namespace, "generation": 1},
        "spec": {**spec, "selector": selector},
        "status": {
            "disruptionsAllowed": allowed,
            "currentHealthy": count,
            "desiredHealthy": count - allowed,
            "expectedPods": count,
            "observedGeneration": 1,
        },
    }


def _add_volume(items: dict[str, list[Object]], claim: str, namespace: str, zone: str) -> None:
    """A bound claim, and its volume, which can be attached in one zone only."""
    amount = {"storage": "100Gi"}
    modes = ["ReadWriteOnce"]
    volume = f"pv-{claim}"
    in_zone = {"matchExpressions": [{"key": _ZONE_LABEL, "operator": "In", "values": [zone]}]}
    items["persistentvolumeclaims"].append(
        {
            "metadata": {"name": claim, "namespace": namespace, "uid": claim},
            "spec": {
                "accessModes": modes,
                "resources": {"requests": amount},
                "storageClassName": "disk",
                "volumeName": volume,
            },
            "status": {"phase": "Bound"},
        }
    )
    items["persistentvolumes"].append(
        {
            "metadata": {"name": volume},
            "spec": {
                "capacity": amount,
                "accessModes": modes,
                "storageClassName": "disk",
                "csi": {"driver": _DRIVER, "volumeHandle": volume},
                "claimRef": {"namespace": namespace, "name": claim, "uid": claim},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [in_zone]}},
            },
            "status": {"phase": "Bound"},
        }
    )


def _usage(
    random: np.random.Generator, nodes: Sequence[Node], placed: Placed, mean_load: float
) -> dict[str, tuple[float, float]]:
    """What each pod uses in thousandths of a core and bytes, by its name."""
    names: list[str] = []
    rows: list[int] = []
    cpu: list[float] = []
    memory: list[float] = []
    for workload, node_of_replica in placed:
        for replica, row in node_of_replica.items():
            times = random.lognormal(0.0, workload.unlike)
            if workload.controller == "StatefulSet" and replica == 0:
                times *= _LEADER
            if workload.controller != "DaemonSet" and random.random() < _NOISY:
                times *= random.uniform(*_NOISE)
            names.append(f"{workload.name}-{replica}")
            rows.append(row)
            cpu.append(workload.uses[0] * times)
            memory.append(workload.uses[1] * random.lognormal(0.0, _UNLIKE_MEMORY))
    room_milli = np.array([node.pool.size[0] for node in nodes], np.float64)
    room_mib = np.array([1024 * node.pool.size[1] for node in nodes], np.float64)
    cpu_milli = _with_mean(np.array(cpu), np.array(rows), room_milli, mean_load)
    memory_mib = _throttled(np.array(memory), np.array(rows), _BUSIEST_MEMORY * room_mib)
    amounts = zip(cpu_milli.tolist(), (memory_mib * 2**20).tolist(), strict=True)
    return dict(zip(names, amounts, strict=True))


def _with_mean(amounts: FloatArray, rows: IntArray, room: FloatArray, mean_load: float) -> FloatArray:
    """(pods,) amounts times a factor, as far as their nodes have room, that are the mean load together."""
    least = 0.0
    greatest = 1000.0
    for _ in range(60):
        factor = (least + greatest) / 2.0
        total = _throttled(factor * amounts, rows, _BUSIEST_CPU * room).sum()
        if total < mean_load * room.sum():
            least = factor
        else:
            greatest = factor
    return _throttled(greatest * amounts, rows, _BUSIEST_CPU * room)


def _throttled(amounts: FloatArray, rows: IntArray, room: FloatArray) -> FloatArray:
    """(pods,) amounts, less on nodes that have less room; ``rows`` are the nodes."""
    on_node = np.bincount(rows, amounts, minlength=len(room))
    share = np.minimum(room / np.maximum(on_node, 1e-9), 1.0)
    return np.asarray(amounts * share[rows])
