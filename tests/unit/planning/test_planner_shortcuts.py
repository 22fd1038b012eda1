"""What is not computed again changes no plan: neither its moves, nor why pods stay, nor its figures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalancer.cluster.arrays import FloatArray, IntArray
from rebalancer.planning.landing.spread import SpreadConstraint
from rebalancer.planning.plan import encode
from rebalancer.planning.planner import make_plan
from rebalancer.planning.strategies.hot_nodes.movable import ALL, MovablePods
from rebalancer.planning.strategies.hot_nodes.search import Attempt
from rebalancer.scheduling.state.cluster_state import ClusterState, FirstPods
from tests.conftest import examples
from tests.unit.planning.random_clusters import Cluster, clusters

STRATEGIES = {
    "duplicates": True,
    "topologySpread": {"defaultConstraints": True, "constraints": ["DoNotSchedule", "ScheduleAnyway"]},
    "misplaced": {"preferredNodeAffinity": True, "preferNoSchedule": True},
    "consolidation": {"minNodeAge": "0s"},
}


def anew(_first: FirstPods, _key: object, _changed: object, compute: Callable[[Any], IntArray]) -> IntArray:
    return compute(slice(None))


def every_pod(_pods: MovablePods, _before: FloatArray, _after: FloatArray) -> list[slice]:
    return [ALL]


@settings(max_examples=examples(20))
@given(clusters(), st.integers(1, 4))
def test_a_plan_is_the_same_where_nothing_is_left_out_or_remembered(cluster: Cluster, most: int) -> None:
    cluster.policy["strategies"] = STRATEGIES
    found = encode(make_plan(cluster.inputs(perRun=most)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Attempt, "_is_spent", False)
        patch.setattr(MovablePods, "on_changed", every_pod)
        patch.setattr(FirstPods, "per_node", anew)
        patch.setattr(SpreadConstraint, "may_be_skewed", lambda *_: True)
        patch.setattr(ClusterState, "most_counted", lambda *_: 10**9)
        assert encode(make_plan(cluster.inputs(perRun=most))) == found
