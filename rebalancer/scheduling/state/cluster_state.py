"""The cluster as the model changes it: the only mutable value of the pipeline.

``bind`` puts a pod on a node, ``evict`` marks it terminating (it still counts on its node), and ``remove``
takes it away. Each changes only the cells it touches; nothing is rebuilt.

Schedulers of different versions count the same pods differently, and each knows the nodes in an order of its
own. So one state may have others beside it, one for each further way to see the cluster: whatever is changed
in the first is changed in all of them, and a scheduler looks at its own.
"""

from __future__ import annotations

import copy
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, wraps
from typing import TypeVar

import msgspec
import numpy as np

from rebalancer.cluster.arrays import BoolArray, IntArray
from rebalancer.cluster.records import Taint
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.scheduling.state.counters import PodCounters
from rebalancer.scheduling.state.nodes import NodeIndex, Registered
from rebalancer.scheduling.state.pod_classes import PodClasses
from rebalancer.scheduling.state.volumes import AttachedVolumes, Volumes
from rebalancer.scheduling.versions.release import REFERENCE_RELEASE, Release
from rebalancer.scheduling.versions.rules import ATTACHMENTS_COUNT, EPHEMERAL_VOLUMES_COUNT

Owner = TypeVar("Owner")
Result = TypeVar("Result")
UNBOUND = -1
GONE = -2
SOFT_TAINT = "PreferNoSchedule"
_NOTHING = np.zeros(0, np.int64)


class Column:
    """An integer by pod; a copy costs what was changed, not what there is."""

    __slots__ = ("_changed", "_first", "_length")

    def __init__(self, first: IntArray) -> None:
        self._first = array("q", first.tolist())  # never changed; read one by one they are ints
        self._changed: dict[int, int] = {}
        self._length = len(first)

    def __getitem__(self, pod: int) -> int:
        changed = self._changed.get(pod)
        return self._first[pod] if changed is None else changed

    def __setitem__(self, pod: int, value: int) -> None:
        self._changed[pod] = value

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[int]:
        return iter(self.values().tolist())

    def values(self) -> IntArray:
        """(pods,) all of them."""
        values = np.zeros(self._length, np.int64)
        values[: len(self._first)] = self._first
        values[list(self._changed)] = list(self._changed.values())
        return values

    def of(self, pods: IntArray) -> IntArray:
        """Those of some pods; as cheap as they are few."""
        values = np.zeros(len(pods), np.int64)
        first = pods < len(self._first)
        values[first] = np.frombuffer(self._first, np.int64)[pods[first]] if len(self._first) else 0
        if len(pods) <= len(self._changed):
            for at, pod in enumerate(pods.tolist()):
                values[at] = self._changed.get(pod, values[at])
            return values
        changed = np.sort(np.array([*self._changed, self._length], np.int64))  # none has the last number
        for at in np.flatnonzero(changed[changed.searchsorted(pods)] == pods).tolist():
            values[at] = self._changed[int(pods[at])]
        return values

    def append(self, value: int) -> None:
        """One pod more."""
        self._changed[self._length] = value
        self._length += 1

    def copy(self) -> Column:
        """An independent column."""
        other = Column.__new__(Column)
        other._first = self._first
        other._changed = self._changed.copy()
        other._length = self._length
        return other


class FirstPods(msgspec.Struct, frozen=True, eq=False, dict=True):
    """The pods a state began with. What they add up to is counted once, for all copies of the state."""

    classes: PodClasses
    node: IntArray  # (pods,) row of its node; negative: on none
    pod_class: IntArray  # (pods,)
    terminating: BoolArray  # (pods,)
    _counts: dict[tuple[int, str], IntArray] = {}

    @cached_property
    def by_class(self) -> dict[int, IntArray]:
        """The pods of each class that are on a node."""
        order = np.argsort(self.pod_class, kind="stable")
        order = order[self.node[order] >= 0]
        classes, starts = np.unique(self.pod_class[order], return_index=True)
        return dict(zip(classes.tolist(), np.split(order, starts[1:]), strict=True)) if len(order) else {}

    def is_counted(self, pod: int, *, terminating: bool) -> bool:
        """Whether a pod was on a node, and not terminating unless these count."""
        return pod < len(self.node) and self.node[pod] >= 0 and (terminating or not self.terminating[pod])

    def counts(self, counter: int, key: str, *, keep: bool = True) -> IntArray:
        """(domains + 1,) a counter by topology key, by node without one; the last cell is 0. Read it only."""
        counts = self._counts.get((counter, key))
        if counts is None:
            counts = self._count(counter, key)
            if keep:
                self._counts[counter, key] = counts
        return counts

    def _count(self, counter: int, key: str) -> IntArray:
        book = self.classes.counters
        nodes = self.classes.nodes
        column = nodes.labels.column(key) if key else None
        counts = np.zeros((len(nodes) if column is None else len(column.names)) + 1, np.int64)
        for pod_class, weight in book.classes(counter):
            pods = self.by_class.get(pod_class)
            if pods is None:
                continue
            if not book.counts_terminating(counter):
                pods = pods[~self.terminating[pods]]
            domains = self.node[pods] if column is None else column.values[self.node[pods]]
            np.add.at(counts, domains, weight)
        counts[-1] = 0  # nodes without the key
        return counts

    def sums(self) -> tuple[IntArray, IntArray, IntArray]:
        """By node: (nodes, resources) what pods take, (nodes, 2) what scores count, (nodes,) their number."""
        all_classes = self.classes
        pods = np.flatnonzero(self.node >= 0)
        pods = pods[np.argsort(self.node[pods], kind="stable")]
        nodes, starts, number = np.unique(self.node[pods], return_index=True, return_counts=True)
        classes, kind = np.unique(self.pod_class[pods], return_inverse=True)
        totals = []
        for width, amounts in (
            (len(all_classes.resources), all_classes.present),
            (2, all_classes.present_scored),
        ):
            of_classes = [amounts[pod_class] for pod_class in classes.tolist()]
            by_class = np.array(of_classes, np.int64).reshape(-1, width)
            total = np.zeros((len(all_classes.nodes), width), np.int64, order="F")
            if len(pods):
                total[nodes] = np.add.reduceat(by_class[kind], starts, axis=0)
            totals.append(total)
        count = np.zeros(len(all_classes.nodes), np.int64)
        count[nodes] = number
        return totals[0], totals[1], count


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
        self.attached = AttachedVolumes(len(classes.nodes))
        self._counters = PodCounters(classes.counters, classes.nodes)
        # Pods this state bound itself, in order: load-aware plugins add them to what their metrics show.
        self.bound_here: dict[int, tuple[int, int]] = {}  # pod -> (class, node)
        self._bound_sums: dict[object, tuple[Callable[[int], int], IntArray]] = {}  # by owner
        # As ``bound_here``, those with volumes: what their claims take is not theirs in the snapshot yet.
        self.volumes_here: dict[int, tuple[int, int]] = {}
        self.nominated: dict[int, int] = {}  # unbound pod -> the node where room is kept for it
        # A hard taint that these nodes have besides those they were read with; and a soft one.
        self.added_taint: tuple[Taint, frozenset[int]] | None = None
        self.added_soft_taint: tuple[Taint, frozenset[int]] | None = None
        # The pods of ``with_nominated``: class, node, and whether it is terminating.
        self.counted_nominated: tuple[tuple[int, int, bool], ...] = ()
        self._beside: tuple[ClusterState, ...] = ()  # the same pods, as other schedulers see them
        self._attach_all()

    def _attach_all(self) -> None:
        for index, pods in self._first.by_class.items():
            volumes = self.classes.csi_volumes[index]
            for row in self._first.node[pods].tolist() if volumes else ():
                self.attached.count(volumes, row, 1)
        counted = self.classes.release.has(ATTACHMENTS_COUNT)
        for name, volume in self.classes.volumes.attached() if counted else ():
            if name in self.nodes.table.row:
                self.attached.attach(volume, self.nodes.table.row[name])

    def _attach_ephemeral(self, names: Sequence[str], namespaces: Sequence[str]) -> None:
        """Count the generic ephemeral volumes of pods on nodes: their claims are named after their pods."""
        for index, pods in self._first.by_class.items():
            volumes = [volume.name for volume in self.classes[index].spec.volumes or () if volume.ephemeral]
            for pod in pods.tolist() if volumes else ():
                for name in volumes:
                    volume = self.classes.volumes.csi_volume(namespaces[pod], f"{names[pod]}-{name}")
                    if volume is not None:
                        self.attached.count((volume,), int(self._first.node[pod]), 1)

    @classmethod
    def of(
        cls,
        snapshot: Snapshot,
        release: Release = REFERENCE_RELEASE,
        registered: Sequence[Registered] = (),
    ) -> ClusterState:
        """The state of a snapshot as a release of the scheduler sees it; pods are numbered by their rows.

        ``registered`` are its nodes in each order in which the scheduler may have come to know them; without
        any it is that of the names.
        """
        indexed = PodClasses(
            NodeIndex(snapshot.nodes, registered),
            snapshot.pods.classes,
            Volumes.of(snapshot),
            release,
        )
        pods = snapshot.pods
        # A pod on a node that was not read counts nowhere, and must not look as if it were waiting.
        node = np.where(pods.node_unknown, GONE, pods.node)
        state = cls(
            indexed,
            node,
            pods.pod_class.copy(),
            pods.terminating.copy(),
        )
        if release.has(EPHEMERAL_VOLUMES_COUNT):
            state._attach_ephemeral(pods.names, pods.namespaces)
        rows = snapshot.nodes.row
        state.nominated = {
            pod: rows[name] for pod, name in pods.nominated.items() if name in rows and node[pod] == UNBOUND
        }
        return state

    def stand_beside(self, others: Sequence[ClusterState]) -> None:
        """From now on these states, of the same pods, are changed as this one is."""
        self._beside = tuple(others)
        self.classes.stand_beside([state.classes for state in others])

    def seen_by(self, view: int) -> ClusterState:
        """The state as a scheduler sees it: 0 for this one, else one of those beside it, counted from 1."""
        return self._beside[view - 1] if view else self

    def copy(self) -> ClusterState:
        """An independent state over the same nodes and classes."""
        other = copy.copy(self)
        other._beside = tuple(state.copy() for state in self._beside)
        other.node = self.node.copy()
        other.pod_class = self.pod_class.copy()
        other.terminating = self.terminating.copy()
        other.requested = self.requested.copy(order="F")
        other.scored = self.scored.copy(order="F")
        other.pod_count = self.pod_count.copy()
        other.attached = self.attached.copy()
        other._counters = self._counters.copy()
        other._touched = self._touched.copy()
        other.bound_here = self.bound_here.copy()
        other._bound_sums = {owner: (of, sums.copy()) for owner, (of, sums) in self._bound_sums.items()}
        other.volumes_here = self.volumes_here.copy()
        other.nominated = self.nominated.copy()
        return other

    def add(self, pod_class: int) -> int:
        """A new unbound pod of a class; returns its number."""
        for state in self._beside:
            state.add(pod_class)
        self.node.append(UNBOUND)
        self.pod_class.append(pod_class)
        self.terminating.append(False)
        return len(self.node) - 1

    def bind(self, pod: int, node: int) -> None:
        """Place an unbound pod; ValueError when it is not unbound."""
        if self.node[pod] != UNBOUND:
            raise ValueError(f"pod {pod} is not unbound")
        for state in self._beside:
            state.bind(pod, node)
        self._put(pod, node)
        kind = self.pod_class[pod]
        self.bound_here[pod] = (kind, node)
        for of, sums in self._bound_sums.values():
            sums[node] += of(kind)
        if self.classes[kind].spec.volumes:
            self.volumes_here[pod] = (kind, node)
        self.nominated.pop(pod, None)

    def taint(self, taint: Taint, nodes: Iterable[int]) -> None:
        """Give these nodes a taint, and no others: there may be a hard one and a soft one."""
        rows = frozenset(nodes)
        if taint.effect == SOFT_TAINT:
            self.added_soft_taint = (taint, rows) if rows else None
        else:
            self.added_taint = taint, rows
        for state in self._beside:
            state.taint(taint, rows)

    def nominate(self, pod: int, node: int) -> None:
        """Keep room on a node for an unbound pod."""
        self.nominated[pod] = node
        for state in self._beside:
            state.nominate(pod, node)

    def forget_nomination(self, pod: int) -> None:
        """Keep room for a pod no longer."""
        self.nominated.pop(pod, None)
        for state in self._beside:
            state.forget_nomination(pod)

    def with_nominated(self, pods: Iterable[int], node: int) -> ClusterState:
        """A copy in which these unbound pods count on a node, though nothing is reserved for them."""
        other = self.copy()
        other._beside = ()  # the scheduler that asks looks at no other
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
        bound = self._bound_sums.get(owner)
        if bound is None:
            sums = np.zeros(len(self.nodes), np.int64)
            for kind, node in self.bound_here.values():
                sums[node] += of(kind)
            bound = self._bound_sums[owner] = of, sums
        return bound[1]

    def forget_bound(self) -> None:
        """Take the pods bound so far for pods that have run for long: the figures show them."""
        for state in self._beside:
            state.forget_bound()
        self.bound_here.clear()
        self._bound_sums.clear()

    def evict(self, pod: int) -> None:
        """Mark a bound pod terminating: it counts on its node until it is removed."""
        if self.node[pod] < 0:
            raise ValueError(f"pod {pod} is not bound")
        for state in self._beside:
            state.evict(pod)
        if not self.terminating[pod]:
            self.terminating[pod] = True
            self._touch(pod)
            self._counters.change(self.pod_class[pod], self.node[pod], -1, terminating=False)

    def remove(self, pod: int) -> None:
        """Take a pod away; ValueError when it is gone already."""
        where = self.node[pod]
        if where == GONE:
            raise ValueError(f"pod {pod} is gone already")
        for state in self._beside:
            state.remove(pod)
        if where >= 0:
            self._count(self.pod_class[pod], where, -1)
            self._counters.change(self.pod_class[pod], where, -1, live=not self.terminating[pod])
            here = self.bound_here.pop(pod, None)
            for of, sums in self._bound_sums.values() if here else ():
                sums[where] -= of(self.pod_class[pod])
            self.volumes_here.pop(pod, None)
            self._touch(pod)
        self.nominated.pop(pod, None)
        self.node[pod] = GONE

    def restore(self, pod: int, node: int) -> None:
        """Undo an eviction or a removal: the pod runs on its node again."""
        for state in self._beside:
            state.restore(pod, node)
        if self.node[pod] == GONE:
            self.terminating[pod] = False
            self._put(pod, node)
        elif self.terminating[pod]:
            self.terminating[pod] = False
            self._counters.change(self.pod_class[pod], node, 1, terminating=False)

    @contextmanager
    def while_terminating(self, pod: int) -> Iterator[None]:
        """The state while a pod of a node terminates; afterwards as before, and meanwhile only looked at."""
        if self.terminating[pod]:
            yield
            return
        node = self.node[pod]
        self.evict(pod)
        try:
            yield
        finally:
            self.restore(pod, node)

    @contextmanager
    def without(self, pods: Collection[int]) -> Iterator[None]:
        """The state while some pods of nodes are gone; afterwards as before.

        Meanwhile the state is only looked at. Pods that it bound itself come back as pods that were there.
        """
        gone = [(pod, self.node[pod], self.terminating[pod]) for pod in pods]
        for pod in pods:
            self.remove(pod)
        try:
            yield
        finally:
            for pod, node, terminating in gone:
                self.restore(pod, node)
                if terminating:
                    self.evict(pod)

    def _put(self, pod: int, node: int) -> None:
        self.node[pod] = node
        self._touch(pod)
        self._count(self.pod_class[pod], node, 1)
        self._counters.change(self.pod_class[pod], node, 1, live=not self.terminating[pod])

    def _touch(self, pod: int) -> None:
        kind = self.pod_class[pod]
        touched = self._touched.get(kind, ())
        if pod not in touched:
            self._touched[kind] = (*touched, pod)

    def counter(self, number: int, key: str = "", *, keep: bool = True) -> IntArray:
        """Counts by domain of a topology key, by node without one; one cell more, 0, for nodes without it.

        ``number`` is a counter id. Kept up to date from its first use on, for as long as ``keep`` is true;
        the caller does not change it.
        """
        counts = self._counters.get(number, key)
        if counts is None:
            first = self._first.counts(number, key, keep=keep)
            since = [*self._since(number)]
            if not (keep or since):
                return first
            counters = self._counters if keep else PodCounters(self.classes.counters, self.nodes)
            counts = counters.make(number, key, first, since)
        return counts

    def first_of(self, pod_class: int) -> IntArray:
        """The pods of a class that were on a node at the start."""
        return self._first.by_class.get(pod_class, _NOTHING)

    def first_node(self, pod: int) -> int:
        """The node of a pod of the snapshot at the start; negative where it was on none."""
        return int(self._first.node[pod])

    def touched(self, uid: str) -> Iterator[int]:
        """The pods of a controller that are not as they were at the start, or have not been meanwhile."""
        for kind in self.classes.of_controller(uid):
            yield from self._touched.get(kind, ())

    def _since(self, counter: int) -> Iterator[tuple[int, int]]:
        """(node, weight) of what changed: pods that count now, with −weight those that did at the start."""
        book = self.classes.counters
        first = self._first
        terminating = book.counts_terminating(counter)
        for pod_class, weight in book.classes(counter):
            for pod in self._touched.get(pod_class, ()):
                if first.is_counted(pod, terminating=terminating):
                    yield int(first.node[pod]), -weight
                if self.node[pod] >= 0 and (terminating or not self.terminating[pod]):
                    yield self.node[pod], weight

    def _count(self, pod_class: int, node: int, sign: int) -> None:
        self.requested[node] += sign * self.classes.present[pod_class]
        self.scored[node] += sign * self.classes.present_scored[pod_class]
        self.pod_count[node] += sign
        self.attached.count(self.classes.csi_volumes[pod_class], node, sign)


def once_a_class(
    compute: Callable[[Owner, ClusterState, int], Result],
) -> Callable[[Owner, ClusterState, int], Result]:
    """A method whose result depends on a class of pods and on static facts alone: computed once for each."""

    @wraps(compute)
    def compute_once(owner: Owner, state: ClusterState, pod_class: int) -> Result:
        key = pod_class, owner, compute
        results = state.classes.results
        if key not in results:
            results[key] = compute(owner, state, pod_class)
        result: Result = results[key]
        return result

    return compute_once


def once_a_cluster(
    compute: Callable[[Owner, ClusterState], Result],
) -> Callable[[Owner, ClusterState], Result]:
    """A method whose result depends on static facts alone: computed once for all states of a cluster."""

    @wraps(compute)
    def compute_once(owner: Owner, state: ClusterState) -> Result:
        return state.nodes.cached(owner, compute, lambda: compute(owner, state))

    return compute_once
