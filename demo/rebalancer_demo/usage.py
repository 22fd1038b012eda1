"""How much CPU and memory each pod and node uses, and who measures it: the Metrics API and load-watcher.

Usage is stated by annotations of pods, so load moves as pods move. The Metrics API shows the usage of the
moment. The load-watcher (port 2020, GET /watcher) reports, as the real one does, the load of some time ago,
averaged over a window, so its readers react late: ``lag_seconds`` and ``averaging_seconds``.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from rebalancer.cluster import quantities, times
from rebalancer_demo.api.requests import Response
from rebalancer_demo.objects import (
    Object,
    annotations_of,
    controller_of,
    labels_of,
    name_of,
    namespace_of,
    node_of,
    phase_of,
    requests_of,
    status_of,
)
from rebalancer_demo.store import Key, Store

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
        for metrics in pod_metrics:
            containers = metrics.get("containers") or ()
            total = NOTHING
            for container in containers:
                total = total.plus(_usage(container["usage"]))
            self._measured[namespace_of(metrics), name_of(metrics)] = total
        for metrics in node_metrics:
            self._recorded_nodes[name_of(metrics)] = _usage(metrics["usage"])
        self._learn_owners()
        self._learn_systems()

    def _learn_owners(self) -> None:
        by_owner: dict[str, list[Usage]] = {}
        for pod in self._store.all("pods"):
            usage = self._measured.get((namespace_of(pod), name_of(pod)))
            owner = controller_of(pod)
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
        usage = self._measured.get((namespace_of(pod), name_of(pod)))
        if usage is None:
            owner = controller_of(pod)
            usage = self._usual.get(owner["uid"]) if owner else None
        if usage is None:
            usage = _share_of_requests(pod)
        annotations = annotations_of(pod)
        if CPU_ANNOTATION in annotations:
            usage = usage._replace(cpu_nano=cpu_nano(annotations[CPU_ANNOTATION]))
        if MEMORY_ANNOTATION in annotations:
            usage = usage._replace(memory_bytes=quantities.units(annotations[MEMORY_ANNOTATION]))
        return usage

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
        usages = self.of_nodes()
        loads = {}
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
            node = node_of(pod)
            usage = self.of_pod(pod)
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


_WINDOW = "0s"  # the figures are those of the moment


class MetricsApi:
    """NodeMetrics and PodMetrics as metrics-server would answer them now.

    ``age_seconds`` makes the figures look older than they are, as when metrics-server gets no new ones.
    """

    def __init__(self, store: Store, usage: UsageModel) -> None:
        self._store = store
        self._usage = usage
        self.age_seconds = 0.0

    def __call__(self, plural: str, namespace: str, name: str) -> Any:
        """One object (None when there is none) when named, else all of them."""
        # Times have whole seconds: rounded up, a figure is never older than what happened before it.
        now = times.render(math.ceil(self._store.clock() - self.age_seconds))
        if plural == "nodes":
            return self._nodes(now, name)
        return self._pods(now, namespace, name)

    def _nodes(self, now: str, name: str) -> Any:
        usages = self._usage.of_nodes()
        if name:
            node = self._store.get("nodes", "", name)
            return _node(node, usages[name], now) if node and name in usages else None
        nodes = self._store.all("nodes")
        return [_node(node, usages[name_of(node)], now) for node in nodes if name_of(node) in usages]

    def _pods(self, now: str, namespace: str, name: str) -> Any:
        if name:
            pod = self._store.get("pods", namespace, name)
            return self._pod(pod, now) if pod and phase_of(pod) == "Running" else None
        pods = self._store.all("pods", namespace)
        return [self._pod(pod, now) for pod in pods if phase_of(pod) == "Running"]

    def _pod(self, pod: Object, now: str) -> Object:
        """A pod's usage, split evenly over its containers."""
        usage = self._usage.of_pod(pod)
        containers = pod["spec"].get("containers") or [{"name": "main"}]
        share = Usage(usage.cpu_nano // len(containers), usage.memory_bytes // len(containers))
        metadata: Object = {"name": name_of(pod), "namespace": namespace_of(pod), "creationTimestamp": now}
        if labels_of(pod):
            metadata["labels"] = labels_of(pod)
        return {
            "metadata": metadata,
            "timestamp": now,
            "window": _WINDOW,
            "containers": [
                {"name": container["name"], "usage": _quantities(share)} for container in containers
            ],
        }


def _node(node: Object, usage: Usage, now: str) -> Object:
    metadata: Object = {"name": name_of(node), "creationTimestamp": now}
    if labels_of(node):
        metadata["labels"] = labels_of(node)
    return {"metadata": metadata, "timestamp": now, "window": _WINDOW, "usage": _quantities(usage)}


def _quantities(usage: Usage) -> dict[str, str]:
    return {"cpu": f"{usage.cpu_nano}n", "memory": f"{usage.memory_bytes // 1024}Ki"}


_MAX_SAMPLES = 900

Utilisation = dict[str, tuple[float, float]]  # node -> CPU, memory in percent of capacity


class _Sample(NamedTuple):
    time: float
    utilisation: Utilisation


class LoadWatcher:
    """Answers with the node utilisation of ``lag_seconds`` ago, averaged over ``averaging_seconds``.

    With both zero it is the present utilisation; otherwise ``sample`` has to be called as time passes.
    """

    def __init__(
        self, store: Store, usage: UsageModel, *, lag_seconds: float = 0.0, averaging_seconds: float = 0.0
    ) -> None:
        self._store = store
        self._usage = usage
        self.lag_seconds = lag_seconds
        self.averaging_seconds = averaging_seconds
        self._samples: list[_Sample] = []
        self._lock = threading.Lock()
        self._deviation: Utilisation = {}

    def load(self, document: Object) -> None:
        """Keep the standard deviations of a dumped ``watcher.json``, which the sandbox cannot compute."""
        for node, entry in document["data"]["NodeMetricsMap"].items():
            deviations = {
                metric["type"]: float(metric["value"])
                for metric in entry.get("metrics") or ()
                if metric.get("operator") == "STD"
            }
            self._deviation[node] = (deviations.get("CPU", 0.0), deviations.get("Memory", 0.0))

    def sample(self) -> None:
        """Remember the utilisation of now, and forget what no lag or average reaches back to."""
        sample = _Sample(self._store.clock(), self._utilisation())
        oldest = sample.time - self.lag_seconds - self.averaging_seconds
        with self._lock:
            self._samples.append(sample)
            while len(self._samples) > 1 and (
                self._samples[1].time <= oldest or len(self._samples) > _MAX_SAMPLES
            ):
                del self._samples[0]

    def _utilisation(self) -> Utilisation:
        usages = self._usage.of_nodes()
        by_node = {}
        for node in self._store.all("nodes"):
            usage = usages.get(name_of(node))
            capacity = status_of(node).get("capacity") or {}
            if usage is None or "cpu" not in capacity or "memory" not in capacity:
                continue
            by_node[name_of(node)] = (
                100.0 * usage.cpu_nano / cpu_nano(str(capacity["cpu"])),
                100.0 * usage.memory_bytes / quantities.units(str(capacity["memory"])),
            )
        return by_node

    def _window(self) -> tuple[list[Utilisation], float]:
        """The utilisations that count, and the time up to which they go."""
        now = self._store.clock()
        if not self.lag_seconds and not self.averaging_seconds:
            return [self._utilisation()], now
        end = now - self.lag_seconds
        with self._lock:
            samples = [sample for sample in self._samples if sample.time <= end] or self._samples[:1]
        if not samples:
            return [self._utilisation()], now
        # the newest sample before the window holds at its beginning
        first = max(
            (at for at, sample in enumerate(samples) if sample.time <= end - self.averaging_seconds),
            default=0,
        )
        return [sample.utilisation for sample in samples[first:]], end

    def __call__(self, query: Mapping[str, str] | None = None) -> Any:
        """The document; with ``host`` of that node alone, 404 when it is unknown."""
        samples, end = self._window()
        host = (query or {}).get("host")
        nodes = {host} if host else samples[-1].keys()
        entries = {}
        for node in sorted(nodes):
            values = [sample[node] for sample in samples if node in sample]
            if not values:
                return Response(404, b"", "text/plain")
            entries[node] = {
                "metrics": self._metrics(node, values),
                "tags": {},
                "metadata": {"dataCenter": ""},
            }
        # start and end are the true window, although load-watcher always calls its duration 15m
        # Whole seconds: rounded up, a figure is never older than what happened before it.
        start = math.ceil(end - self.averaging_seconds)
        last = math.ceil(end)
        return {
            "timestamp": last,
            "window": {"duration": "15m", "start": start, "end": last},
            "source": "Prometheus",
            "data": {"NodeMetricsMap": entries},
        }

    def _metrics(self, node: str, values: list[tuple[float, float]]) -> list[Object]:
        rows = []
        for index, kind in enumerate(("CPU", "Memory")):
            column = [value[index] for value in values]
            mean = sum(column) / len(column)
            spread = math.sqrt(sum((value - mean) ** 2 for value in column) / len(column))
            dumped = self._deviation.get(node, (0.0, 0.0))[index]
            for operator, value in (("AVG", mean), ("STD", max(spread, dumped))):
                rows.append(
                    {
                        "name": "",
                        "type": kind,
                        "operator": operator,
                        "rollup": "15m",
                        "value": round(value, 6),
                    }
                )
        return rows
