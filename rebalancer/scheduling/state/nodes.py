"""The nodes as columns: what never changes while the model places pods.

One ``NodeIndex`` is shared by all copies of a ``ClusterState``. Whatever depends on it alone is computed
once.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import zip_longest
from typing import Any, TypeVar

import msgspec
import numpy as np

from rebalancer.cluster import times
from rebalancer.cluster.arrays import BoolArray, FloatArray, IntArray
from rebalancer.cluster.nodes import NodeTable
from rebalancer.cluster.records import NodeSelector, NodeSelectorTerm, Requirement, Taint

T = TypeVar("T")

_INTEGER = re.compile(r"[+-]?\d{1,19}", re.ASCII)
_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", re.ASCII)
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_MAX_NAME = 63
_MAX_PREFIX = 253
_MAX_SETS = 256  # of nodes of which results are kept
_INT64 = range(-(1 << 63), 1 << 63)
_REGION = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")
_ZONE = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")


def parse_integer(text: str) -> int | None:
    """An int64 as the scheduler parses it, else None."""
    if not _INTEGER.fullmatch(text):
        return None
    value = int(text)
    return value if value in _INT64 else None


def _is_label_value(text: str) -> bool:
    return not text or (len(text) <= _MAX_NAME and _NAME.fullmatch(text) is not None)


def _is_label_key(text: str) -> bool:
    prefix, slash, name = text.rpartition("/")
    if slash and not (len(prefix) <= _MAX_PREFIX and _PREFIX.fullmatch(prefix)):
        return False
    return bool(name) and _is_label_value(name)


def _check(requirement: Requirement) -> None:
    """Refuse what no label can be, as the scheduler does (apimachinery labels.NewRequirement)."""
    if not _is_label_key(requirement.key):
        raise ValueError(f"{requirement.key!r} is not a label key")
    for value in requirement.values or ():
        if not _is_label_value(value):
            raise ValueError(f"{value!r} is not a label value")


class LabelColumn(msgspec.Struct, frozen=True, eq=False, dict=True):
    """One label key over all nodes."""

    values: IntArray  # (nodes,) index into names, -1 where the label is absent
    names: tuple[str, ...]  # distinct values, in order of first appearance
    index: Mapping[str, int]

    @cached_property
    def count(self) -> int:
        """How many nodes have it."""
        return int(np.count_nonzero(self.values >= 0))

    @cached_property
    def by_node(self) -> Sequence[int]:
        """The values as integers that are read one by one."""
        return tuple(self.values.tolist())


class NodeLabels:
    """The labels of all nodes as columns of integers: one selector is one comparison over all nodes."""

    def __init__(self, labels: Sequence[Mapping[str, str]], node_names: Sequence[str]) -> None:
        self._labels = labels
        self._row = {name: row for row, name in enumerate(node_names)}
        self._columns: dict[str, LabelColumn] = {}

    def column(self, key: str) -> LabelColumn:
        """The column of a label key."""
        column = self._columns.get(key)
        if column is None:
            index: dict[str, int] = {}
            values = np.full(len(self._labels), -1, dtype=np.int64)
            for row, labels in enumerate(self._labels):
                value = labels.get(key)
                if value is not None:
                    values[row] = index.setdefault(value, len(index))
            column = self._columns[key] = LabelColumn(values, tuple(index), index)
        return column

    def equal(self, key: str, value: str) -> BoolArray:
        """Nodes that carry the label with this value."""
        column = self.column(key)
        index = column.index.get(value)
        if index is None:
            return np.zeros(len(self._labels), np.bool_)
        carrying: BoolArray = column.values == index
        return carrying

    def among(self, key: str, values: Iterable[str]) -> BoolArray:
        """Nodes that carry the label with one of these values."""
        column = self.column(key)
        return np.isin(column.values, [column.index[value] for value in values if value in column.index])

    def _compared(self, requirement: Requirement) -> BoolArray:
        bound = parse_integer((requirement.values or [""])[0])
        column = self.column(requirement.key)
        if bound is None or len(requirement.values or ()) != 1:
            raise ValueError(f"{requirement.operator} needs one integer")
        numbers = [parse_integer(name) for name in column.names]
        greater = requirement.operator == "Gt"
        passing = [
            position
            for position, number in enumerate(numbers)
            if number is not None and (number > bound if greater else number < bound)
        ]
        return np.isin(column.values, passing)

    def matches(self, requirement: Requirement) -> BoolArray:
        """Nodes that satisfy one expression; ValueError when it does not parse."""
        _check(requirement)
        present = self.column(requirement.key).values >= 0
        match requirement.operator:
            case "In" if requirement.values:
                return self.among(requirement.key, requirement.values)
            case "NotIn" if requirement.values:
                return ~self.among(requirement.key, requirement.values)
            case "Exists" if not requirement.values:
                return present
            case "DoesNotExist" if not requirement.values:
                return ~present
            case "Gt" | "Lt":
                return self._compared(requirement)
        raise ValueError(f"operator {requirement.operator!r} of {requirement.key!r} does not parse")

    def _field(self, requirement: Requirement) -> BoolArray:
        values = requirement.values or []
        if (
            requirement.key != "metadata.name"
            or len(values) != 1
            or requirement.operator not in ("In", "NotIn")
        ):
            raise ValueError(f"field expression on {requirement.key!r} does not parse")
        named = np.zeros(len(self._labels), np.bool_)
        if values[0] in self._row:
            named[self._row[values[0]]] = True
        return named if requirement.operator == "In" else ~named

    def term(self, term: NodeSelectorTerm) -> BoolArray:
        """Nodes that match a term; an empty term and one that does not parse match nothing."""
        matched = np.ones(len(self._labels), np.bool_)
        if not term.match_expressions and not term.match_fields:
            return ~matched
        try:
            return self.parsed_term(term)
        except ValueError:
            return np.zeros(len(self._labels), np.bool_)

    def parsed_term(self, term: NodeSelectorTerm) -> BoolArray:
        """Nodes that match all expressions of a term; ValueError when one does not parse."""
        matched = np.ones(len(self._labels), np.bool_)
        for requirement in term.match_expressions or ():
            matched &= self.matches(requirement)
        for requirement in term.match_fields or ():
            matched &= self._field(requirement)
        return matched

    def selector(self, selector: NodeSelector) -> BoolArray:
        """Nodes that match any term; no terms match nothing."""
        matched = np.zeros(len(self._labels), np.bool_)
        for term in selector.node_selector_terms or ():
            matched |= self.term(term)
        return matched


def _first(labels: Mapping[str, str], keys: tuple[str, str]) -> str:
    return next((labels[key] for key in keys if labels.get(key)), "")


def zone_key(labels: Mapping[str, str]) -> tuple[str, str]:
    """Region and zone of a node; the beta labels win."""
    return _first(labels, _REGION), _first(labels, _ZONE)


def _created(table: NodeTable) -> FloatArray:
    """(nodes,) Unix seconds, inf where nobody can read it."""
    stamps = [record.metadata.creation_timestamp for record in table.records]
    created = np.array([times.parse_if_possible(stamp) for stamp in stamps], np.float64)
    created[np.isnan(created)] = np.inf
    return created


class Registered(msgspec.Struct, frozen=True):
    """The names of the nodes in the order in which a scheduler came to know them."""

    names: Sequence[str]
    listed: int = 0  # so many of the first it listed in no order, for which this one stands


def listed_since(table: NodeTable, moment: float, shuffle: int = 0) -> Registered:
    """The nodes in the order in which a scheduler came to know them that began at a moment.

    It lists the nodes that there are, and hears of the others as they are created; a node whose time of
    creation nobody can read comes last. ``moment`` is in Unix seconds; -inf: before there were any, inf:
    after all. ``shuffle`` 0: the nodes that it lists come by name. From 1.35 on they come in no order: other
    numbers are orders drawn at random, each always the same. That of -1 is that of 1 turned round, and so are
    nodes that were created in one second.

    Source: kubernetes v1.34.4 staging/src/k8s.io/client-go/tools/cache/reflector.go, whose list has the order
    of etcd's keys, and pkg/scheduler/eventhandlers.go, addNodeToCache; v1.35.4 reflector.go:805, watchList,
    whose list is that of a map.
    """
    names = sorted(table.names)
    direction = -1 if shuffle < 0 else 1
    created = dict(zip(table.names, _created(table).tolist(), strict=True))

    def place(rank: int) -> tuple[float, int]:
        at = created[names[rank]]
        if at > moment:
            return at, direction * rank
        if not shuffle:
            return -math.inf, rank
        drawn = hashlib.sha256(f"{abs(shuffle)}/{names[rank]}".encode()).digest()
        return -math.inf, direction * int.from_bytes(drawn[:8])

    listed = 0
    if shuffle:
        listed = sum(at <= moment for at in created.values())
    return Registered([names[rank] for rank in sorted(range(len(names)), key=place)], listed)


class NodeOrder(msgspec.Struct, frozen=True, eq=False, dict=True):
    """An order in which the scheduler may look at the nodes."""

    rows: IntArray  # (nodes,) in this order
    listed: BoolArray  # (nodes,) by row: it listed the node when it started, in no order
    count: int = 1  # how many times as likely it is as another
    _results: dict[tuple[int, Hashable], tuple[IntArray, Any]] = msgspec.field(default_factory=dict)

    def cached(self, nodes: IntArray, what: Hashable, compute: Callable[[], T]) -> T:
        """A result that depends on this order, some nodes and ``what`` alone; computed once for these rows.

        ``NodeIndex.passing`` gives the same array for the same nodes.
        """
        key = id(nodes), what
        entry = self._results.get(key)
        if entry is None:
            if len(self._results) >= _MAX_SETS:
                self._results.clear()
            entry = nodes, compute()
            self._results[key] = entry  # while the array is kept, no other has its id
        result: T = entry[1]
        return result

    @cached_property
    def lists_any(self) -> bool:
        """Whether the scheduler listed any node when it started."""
        return bool(self.listed.any())

    @cached_property
    def lists_all(self) -> bool:
        """Whether it listed all nodes then."""
        return bool(self.listed.all())

    @cached_property
    def place(self) -> IntArray:
        """(nodes,) the place of each node in the order; meaningless where the order leaves a node out."""
        place = np.zeros(len(self.listed), np.int64)
        place[self.rows] = np.arange(len(self.rows))
        return place

    def among(self, nodes: BoolArray) -> NodeOrder:
        """The order of those nodes (nodes,) that a plugin names: the scheduler looks at them in no order."""
        return NodeOrder(self.rows[nodes[self.rows]], np.ones(len(self.listed), np.bool_), self.count)


def node_order(labels: Sequence[Mapping[str, str]]) -> IntArray:
    """Rows in the order of the scheduler's node list: one node of every zone, then the next of every zone.

    Source: kubernetes v1.34.4 pkg/scheduler/backend/cache/node_tree.go:119.
    """
    zones: dict[tuple[str, str], list[int]] = {}
    for row, node_labels in enumerate(labels):
        zones.setdefault(zone_key(node_labels), []).append(row)
    rounds = zip_longest(*zones.values(), fillvalue=-1)
    return np.array([row for one_round in rounds for row in one_round if row >= 0], np.int64)


class HeldImage(msgspec.Struct, frozen=True, eq=False):
    """An image that nodes hold: the scheduler counts one size on all of them.

    That is the size on the node that registered the name first (backend/cache/cache.go:683). Which node that
    was, a scheduler that has run for a while alone knows.
    """

    rows: IntArray  # of the nodes that hold it
    sizes: tuple[int, ...]  # bytes; each that occurs, that of the first to register first


class NodeIndex:
    """The nodes by row: names, labels, taints and images, and results that depend on nothing else."""

    def __init__(
        self,
        table: NodeTable,
        registered: Sequence[Registered] = (),
    ) -> None:
        """``registered`` are the orders in which the scheduler may have come to know the nodes.

        Without any it is that of their names.
        """
        self.table = table
        self._registered = registered or [Registered(table.names)]
        self.names = table.names
        self.labels = NodeLabels([node.metadata.labels or {} for node in table.records], table.names)
        self.unschedulable: BoolArray = np.array(
            [node.spec.unschedulable for node in table.records], np.bool_
        )
        self._cached: dict[tuple[object, Hashable], Any] = {}
        self._passing: dict[bytes, IntArray] = {}

    def __len__(self) -> int:
        return len(self.names)

    def cached(self, owner: object, what: Hashable, compute: Callable[[], T]) -> T:
        """A result of ``owner`` named ``what`` that depends on static facts alone, computed once."""
        key = (owner, what)
        if key not in self._cached:
            self._cached[key] = compute()
        result: T = self._cached[key]
        return result

    def passing(self, mask: BoolArray) -> IntArray:
        """The rows of the nodes that a mask (nodes,) holds, ascending: the same array for the same nodes."""
        key = mask.tobytes()
        rows = self._passing.get(key)
        if rows is None:
            if len(self._passing) >= _MAX_SETS:
                self._passing.clear()
            rows = self._passing[key] = mask.nonzero()[0]
        return rows

    @cached_property
    def taints(self) -> tuple[Taint, ...]:
        """The distinct taints of all nodes."""
        return tuple(dict.fromkeys(taint for node in self.table.records for taint in node.spec.taints or ()))

    @cached_property
    def taint_columns(self) -> Mapping[Taint, int]:
        """The place of each distinct taint in ``taints``."""
        return {taint: column for column, taint in enumerate(self.taints)}

    @cached_property
    def taint_counts(self) -> IntArray:
        """(nodes, taints): how often a node carries each distinct taint."""
        counts = np.zeros((len(self), len(self.taints)), np.int64)
        for row, node in enumerate(self.table.records):
            for taint in node.spec.taints or ():
                counts[row, self.taint_columns[taint]] += 1
        return counts

    @cached_property
    def orders(self) -> tuple[NodeOrder, ...]:
        """Each order in which the scheduler may look at all nodes."""
        counts: Counter[bytes] = Counter()
        listed_by_rows: dict[bytes, BoolArray] = {}
        for registered in self._registered:
            rows = np.array([self.table.row[name] for name in registered.names], np.int64)
            labels = [self.table.records[row].metadata.labels or {} for row in rows]
            listed = np.zeros(len(self), np.bool_)
            listed[rows[: registered.listed]] = True
            in_order = rows[node_order(labels)].tobytes()
            counts[in_order] += 1
            listed_by_rows.setdefault(in_order, listed)
        return tuple(
            NodeOrder(np.frombuffer(rows, np.int64), listed_by_rows[rows], count)
            for rows, count in counts.items()
        )

    @cached_property
    def orders_of_samples(self) -> tuple[NodeOrder, ...]:
        """The same, of those that differ by the order of listed nodes alone the first."""
        first: dict[bytes, NodeOrder] = {}
        for order in self.orders:
            key = order.listed.tobytes() if order.listed.any() else order.rows.tobytes()
            count = first[key].count if key in first else 0
            rows = first[key].rows if key in first else order.rows
            first[key] = NodeOrder(rows, order.listed, count + order.count)
        return tuple(first.values())

    @cached_property
    def images(self) -> Mapping[str, HeldImage]:
        """The images on nodes by name."""
        rows: dict[str, dict[int, None]] = {}
        sizes: dict[str, dict[int, None]] = {}
        for node_name in self._registered[0].names:
            row = self.table.row[node_name]
            for image in self.table.records[row].status.images or ():
                for name in image.names or ():
                    rows.setdefault(name, {})[row] = None
                    sizes.setdefault(name, {})[image.size_bytes] = None
        return {
            name: HeldImage(np.array(list(held), np.int64), tuple(sizes[name])) for name, held in rows.items()
        }
