"""The schedulers whose pods can be seen, and whether one of them is the scheduler that is modelled.

A second scheduler that runs as a Deployment tells nothing of the first, which managed control planes hide:
the one behind default-scheduler is known by its static pod alone. One without that profile is a second one.
"""

from __future__ import annotations

from rebalancer.cluster.pod_classes import PodClass
from rebalancer.cluster.records import Container
from rebalancer.cluster.records.pods import is_scheduler
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.profiles.types import SchedulerConfiguration

_FIRST_SCHEDULER = "default-scheduler"
_OWNER_OF_STATIC_PODS = "Node"


def scheduler_pods(snapshot: Snapshot) -> list[tuple[PodClass, Container]]:
    """The classes of pods that run a kube-scheduler, with the container that does."""
    return [
        (pod, container)
        for pod in snapshot.pods.classes
        for container in pod.spec.containers or ()
        if is_scheduler(container.image)
    ]


def is_seen(snapshot: Snapshot, configuration: SchedulerConfiguration) -> bool:
    """Whether the pods that are seen include the scheduler of this configuration."""
    found = scheduler_pods(snapshot)
    if _FIRST_SCHEDULER not in configuration.scheduler_names:
        return bool(found)
    return any(pod.owner.kind == _OWNER_OF_STATIC_PODS for pod, _ in found)
