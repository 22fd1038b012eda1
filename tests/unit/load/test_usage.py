from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.cluster import quantities
from rebalancer.cluster.arrays import FloatArray
from rebalancer.load.usage import (
    node_usage_of_metrics,
    node_usage_of_requests,
    node_usage_of_watcher,
    pod_usage_of_metrics,
)
from tests.builders import a_node, a_pod, a_snapshot
from tests.rows import rows
from tests.unit.load.builders import NOW, a_node_metric, a_percentage, a_pod_metric, a_watcher, metric_rows

SNAPSHOT = a_snapshot(
    nodes=[a_node("n1"), a_node("n2")], pods=[a_pod("web-1", node="n1"), a_pod("web-2", node="n1")]
)
NODES, PODS = SNAPSHOT.nodes, SNAPSHOT.pods
GIB = float(1 << 30)


def known(array: FloatArray) -> list[list[float | None]]:
    return [[None if np.isnan(value) else float(value) for value in row] for row in array]


def test_metrics_become_thousandths_and_bytes_with_their_moment_and_window() -> None:
    figures = node_usage_of_metrics([a_node_metric("n2", "250m", "2Gi", age=10, window="1m0s")], NODES)

    assert known(figures.usage) == [[None, None], [250.0, 2 * GIB]]
    assert figures.measured_at[1].tolist() == [NOW - 10, NOW - 10]
    assert figures.window_seconds.tolist() == [0.0, 60.0]
    assert figures.warnings == ()


def test_nanocores_keep_their_fractions() -> None:
    figures = node_usage_of_metrics([a_node_metric("n1", "123456789n")], NODES)

    assert figures.usage[0, 0] == pytest.approx(123.456789)


@rows(
    "metric",
    [
        a_node_metric("n1", "NaN"),
        a_node_metric("n1", "-1m"),
        a_node_metric("n1", "1", "1 Gi"),
        a_node_metric("n1", "1e999"),
        a_node_metric("n1", "1", "1e40"),
        a_node_metric("n1", timestamp="just now"),
        a_node_metric("n1", window="15"),
        a_node_metric("n1", window="-15s"),
    ],
)
def test_a_figure_that_does_not_parse_leaves_its_node_unknown_with_a_warning(metric: object) -> None:
    figures = node_usage_of_metrics([metric, a_node_metric("n2")], NODES)  # type: ignore[list-item]

    assert known(figures.usage)[0] == [None, None]
    assert known(figures.usage)[1] == [1000.0, GIB]
    (warning,) = figures.warnings
    assert warning.startswith("metrics-server: node n1: ")
    assert len(warning) < 200


def test_a_resource_that_is_not_measured_is_unknown_alone() -> None:
    assert known(node_usage_of_metrics([a_node_metric("n1", None)], NODES).usage)[0] == [None, GIB]


def test_a_figure_far_above_capacity_is_a_broken_counter() -> None:
    figures = node_usage_of_metrics([a_node_metric("n1", "9"), a_node_metric("n2", "7900m")], NODES)

    assert known(figures.usage) == [[None, GIB], [7900.0, GIB]]
    assert figures.warnings == ("metrics-server: node n1: a figure beyond 2 times its capacity is not used",)


def test_a_node_that_does_not_tell_its_capacity_is_measured_by_what_is_allocatable() -> None:
    node = a_node("n1")
    del node["status"]["capacity"]
    nodes = a_snapshot(nodes=[node]).nodes

    assert known(node_usage_of_metrics([a_node_metric("n1")], nodes).usage) == [[1000.0, GIB]]


def test_figures_of_nodes_that_are_not_there_are_passed_over() -> None:
    assert known(node_usage_of_metrics([a_node_metric("n9")], NODES).usage) == [[None, None]] * 2
    watcher = a_watcher({"n9": [a_percentage("CPU", 50)]})
    assert known(node_usage_of_watcher(watcher, NODES).usage) == [[None, None]] * 2


def test_load_watchers_percentages_are_of_capacity_and_averages_come_first() -> None:
    metrics = [a_percentage("CPU", 90, "Latest"), a_percentage("CPU", 50), a_percentage("CPU", 7, "STD")]
    figures = node_usage_of_watcher(a_watcher({"n1": [*metrics, a_percentage("Memory", 25)]}), NODES)

    assert known(figures.usage)[0] == [2000.0, 2 * GIB]
    assert figures.window_seconds.tolist() == [900.0, 900.0]


def test_of_two_averages_of_load_watcher_for_a_node_neither_is_used() -> None:
    twice = [a_percentage("CPU", 90), a_percentage("CPU", 10), a_percentage("Memory", 25)]
    figures = node_usage_of_watcher(a_watcher({"n1": twice}), NODES)
    assert [value is None for value in known(figures.usage)[0]] == [True, False]
    assert figures.warnings == ("load-watcher: node n1: has two figures of CPU; neither is used",)


def test_load_watchers_deviation_alone_says_nothing_of_load() -> None:
    figures = node_usage_of_watcher(a_watcher({"n1": [a_percentage("CPU", 7, "STD")]}), NODES)

    assert known(figures.usage)[0] == [None, None]


@pytest.mark.parametrize("percent", [-0.5, 201.0, 1e12])
def test_a_percentage_that_cannot_be_is_unknown(percent: float) -> None:
    figures = node_usage_of_watcher(a_watcher({"n1": [a_percentage("CPU", percent)]}), NODES)

    assert known(figures.usage)[0] == [None, None]


def test_a_percentage_of_an_unknown_capacity_is_unknown_and_never_zero() -> None:
    node = a_node("n1")
    del node["status"]["capacity"]
    figures = node_usage_of_watcher(
        a_watcher({"n1": [a_percentage("CPU", 50)]}), a_snapshot(nodes=[node]).nodes
    )

    assert known(figures.usage) == [[None, None]]
    assert figures.warnings == ("load-watcher: node n1: its CPU capacity is unknown",)


def test_requests_are_as_fresh_as_now() -> None:
    figures = node_usage_of_requests(np.array([[1.0, 2.0]]), NOW)

    assert figures.measured_at.tolist() == [[NOW, NOW]]
    assert figures.window_seconds.tolist() == [0.0]


def test_the_figures_of_a_pod_are_the_sum_of_its_containers() -> None:
    usage = {"cpu": "100m", "memory": "1Gi"}
    figures = pod_usage_of_metrics(metric_rows(a_pod_metric("web-2", usage, usage, age=5)), PODS)

    assert known(figures.usage) == [[None, None], [200.0, 2 * GIB]]
    assert figures.measured_at[1] == NOW - 5


def test_a_pod_of_which_one_container_is_not_measured_is_unknown() -> None:
    figures = pod_usage_of_metrics(
        metric_rows(
            a_pod_metric("web-1", {"cpu": "1", "memory": "1Gi"}, {"cpu": "1"}), a_pod_metric("web-2")
        ),
        PODS,
    )

    assert known(figures.usage) == [[1000.0 * 2, None], [None, None]]


def test_malformed_figures_of_pods_are_named_in_one_warning() -> None:
    items = [a_pod_metric(name, {"cpu": "x", "memory": "1Gi"}) for name in ("web-2", "web-1")]
    figures = pod_usage_of_metrics(metric_rows(*items), PODS)
    (warning,) = figures.warnings

    assert known(figures.usage) == [[None, None]] * 2
    assert warning.index("default/web-1: 'x' is not") < warning.index("default/web-2: ")


def test_two_figures_of_one_node_count_as_none_and_a_renamed_node_is_a_warning() -> None:
    metrics = [a_node_metric("n1"), a_node_metric("n1", "2"), a_node_metric("n2"), a_node_metric("old")]
    figures = node_usage_of_metrics(metrics, NODES)

    assert np.isnan(figures.usage[NODES.row["n1"]]).all()
    assert figures.warnings == (
        "metrics-server: node n1: has two figures; neither is used",
        "metrics-server: reports 1 node that the cluster does not have, e.g. 'old'",
    )


def test_load_watchers_deviation_is_kept_beside_its_average() -> None:
    percentages = {"n1": [a_percentage("CPU", 50.0), a_percentage("CPU", 12.5, "STD")], "old": []}
    figures = node_usage_of_watcher(a_watcher(percentages), NODES)
    row = NODES.row["n1"]

    assert figures.deviation is not None
    assert figures.deviation[row, 0] == 0.25 * figures.usage[row, 0]
    assert figures.warnings == ("load-watcher: reports 1 node that the cluster does not have, e.g. 'old'",)


amounts = st.one_of(
    st.builds("{}{}".format, st.integers(0, 10**15), st.sampled_from(["n", "u", "m", "", "Ki", "Mi", "k"])),
    st.sampled_from(["1.5", ".5Gi", "2e3", "-1", "x", "9Ei", "0.1", "+3"]),
)
usages = st.fixed_dictionaries({}, optional={"cpu": amounts, "memory": amounts, "gpu": amounts})


@given(st.lists(usages, max_size=4))
def test_columns_hold_what_adding_up_the_records_gives(containers: list[dict[str, str]]) -> None:
    figures = pod_usage_of_metrics(metric_rows(a_pod_metric("web-2", *containers)), PODS)

    def amount(text: str | None, factor: int) -> float:
        if text is None:
            return float("nan")
        value = quantities.parse(text)
        if not 0 <= value <= 1 << 53:
            raise ValueError(text)
        return float(value * factor)

    try:
        expected = [
            sum((amount(usage.get(resource), factor) for usage in containers), 0.0)
            for resource, factor in (("cpu", 1000), ("memory", 1))
        ]
    except ValueError:
        assert known(figures.usage) == [[None, None]] * 2
        assert len(figures.warnings) == 1
    else:
        wanted = np.array([[np.nan, np.nan], expected if containers else [np.nan, np.nan]])
        assert figures.usage.tobytes() == wanted.tobytes()
        assert figures.warnings == ()
