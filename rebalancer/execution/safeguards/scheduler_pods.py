"""The pods of a scheduler that has no Lease: those that mount its configuration, else those of its image.

Pods of one controller, or the static pods of one namespace, are one scheduler: one ready replica suffices.
Where several schedulers match, each must be ready, as it is not known which of them places the plan's pods.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rebalancer.cluster import records
from rebalancer.cluster.kinds import Kind
from rebalancer.cluster.live import RawApi
from rebalancer.cluster.live.lists import read_list
from rebalancer.errors import UnreachableError
from rebalancer.execution.observed_pods import ObservedPod

SCHEDULER_IMAGE = "kube-scheduler"


@dataclass(frozen=True, slots=True)
class PodSelection:
    """Which pods are a scheduler's: in these namespaces, mounting this ConfigMap, else of its image."""

    namespaces: tuple[str, ...]
    config_map: str = ""  # its name; empty: by image
    without_default: bool = False  # leave out the pods of the cluster's default scheduler

    def __str__(self) -> str:
        where = " and ".join(self.namespaces)
        if self.config_map:
            return f"of those in {where} that mount the configmap {self.config_map}"
        return f"of those in {where} whose image is {SCHEDULER_IMAGE}"


@dataclass(frozen=True, slots=True)
class SchedulerPods:
    """The replicas of one scheduler; ``ready`` names one that is ready, in words, and is empty without."""

    name: str
    ready: str = ""


class _Named(records.Record, frozen=True):
    name: str = ""


class _Projected(records.Record, frozen=True):
    config_map: _Named | None = None


class _Sources(records.Record, frozen=True):
    sources: list[_Projected] | None = None


class _Volume(records.Record, frozen=True):
    config_map: _Named | None = None
    projected: _Sources | None = None


class _Container(records.Record, frozen=True):
    image: str = ""


class _SchedulerPodSpec(records.Record, frozen=True):
    node_name: str = ""
    containers: list[_Container] | None = None
    volumes: list[_Volume] | None = None


class _SchedulerPod(ObservedPod, frozen=True):
    spec: _SchedulerPodSpec = _SchedulerPodSpec()  # type: ignore[assignment] # more fields of the same object

    @property
    def of_scheduler_image(self) -> bool:
        return any(is_scheduler_image(item.image) for item in self.spec.containers or ())

    @property
    def of_default_scheduler(self) -> bool:
        """Labelled as kubeadm, and whoever follows it, labels the control plane's own scheduler."""
        return (self.metadata.labels or {}).get("component") == SCHEDULER_IMAGE

    def mounts(self, config_map: str) -> bool:
        for volume in self.spec.volumes or ():
            sources = (volume.projected.sources if volume.projected else None) or ()
            mounted = [volume.config_map, *(source.config_map for source in sources)]
            if any(item is not None and item.name == config_map for item in mounted):
                return True
        return False

    @property
    def scheduler(self) -> str:
        owner = next((item for item in self.metadata.owner_references or () if item.controller), None)
        if owner is None or owner.kind == "Node":
            return f"the static pods {self.metadata.namespace}/{SCHEDULER_IMAGE}"
        return f"{self.metadata.namespace}/{owner.kind}/{owner.name}"


_PODS = Kind("pods", "Pod", "", "v1", _SchedulerPod)


def is_scheduler_image(image: str) -> bool:
    """Whether a container's image is called kube-scheduler, in whatever registry."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0] == SCHEDULER_IMAGE


def age_in_words(seconds: float) -> str:
    """How long ago something was, by clocks that may differ."""
    return f"{seconds:.0f} s ago" if seconds >= 0 else f"{-seconds:.0f} s ahead of our clock"


def read_scheduler_pods(api: RawApi, selection: PodSelection, now: float) -> tuple[SchedulerPods, ...]:
    """The schedulers that these pods are, by name.

    Raises RightsError or UnreachableError when pods cannot be read, also single ones: any may be meant.
    """
    by_scheduler: dict[str, list[_SchedulerPod]] = {}
    for pod in _read(api, selection):
        by_scheduler.setdefault(pod.scheduler, []).append(pod)
    return tuple(SchedulerPods(name, _ready(pods, now)) for name, pods in sorted(by_scheduler.items()))


def latest_start(api: RawApi, selection: PodSelection, now: float) -> tuple[float, str] | None:
    """When the last of these pods became ready, which is after its container started, and which one it is.

    A pod that is not ready may be starting: that is now. None without pods; raises as above.
    """
    found = [
        (now if pod.ready_at is None else pod.ready_at, pod.full_name)
        for pod in _read(api, selection)
        if pod.status.phase not in ("Succeeded", "Failed")
    ]
    return max(found, default=None)


def _read(api: RawApi, selection: PodSelection) -> list[_SchedulerPod]:
    found: list[_SchedulerPod] = []
    for namespace in selection.namespaces:
        what = f"list pods of {namespace}"
        listing = read_list(api, _PODS, what, api.client.core.list_namespaced_pod, namespace)
        if listing.malformed:
            names = ", ".join(item.name for item in listing.malformed[:3])
            raise UnreachableError(f"{what}: cannot be read: {names}")
        found.extend(pod for pod in listing.records if isinstance(pod, _SchedulerPod))
    return _selected(found, selection)


def _selected(pods: Iterable[_SchedulerPod], selection: PodSelection) -> list[_SchedulerPod]:
    if selection.config_map:
        mounting = [pod for pod in pods if pod.mounts(selection.config_map)]
        return [pod for pod in mounting if pod.of_scheduler_image] or mounting
    return [
        pod
        for pod in pods
        if pod.of_scheduler_image and not (selection.without_default and pod.of_default_scheduler)
    ]


def _ready(pods: Iterable[_SchedulerPod], now: float) -> str:
    for pod in sorted(pods, key=lambda pod: pod.metadata.name):
        since = pod.ready_at
        if pod.status.phase == "Running" and not pod.terminating and since is not None:
            return f"pod {pod.full_name} has been ready for {max(0.0, now - since):.0f} s"
    return ""
