"""Which nodes reach a persistent volume: those that its node affinity names.

Of a volume of an in-tree kind that is bound, a node whose kubelet has handed the kind over to a CSI driver is
compared in the words of that driver; free volumes are compared as they are.

Source: kubernetes v1.35.4 pkg/scheduler/framework/plugins/volumebinding/binder.go:856, :1109.
"""

from __future__ import annotations

import numpy as np

from rebalancer.cluster.arrays import BoolArray
from rebalancer.cluster.records import NodeSelector, PersistentVolume
from rebalancer.scheduling.state.cluster_state import ClusterState
from rebalancer.scheduling.state.csi_migration import in_tree_plugin, migrated_affinity, migrated_plugins


def reachable(state: ClusterState, volume: PersistentVolume) -> BoolArray:
    """(nodes,) matches the volume's node affinity."""
    affinity = volume.spec.node_affinity
    return _selected(state, affinity.required if affinity is not None else None)


def reachable_when_bound(state: ClusterState, volume: PersistentVolume) -> BoolArray:
    """(nodes,) matches it, each node in the words that it uses."""
    as_it_is = reachable(state, volume)
    plugin = in_tree_plugin(volume)
    if not plugin:
        return as_it_is
    csi_nodes = state.classes.volumes.csi_nodes
    handed_over = [plugin in migrated_plugins(csi_nodes.get(name)) for name in state.nodes.names]
    return np.where(handed_over, _selected(state, migrated_affinity(volume)), as_it_is)


def _selected(state: ClusterState, required: NodeSelector | None) -> BoolArray:
    return np.ones(len(state.nodes), np.bool_) if required is None else state.nodes.labels.selector(required)
