"""The classes of pods: what never changes about them while the model places pods.

Pods that the scheduler cannot tell apart share a class. One ``PodClasses`` is shared by all copies of a
``ClusterState``, so whatever depends on a class and on the nodes alone is computed once for each class.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from rebalancer.cluster.arrays import IntArray
from rebalancer.cluster.nodes import BASE_RESOURCES
from rebalancer.cluster.pod_classes import PodClass
from rebalancer.scheduling.resources import PodRequests, is_scalar, pod_requests
from rebalancer.scheduling.state.counters import CounterRegistry
from rebalancer.scheduling.state.nodes import NodeIndex
from rebalancer.scheduling.state.volumes import UniqueVolume, Volumes
from rebalancer.scheduling.versions.release import REFERENCE_RELEASE, Release
from rebalancer.scheduling.versions.rules import as_seen_by

T = TypeVar("T")


class PodClasses:
    """The pod classes by index, with their requests as vectors over the resource columns.

    Classes are numbered as in the snapshot; ``add`` appends those of replacements.
    """

    def __init__(
        self,
        nodes: NodeIndex,
        classes: Sequence[PodClass],
        volumes: Volumes,
        release: Release = REFERENCE_RELEASE,
    ) -> None:
        self.release = release
        self.nodes = nodes
        self.volumes = volumes
        self._classes = [as_seen_by(release, pod) for pod in classes]
        self.requests: list[PodRequests] = [pod_requests(pod, release) for pod in self._classes]
        requested = {name for requests in self.requests for name in (*requests.incoming, *requests.present)}
        on_nodes = [name for name in nodes.table.resources if name in BASE_RESOURCES or is_scalar(name)]
        self.resources: tuple[str, ...] = (*on_nodes, *sorted(requested - set(on_nodes)))
        self.column: Mapping[str, int] = {name: column for column, name in enumerate(self.resources)}
        self.allocatable: IntArray = np.zeros((len(nodes), len(self.resources)), np.int64, order="F")
        columns = [column for column, name in enumerate(nodes.table.resources) if name in self.column]
        self.allocatable[:, : len(columns)] = nodes.table.allocatable[:, columns]
        # By class: (resources,) what a pod takes of its node; (2,) cpu and memory it counts for in scores,
        # with defaults; and its CSI volumes.
        self.present: list[IntArray] = []
        self.present_scored: list[IntArray] = []
        self.csi_volumes: list[tuple[UniqueVolume, ...]] = []
        for pod, requests in zip(self._classes, self.requests, strict=True):
            self._take(pod, requests)
        self.counters = CounterRegistry(self._classes)
        # By class, owner and name: what depends on a class and on static facts alone.
        self.results: dict[tuple[int, object, Hashable], Any] = {}
        self._of_controller: dict[str, list[int]] = {}
        self._filed_classes = 0  # how many are in it
        self._beside: Sequence[PodClasses] = ()

    def stand_beside(self, others: Sequence[PodClasses]) -> None:
        """From now on these get each class that is added, too: of the same pods, for other schedulers."""
        self._beside = others

    def __getitem__(self, pod_class: int) -> PodClass:
        return self._classes[pod_class]

    def __len__(self) -> int:
        return len(self._classes)

    def __iter__(self) -> Iterator[PodClass]:
        return iter(self._classes)

    def add(self, pod: PodClass) -> int:
        """The index of a new class; ValueError if it requests a resource that no node and no pod names."""
        for other in self._beside:
            other.add(pod)
        pod = as_seen_by(self.release, pod)
        requests = pod_requests(pod, self.release)
        unknown = {name for name in (*requests.incoming, *requests.present) if name not in self.column}
        if unknown:
            raise ValueError(f"requests {', '.join(sorted(unknown))}, which no node offers")
        self._classes.append(pod)
        self.requests.append(requests)
        self._take(pod, requests)
        return len(self._classes) - 1

    def _take(self, pod: PodClass, requests: PodRequests) -> None:
        """Keep what a pod of the next class takes once it is on a node."""
        row = self.vector(requests.present)
        row[BASE_RESOURCES.index("pods")] = 0  # pods are counted, not requested
        self.present.append(row)
        scored = requests.present_scored
        self.present_scored.append(np.array([scored["cpu"], scored["memory"]], np.int64))
        self.csi_volumes.append(
            self.volumes.unique_volumes(pod.namespace, pod.spec) if pod.spec.volumes else ()
        )

    def of_controller(self, uid: str) -> Sequence[int]:
        """The classes of the pods that a controller owns; those without one are of the controller ``""``."""
        for index in range(self._filed_classes, len(self._classes)):
            self._of_controller.setdefault(self._classes[index].owner.uid, []).append(index)
        self._filed_classes = len(self._classes)
        return self._of_controller.get(uid, ())

    def vector(self, amounts: Mapping[str, int]) -> IntArray:
        """Amounts as a row over the resource columns."""
        row = np.zeros(len(self.resources), np.int64)
        for name, value in amounts.items():
            row[self.column[name]] = value
        return row

    def cached(self, pod_class: int, owner: object, what: Hashable, compute: Callable[[], T]) -> T:
        """A result of ``owner`` named ``what`` that depends on the class and on static facts alone.

        Computed once for each class. What depends on no class is cached by ``NodeIndex``.
        """
        key = (pod_class, owner, what)
        if key not in self.results:
            self.results[key] = compute()
        result: T = self.results[key]
        return result
