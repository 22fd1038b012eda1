"""The cluster as the model changes it: the only mutable value of the pipeline.

``bind`` puts a pod on a node, ``evict`` marks it terminating (it still counts on its node), and ``remove``
takes it away. Each changes only the cells it touches; nothing is rebuilt.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from rebalancer.cluster.arrays import BoolArray, IntArray
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.scheduling.state.attached_volumes import AttachedVolumes
from rebalancer.scheduling.state.counters import PodCounters
from rebalancer.scheduling.state.fingerprint import BOUND_HERE, LIVE, TERMINATING, Fingerprint
from rebalancer.scheduling.state.host_ports import HostPorts
from rebalancer.scheduling.state.nodes import NodeIndex
from rebalancer.scheduling.state.pod_classes import PodClasses
from rebalancer.scheduling.state.pods import Column, FirstPods
from rebalancer.scheduling.state.volumes import Volumes
from rebalancer.scheduling.versions import REFERENCE_RELEASE, Release
from rebalancer.scheduling.versions.rules import ATTACHMENTS_COUNT

Rows = IntArray | slice
UNBOUND = -1
GONE = -2
_MAX_CACHED_ARRAYS = 512  # arrays over the nodes
_EVERY_ROW = slice(None)


class ClusterState:
    """Which pod is where, and what that leaves on each node."""

    def __init__(
        self, classes: PodClasses, node: IntArray, pod_class: IntArray, terminating: BoolArray
    ) -> None:
        self.classes = classes
        self.nodes: NodeIndex = classes.nodes
        self._first = FirstPods(classes, node, pod_class, terminating)
        self.node = Column(node)  # by pod: its node's row, UNBOUND or GONE
        self.pod_class = Column(pod_class)  # by pod
        self.terminating = Column(terminating.astype(np.int64))  # by pod: 0 or 1
        self._touched: dict[int, tuple[int, ...]] = {}  # by class: the pods that are not as at the start
        self.requested, self.scored, self.pod_count = self._first.sums()  # (nodes, …); scored: cpu, memory
        self.ports = HostPorts(len(classes.nodes))
        self.attached = AttachedVolumes(len(classes.nodes))
        self._counters = PodCounters(classes.counters, classes.nodes)
        # Change log of node rows, and cached results by node with the log position they are valid for.
        self._changes: list[int] = []
        self._remembered: dict[object, tuple[int, IntArray]] = {}
        self._last_changed: tuple[int, int, IntArray] = (0, 0, np.zeros(0, np.int64))
        # Pods this state bound itself, in order: load-aware plugins add them to what their metrics show.
        self.bound_here: dict[int, tuple[int, int]] = {}  # pod -> (class, node)
        self._fingerprint = Fingerprint()
        self._bound_sums: dict[object, tuple[Callable[[int], int], IntArray]] = {}  # by owner
        # As ``bound_here``, those with volumes: what their claims take is not theirs in the snapshot yet.
        self.volumes_here: dict[int, tuple[int, int]] = {}
        self.nominated: dict[int, int] = {}  # unbound pod -> the node where room is kept for it
        # The pods of ``with_nominated``: class, node, and whether it is terminating.
        self.counted_nominated: tuple[tuple[int, int, bool], ...] = ()
        self._attach_all()

    def _attach_all(self) -> None:
        for index, pods in self._first.by_class.items():
            ports, volumes = self.classes.ports(index), self.classes.csi_volumes(index)
            for row in self._first.node[pods].tolist() if ports or volumes else ():
                self.ports.count(ports, row, 1)
                self.attached.count(volumes, row, 1)
        counted = self.classes.release.has(ATTACHMENTS_COUNT)
        for name, volume in self.classes.volumes.attached() if counted else ():
            if name in self.nodes.table.row:
                self.attached.attach(volume, self.nodes.table.row[name])

    def _attach_ephemeral(self, names: Sequence[str], namespaces: Sequence[str]) -> None:
        """Count the generic ephemeral volumes of pods on nodes: their claims are named after their pods."""
        for index, pods in self._first.by_class.items():
            volumes = [item.name for item in self.classes[index].spec.volumes or () if item.ephemeral]
            for pod in pods.tolist() if volumes else ():
                for name in volumes:
                    found = self.classes.volumes.csi_volume(namespaces[pod], f"{names[pod]}-{name}")
                    if found is not None:
                        self.attached.count((found,), int(self._first.node[pod]), 1)

    @classmethod
    def of(
        cls, snapshot: Snapshot, release: Release = REFERENCE_RELEASE, registered: Sequence[str] = ()
    ) -> ClusterState:
        """The state of a snapshot as a release of the scheduler sees it; pods are numbered by their rows.

        ``registered`` are the names of its nodes in the order the scheduler came to know them, if that is
        known.
        """
        indexed = PodClasses(
            NodeIndex(snapshot.nodes, registered), snapshot.pods.classes, Volumes.of(snapshot), release
        )
        pods = snapshot.pods
        # A pod on a node that was not read counts nowhere, and must not look as if it were waiting.
        node = np.where(pods.node_unknown, GONE, pods.node)
        state = cls(indexed, node, pods.pod_class, pods.terminating)
        state._attach_ephemeral(pods.names, pods.namespaces)
        rows = snapshot.nodes.row
        state.nominated = {
            pod: rows[name] for pod, name in pods.nominated.items() if name in rows and node[pod] == UNBOUND
        }
        return state

    def copy(self) -> ClusterState:
        """An independent state over the same nodes and classes."""
        other = copy.copy(self)
        other.node = self.node.copy()
        other.pod_class = self.pod_class.copy()
        other.terminating = self.terminating.copy()
        other.requested = self.requested.copy(order="F")
        other.scored = self.scored.copy()
        other.pod_count = self.pod_count.copy()
        other.ports = self.ports.copy()
        other.attached = self.attached.copy()
        other._counters = self._counters.copy()
        other._touched = self._touched.copy()
        other._changes = self._changes.copy()
        other._fingerprint = Fingerprint(self._fingerprint.value)
        other._remembered = self._remembered.copy()
        other.bound_here = self.bound_here.copy()
        other._bound_sums = {owner: (of, sums.copy()) for owner, (of, sums) in self._bound_sums.items()}
        other.volumes_here = self.volumes_here.copy()
        other.nominated = self.nominated.copy()
        return other

    def add(self, class_index: int) -> int:
        """A new unbound pod of a class; returns its number."""
        self.node.append(UNBOUND)
        self.pod_class.append(class_index)
        self.terminating.append(False)
        return len(self.node) - 1

    def bind(self, pod: int, node: int) -> None:
        """Place an unbound pod; ValueError when it is not unbound."""
        if self.node[pod] != UNBOUND:
            raise ValueError(f"pod {pod} is not unbound")
        self._put(pod, node)
        kind = self.pod_class[pod]
        self.bound_here[pod] = (kind, node)
        self._fingerprint.count(kind, node, BOUND_HERE, 1)
        for of, sums in self._bound_sums.values():
            sums[node] += of(kind)
        if self.classes[kind].spec.volumes:
            self.volumes_here[pod] = (kind, node)
        self.nominated.pop(pod, None)

    def with_nominated(self, pods: Iterable[int], node: int) -> ClusterState:
        """A copy in which these unbound pods count on a node, though nothing is reserved for them."""
        other = self.copy()
        for pod in pods:
            other._put(pod, node)
            other.nominated.pop(pod, None)
            counted = (self.pod_class[pod], node, bool(self.terminating[pod]))
            other.counted_nominated = (*other.counted_nominated, counted)
        return other

    def bound_sum(self, owner: object, of: Callable[[int], int]) -> IntArray:
        """(nodes,) the sum of ``of`` (class) over the pods this state bound itself; read it only.

        Kept up to date for each owner from its first use on.
        """
        found = self._bound_sums.get(owner)
        if found is None:
            sums = np.zeros(len(self.nodes), np.int64)
            for kind, node in self.bound_here.values():
                sums[node] += of(kind)
            found = self._bound_sums[owner] = of, sums
        return found[1]

    def forget_bound(self) -> None:
        """Take the pods bound so far for pods that have run for long: the figures show them."""
        for kind, node in self.bound_here.values():
            self._fingerprint.count(kind, node, BOUND_HERE, -1)
        self.bound_here.clear()
        self._bound_sums.clear()

    def evict(self, pod: int) -> None:
        """Mark a bound pod terminating: it counts on its node until it is removed."""
        if self.node[pod] < 0:
            raise ValueError(f"pod {pod} is not bound")
        if not self.terminating[pod]:
            self.terminating[pod] = True
            self._touch(pod)
            self._fingerprint.count(self.pod_class[pod], self.node[pod], LIVE, -1)
            self._fingerprint.count(self.pod_class[pod], self.node[pod], TERMINATING, 1)
            self._counters.change(self.pod_class[pod], self.node[pod], -1, terminating=False)

    def remove(self, pod: int) -> None:
        """Take a pod away; ValueError when it is gone already."""
        where = self.node[pod]
        if where == GONE:
            raise ValueError(f"pod {pod} is gone already")
        if where >= 0:
            self._count(self.pod_class[pod], where, -1)
            self._counters.change(self.pod_class[pod], where, -1, live=not self.terminating[pod])
            self._fingerprint.count(self.pod_class[pod], where, self._liveness(pod), -1)
            here = self.bound_here.pop(pod, None)
            if here:
                self._fingerprint.count(*here, BOUND_HERE, -1)
            for of, sums in self._bound_sums.values() if here else ():
                sums[where] -= of(self.pod_class[pod])
            self.volumes_here.pop(pod, None)
            self._touch(pod)
        self.nominated.pop(pod, None)
        self.node[pod] = GONE

    def restore(self, pod: int, node: int) -> None:
        """Undo an eviction or a removal: the pod runs on its node again."""
        if self.node[pod] == GONE:
            self.terminating[pod] = False
            self._put(pod, node)
        elif self.terminating[pod]:
            self.terminating[pod] = False
            self._fingerprint.count(self.pod_class[pod], node, TERMINATING, -1)
            self._fingerprint.count(self.pod_class[pod], node, LIVE, 1)
            self._counters.change(self.pod_class[pod], node, 1, terminating=False)

    def _put(self, pod: int, node: int) -> None:
        self.node[pod] = node
        self._touch(pod)
        self._fingerprint.count(self.pod_class[pod], node, self._liveness(pod), 1)
        self._count(self.pod_class[pod], node, 1)
        self._counters.change(self.pod_class[pod], node, 1, live=not self.terminating[pod])

    def _touch(self, pod: int) -> None:
        kind = self.pod_class[pod]
        touched = self._touched.get(kind, ())
        if pod not in touched:
            self._touched[kind] = (*touched, pod)

    def _liveness(self, pod: int) -> int:
        return TERMINATING if self.terminating[pod] else LIVE

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for states that began as one and in which any pod would be placed alike."""
        return self._first, self._fingerprint.value, frozenset(self.nominated.items())

    def counter(self, number: int, key: str = "") -> IntArray:
        """Counts by domain of a topology key, by node without one; one cell more, 0, for nodes without it.

        ``number`` is a counter id. Kept up to date from its first use on; the caller does not change it.
        """
        found = self._counters.get(number, key)
        if found is None:
            found = self._counters.make(number, key, self._first.counts(number, key), self._since(number))
        return found

    def _since(self, counter: int) -> Iterator[tuple[int, int]]:
        """(node, weight) of what changed: pods that count now, with −weight those that did at the start."""
        book, first = self.classes.counters, self._first
        terminating = book.counts_terminating(counter)
        for class_index, weight in book.classes(counter):
            for pod in self._touched.get(class_index, ()):
                if first.is_counted(pod, terminating=terminating):
                    yield int(first.node[pod]), -weight
                if self.node[pod] >= 0 and (terminating or not self.terminating[pod]):
                    yield self.node[pod], weight

    def per_node(self, key: object, compute: Callable[[Rows], IntArray]) -> IntArray:
        """(nodes,) what ``compute`` gives for each node alone; repeated only for nodes that changed since.

        The caller does not change the result.
        """
        found = self._remembered.pop(key, None)
        now = len(self._changes)
        if found is None or now - found[0] > len(self.nodes):
            values = compute(_EVERY_ROW)
        else:
            seen, values = found
            if seen < now:
                changed = self._changed_since(seen)
                values = values.copy()
                values[changed] = compute(changed)
        self._remembered[key] = now, values
        if len(self._remembered) > _MAX_CACHED_ARRAYS:
            del self._remembered[next(iter(self._remembered))]
        return values

    def _changed_since(self, seen: int) -> IntArray:
        """Node rows that changed after a position in the log, ascending; kept for the next plugin."""
        now = len(self._changes)
        if self._last_changed[:2] != (seen, now):
            rows = np.array(sorted(set(self._changes[seen:])), np.int64)
            self._last_changed = seen, now, rows
        return self._last_changed[2]

    def _count(self, class_index: int, node: int, sign: int) -> None:
        self._changes.append(node)
        self.requested[node] += sign * self.classes.present(class_index)
        self.scored[node] += sign * self.classes.present_scored(class_index)
        self.pod_count[node] += sign
        self.ports.count(self.classes.ports(class_index), node, sign)
        self.attached.count(self.classes.csi_volumes(class_index), node, sign)
