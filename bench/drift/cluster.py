"""A cluster on a real control plane whose load drifts: each node has its hour, and each workload its own.

A node uses what its pods use, and a share of its own that rises and falls, as batch work outside of
Kubernetes would let it. Both are functions of the time alone, so whoever asks learns the same:

    node-07    24 % ± 20 points, its peak 7/20 of a period after node-00's
    app-11     400 thousandths of a core ± a third for each of its pods, with a phase of its own
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Mapping

from tests.e2e import clusters
from tests.e2e.api import Api
from tests.e2e.controlplane import ControlPlane
from tests.e2e.loads import Load

NODES, WORKLOADS, REPLICAS = 20, 40, 3
CORES = 8
SCHEDULER = "load-variation"  # scores nodes by their load and how much that varies
PERIOD_SECONDS = 900.0
HOT_PERCENT, COOL_PERCENT = 70, 60
_OWN, _SWING = 24.0, 20.0  # percent of a node's cores, and points
_POD_MILLI, _POD_SWING = 400.0, 130.0
_SEEN_SECONDS = 1.0
NODE_NAMES = [f"node-{number:02d}" for number in range(NODES)]


def fill(control_plane: ControlPlane) -> None:
    """Create nodes and workloads, and wait until all pods are ready."""
    for name in NODE_NAMES:
        control_plane.api.create(clusters.node(name, cpu=str(CORES), memory="32Gi"))
    for number in range(WORKLOADS):
        # No two are alike, so that few nodes tie for a pod.
        control_plane.api.create(
            clusters.deployment(
                f"app-{number}", REPLICAS, cpu=f"{251 + 7 * number}m", memory="256Mi", scheduler=SCHEDULER
            )
        )

    def whole() -> bool:
        return len(control_plane.api.list("/api/v1/namespaces/default/pods")) == WORKLOADS * REPLICAS

    deadline = time.monotonic() + 120
    while not whole():
        assert time.monotonic() < deadline, "not all pods were created"
        time.sleep(1)
    control_plane.wait_for_pods()


class DriftingLoad:
    """The load of every node now."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._pods: Counter[tuple[str, str]] = Counter()
        self._seen = -math.inf

    def __call__(self) -> Mapping[str, Load]:
        return self.with_pods(self.placed())

    def with_pods(self, placed: Mapping[tuple[str, str], int]) -> Mapping[str, Load]:
        """The load that every node would have now with so many pods of each app on it."""
        now = time.monotonic() - self._began
        used = dict.fromkeys(NODE_NAMES, 0.0)
        for (node, app), count in placed.items():
            phase = int(app.rpartition("-")[2]) / WORKLOADS
            milli = _POD_MILLI + _POD_SWING * math.sin(2 * math.pi * (now / PERIOD_SECONDS + phase))
            used[node] += count * milli / 1000.0
        return {
            name: Load(_own(number, now) + 100.0 * used[name] / CORES, 20.0)
            for number, name in enumerate(used)
        }

    def placed(self) -> Mapping[tuple[str, str], int]:
        """How many pods of each app run on each node."""
        with self._lock:
            if time.monotonic() - self._seen >= _SEEN_SECONDS:
                pods = self._api.list("/api/v1/namespaces/default/pods")
                self._pods = Counter(
                    (pod["spec"]["nodeName"], pod["metadata"]["labels"]["app"])
                    for pod in pods
                    if pod["spec"].get("nodeName")
                )
                self._seen = time.monotonic()
            return self._pods


def _own(number: int, now: float) -> float:
    phase = now / PERIOD_SECONDS + number / NODES
    return _OWN + _SWING * math.sin(2 * math.pi * phase)
