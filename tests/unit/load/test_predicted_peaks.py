"""A predicted peak counts pods that the node's past does not know, and never makes an unknown node known."""

from __future__ import annotations

import numpy as np
import pytest

from rebalancer.load.usage import NodeUsage, PodUsage
from rebalancer.load.windows import MetricWindow, with_summed_peaks
from tests.builders import a_node, a_pod, a_snapshot

NODES = ("busy", "idle", "unknown")
SNAPSHOT = a_snapshot(
    nodes=[a_node(name) for name in NODES],
    pods=[
        a_pod(f"web-{number}", node=node) for number, node in enumerate(("idle", "idle", "unknown", "busy"))
    ],
)
OF_NODES = NodeUsage(
    "test", np.array([[3000.0, 5.0], [100.0, 5.0], [np.nan, np.nan]]), np.zeros((3, 2)), np.zeros(3)
)
CORES = {"web-0": 400.0, "web-1": np.nan, "web-2": 500.0, "web-3": 600.0}
OF_PODS = PodUsage(np.array([[CORES[name], 9.0] for name in SNAPSHOT.pods.names]), np.zeros(4))


def raised(statistic: str) -> NodeUsage:
    return with_summed_peaks(
        OF_NODES, OF_PODS, SNAPSHOT.pods, MetricWindow.of_policy(900.0, {"cpu": statistic})
    )


def test_only_a_sum_above_the_nodes_own_figure_counts_and_only_for_the_resource_that_asks() -> None:
    found = raised("predictedPeak").usage
    assert found[:, 0].tolist() == pytest.approx([3000.0, 400.0, np.nan], nan_ok=True)
    assert found[:, 1].tolist() == pytest.approx([5.0, 5.0, np.nan], nan_ok=True)


def test_other_statistics_leave_the_figures_as_they_are() -> None:
    np.testing.assert_array_equal(raised("p95").usage, OF_NODES.usage)


def test_the_nodes_own_prediction_is_three_deviations_above_its_mean() -> None:
    assert MetricWindow(900.0, "predictedPeak").of(np.array([1.0, 3.0])) == pytest.approx(2.0 + 3 * 1.0)
