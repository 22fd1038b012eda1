"""The snapshot: nodes and pods as columns, budgets and workloads as records, each kind at its own moment.

Rows are in order of name, so a snapshot is a function of what was read and not of the order it came in.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from rebalancer.cluster import kinds, records
from rebalancer.cluster.dumps.listing import Recording
from rebalancer.cluster.malformed import Malformed
from rebalancer.cluster.nodes import NodeTable, build_nodes
from rebalancer.cluster.pods import PodTable, build_pods
from rebalancer.errors import InputError


class Snapshot(msgspec.Struct, frozen=True, eq=False, dict=True):
    """A cluster at one moment; each kind with its own version and time."""

    source: str
    nodes: NodeTable
    pods: PodTable
    budgets: tuple[records.DisruptionBudget, ...] | None  # None: not read, so unknown
    workloads: Mapping[str, tuple[kinds.Kind, records.Workload]]  # by uid
    namespaces: Mapping[str, Mapping[str, str]] | None  # labels by name
    recording: Recording

    @property
    def malformed(self) -> tuple[Malformed, ...]:
        """Objects that could not be read, of all kinds."""
        return tuple(entry for listing in self.recording.listings.values() for entry in listing.malformed)

    def has(self, kind: kinds.Kind) -> bool:
        """Whether a kind was read; one that was not is unknown, never empty."""
        return self.recording.has(kind)


def build_snapshot(recording: Recording) -> Snapshot:
    """Columns from what was read; a malformed object is left out of them and named among ``malformed``.

    Raises InputError when nodes or pods were not read.
    """
    for kind in kinds.REQUIRED:
        if not recording.has(kind):
            raise InputError(
                f"{kind.plural} were not read ({recording.unread.get(kind.plural, 'not in the dump')})",
                where=recording.source,
                hint=f"add what this prints: kubectl get {kind.plural} -A -o json",
            )
    read = recording.listings[kinds.PODS.plural]
    assert read.pods is not None
    incomplete = {malformed.node_name for malformed in read.malformed if malformed.node_name}
    nodes, malformed_nodes = build_nodes(recording.records(kinds.NODES), incomplete)
    recording = recording.with_more(kinds.NODES, malformed=malformed_nodes)
    return Snapshot(
        source=recording.source,
        nodes=nodes,
        pods=build_pods(read.pods, nodes.row),
        budgets=tuple(recording.records(kinds.DISRUPTION_BUDGETS))
        if recording.has(kinds.DISRUPTION_BUDGETS)
        else None,
        workloads={
            workload.metadata.uid: (kind, workload)
            for kind in kinds.WORKLOADS
            for workload in recording.records(kind)
        },
        namespaces={
            namespace.metadata.name: namespace.metadata.labels or {}
            for namespace in recording.records(kinds.NAMESPACES)
        }
        if recording.has(kinds.NAMESPACES)
        else None,
        recording=recording,
    )
