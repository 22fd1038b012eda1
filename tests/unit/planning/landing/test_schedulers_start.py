"""A scheduler that has just started takes every pod for one that was just bound: landings wait for it."""

from __future__ import annotations

import pytest

from rebalancer.cluster import times
from rebalancer.load.scheduler_view import AVERAGE, CPU_TYPE, Metric, SchedulerView, WatcherMetrics
from rebalancer.planning.inputs import SchedulerStart
from rebalancer.planning.plan import Plan
from rebalancer.profiles import SchedulerConfiguration
from rebalancer.scheduling.registry import load_configuration
from tests.builders import a_node
from tests.unit.planning.builders import (
    NOW,
    a_workload,
    at,
    because,
    moved,
    plan_of,
    planning_inputs,
    with_scheduler,
)
from tests.unit.planning.landing.hot_pods import PACKED


def packed(
    start: SchedulerStart | None, configuration: SchedulerConfiguration = PACKED, *, window_end: float = NOW
) -> Plan:
    """One pod to move, by a scheduler that started then."""
    percent = {"hot": 95.0, "a": 30.0, "b": 20.0}
    figures = {name: (Metric(CPU_TYPE, AVERAGE, value),) for name, value in percent.items()}
    inputs = planning_inputs(
        [a_node("hot"), a_node("a", cpu=10), a_node("b", cpu=10)],
        [a_workload("web", ["hot"], cpu="200m"), a_workload("old", ["a"], cpu="1200m")],
        configuration=configuration,
        view=SchedulerView({"http://w": WatcherMetrics(figures, NOW, NOW - 900, window_end, "test")}),
        load=percent,
        pod_load={"web-0": 1.2},
    )
    return plan_of(with_scheduler(inputs, start=start))


@pytest.mark.parametrize("seconds", [0, 35, 94])
def test_pods_wait_while_their_scheduler_takes_every_pod_to_be_just_bound(seconds: int) -> None:
    plan = packed(SchedulerStart(NOW - seconds, "it acquired its lease then"))
    assert moved(plan) == {}
    until = times.render(NOW + 95 - seconds)
    assert f"TargetLoadPacking counts every running pod as just bound until about {until}" in because(
        plan, "web-0"
    )


def test_a_minute_and_a_half_after_its_start_a_scheduler_is_as_any_other() -> None:
    assert moved(packed(SchedulerStart(NOW - 96, "then"))) == moved(packed(None)) == {"web-0": "a"}


def test_what_counts_after_a_start_is_the_window_of_the_figures() -> None:
    assert moved(packed(SchedulerStart(NOW - 96, "then"), window_end=NOW - 10)) == {}


def test_a_start_that_is_not_known_holds_pods_back_and_names_the_setting() -> None:
    plan = packed(SchedulerStart(None, "list leases is forbidden"))
    assert moved(plan) == {}
    assert "list leases is forbidden (scheduler.lease of the policy" in because(plan, "web-0")


def test_a_start_matters_only_to_plugins_that_count_recent_pods() -> None:
    others = load_configuration(PACKED.text.replace("TargetLoadPacking", "LowRiskOverCommitment"), "test")
    assert moved(packed(SchedulerStart(NOW, "then"), others)) == moved(packed(None, others)) != {}


@pytest.mark.parametrize(("seconds", "landings"), [(30, {"b"}), (75, {"a", "b"}), (200, {"a"})])
def test_a_pod_bound_a_minute_ago_is_in_the_figures_of_the_scheduler_or_not(
    seconds: int, landings: set[str]
) -> None:
    """It asks for new figures twice a minute: which ones it knows nobody can tell."""
    percent = {"hot": 95.0, "a": 30.0, "b": 20.0}
    figures = {name: (Metric(CPU_TYPE, AVERAGE, value),) for name, value in percent.items()}
    plan = plan_of(
        planning_inputs(
            [a_node("hot"), a_node("a", cpu=10), a_node("b", cpu=10)],
            [
                a_workload("web", ["hot"], cpu="200m"),
                a_workload("new", ["a"], cpu="1200m", created=at(-seconds)),
            ],
            configuration=PACKED,
            view=SchedulerView({"http://w": WatcherMetrics(figures, NOW, NOW - 900, NOW, "test")}),
            load=percent,
            pod_load={"web-0": 1.2},
        )
    )
    assert [{landing.node for landing in move.landings} for move in plan.moves] == [landings]
