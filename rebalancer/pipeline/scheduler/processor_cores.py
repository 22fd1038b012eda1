"""On how many processor cores the scheduler runs: as many of its workers can be ahead at once."""

from __future__ import annotations

import numpy as np

from rebalancer.cluster.nodes import CPU
from rebalancer.cluster.records.pods import is_scheduler
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.policy import SchedulerSettings


def scheduler_cores(settings: SchedulerSettings, snapshot: Snapshot) -> int | None:
    """What the policy states, else the most cores of a node with a scheduler's pod; None without one."""
    if settings.cores is not None:
        return settings.cores
    pods = snapshot.pods
    schedulers = [
        index
        for index, pod in enumerate(pods.classes)
        if any(is_scheduler(container.image) for container in pod.spec.containers or ())
    ]
    nodes = pods.node[np.isin(pods.pod_class, schedulers) & (pods.node >= 0)]
    most = int(snapshot.nodes.capacity[nodes, CPU].max(initial=0))
    return -(-most // 1000) or None
