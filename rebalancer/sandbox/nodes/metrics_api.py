"""The Metrics API, computed from the usage of the moment."""

from __future__ import annotations

import math
from typing import Any

from rebalancer.cluster import times
from rebalancer.sandbox.nodes.usage import Usage, UsageModel
from rebalancer.sandbox.objects.accessors import Object, labels_of, name_of, namespace_of, phase_of
from rebalancer.sandbox.objects.store import Store

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
        usage, containers = self._usage.of_pod(pod), pod["spec"].get("containers") or [{"name": "main"}]
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
