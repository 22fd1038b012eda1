"""A policy that asks less of a move, or protects fewer pods, never leaves more excess."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

from hypothesis import given, settings

from tests.conftest import examples
from tests.rows import rows
from tests.unit.planning.random_clusters import Cluster, clusters, excess_left

# Each from the strictest value to the boldest.
PLANNING = {
    "minGain": [15, 10, 5, 3, 1],
    "confidence": [0.99, 0.95, 0.8],
    "aggressiveness": [2, 3, 4, 5],
}
EVICTABLE = {
    "protect": [["SingleReplica", "PersistentVolumes", "LocalStorage"], ["SingleReplica"], []],
    "minAge": ["1h", "0s"],
}
VALUES = [("planning", *item) for item in PLANNING.items()] + [
    ("evictable", *item) for item in EVICTABLE.items()
]


def with_setting(cluster: Cluster, section: str, key: str, value: Any) -> Cluster:
    given: Mapping[str, Any] = cluster.policy.get(section, {})
    left = {name: item for name, item in given.items() if key != "aggressiveness"}
    return replace(cluster, policy={**cluster.policy, section: {**left, key: value}})


@rows("section, key, values", VALUES)
def test_a_bolder_setting_never_leaves_more_excess(section: str, key: str, values: list[Any]) -> None:
    @settings(max_examples=examples(12), deadline=None)
    @given(clusters())
    def holds(cluster: Cluster) -> None:
        left = [excess_left(with_setting(cluster, section, key, value)) for value in values]
        assert all(bolder <= stricter + 1e-6 for stricter, bolder in pairwise(left)), left

    holds()
