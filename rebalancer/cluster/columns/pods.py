"""Pods as rows of the snapshot, grouped into classes of pods that the scheduler cannot tell apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rebalancer.cluster.arrays import BoolArray, FloatArray, IntArray, PodClassIndex
from rebalancer.cluster.columns.binding_labels import classes_before_binding
from rebalancer.cluster.columns.listed_pods import ListedPods
from rebalancer.cluster.columns.pod_classes import PodClass


@dataclass(frozen=True, eq=False)
class PodTable:
    """Pods as rows, in order of namespace and name; finished pods are left out."""

    names: tuple[str, ...]
    namespaces: tuple[str, ...]
    uids: tuple[str, ...]
    node: IntArray  # (pods,) row of the node, -1 while unbound
    node_unknown: BoolArray  # (pods,) bound to a node that was not read
    pod_class: IntArray  # (pods,) index into classes
    phase: IntArray  # (pods,) index into PHASES
    created: FloatArray  # (pods,) Unix seconds
    started: FloatArray  # (pods,) Unix seconds, NaN when unknown
    terminating: BoolArray  # (pods,)
    ready: BoolArray  # (pods,)
    annotations: tuple[Mapping[str, str], ...]  # (pods,) the honoured ones, interned
    nominated: Mapping[int, str]  # pod row -> status.nominatedNodeName
    classes: tuple[PodClass, ...]
    # class -> the class of its pods before they were bound, where binding added labels; it may have no pods
    class_before_binding: Mapping[int, PodClassIndex]

    @cached_property
    def row(self) -> Mapping[tuple[str, str], int]:
        """Row by namespace and name."""
        return {key: row for row, key in enumerate(zip(self.namespaces, self.names, strict=True))}

    @cached_property
    def by_node(self) -> Mapping[int, IntArray]:
        """Pod rows by node row."""
        order = np.argsort(self.node, kind="stable")
        rows, starts = np.unique(self.node[order], return_index=True)
        return dict(zip(rows.tolist(), np.split(order, starts[1:]), strict=True)) if len(order) else {}

    def full_name(self, row: int) -> str:
        """``namespace/name``."""
        return f"{self.namespaces[row]}/{self.names[row]}"

    def class_of(self, row: int) -> PodClass:
        """The class of a pod."""
        return self.classes[int(self.pod_class[row])]

    def __len__(self) -> int:
        return len(self.names)


def build_pods(rows: ListedPods, node_row: Mapping[str, int]) -> PodTable:
    """The pods of a listing, on the nodes that were read."""
    row_of = np.array([node_row.get(name, -1) for name in rows.node_names], np.int64)
    unknown = np.array([bool(name) and name not in node_row for name in rows.node_names], np.bool_)
    terminating = np.zeros(len(rows), np.bool_)
    terminating[list(rows.deleted)] = True
    classes, before_binding = classes_before_binding(rows.classes)
    return PodTable(
        names=rows.names,
        namespaces=rows.namespaces,
        uids=rows.uids,
        node=row_of[rows.node],
        node_unknown=unknown[rows.node],
        pod_class=rows.pod_class,
        phase=rows.phase,
        created=rows.created,
        started=rows.started,
        terminating=terminating,
        ready=rows.ready,
        annotations=rows.annotations,
        nominated=rows.nominated,
        classes=classes,
        class_before_binding=before_binding,
    )
