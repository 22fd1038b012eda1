"""A snapshot turned back to an earlier moment, and followed from there by the changes that came after.

The objects that a scheduler itself changes, pods and nodes, are turned back exactly. All other kinds are as
they were read afterwards: a ReplicaSet is written before its pods are, so none of theirs is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from msgspec.structs import replace

from rebalancer.cluster.changes import Change, PodThen
from rebalancer.cluster.columns import ColumnsBuilder
from rebalancer.cluster.nodes import NodeTable, build_nodes
from rebalancer.cluster.pod_classes import PodClass
from rebalancer.cluster.pods import PodFields, PodTable
from rebalancer.cluster.records import Node
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.scheduling.state.cluster_state import GONE, UNBOUND, ClusterState


def turned_back(snapshot: Snapshot, undone: Sequence[Change]) -> Snapshot:
    """The cluster before these changes, in order; a pod that came by one of them is there, on no node.

    So whatever happens by the changes happens to pods and classes that the snapshot has.
    """
    nodes = _nodes_before(snapshot.nodes, [change for change in undone if change.of_node])
    changed = [change for change in undone if not change.of_node]
    pods = _pods_before(snapshot.pods, snapshot.nodes, nodes, changed)
    return replace(snapshot, nodes=nodes, pods=pods)


def _nodes_before(table: NodeTable, undone: Sequence[Change]) -> NodeTable:
    if not undone:
        return table
    nodes: dict[str, Node | None] = {node.metadata.name: node for node in table.records}
    for change in reversed(undone):
        nodes[change.key[1]] = change.before if isinstance(change.before, Node) else None
    doubtful = {name for name, row in table.row.items() if table.incomplete[row]}
    by_name = [node for _, node in sorted(nodes.items()) if node is not None]
    return build_nodes(by_name, doubtful)[0]


def _pods_before(table: PodTable, theirs: NodeTable, nodes: NodeTable, undone: Sequence[Change]) -> PodTable:
    classes = list(table.classes)
    numbers = {id(pod_class): number for number, pod_class in enumerate(classes)}

    def number_of(pod_class: PodClass) -> int:
        if id(pod_class) not in numbers:
            numbers[id(pod_class)] = len(classes)
            classes.append(pod_class)
        return numbers[id(pod_class)]

    rows: dict[str, PodFields] = {}  # by uid: as they were, or as they will come
    for change in undone:
        for then, there in ((change.before, True), (change.after, False)):
            if not isinstance(then, PodThen):
                continue
            number = number_of(then.pod_class)
            if then.fields.uid in rows or (there and then.fields.finished):
                continue
            fields = replace(then.fields, pod_class=number)
            rows[then.fields.uid] = fields if there else replace(fields, node_name="", nominated="")
    keys = {change.key for change in undone}
    stay = [row for row, key in enumerate(zip(table.namespaces, table.names, strict=True)) if key not in keys]
    staying = table.take(np.array(stay, np.int64))
    row_of = {"": UNBOUND, **nodes.row}
    added = np.array([row_of.get(fields.node_name, GONE) for fields in rows.values()], np.int64)
    if nodes is not theirs:
        # One more for pods on no node, whose row is -1.
        new_row = np.array([*(nodes.row.get(name, GONE) for name in theirs.names), UNBOUND], np.int64)
        staying = replace(staying, node=new_row[staying.node])
    node = np.concatenate([staying.node, added])
    unknown = np.concatenate([staying.node_unknown, np.zeros(len(added), np.bool_)]) | (node == GONE)
    leaving = [fields.deleted is not None for fields in rows.values()]
    return replace(
        staying,
        columns=staying.columns.joined(ColumnsBuilder(PodFields, rows.values()).columns()),
        node=np.maximum(node, UNBOUND),
        node_unknown=unknown,
        terminating=np.concatenate([staying.terminating, np.array(leaving, np.bool_)]),
        classes=tuple(classes),
        finished=None,
    )


class Following:
    """A state that follows what became of pods; which number one has in it is known by its uid."""

    def __init__(self, snapshot: Snapshot, state: ClusterState) -> None:
        """``state`` is that of the snapshot, and is changed."""
        self.state = state
        self._nodes = snapshot.nodes.row
        self._numbers = {uid: number for number, uid in enumerate(snapshot.pods.uids)}
        self._classes = {id(pod_class): number for number, pod_class in enumerate(snapshot.pods.classes)}

    def copy(self) -> Following:
        """An independent one."""
        other = Following.__new__(Following)
        other.state = self.state.copy()
        other._nodes = self._nodes
        other._classes = self._classes
        other._numbers = self._numbers.copy()
        return other

    def class_of(self, pod: PodThen) -> int:
        """The number of a pod's class."""
        return self._classes[id(pod.pod_class)]

    def number_of(self, pod: PodThen) -> int:
        """The number of a pod that is there."""
        return self._numbers[pod.fields.uid]

    def apply(self, changes: Iterable[Change]) -> None:
        """Let changes of pods happen; those of nodes need another state."""
        for change in changes:
            if not change.of_node:
                self._becomes(change.before, change.after)

    def undo(self, changes: Sequence[Change]) -> None:
        """Take the last changes of pods back, given in order."""
        for change in reversed(changes):
            if not change.of_node:
                self._becomes(change.after, change.before)

    def _becomes(self, before: object, after: object) -> None:
        was = before.fields.uid if isinstance(before, PodThen) else ""
        if was and (not isinstance(after, PodThen) or after.fields.uid != was):
            self._remove(was)
        if isinstance(after, PodThen):
            self._put(after)

    def _remove(self, uid: str) -> None:
        number = self._numbers.get(uid)
        if number is not None and self.state.node[number] != GONE:
            self.state.remove(number)

    def _put(self, pod: PodThen) -> None:
        """Have a pod as it is now, whatever it was."""
        fields = pod.fields
        kind = self.class_of(pod)
        state = self.state
        where = self._nodes.get(fields.node_name, GONE) if fields.node_name else UNBOUND
        where = GONE if fields.finished else where
        number = self._numbers.get(fields.uid)
        has_row = number is not None and state.node[number] != GONE and state.pod_class[number] == kind
        if number is None or not has_row or state.node[number] not in (UNBOUND, where):
            self._remove(fields.uid)
            number = self._numbers[fields.uid] = state.add(kind)
        if where == GONE:
            state.remove(number)
            return
        if where == UNBOUND:
            row = self._nodes.get(fields.nominated)
            state.forget_nomination(number)
            if row is not None:
                state.nominate(number, row)
            return
        if state.node[number] == UNBOUND:
            state.bind(number, where)
        elif state.terminating[number] and fields.deleted is None:
            state.restore(number, where)
        if fields.deleted is not None:
            state.evict(number)
