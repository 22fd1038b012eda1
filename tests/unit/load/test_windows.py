"""Windows of sources that know only the present, over what earlier runs kept."""

from __future__ import annotations

import numpy as np
import pytest

from rebalancer.cluster import times
from rebalancer.load.usage import NodeUsage, PodUsage, node_usage_of_metrics, node_usage_of_requests
from rebalancer.load.windows import (
    PRESENT,
    MetricWindow,
    knows_only_the_present,
    over_earlier_runs,
    present_percent,
    with_summed_peaks,
)
from rebalancer.state.run_state import LoadSamples, RunState, after_reading
from tests.builders import a_node, a_pod, a_snapshot
from tests.unit.load.builders import NOW, a_node_metric

WINDOW = MetricWindow(900.0)
NODES = a_snapshot(nodes=[a_node("n0"), a_node("n1")]).nodes


def present(*cores: float, now: float = NOW) -> NodeUsage:
    metrics = [
        a_node_metric(f"n{row}", f"{int(value * 1000)}m", age=NOW - now) for row, value in enumerate(cores)
    ]
    return node_usage_of_metrics(metrics, NODES)


def after_runs(*loads: tuple[float, ...]) -> LoadSamples:
    """Samples of runs every five minutes, the last one five minutes ago."""
    state: RunState | None = None
    for number, cores in enumerate(loads):
        moment = NOW - 300.0 * (len(loads) - number)
        state = after_reading(state, present_percent(NODES, present(*cores, now=moment)), moment, 900.0)
    return state.samples if state else LoadSamples()


def test_a_spike_of_one_run_is_averaged_with_the_runs_before() -> None:
    samples = after_runs((0.4, 3.6), (0.4, 3.6), (0.4, 3.6))
    figures = over_earlier_runs(present(3.6, 3.6), NODES, samples, WINDOW, NOW)

    assert figures.usage[:, 0].tolist() == pytest.approx([1200.0, 3600.0])
    assert figures.deviation is not None
    assert figures.deviation[:, 0].tolist() == pytest.approx([np.std([400, 400, 400, 3600]), 0.0])
    assert figures.window_seconds[:, 0].tolist() == [915.0, 915.0]
    assert figures.warnings == ()


def test_a_percentile_takes_the_runs_as_they_are() -> None:
    samples = after_runs((1.0, 1.0), (2.0, 1.0), (3.0, 1.0))
    figures = over_earlier_runs(present(4.0, 1.0), NODES, samples, MetricWindow(900.0, "p50"), NOW)

    assert figures.usage[:, 0].tolist() == pytest.approx([2500.0, 1000.0])
    assert figures.statistic == "p50"


def test_runs_before_the_window_do_not_count() -> None:
    samples = after_runs((4.0, 4.0), (4.0, 4.0), (1.0, 1.0), (1.0, 1.0), (1.0, 1.0))
    figures = over_earlier_runs(present(1.0, 1.0), NODES, samples, WINDOW, NOW)

    assert len(samples.taken) <= 4
    assert figures.usage[:, 0].tolist() == pytest.approx([1000.0, 1000.0])


def test_a_node_that_is_unknown_now_stays_unknown_whatever_it_was() -> None:
    samples = after_runs((1.0, 1.0))
    figures = over_earlier_runs(present(1.0), NODES, samples, WINDOW, NOW)

    assert figures.usage[0, 0] == pytest.approx(1000.0)
    assert np.isnan(figures.usage[1]).all()


def test_a_window_that_earlier_runs_cover_too_little_is_a_warning() -> None:
    figures = over_earlier_runs(present(1.0, 1.0), NODES, after_runs((1.0, 1.0)), WINDOW, NOW)

    assert figures.warnings == (
        "metrics-server: earlier runs cover less than half the window for nodes n0, n1",
    )


def test_without_a_state_the_present_counts_with_a_warning() -> None:
    figures = over_earlier_runs(present(3.0, 1.0), NODES, None, WINDOW, NOW)

    assert figures.usage[:, 0].tolist() == [3000.0, 1000.0]
    assert "load.window 900 s is not covered" in figures.warnings[0]


def test_only_sources_that_look_back_too_little_need_earlier_runs() -> None:
    averaged = NodeUsage("load-watcher", np.zeros((2, 2)), np.zeros((2, 2)), np.full(2, 900.0))

    assert knows_only_the_present(present(1.0, 1.0), WINDOW)
    assert not knows_only_the_present(present(1.0, 1.0), PRESENT)
    assert not knows_only_the_present(averaged, WINDOW)
    assert not knows_only_the_present(node_usage_of_requests(np.zeros((2, 2)), NOW), WINDOW)


# A predicted peak counts pods that the node's past does not know, and never makes an unknown node known.


PEAK_NODES = ("busy", "idle", "unknown")
SNAPSHOT = a_snapshot(
    nodes=[a_node(name) for name in PEAK_NODES],
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


def test_samples_of_another_node_that_had_the_same_name_do_not_count() -> None:
    anew = a_node("n0")
    anew["metadata"]["creationTimestamp"] = times.render(NOW - 400.0)
    nodes, samples = a_snapshot(nodes=[anew, a_node("n1")]).nodes, after_runs((0.4, 0.4), (0.4, 0.4))
    figures = over_earlier_runs(present(3.4, 3.4), nodes, samples, WINDOW, NOW)

    assert figures.usage[:, 0].tolist() == pytest.approx([1900.0, 1400.0])
