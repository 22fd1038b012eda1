"""Where the scheduler takes samples, its order of nodes decides which of them are compared."""

from __future__ import annotations

import math
from typing import Any

import pytest

from rebalancer.cluster.arrays import NodeRow
from rebalancer.planning.landing.schedulers import ProfileSchedulers
from rebalancer.scheduling.framework.sampling import WINDOWS
from rebalancer.scheduling.state.nodes import listed_since
from rebalancer_lab.what_if.changes import with_added_nodes
from tests.builders import a_node, a_pod
from tests.unit.planning.builders import planning_inputs, with_scheduler

# Of 130 nodes 100 are compared. Five are empty and younger than the others, and far from each other by name.
NAMES = [f"n{number:03}" for number in range(130)]
YOUNG = NAMES[::26]
LONG_AGO, TODAY = "2026-11-01T12:00:00Z", "2026-11-20T12:00:00Z"
NODES = [a_node(name, created=TODAY if name in YOUNG else LONG_AGO) for name in NAMES]
PODS = [a_pod(f"on-{name}", node=name, cpu="3") for name in NAMES if name not in YOUNG]
BEFORE_ALL_NODES, AFTER_ALL_NODES = -math.inf, math.inf
# Of 130 starts those at the first 26 places lead to samples that end before the youngest.
WITHOUT_YOUNG = 26 / 130
SCATTERED = (1 - WINDOWS) * WITHOUT_YOUNG + 0.005  # workers find some nodes out of order


@pytest.mark.parametrize(
    ("listed_at", "chance"),
    [
        ([AFTER_ALL_NODES], 1.0),
        ([BEFORE_ALL_NODES], 1.0 - WITHOUT_YOUNG),
        ([AFTER_ALL_NODES, BEFORE_ALL_NODES], 1.0 - WITHOUT_YOUNG / 2),
    ],
)
def test_young_nodes_are_missing_in_samples_of_a_scheduler_that_is_older(
    listed_at: list[float], chance: float
) -> None:
    found = chance_of_young(listed_nodes_at=tuple(listed_at))
    assert found == pytest.approx(chance, abs=SCATTERED)


@pytest.mark.parametrize("listed_at", [(AFTER_ALL_NODES,), (BEFORE_ALL_NODES, AFTER_ALL_NODES)])
def test_nodes_that_it_lists_in_no_order_are_in_any_sample_with_the_chance_that_they_have(
    listed_at: tuple[float, ...],
) -> None:
    """One of the five is in 1,999 of 2,000 samples, or in four of five if they are younger."""
    found = chance_of_young(listed_nodes_at=listed_at, shuffles=(1, -1))
    assert found == pytest.approx(1.0 - WITHOUT_YOUNG * listed_at.count(BEFORE_ALL_NODES) / 2, abs=SCATTERED)


def chance_of_young(**scheduler: Any) -> float:
    """The chance that the scheduler places a pod on one of the young nodes."""
    inputs = planning_inputs(NODES, pods=[*PODS, a_pod("new", cpu="1")])
    schedulers = ProfileSchedulers(with_scheduler(inputs, **scheduler))
    new = int(schedulers.state.pod_class[inputs.snapshot.pods.row["default", "new"]])
    placement = schedulers.scheduler(new).place(schedulers.state, new)
    young = [inputs.snapshot.nodes.row[name] for name in YOUNG]
    return float(placement.chance[placement.feasible.searchsorted(young)].sum())


@pytest.mark.parametrize(("shuffles", "chance"), [((0,), 0.68), ((1, -1), 0.5)])
def test_of_two_equal_nodes_each_is_as_likely_where_nodes_come_in_no_order(
    shuffles: tuple[int, ...], chance: float
) -> None:
    nodes = [a_node(name) for name in NAMES[:10]]
    pods = [a_pod(f"on-{name}", node=name, cpu="3") for name in NAMES[2:10]]
    inputs = with_scheduler(planning_inputs(nodes, pods=[*pods, a_pod("new", cpu="1")]), shuffles=shuffles)
    schedulers = ProfileSchedulers(inputs)
    new = int(schedulers.state.pod_class[inputs.snapshot.pods.row["default", "new"]])
    placement = schedulers.scheduler(new).place(schedulers.state, new)
    assert placement.tie is not None
    assert float(placement.chance.sum()) == pytest.approx(1.0)
    assert float(placement.chance.max()) == pytest.approx(chance)


def test_a_node_that_is_added_is_younger_than_all() -> None:
    inputs = planning_inputs([a_node("a", created=TODAY), a_node("m", created=LONG_AGO)])
    added = with_added_nodes(inputs, NodeRow(inputs.snapshot.nodes.row["m"]), 1).snapshot.nodes
    assert listed_since(added, BEFORE_ALL_NODES).names == ["m", "a", *({*added.names} - {"a", "m"})]
