"""The order in which the scheduler looks at nodes.

Source: kubernetes v1.34.4 pkg/scheduler/backend/cache/node_tree.go:119.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest

import numpy as np

from rebalancer.cluster.arrays import IntArray

_REGION = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")
_ZONE = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")


def _first(labels: Mapping[str, str], keys: tuple[str, str]) -> str:
    return next((labels[key] for key in keys if labels.get(key)), "")


def zone_key(labels: Mapping[str, str]) -> tuple[str, str]:
    """Region and zone of a node; the beta labels win."""
    return _first(labels, _REGION), _first(labels, _ZONE)


def node_order(labels: Sequence[Mapping[str, str]]) -> IntArray:
    """Rows in the order of the scheduler's node list: one node of every zone, then the next of every zone."""
    zones: dict[tuple[str, str], list[int]] = {}
    for row, node_labels in enumerate(labels):
        zones.setdefault(zone_key(node_labels), []).append(row)
    rounds = zip_longest(*zones.values(), fillvalue=-1)
    return np.array([row for one_round in rounds for row in one_round if row >= 0], np.int64)
