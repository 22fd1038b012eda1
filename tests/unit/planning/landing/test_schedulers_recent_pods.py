"""Pods whose load the figures of TargetLoadPacking do not show yet are not alike to older ones."""

from __future__ import annotations

import pytest

from rebalancer.cluster.arrays import PodRow
from rebalancer.load.scheduler_view import AVERAGE, CPU_TYPE, Metric, SchedulerView, WatcherMetrics
from rebalancer.planning.inputs import SchedulerStart
from rebalancer.planning.landing.schedulers import ProfileSchedulers
from rebalancer.planning.prepared import prepare
from rebalancer.profiles.types import SchedulerConfiguration
from tests.builders import a_node
from tests.rows import rows
from tests.unit.planning.builders import NOW, a_workload, at, planning_inputs, with_scheduler
from tests.unit.planning.landing.hot_pods import PACKED
from tests.unit.scheduling.test_extenders import configured

BY_EXTENDER = configured({"plugin": "TargetLoadPacking", "args": {"watcherAddress": "http://w"}})


@pytest.mark.parametrize("configuration", [PACKED, BY_EXTENDER], ids=["plugin", "extender"])
def test_states_that_a_recent_or_an_older_pod_has_left_are_told_apart_by_what_is_placed_there(
    configuration: SchedulerConfiguration,
) -> None:
    figures = {name: (Metric(CPU_TYPE, AVERAGE, 30.0),) for name in "ab"}
    pods = a_workload("web", ["a", "a", "a"], cpu="1200m", created=at(-3600))
    pods.pods[0]["metadata"]["creationTimestamp"] = pods.pods[0]["status"]["startTime"] = at(-10)
    inputs = planning_inputs(
        [a_node("a", cpu=10), a_node("b", cpu=10)],
        [pods],
        configuration=configuration,
        view=SchedulerView({"http://w": WatcherMetrics(figures, NOW, NOW - 900, NOW, "test")}),
    )
    schedulers, totals = ProfileSchedulers(inputs), []
    for row in range(3):
        state = schedulers.state.copy()
        state.remove(PodRow(row))
        kind = state.pod_class[row]
        totals.append(schedulers.scheduler(kind).place(state, kind).totals.tolist())
        state.restore(PodRow(row), 0)

    assert totals[0] != totals[1] == totals[2]


def test_the_replacement_of_a_recent_pod_is_placed_by_what_that_pod_leaves_and_not_an_older_one() -> None:
    figures = {name: (Metric(CPU_TYPE, AVERAGE, 30.0),) for name in "ab"}
    pods = a_workload("web", ["a", "a", "a"], cpu="1200m", created=at(-3600))
    pods.pods[0]["status"]["startTime"] = at(-10)  # it was Pending for long
    prepared = prepare(
        planning_inputs(
            [a_node("a", cpu=10), a_node("b", cpu=10)],
            [pods],
            configuration=PACKED,
            view=SchedulerView({"http://w": WatcherMetrics(figures, NOW, NOW - 900, NOW, "test")}),
        )
    )
    state = prepared.start.likeliest.after_termination
    alone = [
        prepared.evaluator(()).once_gone(prepared.candidate(PodRow(row)), state).totals.tolist()
        for row in range(3)
    ]
    shared = prepared.evaluator(())

    assert alone[0] != alone[1] == alone[2]
    for row in (1, 0, 2):
        found = shared.once_gone(prepared.candidate(PodRow(row)), state)
        assert found.totals.tolist() == alone[row]


@rows(
    "started, views",
    [
        (None, 1),
        (NOW - 450, 1),  # it forgets two and a half minutes before and after the plan
        (NOW - 305, 2),
        (NOW - 600 - 5, 2),
        (
            NOW - 300 + 20,
            2,
        ),  # it forgets twenty seconds after the plan: those bound more than a minute before
        (NOW - 100, 1),
    ],
)
def test_a_landing_counts_what_a_scheduler_forgets_of_recent_pods_every_five_minutes(
    started: float | None, views: int
) -> None:
    figures = {name: (Metric(CPU_TYPE, AVERAGE, 30.0),) for name in "ab"}
    pods = a_workload("web", ["a", "a", "a"], cpu="1200m", created=at(-3600))
    for number, seconds in enumerate((75, 20)):
        pods.pods[number]["metadata"]["creationTimestamp"] = at(-seconds)
        pods.pods[number]["status"]["startTime"] = at(-seconds)
    inputs = planning_inputs(
        [a_node("a", cpu=10), a_node("b", cpu=10)],
        [pods],
        configuration=PACKED,
        view=SchedulerView({"http://w": WatcherMetrics(figures, NOW - 30, NOW - 930, NOW - 30, "test")}),
    )
    known = with_scheduler(inputs, start=SchedulerStart(started, "test"))

    schedulers = ProfileSchedulers(known)
    kind = schedulers.state.pod_class[2]
    scores = {tuple(item.place(schedulers.state, kind).totals.tolist()) for item in schedulers.views(kind)}

    assert len(scores) == len(schedulers.views(kind)) == views
