"""Pods as rows that change a few at a time, where ``PodCollector`` reads all of them once.

Rows stay in order of namespace and name, so a change finds its place by bisection, and the columns are copied
once for all changes together:

    rows        games/a   shop/web-1   shop/web-3
    changes     shop/web-1 gone, shop/web-2 new, games/a ready
    rows        games/a   shop/web-2   shop/web-3      one row written, one deleted, one inserted

What ``listed`` returns is what a collector makes of the same pods, and shares nothing that changes later.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from rebalancer.cluster.columns.listed_pods import ListedPods
from rebalancer.cluster.columns.pod_classes import ClassIndex
from rebalancer.cluster.columns.pod_collector import PodFields, renumbered

Key = tuple[str, str]
"""Namespace and name."""
_NUMBERS: dict[str, type[np.generic]] = {
    "node": np.int64,
    "pod_class": np.int64,
    "phase": np.int64,
    "created": np.float64,
    "started": np.float64,
    "ready": np.bool_,
}


class PodRows:
    """The columns of some pods."""

    def __init__(self, pods: Iterable[PodFields]) -> None:
        ordered = sorted(pods, key=_key)
        self._node_index: dict[str, int] = {}
        self._keys = [_key(fields) for fields in ordered]
        self._uids = [fields.uid for fields in ordered]
        self._annotations = [fields.annotations for fields in ordered]
        self._sparse: dict[str, dict[Key, str]] = {"deleted": {}, "nominated": {}}
        for fields in ordered:
            self._note(fields)
        self._columns = self._numbers(ordered)

    def __len__(self) -> int:
        return len(self._keys)

    def change(self, changes: Mapping[Key, PodFields | None]) -> None:
        """Put these pods in place of those of their names; None where there is none any more."""
        columns = {name: column.copy() for name, column in self._columns.items()}
        gone: list[int] = []
        new: list[PodFields] = []
        for key, fields in changes.items():
            row = bisect_left(self._keys, key)
            known = row < len(self._keys) and self._keys[row] == key
            for sparse in self._sparse.values():
                sparse.pop(key, None)
            if fields is None:
                gone += [row] if known else []
                continue
            self._note(fields)
            if not known:
                new.append(fields)
                continue
            self._uids[row], self._annotations[row] = fields.uid, fields.annotations
            for name, value in self._values(fields).items():
                columns[name][row] = value
        for row in sorted(gone, reverse=True):
            del self._keys[row], self._uids[row], self._annotations[row]
        columns = {name: np.delete(column, gone) for name, column in columns.items()}
        new.sort(key=_key)
        places = [bisect_left(self._keys, _key(fields)) for fields in new]
        for row, fields in zip(reversed(places), reversed(new), strict=True):
            self._keys.insert(row, _key(fields))
            self._uids.insert(row, fields.uid)
            self._annotations.insert(row, fields.annotations)
        values = self._numbers(new)
        self._columns = {name: np.insert(column, places, values[name]) for name, column in columns.items()}

    def listed(self, classes: ClassIndex) -> ListedPods:
        """The pods as a LIST brings them; ``classes`` has those that their numbers stand for."""
        pod_class, class_numbers = renumbered(self._columns["pod_class"])
        node, node_numbers = renumbered(self._columns["node"])
        node_names = list(self._node_index)
        return ListedPods(
            names=tuple([name for _, name in self._keys]),
            namespaces=tuple([namespace for namespace, _ in self._keys]),
            uids=tuple(self._uids),
            node_names=tuple(node_names[number] for number in node_numbers),
            node=node,
            pod_class=pod_class,
            phase=self._columns["phase"],
            created=self._columns["created"],
            started=self._columns["started"],
            ready=self._columns["ready"],
            deleted=self._by_row("deleted"),
            annotations=tuple(self._annotations),
            nominated=self._by_row("nominated"),
            classes=tuple(classes.classes[number] for number in class_numbers),
            class_keys=tuple(classes.keys[number] for number in class_numbers),
        )

    @property
    def node_name_count(self) -> int:
        """How many names of nodes are kept, those without pods included."""
        return len(self._node_index)

    def _note(self, fields: PodFields) -> None:
        """Keep what few pods have."""
        if fields.deleted is not None:
            self._sparse["deleted"][_key(fields)] = fields.deleted
        if fields.nominated and not fields.node_name:
            self._sparse["nominated"][_key(fields)] = fields.nominated

    def _by_row(self, name: str) -> dict[int, str]:
        found = {bisect_left(self._keys, key): text for key, text in self._sparse[name].items()}
        return dict(sorted(found.items()))

    def _values(self, fields: PodFields) -> dict[str, Any]:
        values = {name: getattr(fields, name) for name in _NUMBERS if name != "node"}
        return {**values, "node": self._node_index.setdefault(fields.node_name, len(self._node_index))}

    def _numbers(self, pods: list[PodFields]) -> dict[str, np.ndarray[Any, Any]]:
        rows = [self._values(fields) for fields in pods]
        return {name: np.array([row[name] for row in rows], dtype) for name, dtype in _NUMBERS.items()}


def _key(fields: PodFields) -> Key:
    return fields.namespace, fields.name
