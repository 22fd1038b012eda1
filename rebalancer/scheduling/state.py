"""ClusterState: the model's working copy, and the only mutable value of the pipeline.

``bind`` puts a pod on a node, ``evict`` marks it terminating (it still counts there), ``remove`` takes it
away. Each changes the few cells it touches; nothing is rebuilt.
"""

from __future__ import annotations

import copy
from array import array
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from rebalancer.cluster.nodes import BoolArray, IntArray
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.scheduling.attached_volumes import AttachedVolumes
from rebalancer.scheduling.facts import ClassFacts, NodeFacts
from rebalancer.scheduling.host_ports import HostPorts
from rebalancer.scheduling.tallies import Tallies
from rebalancer.scheduling.versions import as_seen_by
from rebalancer.scheduling.volumes import Volumes

Rows = IntArray | slice

UNBOUND = -1
GONE = -2
_MOST_REMEMBERED = 512  # arrays over the nodes
_EVERY_ROW = slice(None)


def pods_by_class(pod_class: IntArray) -> Mapping[int, list[int]]:
    """Pod numbers by class."""
    if not len(pod_class):
        return {}
    order = np.argsort(pod_class, kind="stable")
    classes, starts = np.unique(pod_class[order], return_index=True)
    groups = np.split(order, starts[1:])
    return {kind: group.tolist() for kind, group in zip(classes.tolist(), groups, strict=True)}


class ClusterState:
    """Which pod is where, and what that leaves on each node."""

    def __init__(
        self, facts: ClassFacts, node: IntArray, pod_class: IntArray, terminating: BoolArray
    ) -> None:
        self.facts = facts
        self.nodes: NodeFacts = facts.nodes
        # Arrays of machine integers: read one by one they are ints, copied they are a block of memory.
        self.node = array("q", node.tolist())  # by pod: its node's row, UNBOUND or GONE
        self.pod_class = array("q", pod_class.tolist())  # by pod
        self.terminating = bytearray(terminating.tobytes())  # by pod: 0 or 1
        nodes, resources = len(facts.nodes), len(facts.resources)
        self.requested: IntArray = np.zeros((nodes, resources), np.int64, order="F")
        self.scored: IntArray = np.zeros((nodes, 2), np.int64)  # cpu, memory with defaults
        self.pod_count: IntArray = np.zeros(nodes, np.int64)
        self.ports = HostPorts(nodes)
        self.attached = AttachedVolumes(nodes)
        self._tallies = Tallies(facts)
        # By class: its pods. Those given at the start are shared by all copies, those added later are not.
        self._first_pods = pods_by_class(pod_class)
        self._added: dict[int, tuple[int, ...]] = {}
        # Node rows in the order they changed, and results by node with how much of that they have seen.
        self._changes: list[int] = []
        self._remembered: dict[object, tuple[int, IntArray]] = {}
        self._last_changed: tuple[int, int, IntArray] = (0, 0, np.zeros(0, np.int64))
        # Pods this state bound itself, in order: load-aware plugins add them to what their metrics show.
        self.bound_here: dict[int, tuple[int, int]] = {}  # pod -> (class, node)
        self._count_all(node, pod_class)

    def _count_all(self, node: IntArray, pod_class: IntArray) -> None:
        bound = node >= 0
        where, kind = node[bound], pod_class[bound]
        for index in np.unique(kind).tolist():
            pods = np.bincount(where[kind == index], minlength=len(self.nodes))
            rows = np.flatnonzero(pods)
            self.requested[rows] += pods[rows, None] * self.facts.present(index)
            self.scored[rows] += pods[rows, None] * self.facts.present_scored(index)
            self.pod_count += pods
            ports = self.facts.ports(index)
            for row in rows.tolist() if ports else ():
                self.ports.count(ports, row, int(pods[row]))
            volumes = self.facts.csi_volumes(index)
            for row in rows.tolist() if volumes else ():
                self.attached.count(volumes, row, int(pods[row]))
        for name, volume in self.facts.volumes.attached():
            if name in self.nodes.table.row:
                self.attached.attach(volume, self.nodes.table.row[name])

    @classmethod
    def of(cls, snapshot: Snapshot, version: str = "") -> ClusterState:
        """The state of a snapshot as a version of the scheduler sees it; pods are numbered by their rows."""
        classes = [as_seen_by(version, pod) for pod in snapshot.pods.classes]
        facts = ClassFacts(NodeFacts(snapshot.nodes), classes, Volumes.of(snapshot))
        pods = snapshot.pods
        # A pod on a node that was not read counts nowhere, and must not look as if it were waiting.
        node = np.where(pods.node_unknown, GONE, pods.node)
        return cls(facts, node, pods.pod_class, pods.terminating)

    def copy(self) -> ClusterState:
        """An independent state over the same facts."""
        twin = copy.copy(self)
        twin.node = self.node[:]
        twin.pod_class = self.pod_class[:]
        twin.terminating = self.terminating.copy()
        twin.requested = self.requested.copy(order="F")
        twin.scored = self.scored.copy()
        twin.pod_count = self.pod_count.copy()
        twin.ports = self.ports.copy()
        twin.attached = self.attached.copy()
        twin._tallies = self._tallies.copy()
        twin._added = self._added.copy()
        twin._changes = self._changes.copy()
        twin._remembered = self._remembered.copy()
        twin.bound_here = self.bound_here.copy()
        return twin

    def add(self, class_index: int) -> int:
        """A new unbound pod of a class; returns its number."""
        self.node.append(UNBOUND)
        self.pod_class.append(class_index)
        self.terminating.append(False)
        pod = len(self.node) - 1
        self._added[class_index] = (*self._added.get(class_index, ()), pod)
        return pod

    def bind(self, pod: int, node: int) -> None:
        """Place an unbound pod; ValueError when it is not unbound."""
        if self.node[pod] != UNBOUND:
            raise ValueError(f"pod {pod} is not unbound")
        self._put(pod, node)
        self.bound_here[pod] = (self.pod_class[pod], node)

    def evict(self, pod: int) -> None:
        """Mark a bound pod terminating: it counts on its node until it is removed."""
        if self.node[pod] < 0:
            raise ValueError(f"pod {pod} is not bound")
        if not self.terminating[pod]:
            self.terminating[pod] = True
            self._tallies.change(self.pod_class[pod], self.node[pod], -1, terminating=False)

    def remove(self, pod: int) -> None:
        """Take a pod away; ValueError when it is gone already."""
        where = self.node[pod]
        if where == GONE:
            raise ValueError(f"pod {pod} is gone already")
        if where >= 0:
            self._count(self.pod_class[pod], where, -1)
            self._tallies.change(self.pod_class[pod], where, -1, live=not self.terminating[pod])
            self.bound_here.pop(pod, None)
        self.node[pod] = GONE

    def restore(self, pod: int, node: int) -> None:
        """Undo an eviction or a removal: the pod runs on its node again."""
        if self.node[pod] == GONE:
            self.terminating[pod] = False
            self._put(pod, node)
        elif self.terminating[pod]:
            self.terminating[pod] = False
            self._tallies.change(self.pod_class[pod], node, 1, terminating=False)

    def _put(self, pod: int, node: int) -> None:
        self.node[pod] = node
        self._count(self.pod_class[pod], node, 1)
        self._tallies.change(self.pod_class[pod], node, 1, live=not self.terminating[pod])

    def pods_of(self, class_index: int) -> Iterator[int]:
        """The pods of a class, bound or not."""
        yield from self._first_pods.get(class_index, ())
        yield from self._added.get(class_index, ())

    def tally(self, number: int, key: str = "") -> IntArray:
        """Counts by domain of a topology key, by node without one; one cell more, 0, for nodes without it.

        ``number`` is the TallyBook's. Kept up to date from the first time it is asked for; read it only.
        """
        found = self._tallies.get(number, key)
        return self._tallies.make(number, key, self._counted(number)) if found is None else found

    def _counted(self, tally: int) -> Iterator[tuple[int, int]]:
        book = self.facts.tallies
        terminating = book.counts_terminating(tally)
        for class_index, weight in book.classes(tally):
            for pod in self.pods_of(class_index):
                if self.node[pod] >= 0 and (terminating or not self.terminating[pod]):
                    yield self.node[pod], weight

    def per_node(self, key: object, compute: Callable[[Rows], IntArray]) -> IntArray:
        """(nodes,) what ``compute`` says of each node alone; asked again only for nodes that changed since.

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
        if len(self._remembered) > _MOST_REMEMBERED:
            del self._remembered[next(iter(self._remembered))]
        return values

    def _changed_since(self, seen: int) -> IntArray:
        """Node rows that changed after so many changes, ascending; kept, for several plugins ask alike."""
        now = len(self._changes)
        if self._last_changed[:2] != (seen, now):
            rows = np.array(sorted(set(self._changes[seen:])), np.int64)
            self._last_changed = seen, now, rows
        return self._last_changed[2]

    def _count(self, class_index: int, node: int, sign: int) -> None:
        self._changes.append(node)
        self.requested[node] += sign * self.facts.present(class_index)
        self.scored[node] += sign * self.facts.present_scored(class_index)
        self.pod_count[node] += sign
        self.ports.count(self.facts.ports(class_index), node, sign)
        self.attached.count(self.facts.csi_volumes(class_index), node, sign)
