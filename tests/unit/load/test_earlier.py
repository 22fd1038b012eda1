"""Windows of sources that know only the present, over what earlier runs kept."""

from __future__ import annotations

import numpy as np
import pytest

from rebalancer.load.usage import NodeUsage, node_usage_of_metrics, node_usage_of_requests
from rebalancer.load.windows import (
    PRESENT,
    MetricWindow,
    knows_only_the_present,
    over_earlier_runs,
    present_percent,
)
from rebalancer.state import LoadSamples, RunState, after_reading
from tests.builders import a_node, a_snapshot
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
