"""What a node above its coolTo is worth cooling."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.cluster.arrays import FloatArray
from rebalancer.planning.hotness import Hotness
from rebalancer.planning.prepared import prepare
from tests.builders import a_node
from tests.rows import rows
from tests.unit.planning.builders import a_policy, a_workload, moved, plan_of, planning_inputs

PERCENTS = st.floats(0, 300)


def hotness() -> Hotness:
    """Of one node, hot above 80 % cpu and cool at 65 %."""
    return prepare(planning_inputs([a_node("a")], load={"a": 126})).hotness


def cpu(percent: float) -> FloatArray:
    return np.array([percent, 50.0, 10.0])


@rows("percent, excess", [(60, 0), (65, 0), (70, 5), (80, 15), (90, 35), (100, 55), (110, 95), (126, 159)])
def test_a_point_counts_more_above_the_threshold_and_more_still_above_100_percent(
    percent: float, excess: float
) -> None:
    assert hotness().excess(0, cpu(percent)).tolist() == [excess, 0.0, 0.0]


@given(PERCENTS, PERCENTS, st.floats(0, 100))
def test_the_same_points_off_a_hotter_node_never_remove_less(one: float, other: float, points: float) -> None:
    node = hotness()
    cooler, hotter = sorted((one, other))
    relief = np.array([[points, 0.0, 0.0]])
    less, more = (float(node.removed(0, cpu(level), relief)[0]) for level in (cooler, hotter))
    assert 0.0 <= less <= more + 1e-6


@pytest.mark.parametrize("percent", [np.nan, np.inf, -np.inf])
def test_an_unknown_level_is_no_excess(percent: float) -> None:
    assert hotness().excess(0, cpu(percent)).tolist() == [0.0, 0.0, 0.0]


def test_a_node_whose_pods_starve_is_relieved_before_one_that_is_only_hot() -> None:
    """Room for one more pod: 14 points of a node at 126 %, or 15 of one at 84 %."""
    pinned: Any = {"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}}
    workloads = [
        a_workload("starving", ["a"] * 9, cpu="900m"),
        a_workload("warm", ["b"], cpu="900m"),
        a_workload("held-b", ["b"], cpu="7", **pinned),
        a_workload("held-c", ["c"], cpu="6", **pinned),
        a_workload("held-d", ["d"], cpu="9500m", **pinned),
    ]
    cores = {f"starving-{number}": 1.4 for number in range(9)}
    cores |= {"warm-0": 1.5, "held-b-0": 6.9, "held-c-0": 6.4, "held-d-0": 7.9}
    nodes = [a_node(name, cpu=10) for name in "abcd"]
    assert {
        pod.rsplit("-", 1)[0] for pod in moved(plan_of(planning_inputs(nodes, workloads, pod_load=cores)))
    } == {"starving"}


def test_where_limits_keep_nodes_above_the_lower_of_two_thresholds_both_come_below_the_higher() -> None:
    """Two moves: both nodes to 70 %, or one of them to 50 % while the other stays at 90 %."""
    rules = [
        {"utilization": {"cpu": 80}, "coolTo": {"cpu": 75}},
        {"utilization": {"cpu": 50}, "coolTo": {"cpu": 50}},
    ]
    policy = a_policy(hotNodes={"any": rules}, limits={"perRun": 2}, planning={"aggressiveness": 4})
    nodes = [a_node(name, cpu=10) for name in "abcd"]
    workloads = [a_workload(f"of-{name}", [name] * 4, cpu="2") for name in "ab"]
    workloads += [a_workload(f"small-{name}", [name] * 2, cpu="500m") for name in "ab"]
    plan = plan_of(planning_inputs(nodes, workloads, policy=policy))
    after = {node.name: node.after.load["cpu"] for node in plan.nodes if node.hot and node.after}
    assert after == {"a": 70.0, "b": 70.0}


def test_a_point_counts_once_more_above_the_higher_of_two_thresholds() -> None:
    rules = [
        {"utilization": {"cpu": 80}, "coolTo": {"cpu": 75}},
        {"utilization": {"cpu": 50}, "coolTo": {"cpu": 40}},
    ]
    policy = a_policy(hotNodes={"any": rules})
    hotness = prepare(planning_inputs([a_node("a")], load={"a": 90}, policy=policy)).hotness
    excess = [float(hotness.excess(0, cpu(percent)).sum()) for percent in (40, 50, 80, 90)]
    assert excess == [0.0, 10.0, 70.0, 100.0]
    times = [hotness.times_hot(np.array([0]), cpu(percent)[None]) for percent in (50, 51, 80, 81)]
    assert times == [0, 1, 1, 2]
