"""The workloads that plans rely on, schedulers and load sources: without them a run could not go on."""

from __future__ import annotations

from collections.abc import Collection

from rebalancer.cluster.arrays import PodRow
from rebalancer.cluster.kinds import SERVICES
from rebalancer.cluster.records import Service
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.planning.workloads.lookup import Workloads

# Image names, without registry and tag, of what schedules pods or measures load.
_IMAGES = frozenset({"kube-scheduler", "load-watcher", "metrics-server", "prometheus", "rebalancer"})


def _image_name(image: str) -> str:
    return image.rsplit("/", 1)[-1].split("@", 1)[0].split(":", 1)[0]


def system_workloads(
    snapshot: Snapshot, services: Collection[tuple[str, str]], namespaces: Collection[str]
) -> frozenset[str]:
    """``namespace/Kind/name`` of the workloads behind these (namespace, name) services, of well-known images,
    and of schedulers in these namespaces (where a scheduler's configuration lives).
    """
    selectors = [
        (item.metadata.namespace, item.spec.selector)
        for item in snapshot.recording.records(SERVICES)
        if isinstance(item, Service)
        and (item.metadata.namespace, item.metadata.name) in services
        and item.spec.selector
    ]
    workloads = Workloads(snapshot)
    found: set[str] = set()
    matching = [
        index
        for index, pod in enumerate(snapshot.pods.classes)
        if any(
            _image_name(container.image) in _IMAGES
            or (pod.namespace in namespaces and "scheduler" in _image_name(container.image))
            for container in pod.spec.containers or ()
        )
        or any(
            namespace == pod.namespace
            and all(pod.labels.get(key) == value for key, value in selector.items())
            for namespace, selector in selectors
        )
    ]
    wanted = frozenset(matching)
    for row, pod_class in enumerate(snapshot.pods.pod_class.tolist()):
        if pod_class in wanted:
            found.add(workloads.of(PodRow(row)).key)
    return frozenset(found)
