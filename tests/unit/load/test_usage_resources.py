"""Resources beyond cpu, memory and pods; what pods use; which source reported what."""

from __future__ import annotations

import numpy as np
import pytest

from rebalancer.load.correction import correct
from rebalancer.load.report import LoadReport, build_report
from rebalancer.load.usage import NodeUsage, PodMethod, PodUsage
from rebalancer.state.run_state import PastMove
from tests.builders import a_node, a_pod, a_snapshot
from tests.unit.load.builders import NOW

RESOURCES = ("cpu", "memory", "disk")
SNAPSHOT = a_snapshot(
    nodes=[a_node("n0"), a_node("n1"), a_node("n2", cpu="3500m", capacity_cpu="4")],
    pods=[
        a_pod("web-0", node="n0", cpu="1", memory="1Gi"),
        a_pod("web-1", node="n0", cpu="3", memory="1Gi"),
        a_pod("web-2", node="n2", cpu="1", memory="1Gi"),
    ],
)
NODES, PODS = SNAPSHOT.nodes, SNAPSHOT.pods
REQUESTS = np.array([[1000.0, 1 << 30], [3000.0, 1 << 30], [1000.0, 1 << 30]])
NAN = float("nan")


def figures(
    name: str,
    disk: list[float],
    *,
    cpu: float = 1000.0,
    age: float = 0.0,
    statistic: str = "mean",
    window: float = 0.0,
) -> NodeUsage:
    usage = np.column_stack([[cpu] * 3, [1e9] * 3, disk])
    capacity = {"disk": np.array([100.0, 50.0, NAN])}
    moments = np.full((3, 3), NOW - age)
    return NodeUsage(name, usage, moments, np.full(3, window), (), RESOURCES, statistic, None, capacity)


def joined(
    *reported: NodeUsage, pods: PodUsage | None = None, required: tuple[str, ...] = RESOURCES
) -> LoadReport:
    return build_report(
        NODES,
        PODS,
        reported,
        pods,
        REQUESTS,
        now=NOW,
        max_age_seconds=180,
        resources=RESOURCES,
        required=required,
    )


def test_percentages_begin_with_cpu_memory_and_pods_and_go_on_with_what_else_is_measured() -> None:
    report = joined(figures("p", [25.0, 25.0, 25.0]))

    assert report.percent_resources == ("cpu", "memory", "pods", "disk")
    assert report.percent[:2].round(2).tolist() == [[25.0, 11.64, 1.82, 25.0], [25.0, 11.64, 0.0, 50.0]]
    assert np.isnan(report.percent[2, 3])  # what it has is not known


def test_a_node_is_unknown_without_a_figure_of_what_a_rule_names_and_only_then() -> None:
    reported = figures("p", [25.0, NAN, 25.0])

    assert joined(reported).known.tolist() == [True, False, True]
    assert joined(reported, required=("cpu", "memory")).known.tolist() == [True, True, True]
    assert "p: has no figure for disk on node n1" in joined(reported).warnings


def test_every_figure_has_its_own_source() -> None:
    half = figures("first", [25.0, NAN, NAN])
    report = joined(half, figures("second", [75.0, 75.0, 75.0], age=60.0))

    assert report.source.tolist() == [[0, 0, 0], [0, 0, 1], [0, 0, 1]]
    assert report.usage[:, 2].tolist() == [25.0, 75.0, 75.0]
    assert report.measured_at[1].tolist() == [NOW, NOW, NOW - 60.0]


def test_what_a_node_keeps_for_its_system_is_nobodys_pod() -> None:
    report = joined(figures("p", [25.0] * 3, cpu=2000.0))

    assert report.pod_usage[2, 0] == 1500.0  # of 2000, 500 are what n2 keeps beyond its allocatable
    assert report.pod_usage[:2, 0].tolist() == [500.0, 1500.0]


def test_of_a_signal_pods_have_a_share_by_their_request_of_cpu() -> None:
    report = joined(figures("p", [40.0, 40.0, 40.0]))

    assert report.pod_usage[:, 2].tolist() == [10.0, 30.0, 40.0]
    assert report.pod_methods[:, 2].tolist() == [PodMethod.SHARE] * 3


def test_a_pod_whose_signal_is_measured_leaves_the_rest_to_the_others() -> None:
    usage = np.array([[NAN, NAN, 35.0], [NAN, NAN, NAN], [NAN, NAN, NAN]])
    report = joined(figures("p", [40.0] * 3), pods=PodUsage(usage, np.full(3, NOW), (), RESOURCES))

    assert report.pod_usage[:2, 2].tolist() == [35.0, 5.0]
    assert report.pod_methods[:2, 2].tolist() == [PodMethod.MEASURED, PodMethod.SHARE]
    assert report.pod_load(0) == pytest.approx({"cpu": 250.0, "memory": 5e8, "disk": 35.0})


def a_move(**load: float) -> PastMove:
    return PastMove(
        namespace="default",
        name="web-9",
        uid="u",
        workload="Deployment/web",
        from_node="n0",
        to_node="n1",
        result="Landed",
        evicted_at=NOW - 300,
        landed_at=NOW - 300,
        load=load,
    )


def test_a_mean_is_corrected_for_every_resource_by_the_share_of_its_window_before_the_move() -> None:
    report = joined(figures("p", [40.0, 40.0, 40.0], window=900.0))
    corrected = correct(report, NODES, [a_move(cpu=300.0, memory=3e8, disk=9.0)])

    assert corrected.figures_outdated == {}
    assert corrected.load.usage[:2, 0].tolist() == pytest.approx([800.0, 1200.0])
    assert corrected.load.usage[:2, 2].tolist() == pytest.approx([34.0, 46.0])


@pytest.mark.parametrize("statistic", ["p95", "max", "meanPlusDeviation"])
def test_what_is_no_mean_cannot_be_corrected_and_settles(statistic: str) -> None:
    report = joined(figures("p", [40.0] * 3, window=900.0, statistic=statistic))
    corrected = correct(report, NODES, [a_move(cpu=300.0, memory=3e8, disk=9.0)])

    assert set(corrected.figures_outdated) == {0, 1}
    assert corrected.load.usage.tolist() == report.usage.tolist()


def test_an_unknown_load_settles_only_where_a_rule_needs_it() -> None:
    reported = figures("p", [40.0] * 3, window=900.0)
    move = a_move(cpu=300.0, memory=3e8)

    assert set(correct(joined(reported), NODES, [move]).figures_outdated) == {0, 1}
    assert correct(joined(reported, required=("cpu", "memory")), NODES, [move]).figures_outdated == {}


def test_a_window_that_began_after_the_move_is_left_alone() -> None:
    report = joined(figures("p", [40.0] * 3, window=60.0, statistic="p95"))

    assert correct(report, NODES, [a_move(cpu=300.0)]).figures_outdated == {}
