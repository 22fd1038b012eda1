"""A node and its pods are measured apart: whatever they report, predictions stay possible."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.cluster.arrays import FloatArray
from rebalancer.load.report import LoadReport
from tests.builders import a_node
from tests.unit.planning.builders import a_policy, a_workload, moved, plan_of, planning_inputs

ANY = st.one_of(
    st.floats(0, 40), st.sampled_from([0.0, -1.0, 1e-300, 1e12, float("nan"), float("inf"), -float("inf")])
)


def rounding(figures: FloatArray) -> FloatArray:
    """What sums of such figures may be off by."""
    return 1e-6 + 1e-12 * np.nan_to_num(figures)


@st.composite
def reports(draw: st.DrawFn) -> LoadReport:
    """Two nodes of ten cores with up to six pods; figures of all of them are anything."""
    placed = draw(st.lists(st.sampled_from("ab"), max_size=6))
    nodes = [a_node(name, cpu=10) for name in "ab"]
    cores = {f"web-{number}": draw(ANY) for number in range(len(placed))}
    percents = {name: draw(ANY) * 10 for name in "ab"}
    workloads = [a_workload("web", placed)] if placed else []
    return planning_inputs(nodes, workloads, load=percents, pod_load=cores).load


@given(reports(), st.data())
def test_no_departure_leaves_a_node_below_0_or_below_what_its_other_pods_take(
    report: LoadReport, data: st.DataObject
) -> None:
    pods = len(report.pod_node)
    gone = np.array(data.draw(st.lists(st.booleans(), min_size=pods, max_size=pods)), np.bool_)
    left = report.usage - report.usage_of(gone)
    known, off = ~np.isnan(left), rounding(report.usage)
    assert (left >= -off)[known].all()
    assert (left >= report.usage_of(~gone) - off)[known].all()


@given(reports(), st.data())
def test_no_departure_raises_a_level(report: LoadReport, data: st.DataObject) -> None:
    pods = len(report.pod_node)
    gone = np.array(data.draw(st.lists(st.booleans(), min_size=pods, max_size=pods)), np.bool_)
    after, known = report.percent_without(gone), ~np.isnan(report.percent)
    assert (after <= report.percent + rounding(report.percent))[known].all()
    assert (after[known] >= 0).all()


@given(reports())
def test_what_cannot_be_is_unknown(report: LoadReport) -> None:
    for figures in (report.usage, report.pod_usage, report.relief):
        assert not np.isinf(figures).any()
        assert (figures[~np.isnan(figures)] >= 0).all()


def test_a_pod_takes_its_share_of_the_figure_of_its_node() -> None:
    """The node reports 9 cores, its pods 12."""
    pods = a_workload("web", ["a"] * 6)
    cores = {f"web-{number}": 2.0 for number in range(6)}
    report = planning_inputs([a_node("a", cpu=10)], [pods], pod_load=cores, load={"a": (90.0, 10.0)}).load
    assert report.relief[:, 0].tolist() == pytest.approx([1500.0] * 6)
    assert report.pod_usage[:, 0].tolist() == [2000.0] * 6


def test_pods_that_add_up_to_less_than_their_node_take_all_they_use() -> None:
    pods = a_workload("web", ["a"] * 6)
    report = planning_inputs([a_node("a", cpu=10)], [pods], load={"a": (90.0, 10.0)}).load
    assert (report.relief == report.pod_usage).all()


def test_a_node_never_falls_below_0_in_a_plan_by_pods_that_use_more_than_it_reports() -> None:
    nodes = [a_node("a", cpu=10), a_node("b", cpu=100)]
    cores = {f"web-{number}": 6.0 for number in range(6)}
    load = {"a": (103.0, 10.0), "b": (5.0, 10.0)}
    policy = a_policy(hotNodes={"forRuns": 1, "any": [{"utilization": {"cpu": 80}, "coolTo": {"cpu": 20}}]})
    plan = plan_of(
        planning_inputs(nodes, [a_workload("web", ["a"] * 6)], load=load, pod_load=cores, policy=policy)
    )
    source = next(node for node in plan.nodes if node.name == "a")
    assert source.after is not None
    assert source.after.load["cpu"] == pytest.approx(103.0 * (6 - len(plan.moves)) / 6, abs=0.1)
    assert plan.moves


@pytest.mark.parametrize("reported", [0.0, 5.0])
def test_a_node_that_reports_less_than_its_pods_use_takes_no_more_than_these_leave_room_for(
    reported: float,
) -> None:
    """10 more points of b are its hot level at most: its pods use 60 %."""
    nodes = [a_node("a", cpu=10), a_node("b", cpu=10)]
    workloads = [a_workload("web", ["a"] * 9), a_workload("busy", ["b"], cpu="100m")]
    inputs = planning_inputs(nodes, workloads, pod_load={"busy-0": 6.0}, load={"b": (reported, 10.0)})
    plan = plan_of(inputs)
    assert len(moved(plan)) == 1
    told = next(text for text in plan.warnings if text.startswith("pods use more than their nodes report"))
    assert f"(most on b: cpu 60 % and {reported:.0f} %)" in told


def test_pods_that_use_more_than_their_node_reports_make_it_no_hotter() -> None:
    inputs = planning_inputs([a_node("a", cpu=10)], [a_workload("web", ["a"] * 9)], load={"a": (40.0, 10.0)})
    assert plan_of(inputs).hot_count == 0
