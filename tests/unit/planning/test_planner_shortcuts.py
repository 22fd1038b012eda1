"""What is not computed again changes no plan: neither its moves, nor why pods stay, nor its figures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalancer.cluster.arrays import FloatArray
from rebalancer.planning.eviction import EvictionContext
from rebalancer.planning.plan import encode
from rebalancer.planning.planner import Planner
from rebalancer.planning.strategies.hot_nodes.movable import ALL, MovablePods
from rebalancer.planning.strategies.hot_nodes.search import Attempt
from rebalancer.planning.workloads.lookup import Workloads
from rebalancer.planning.workloads.replacement import Replacements
from tests.conftest import examples
from tests.unit.planning.builders import plan_of
from tests.unit.planning.eviction.test_rules_ordinary_pods import CHANGES
from tests.unit.planning.random_clusters import Cluster, clusters

STRATEGIES = {
    "duplicates": True,
    "topologySpread": {"defaultConstraints": True, "constraints": ["DoNotSchedule", "ScheduleAnyway"]},
    "misplaced": {"preferredNodeAffinity": True, "preferNoSchedule": True},
    "consolidation": {"minNodeAge": "0s"},
}


def every_pod(_pods: MovablePods, _before: FloatArray, _after: FloatArray) -> list[slice]:
    return [ALL]


class Forgetful(dict[Any, Any]):
    """An attribute that keeps what is put into it for whoever reads that at once, and else has nothing."""

    def __get__(self, _instance: object, _owner: object = None) -> Forgetful:
        return self

    def __set__(self, _instance: object, _value: object) -> None:
        """The dictionary that an instance begins with is not taken in its place."""

    def __contains__(self, _key: object) -> bool:
        return False

    def get(self, _key: object, default: Any = None) -> Any:
        return default


def forget(patch: pytest.MonkeyPatch) -> None:
    """Let rules be asked anew of every pod, however often a plan asks."""
    for name in ("first_refusals", "refusals", "first_of_others"):
        patch.setattr(EvictionContext, name, Forgetful())
    nothing = property(lambda context: np.zeros(len(context.pods), np.bool_))
    patch.setattr(EvictionContext, "ordinary", nothing)
    for kind, names in (
        (Workloads, ("_by_class", "_staying_of")),
        (Replacements, ("_of",)),
    ):
        for name in names:
            assert name in kind.__init__.__code__.co_names  # renamed: then nothing would be forgotten
            patch.setattr(kind, name, Forgetful(), raising=False)


@settings(max_examples=examples(20))
@given(clusters(), st.integers(1, 4))
def test_a_plan_is_the_same_where_nothing_is_left_out_or_remembered(cluster: Cluster, most: int) -> None:
    cluster.policy["strategies"] = STRATEGIES
    found = encode(Planner(cluster.inputs(perRun=most)).plan())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Attempt, "_is_spent", False)
        patch.setattr(MovablePods, "on_changed", every_pod)
        assert encode(Planner(cluster.inputs(perRun=most)).plan()) == found


@settings(max_examples=examples(20))
@given(clusters(), st.data())
def test_a_plan_is_the_same_where_rules_are_asked_anew(cluster: Cluster, data: st.DataObject) -> None:
    for pod in (pod for workload in cluster.workloads for pod in workload.pods):
        data.draw(st.sampled_from(CHANGES))(pod)
    cluster.policy["strategies"] = {**STRATEGIES, "lifetime": {"maxAge": "1h"}}
    cluster.policy["evictable"] = {"namespaces": {"exclude": []}, "protect": []}
    inputs = cluster.inputs(perRun=9, perNamespace=data.draw(st.integers(1, 3)))
    found = encode(plan_of(inputs, ignore_coverage=True))
    with pytest.MonkeyPatch.context() as patch:
        forget(patch)
        assert encode(plan_of(inputs, ignore_coverage=True)) == found
