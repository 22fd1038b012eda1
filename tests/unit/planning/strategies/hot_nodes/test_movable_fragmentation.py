"""A node that is hot in one resource and idle in another is mended by the pod whose shape fits the gap."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from rebalancer.cluster.arrays import FloatArray, NodeRow, PodRow
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.prepared import prepare
from rebalancer.planning.strategies.hot_nodes.movable import fragmentation_relief, shape_cost
from tests.builders import a_node
from tests.unit.planning.builders import a_policy, a_workload, moved, plan_of, planning_inputs


def inputs(load: tuple[float, float] = (90.0, 30.0)) -> PlanningInputs:
    """A node of 10 cores and 10 GiB with a pod heavy in both, and one that only uses cpu."""
    return planning_inputs(
        [a_node("a", cpu=10, memory="10Gi")],
        [
            a_workload("cache", ["a"], cpu="1", memory="2Gi"),
            a_workload("web", ["a"], cpu="1", memory="0"),
        ],
        load={"a": load},
    )


def relief(found: PlanningInputs) -> FloatArray:
    return fragmentation_relief(found.load, found.load.usage, NodeRow(0), [PodRow(0), PodRow(1)])


def test_the_pod_whose_leaving_evens_out_the_node_mends_most() -> None:
    assert relief(inputs()).tolist() == pytest.approx([-10.0, 10.0])


def test_where_memory_stands_out_the_pod_with_the_memory_mends() -> None:
    assert relief(inputs((30.0, 90.0))).tolist() == pytest.approx([10.0, -10.0])


def test_a_pod_that_overshoots_counts_for_what_remains_of_the_gap() -> None:
    assert relief(inputs((32.0, 30.0))).tolist() == pytest.approx([2 - 12, 2 - 8])


@pytest.mark.parametrize("what", ["pod_usage", "usage"])
def test_what_is_unknown_is_never_preferred(what: str) -> None:
    found = inputs()
    dark = replace(found.load, **{what: np.full_like(getattr(found.load, what), np.nan)})
    assert relief(replace(found, load=dark)).tolist() == [0.0, 0.0]


def clusters(load: tuple[float, float], **rules: Any) -> PlanningInputs:
    """A node on which the pod that mends its shape is the one with the later name, and a cool one."""
    return planning_inputs(
        [a_node("a", cpu=10, memory="10Gi"), a_node("cool", cpu=100, memory="100Gi")],
        [
            a_workload("cache", ["a"], cpu="3", memory="2Gi"),
            a_workload("web", ["a"], cpu="3", memory="0"),
        ],
        load={"a": load, "cool": (5.0, 5.0)},
        policy=a_policy(hotNodes=rules),
    )


def test_of_pods_that_relieve_alike_the_one_that_mends_the_shape_moves() -> None:
    assert list(moved(plan_of(clusters((90.0, 30.0))))) == ["web-0"]


@pytest.mark.parametrize(("memory_above", "costs"), [(80, [0.2, 0.0]), (29, [0.0, 0.0])])
def test_a_node_that_is_hot_in_both_has_no_shape_to_mend(memory_above: int, costs: list[float]) -> None:
    both = [{"utilization": {"cpu": 80, "memory": memory_above}, "coolTo": {"cpu": 65, "memory": 28}}]
    prepared = prepare(clusters((90.0, 30.0), any=both))
    found = shape_cost(
        prepared.inputs.load, prepared.hotness, prepared.usage, NodeRow(0), [PodRow(0), PodRow(1)]
    )
    assert found.tolist() == pytest.approx(costs)
