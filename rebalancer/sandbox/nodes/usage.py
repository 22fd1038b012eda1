"""How much CPU and memory each pod and node of the sandbox uses, so that load moves as pods move."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from rebalancer.cluster import quantities
from rebalancer.sandbox.objects.accessors import (
    Object,
    annotations_of,
    controller_of,
    name_of,
    namespace_of,
    node_of,
    phase_of,
    requests_of,
    status_of,
)
from rebalancer.sandbox.objects.change_log import Key
from rebalancer.sandbox.objects.store import Store

CPU_ANNOTATION = "sandbox.rebalancer/cpu"
MEMORY_ANNOTATION = "sandbox.rebalancer/memory"
_REQUEST_SHARE = 0.5  # of its requests, used by a pod whose usage is unknown


class Usage(NamedTuple):
    """CPU in billionths of a core and memory in bytes."""

    cpu_nano: int
    memory_bytes: int

    def plus(self, other: Usage) -> Usage:
        """The sum of both."""
        return Usage(self.cpu_nano + other.cpu_nano, self.memory_bytes + other.memory_bytes)


NOTHING = Usage(0, 0)


class UsageModel:
    """The usage of pods and nodes, from annotations, dumped metrics, siblings or requests, in that order."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._measured: dict[Key, Usage] = {}
        self._usual: dict[str, Usage] = {}  # by owner uid: the mean of its pods in the dump
        self._recorded_nodes: dict[str, Usage] = {}
        self._system: dict[str, Usage] = {}
        self._unmeasured_nodes: set[str] = set()

    def load(self, node_metrics: Iterable[Object], pod_metrics: Iterable[Object]) -> None:
        """Learn from dumped metrics what pods, their siblings and each node's system use.

        The pods have to be in the store: what a node uses beyond them is its system.
        """
        for item in pod_metrics:
            containers = item.get("containers") or ()
            total = NOTHING
            for container in containers:
                total = total.plus(_usage(container["usage"]))
            self._measured[namespace_of(item), name_of(item)] = total
        for item in node_metrics:
            self._recorded_nodes[name_of(item)] = _usage(item["usage"])
        self._learn_owners()
        self._learn_systems()

    def _learn_owners(self) -> None:
        by_owner: dict[str, list[Usage]] = {}
        for pod in self._store.all("pods"):
            usage, owner = self._measured.get((namespace_of(pod), name_of(pod))), controller_of(pod)
            if usage is not None and owner is not None:
                by_owner.setdefault(owner["uid"], []).append(usage)
        for uid, usages in by_owner.items():
            self._usual[uid] = Usage(
                sum(usage.cpu_nano for usage in usages) // len(usages),
                sum(usage.memory_bytes for usage in usages) // len(usages),
            )

    def _learn_systems(self) -> None:
        if not self._recorded_nodes:
            return
        sums = self._pod_sums()
        for name, recorded in self._recorded_nodes.items():
            pods = sums.get(name, NOTHING)
            self._system[name] = Usage(
                max(recorded.cpu_nano - pods.cpu_nano, 0), max(recorded.memory_bytes - pods.memory_bytes, 0)
            )
        names = {name_of(node) for node in self._store.all("nodes")}
        self._unmeasured_nodes = names - self._recorded_nodes.keys()

    def hide(self, node: str) -> None:
        """Have no figures of this node, as when its metrics cannot be read."""
        self._unmeasured_nodes.add(node)

    def show(self, node: str) -> None:
        """Have figures of this node again."""
        self._unmeasured_nodes.discard(node)

    def of_pod(self, pod: Object) -> Usage:
        """What a pod uses while it runs."""
        known = self._measured.get((namespace_of(pod), name_of(pod)))
        if known is None:
            owner = controller_of(pod)
            known = self._usual.get(owner["uid"]) if owner else None
        if known is None:
            known = _share_of_requests(pod)
        annotations = annotations_of(pod)
        if CPU_ANNOTATION in annotations:
            known = known._replace(cpu_nano=cpu_nano(annotations[CPU_ANNOTATION]))
        if MEMORY_ANNOTATION in annotations:
            known = known._replace(memory_bytes=quantities.units(annotations[MEMORY_ANNOTATION]))
        return known

    def of_nodes(self) -> dict[str, Usage]:
        """What each measured node uses: its running pods and its system."""
        sums = self._pod_sums()
        return {
            name_of(node): sums.get(name_of(node), NOTHING).plus(self._system.get(name_of(node), NOTHING))
            for node in self._store.all("nodes")
            if name_of(node) not in self._unmeasured_nodes
        }

    def cpu_loads(self) -> dict[str, float]:
        """The share of its allocatable CPU that each measured node uses."""
        usages, loads = self.of_nodes(), {}
        for node in self._store.all("nodes"):
            cpu = (status_of(node).get("allocatable") or {}).get("cpu")
            if name_of(node) in usages and cpu:
                loads[name_of(node)] = usages[name_of(node)].cpu_nano / cpu_nano(str(cpu))
        return loads

    def _pod_sums(self) -> dict[str, Usage]:
        cpu: dict[str, int] = {}
        memory: dict[str, int] = {}
        for pod in self._store.all("pods"):
            if phase_of(pod) != "Running":
                continue
            node, usage = node_of(pod), self.of_pod(pod)
            cpu[node] = cpu.get(node, 0) + usage.cpu_nano
            memory[node] = memory.get(node, 0) + usage.memory_bytes
        return {node: Usage(cpu[node], memory[node]) for node in cpu}


def cpu_nano(text: str) -> int:
    """CPU in billionths of a core, rounded up; ValueError for a bad quantity.

    Metrics need this finer unit: an idle container uses less than a thousandth of a core.
    """
    return math.ceil(quantities.parse(text) * 1_000_000_000)


def _usage(measured: dict[str, str]) -> Usage:
    return Usage(cpu_nano(measured.get("cpu", "0")), quantities.units(measured.get("memory", "0")))


def _share_of_requests(pod: Object) -> Usage:
    cpu = memory = 0
    for requests in requests_of(pod):
        cpu += cpu_nano(requests.get("cpu", "0"))
        memory += quantities.units(requests.get("memory", "0"))
    return Usage(int(cpu * _REQUEST_SHARE), int(memory * _REQUEST_SHARE))
