"""A node that is hot in one resource and idle in another is mended by the pod whose shape fits the gap."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from rebalancer.cluster.arrays import FloatArray, NodeRow, PodRow
from rebalancer.planning.hot_nodes.fragmentation import fragmentation_relief
from rebalancer.planning.inputs import PlanningInputs
from tests.builders import a_node
from tests.unit.planning.builders import a_workload, planning_inputs


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
    dark = dataclasses.replace(found.load, **{what: np.full_like(getattr(found.load, what), np.nan)})
    assert relief(dataclasses.replace(found, load=dark)).tolist() == [0.0, 0.0]
