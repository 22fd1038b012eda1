from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalancer.cluster.arrays import FloatArray, IntArray
from rebalancer.load.report import CLOCK_SKEW_SECONDS, LoadReport, build_report, percent_of_allocatable
from rebalancer.load.usage import NodeUsage, PodUsage, most_plausible, node_usage_of_requests
from tests.builders import a_node, a_pod, a_snapshot
from tests.conftest import examples
from tests.rows import rows
from tests.unit.load.builders import NOW

MAX_AGE = 180.0
UNKNOWN, MEASURED, SHARE, REQUEST = range(4)  # PodMethod
SNAPSHOT = a_snapshot(
    nodes=[a_node(name) for name in ("n1", "n2", "n3")],
    pods=[a_pod(f"web-{number}", node=("n1", "n1", "n1", "n2", "n2", "")[number]) for number in range(6)],
)
NODES, PODS = SNAPSHOT.nodes, SNAPSHOT.pods
NOTHING = np.zeros((6, 2))
AMOUNTS = st.floats(0, 4000, allow_nan=False) | st.just(float("nan"))
MOMENTS = st.sampled_from(
    [NOW, NOW - MAX_AGE, NOW - MAX_AGE - 1, NOW + CLOCK_SKEW_SECONDS, NOW + CLOCK_SKEW_SECONDS + 1]
) | st.just(float("nan"))


def less_exact(report: LoadReport) -> IntArray:
    """(pods,) how cpu and memory of a pod are known: the less exact of both."""
    both = report.pod_methods[:, :2]
    return np.asarray(np.where((both == UNKNOWN).any(axis=1), UNKNOWN, both.max(axis=1)), np.int64)


def tables(rows: int, values: st.SearchStrategy[float]) -> st.SearchStrategy[FloatArray]:
    row = st.lists(values, min_size=2, max_size=2)
    return st.lists(row, min_size=rows, max_size=rows).map(lambda table: np.array(table, np.float64))


@st.composite
def sources(draw: st.DrawFn) -> list[NodeUsage]:
    return [
        NodeUsage(
            f"source-{number}",
            draw(tables(3, AMOUNTS)),
            draw(tables(3, MOMENTS)),
            np.full(3, float(number)),
        )
        for number in range(draw(st.integers(0, 3)))
    ]


def report(
    figures: list[NodeUsage], pod_figures: PodUsage | None = None, requests: FloatArray = NOTHING
) -> LoadReport:
    return build_report(NODES, PODS, figures, pod_figures, requests, now=NOW, max_age_seconds=MAX_AGE)


@given(sources())
def test_the_first_fresh_figure_wins_node_by_node_and_resource_by_resource(
    figures: list[NodeUsage],
) -> None:
    found = report(figures)
    for node in range(3):
        for resource in range(2):
            fresh = [
                number
                for number, source in enumerate(figures)
                if not np.isnan(source.usage[node, resource])
                and NOW - MAX_AGE <= source.measured_at[node, resource] <= NOW + CLOCK_SKEW_SECONDS
            ]
            if not fresh:
                assert np.isnan(found.usage[node, resource])
                assert np.isnan(found.measured_at[node, resource])
                assert found.source[node, resource] == -1
                continue
            winner = figures[fresh[0]]
            assert found.source[node, resource] == fresh[0]
            assert found.usage[node, resource] == winner.usage[node, resource]
            assert found.measured_at[node, resource] == winner.measured_at[node, resource]
            assert found.window_seconds[node, resource] == winner.window_seconds[node]


@given(sources())
def test_a_node_is_known_only_with_both_figures(figures: list[NodeUsage]) -> None:
    found = report(figures)

    assert found.known.tolist() == (~np.isnan(found.usage)).all(axis=1).tolist()


@given(
    tables(3, AMOUNTS),
    tables(6, AMOUNTS),
    st.lists(MOMENTS, min_size=6, max_size=6),
    tables(6, st.floats(0, 1e6, allow_nan=False, allow_subnormal=False)),
)
@settings(max_examples=examples(200))
def test_the_shares_of_pods_never_exceed_what_their_node_uses(
    usage: FloatArray, pod_usage: FloatArray, moments: list[float], requests: FloatArray
) -> None:
    moment = np.full((3, 2), NOW)
    found = report(
        [NodeUsage("m", usage, moment, np.zeros(3))], PodUsage(pod_usage, np.array(moments)), requests
    )
    fresh = (np.array(moments) >= NOW - MAX_AGE) & (np.array(moments) <= NOW + CLOCK_SKEW_SECONDS)
    shared = ~np.isnan(found.pod_usage) & ~(fresh[:, None] & ~np.isnan(pod_usage))
    for node in range(3):
        for resource in range(2):
            rows = (PODS.node == node) & shared[:, resource]
            if rows.any():
                shares = found.pod_usage[rows, resource]
                assert (shares >= 0).all()
                assert shares.sum() <= usage[node, resource] * (1 + 1e-9) + 1e-9
    assert not shared[PODS.node < 0].any()
    assert not np.isnan(found.pod_usage[less_exact(found) != UNKNOWN]).any()


def measured(usage: float, moment: float = NOW) -> list[NodeUsage]:
    return [NodeUsage("m", np.full((3, 2), usage), np.full((3, 2), moment), np.zeros(3))]


@rows(
    "moment, why",
    [
        (NOW - MAX_AGE - 1, "older than load.maxAge (3m)"),
        (0.0, "older than load.maxAge (3m)"),
        (NOW + CLOCK_SKEW_SECONDS + 1, "from the future"),
        (1e18, "from the future"),
        (-1e18, "older than load.maxAge (3m)"),
        (math.inf, "older than load.maxAge (3m)"),
        (-math.inf, "older than load.maxAge (3m)"),
    ],
)
def test_stale_figures_and_those_from_the_future_are_ignored_with_a_warning(moment: float, why: str) -> None:
    found = report(measured(1.0, moment))
    (warning,) = found.warnings

    assert not found.known.any()
    assert warning.startswith("m: figures of ")
    assert why in warning


def test_a_node_without_room_has_no_percentage() -> None:
    empty = a_node("n1", cpu="0")
    snapshot = a_snapshot(nodes=[empty])
    figures = [NodeUsage("m", np.zeros((1, 2)), np.full((1, 2), NOW), np.zeros(1))]
    found = build_report(
        snapshot.nodes, snapshot.pods, figures, None, np.zeros((0, 2)), now=NOW, max_age_seconds=MAX_AGE
    )

    assert np.isnan(found.percent[0, 0])
    assert found.percent[0, 1:].tolist() == [0.0, 0.0]


def test_what_is_asked_node_by_node_is_computed_once_for_all() -> None:
    """Reports ask for each of thousands of nodes."""
    found = report(measured(0.0))
    for name in ("percent", "known"):
        values = getattr(found, name)
        assert getattr(found, name) is values
        with pytest.raises(ValueError, match="read-only"):
            values[:] = values


def test_pods_are_counted_against_what_a_node_can_run() -> None:
    assert report(measured(0.0)).percent[:, 2].tolist() == pytest.approx([300 / 110, 200 / 110, 0.0])


def test_unmeasured_pods_share_what_is_left_by_their_requests() -> None:
    pod_usage = np.full((6, 2), np.nan)
    pod_usage[0] = 40.0
    requests = np.full((6, 2), 1.0)
    requests[1] = 2.0
    found = report(measured(100.0), PodUsage(pod_usage, np.full(6, NOW)), requests)

    assert found.pod_usage[:3, 0].tolist() == [40.0, 40.0, 20.0]
    assert less_exact(found)[:3].tolist() == [MEASURED, SHARE, SHARE]
    assert np.isnan(found.pod_usage[5]).all()


def test_a_pod_without_a_request_shares_what_is_left_as_one_of_the_schedulers_default_request() -> None:
    """Three pods on a node that uses 100: 200m, no request, 100m; what requests nothing counts as 100m."""
    requests = np.full((6, 2), 1.0)
    requests[:3, 0] = [200.0, 0.0, 100.0]
    found = report(measured(100.0), None, requests)

    assert found.pod_usage[:3, 0].tolist() == pytest.approx([50.0, 25.0, 25.0])
    assert not np.isnan(found.pod_usage[:3, 1]).any()
    assert less_exact(found)[:3].tolist() == [SHARE, SHARE, SHARE]


def test_a_node_whose_figure_is_the_sum_of_requests_has_pods_that_use_what_they_request() -> None:
    requests = np.full((6, 2), 1.0)
    requests[:3, 0] = [200.0, 0.0, 100.0]
    (nothing,) = measured(np.nan)
    by_requests = node_usage_of_requests(np.full((3, 2), 300.0), NOW)
    found = report([nothing, by_requests], None, requests)

    assert found.pod_usage[:3, 0].tolist() == [200.0, 0.0, 100.0]
    assert less_exact(found)[:3].tolist() == [REQUEST, REQUEST, REQUEST]


def test_where_requests_stand_for_load_they_do_for_pods_too() -> None:
    requests = np.arange(12, dtype=np.float64).reshape(6, 2)
    found = report([node_usage_of_requests(np.zeros((3, 2)), NOW)], None, requests)

    assert found.pod_usage.tolist() == requests.tolist()
    assert set(less_exact(found).tolist()) == {REQUEST}


def test_a_pod_that_seems_to_use_far_more_than_its_node_has_is_not_believed() -> None:
    usage = np.full((6, 2), 1.0)
    usage[0] = most_plausible(NODES)[0] * 1.01
    found = report(measured(100.0), PodUsage(usage, np.full(6, NOW)), np.full((6, 2), 1.0))

    assert less_exact(found)[:2].tolist() == [SHARE, MEASURED]
    assert found.pod_usage[0, 0] == 98.0
    assert "e.g. default/web-0" in found.warnings[0]


@given(
    st.lists(st.tuples(AMOUNTS, AMOUNTS, AMOUNTS, st.integers(0, 200)), min_size=1, max_size=4),
    st.lists(st.sampled_from([0.0, 0.1, 3.0, 4000.0, float("nan")]), min_size=4, max_size=4),
    st.booleans(),
)
def test_percentages_are_those_of_each_amount_by_itself(
    nodes: list[tuple[float, float, float, int]], whole: list[float], each: bool
) -> None:
    usage = np.array([amounts[:3] for amounts in nodes])
    count = np.array([amounts[3] for amounts in nodes])
    allocatable = np.array([whole] * len(nodes)) if each else np.array(whole)
    found = percent_of_allocatable(usage, count, allocatable)
    for row, (cpu, memory, other, pods) in enumerate(nodes):
        for column, amount in enumerate((cpu, memory, float(pods), other)):
            expected = 100.0 * amount / whole[column] if whole[column] > 0 else math.nan
            np.testing.assert_equal(found[row, column], expected)
