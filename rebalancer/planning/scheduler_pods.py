"""Which pods run the scheduler that a policy names, and which run another one.

Two schedulers side by side differ in version, feature gates and Lease, and each is judged by its own pods
alone: the version in the image of a neighbour says nothing. The first of these that finds a pod counts:

    scheduler.pods             the pods that it selects
    scheduler.configMap        pods in its namespace that mount it, or whose --config has the name of its key
    scheduler.file             pods whose --config has the name of the file
    default-scheduler          of a configuration with this profile: static pods of the image kube-scheduler
    any other schedulerName    other pods of that image; those whose owner is named after a profile, if any

Where the policy names pods, no others count. A pod whose owner is named after a schedulerName that another
scheduler serves is that one's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import PurePath

import msgspec
import numpy as np
from msgspec.structs import replace

from rebalancer.cluster.pod_classes import PodClass
from rebalancer.cluster.records import Container
from rebalancer.cluster.records.pods import (
    CONFIG_FLAG,
    LEASE_NAME_FLAG,
    LEASE_NAMESPACE_FLAG,
    emulated_version,
    flag_values,
    is_scheduler,
    stated_gates,
    stated_leader_election,
)
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.policy.schedulers import ConfigMapKey, SchedulerSettings
from rebalancer.profiles.types import DEFAULT_SCHEDULER_NAME, LeaderElection
from rebalancer.scheduling.versions.release import major_minor, minor_of

_OWNER_OF_STATIC_PODS = "Node"
_FLAGS_COUNT_OVER_FILES_SINCE = 22  # the minor; kubernetes v1.22.17 cmd/kube-scheduler/app/options/options.go


class SchedulerPod(msgspec.Struct, frozen=True, eq=False):
    """A class of pods that run a scheduler, and the container that does."""

    index: int  # of the class
    pod: PodClass
    container: Container

    @property
    def is_static(self) -> bool:
        """Whether a kubelet runs it from a file, as those of a control plane."""
        return self.pod.owner.kind == _OWNER_OF_STATIC_PODS

    @property
    def version(self) -> str:
        """The version in its image; empty where that says none.

        scheduler-plugins number theirs 0.MINOR, after the Kubernetes 1.MINOR they are built from.
        """
        if not is_scheduler(self.container.image):
            return ""
        version = major_minor(self.container.image.partition("@")[0].rpartition(":")[2])
        return f"1.{version[2:]}" if version.startswith("0.") else version

    @property
    def gates(self) -> dict[str, bool] | None:
        """The feature gates on its command line; None where that or the defaults are not known."""
        if not self.container.command or self.emulates:
            return None
        return stated_gates(self.container.args or ())

    @property
    def emulates(self) -> str:
        """The other version whose feature gates it has; empty where they are those of its own."""
        emulated = emulated_version(self.container.args or ())
        return "" if emulated == self.version else emulated

    @property
    def configuration_files(self) -> list[str]:
        """The paths that its --config names."""
        return flag_values(self.container.args or (), CONFIG_FLAG)

    def leader_election(self, configured: LeaderElection) -> LeaderElection:
        """That of its configuration, as the flags on its command line change it."""
        minor = minor_of(self.version)
        if self.configuration_files and minor is not None and minor < _FLAGS_COUNT_OVER_FILES_SINCE:
            return configured
        arguments = self.container.args or ()
        election = configured
        stated = stated_leader_election(arguments)
        if stated is not None:
            election = replace(election, enabled=stated)
        for namespace in flag_values(arguments, LEASE_NAMESPACE_FLAG):
            election = replace(election, namespace=namespace, named=True)
        for name in flag_values(arguments, LEASE_NAME_FLAG):
            election = replace(election, name=name, named=True)
        return election

    def mounts(self, place: ConfigMapKey) -> bool:
        """Whether it has a volume of this ConfigMap, which is one of its own namespace."""
        if self.pod.namespace != place.namespace:
            return False
        sources = (volume.config_map for volume in self.pod.spec.volumes or ())
        return any(source is not None and source.name == place.name for source in sources)


def pods_of_schedulers(snapshot: Snapshot) -> list[SchedulerPod]:
    """The classes of pods whose image is that of a kube-scheduler."""
    return [
        SchedulerPod(index, pod, container)
        for index, pod in enumerate(snapshot.pods.classes)
        for container in pod.spec.containers or ()
        if is_scheduler(container.image)
    ]


def pods_of_each(
    schedulers: Sequence[tuple[SchedulerSettings, Collection[str]]], snapshot: Snapshot
) -> list[tuple[SchedulerPod, ...]]:
    """The classes of pods that run each scheduler, which comes with the schedulerNames that it serves.

    A pod that one of them is known by is none of another one's that is only known by its owner.
    """
    running = pods_of_schedulers(snapshot)
    in_use = {pod.scheduler_name for pod in snapshot.pods.classes}
    in_use.update(*(names for _, names in schedulers))
    possible: list[list[SchedulerPod]] = []
    named: list[list[SchedulerPod]] = []
    for settings, names in schedulers:
        of_others = in_use - set(names)
        possible.append([pod for pod in running if not _is_named_after(pod, of_others)])
        named.append(_named_pods(settings, names, possible[-1], snapshot))
    taken = {pod.index for pods in named for pod in pods}
    chosen: list[tuple[SchedulerPod, ...]] = []
    for (settings, names), pods, candidates in zip(schedulers, named, possible, strict=True):
        if pods or settings.pods is not None:
            chosen.append(tuple(pods))
            continue
        left = [pod for pod in candidates if pod.index not in taken]
        chosen.append(tuple(_of_fitting_owner(names, left)))
    return chosen


def _named_pods(
    settings: SchedulerSettings,
    scheduler_names: Collection[str],
    running: Sequence[SchedulerPod],
    snapshot: Snapshot,
) -> list[SchedulerPod]:
    """Those that the policy selects, or that have the configuration that it names."""
    if settings.pods is not None:
        selects = settings.pods.selects
        selected = [
            candidate
            for candidate in _every_pod(snapshot, settings.pods.namespace)
            if selects(candidate.pod.labels)
        ]
        return _of_scheduler_image(selected)
    place = settings.config_map
    if place is None:
        started = _started_with(PurePath(settings.file or "").name, running)
    else:
        there = _every_pod(snapshot, place.namespace)
        if mounting := [candidate for candidate in there if candidate.mounts(place)]:
            return _of_scheduler_image(mounting)
        started = _started_with(place.key, _of_scheduler_image(there))
    fitting = _of_fitting_owner(scheduler_names, started)
    if (
        not fitting
        and DEFAULT_SCHEDULER_NAME in scheduler_names
        and any(candidate.is_static for candidate in running)
    ):
        return []  # those of the control plane, of whose --config nothing is known
    return fitting or started


def _of_scheduler_image(pods: list[SchedulerPod]) -> list[SchedulerPod]:
    """Those whose image is that of a kube-scheduler; all where none is, as of an image of somebody's own."""
    return [candidate for candidate in pods if is_scheduler(candidate.container.image)] or pods


def _every_pod(snapshot: Snapshot, namespace: str) -> list[SchedulerPod]:
    return [
        SchedulerPod(index, pod, container)
        for index, pod in enumerate(snapshot.pods.classes)
        if pod.namespace == namespace
        for container in pod.spec.containers or ()
    ]


def _started_with(file_name: str, pods: Iterable[SchedulerPod]) -> list[SchedulerPod]:
    """Those whose --config names a file of this name."""
    if not file_name:
        return []

    def names_file(pod: SchedulerPod) -> bool:
        return any(PurePath(path).name == file_name for path in pod.configuration_files)

    return [pod for pod in pods if names_file(pod)]


def _of_fitting_owner(
    scheduler_names: Collection[str], running: Iterable[SchedulerPod]
) -> list[SchedulerPod]:
    if DEFAULT_SCHEDULER_NAME in scheduler_names:
        return [candidate for candidate in running if candidate.is_static]
    others = [candidate for candidate in running if not candidate.is_static]
    return [candidate for candidate in others if _is_named_after(candidate, scheduler_names)] or others


def _is_named_after(candidate: SchedulerPod, scheduler_names: Collection[str]) -> bool:
    """Whether its owner is a workload of one of these names, or the ReplicaSet of such a Deployment."""
    owner = candidate.pod.owner
    if candidate.is_static:
        return False
    if owner.kind == "ReplicaSet" and owner.name.rpartition("-")[0] in scheduler_names:
        return True
    return owner.name in scheduler_names


def versions_of(pods: Iterable[SchedulerPod]) -> tuple[str, ...]:
    """The versions in the images of these pods, the lowest first."""
    versions = {pod.version for pod in pods} - {""}
    return tuple(sorted(versions, key=lambda version: (minor_of(version) or 0, version)))


def gates_of(pods: Iterable[SchedulerPod]) -> dict[str, bool] | None:
    """The gates on the command lines of these pods; None when not all are known, or they differ."""
    gates = [pod.gates for pod in pods]
    return gates[0] if gates and all(other == gates[0] for other in gates) else None


def leader_election_of(pods: Iterable[SchedulerPod], configured: LeaderElection) -> LeaderElection:
    """How these pods elect a leader; where their flags differ, some may wait for their configuration's."""
    elections = {pod.leader_election(configured) for pod in pods}
    if len(elections) > 1:
        return replace(configured, enabled=True)
    return elections.pop() if elections else configured


def ready_since(pods: Iterable[SchedulerPod], snapshot: Snapshot) -> list[float]:
    """Since when the pods of these classes are ready, in Unix seconds, the longest first."""
    table = snapshot.pods
    since = table.ready_since[np.isin(table.pod_class, [pod.index for pod in pods])]
    return sorted(since[np.isfinite(since)].tolist())
