"""Nodes as columns: allocatable and capacity as matrices, readiness as vectors."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property

import msgspec
import numpy as np

from rebalancer.cluster import records, times
from rebalancer.cluster.arrays import BoolArray, FloatArray, IntArray
from rebalancer.cluster.leaving_nodes import why_leaving
from rebalancer.cluster.malformed import Malformed
from rebalancer.cluster.quantities import checked_amount
from rebalancer.cluster.records import Taint

CPU = 0
MEMORY = 1
EPHEMERAL_STORAGE = 2
PODS_COLUMN = 3
# Taints that the node controller sets on a node from which it does not hear what it needs to.
_UNBELIEVED = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
BASE_RESOURCES = ("cpu", "memory", "ephemeral-storage", "pods")


class NodeTable(msgspec.Struct, frozen=True, eq=False, dict=True):
    """Nodes as rows, in name order."""

    records: tuple[records.Node, ...]
    resources: tuple[str, ...]  # the columns of allocatable and capacity
    allocatable: IntArray  # (nodes, resources): thousandths of a core, bytes, counts
    capacity: IntArray  # (nodes, resources)
    ready: BoolArray  # (nodes,)
    ready_since: FloatArray  # (nodes,) Unix seconds, NaN when unknown
    incomplete: BoolArray  # (nodes,) runs a pod that could not be read: its free resources are unknown

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Node names by row."""
        return tuple(node.metadata.name for node in self.records)

    @cached_property
    def row(self) -> Mapping[str, int]:
        """Row by node name."""
        return {name: row for row, name in enumerate(self.names)}

    def row_of(self, name: str) -> int | None:
        """The row of the node of that name; one without its domain, as in tables, will do where one fits."""
        if name in self.row:
            return self.row[name]
        rows = [row for row, candidate in enumerate(self.names) if candidate.startswith(f"{name}.")]
        return rows[0] if len(rows) == 1 else None

    @cached_property
    def taints(self) -> Mapping[str, Sequence[Taint]]:
        """All taints of each node, by its name."""
        return {node.metadata.name: node.spec.taints or () for node in self.records}

    @cached_property
    def staying(self) -> BoolArray:
        """(nodes,) which are Ready, and nothing says that they are about to be removed."""
        return self.ready & np.array([not why_leaving(node) for node in self.records], np.bool_)

    def __len__(self) -> int:
        return len(self.records)


def _node_row(node: records.Node, columns: Mapping[str, int], which: str) -> list[int]:
    row = [0] * len(columns)
    for resource, text in (getattr(node.status, which) or {}).items():
        row[columns[resource]] = checked_amount(f"status.{which}", resource, text)
    return row


def build_nodes(
    listed: Sequence[records.Node], doubtful: Collection[str] = ()
) -> tuple[NodeTable, tuple[Malformed, ...]]:
    """Columns of all nodes that could be read, and those that could not.

    ``doubtful`` are the names of those that run a pod that could not be read.
    """
    named = {name for node in listed for name in (node.status.allocatable or {})}
    named |= {name for node in listed for name in (node.status.capacity or {})}
    resources = BASE_RESOURCES + tuple(sorted(named - set(BASE_RESOURCES)))
    columns = {name: column for column, name in enumerate(resources)}
    nodes: list[records.Node] = []
    rows: list[tuple[list[int], list[int], float]] = []
    malformed: list[Malformed] = []
    for node in listed:
        try:
            amounts = _node_row(node, columns, "allocatable"), _node_row(node, columns, "capacity")
            ready = records.condition(node.status.conditions, "Ready")
            since = times.parse_optional(ready.last_transition_time if ready else None)
        except ValueError as error:
            malformed.append(Malformed("Node", "", node.metadata.name, "", str(error)))
            continue
        nodes.append(node)
        rows.append((*amounts, since))
    shape = (len(nodes), len(resources))
    table = NodeTable(
        records=tuple(nodes),
        resources=resources,
        allocatable=np.array([row[0] for row in rows], dtype=np.int64).reshape(shape),
        capacity=np.array([row[1] for row in rows], dtype=np.int64).reshape(shape),
        ready=np.array([_is_ready(node) for node in nodes], dtype=np.bool_),
        ready_since=np.array([row[2] for row in rows], dtype=np.float64),
        incomplete=np.array([node.metadata.name in doubtful for node in nodes], dtype=np.bool_),
    )
    return table, tuple(malformed)


def _is_ready(node: records.Node) -> bool:
    """Whether its kubelet says so, and no taint says that Kubernetes does not believe it."""
    ready = records.condition(node.status.conditions, "Ready")
    believed = not any(taint.key in _UNBELIEVED for taint in node.spec.taints or ())
    return ready is not None and ready.status == "True" and believed
