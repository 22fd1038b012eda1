"""SelectorSpread: fewer pods of the same Services and controllers on a node and in its zone, up to 1.19.

From 1.20 on default constraints of PodTopologySpread take its place; until then it is among the defaults.

    4 pods on a, of zone x; none on b, of zone x; none on c, of zone y
    a    0 of 100 by node and 0 by zone             0
    b    100 by node and 0 by zone                 33
    c    100 by node and 100 by zone              100

Source: kubernetes v1.19.16 pkg/scheduler/framework/plugins/selectorspread/selector_spread.go:82.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

import numpy as np

from rebalancer.cluster.arrays import IntArray
from rebalancer.cluster.kinds import SERVICES, Kind
from rebalancer.cluster.pod_classes import PodClass
from rebalancer.profiles.types import Arguments as PluginArguments
from rebalancer.profiles.types import ExtensionPoint, extension_points, inputs_of
from rebalancer.scheduling.framework.plugin import MAX_SCORE, Enabled, ObjectsRead, Plugin, PluginInputs
from rebalancer.scheduling.matching import OWNER_KINDS, Owners, PodSelector
from rebalancer.scheduling.state.cluster_state import ClusterState
from rebalancer.scheduling.state.counters import MatchingPods
from rebalancer.scheduling.state.nodes import zone_key
from rebalancer.scheduling.versions.rules import DEFAULT_SPREAD

_ZONE_WEIGHT = 2.0 / 3.0
_NO_ZONE = ("", "")


class SelectorSpread(Plugin):
    """Scores what part of the most pods on a node is not on this one, and the same of zones.

    Of more than 100 nodes the scheduler compares a sample, of which all feasible nodes stand for the zones.
    """

    name = "SelectorSpread"
    points = extension_points("preScore score")
    inputs = inputs_of(SERVICES, *OWNER_KINDS.values())
    versions = frozenset({"v1beta1"})

    @classmethod
    def make(cls, arguments: PluginArguments | None, inputs: PluginInputs) -> Self:
        return cls(inputs.owners)

    @classmethod
    def needs(cls, pod: PodClass, enabled: Enabled, objects: ObjectsRead) -> Iterable[Kind]:
        scores = ExtensionPoint.SCORE in enabled.points and not objects.release.has(DEFAULT_SPREAD)
        return (SERVICES, *OWNER_KINDS.values()) if scores else ()

    def __init__(self, owners: Owners) -> None:
        self._owners = owners

    def raw_scores(self, state: ClusterState, pod_class: int, feasible: IntArray) -> IntArray | None:
        """(feasible,) what the scheduler has after it normalised; None where default constraints spread."""
        pod = state.classes[pod_class]
        if state.classes.release.has(DEFAULT_SPREAD):
            return None
        if pod.spec.topology_spread_constraints:
            return np.zeros(len(feasible), np.int64)
        selector = self._owners.derived_from_all(pod)
        if selector.is_empty:
            pods = np.zeros(len(feasible), np.int64)
        else:
            selected = PodSelector(frozenset({pod.namespace}), selector)
            number = state.classes.counters.number(MatchingPods((selected,), terminating=False))
            pods = state.counter(number)[:-1][feasible]
        return self._scored(pods, self._zones(state)[feasible])

    def _zones(self, state: ClusterState) -> IntArray:
        """(nodes,) a number of the zone, -1 where a node is in none."""

        def compute() -> IntArray:
            numbers: dict[tuple[str, str], int] = {}
            zones = []
            for node in state.nodes.table.records:
                key = zone_key(node.metadata.labels or {})
                zones.append(-1 if key == _NO_ZONE else numbers.setdefault(key, len(numbers)))
            return np.array(zones, np.int64)

        return state.nodes.cached(self, "zones", compute)

    def _scored(self, pods: IntArray, zones: IntArray) -> IntArray:
        by_node = _part_elsewhere(pods)
        zoned = zones >= 0
        if not zoned.any():
            return by_node.astype(np.int64)
        by_zone = _part_elsewhere(np.bincount(zones[zoned], pods[zoned]).astype(np.int64))
        with_zone = by_node * (1.0 - _ZONE_WEIGHT) + _ZONE_WEIGHT * by_zone[zones]
        return np.where(zoned, with_zone, by_node).astype(np.int64)


def _part_elsewhere(pods: IntArray) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """(places,) 100 where there are none of them, 0 where there are most."""
    largest = int(pods.max(initial=0))
    if not largest:
        return np.full(len(pods), float(MAX_SCORE))
    return float(MAX_SCORE) * ((largest - pods) / float(largest))
