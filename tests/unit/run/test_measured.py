"""What a run achieved is said by figures from after its moves, and by nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from rebalancer.cluster import times
from rebalancer.errors import UnreachableError
from rebalancer.execution.clock import RunClock
from rebalancer.execution.outcomes import Measured, NodeMeasured, Outcome
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.run.measured import Measurement
from rebalancer.state.results import Result
from tests.builders import a_node
from tests.unit.execution.fake_api import FakeTime
from tests.unit.planning.builders import NOW, a_policy, a_workload, plan_of, planning_inputs
from tests.unit.planning.test_hotness import rules

READY = 10.0  # seconds after the plan: when the last replacement was ready


def a_cluster(on_b: int = 0, name: str = "web", **given: Any) -> PlanningInputs:
    """Node a, of ten cores, with nine busy pods but for those that are on node b."""
    nodes = [a_node("a", cpu=10), a_node("b", cpu=10), a_node("c", cpu=10)]
    places = ["b"] * on_b + ["a"] * (9 - on_b)
    workloads = [a_workload(name, places, cpu="1"), a_workload("other", ["c"] * 6)]
    return planning_inputs(nodes, workloads, **given)


def later(seconds: float, window: float = 0.0, on_b: int = 3, **given: Any) -> PlanningInputs:
    """The cluster so long after the plan, with figures of that moment and other pods."""
    read = a_cluster(on_b, "new", measured_at=NOW + seconds, window=window, **given)
    return replace(read, now=NOW + seconds)


class Reading:
    """What is read at each look, by the seconds that have passed since the run's end."""

    def __init__(self, *answers: tuple[float, PlanningInputs | UnreachableError]) -> None:
        self.time = FakeTime(NOW + READY)
        self.answers = answers
        self.looks = 0

    def __call__(self) -> PlanningInputs:
        self.looks += 1
        passed = self.time.now - NOW - READY
        answer = [answer for since, answer in self.answers if passed >= since][-1]
        if isinstance(answer, UnreachableError):
            raise answer
        return answer

    def measured(
        self,
        seconds: float = 0.0,
        *,
        result: Result = Result.LANDED,
        inputs: PlanningInputs | None = None,
    ) -> Measured:
        inputs = inputs or a_cluster()
        plan = plan_of(inputs)
        clock = RunClock(
            now=self.time.clock, monotonic=self.time.clock, sleep=self.time.sleep, began=self.time.now
        )
        outcomes = [
            Outcome(
                move=move,
                result=result,
                because="",
                node="b",
                evicted_at=NOW + 5.0,
                bound_at=NOW + 6.0,
                ready_at=NOW + READY,
            )
            for move in plan.moves
        ]
        assert outcomes
        return Measurement(inputs, plan, outcomes, clock).within(seconds, self)


def by_name(measured: Measured) -> dict[str, NodeMeasured]:
    return {node.name: node for node in measured.nodes}


def test_load_before_and_after_is_that_of_figures_from_after_the_last_move() -> None:
    reading = Reading((0.0, later(20.0)))
    found = by_name(reading.measured())

    assert list(found) == ["a", "b"]  # neither was anything of c hot nor did a pod come to it
    assert (found["a"].before["cpu"], found["a"].after["cpu"]) == (90.0, 60.0)
    assert (found["a"].hot, found["a"].hot_after, found["a"].because) == (True, False, "")
    assert found["a"].measured_at == NOW + 20.0
    assert found["b"].after["cpu"] == 30.0
    assert reading.looks == 1


@pytest.mark.parametrize(
    ("seconds", "window"), [(8.0, 0.0), (20.0, 15.0)], ids=["from before", "over some time before"]
)
def test_figures_that_hold_the_time_before_the_last_move_say_nothing(seconds: float, window: float) -> None:
    found = by_name(Reading((0.0, later(seconds, window))).measured())["a"]

    assert (found.after, found.hot_after, found.measured_at) == ({}, None, None)
    assert found.because == (
        f"its figures, of {times.render(NOW + seconds)}, hold some of the time before its last move"
    )


def test_a_run_waits_until_the_figures_are_from_after_its_moves_and_no_longer() -> None:
    reading = Reading((0.0, later(5.0)), (30.0, later(40.0, 25.0)), (100.0, later(110.0)))
    measured = reading.measured(300.0)

    assert by_name(measured)["a"].hot_after is False
    assert 30.0 <= measured.waited_seconds < 50.0


def test_a_run_waits_no_longer_than_the_policy_says_and_then_says_what_is_not_known() -> None:
    reading = Reading((0.0, later(5.0)))
    measured = reading.measured(60.0)

    assert by_name(measured)["a"].hot_after is None
    assert measured.waited_seconds == 60.0
    assert reading.looks <= 12


def test_a_pod_that_still_terminates_still_uses_its_node() -> None:
    there = a_cluster(3, measured_at=NOW + 20.0)  # under the uids that were evicted
    found = by_name(Reading((0.0, replace(there, now=NOW + 25.0))).measured())

    assert found["a"].hot_after is None
    assert found["b"].hot_after is False


def test_a_node_that_stays_hot_and_one_that_turns_hot_are_told() -> None:
    stays = Reading((0.0, later(20.0, on_b=0))).measured()
    turns = Reading((0.0, later(20.0, on_b=9))).measured()

    assert [node.hot_after for node in stays.hot] == [True]
    assert [node.name for node in turns.newly_hot] == ["b"]


def test_a_node_without_a_figure_and_a_load_that_cannot_be_read_are_unknown() -> None:
    unknown = by_name(Reading((0.0, later(20.0, load={"a": float("nan")}))).measured())
    unread = by_name(Reading((0.0, UnreachableError("no answer"))).measured())

    assert (unknown["a"].hot_after, unknown["a"].because) == (None, "it has no fresh load figure")
    assert unknown["b"].hot_after is False
    assert {node.because for node in unread.values()} == {"the load could not be read: no answer"}


def test_what_was_known_once_is_not_forgotten_when_the_load_cannot_be_read_any_more() -> None:
    half = later(20.0, load={"b": float("nan")})
    reading = Reading((0.0, half), (1.0, UnreachableError("no answer")))
    found = by_name(reading.measured(30.0))

    assert found["a"].hot_after is False
    assert found["b"].because == "the load could not be read: no answer"


def test_no_node_is_relieved_because_the_nodes_it_is_compared_with_have_no_figures() -> None:
    deviation = {"deviation": {"cpu": 20}, "coolTo": {"cpu": 10}}
    policy = a_policy(hotNodes=rules(deviation), load={"minCoverage": "80%"})
    few = later(20.0, on_b=0, policy=policy, load={"b": float("nan"), "c": float("nan")})
    found = by_name(Reading((0.0, few)).measured(inputs=a_cluster(policy=policy)))["a"]

    assert (found.hot, found.before["cpu"], found.hot_after) == (True, 90.0, None)
    assert "only 1 of 3 nodes have a fresh load figure" in found.because


@pytest.mark.parametrize("after", [{"cpu": float("nan")}, {}], ids=["of the node", "of any"])
def test_no_node_is_relieved_because_its_pressure_is_not_known_any_more(after: dict[str, float]) -> None:
    rule = {"utilization": {"cpu": 70}, "coolTo": {"cpu": 60}, "pressure": {"cpu": 20}}
    policy = a_policy(hotNodes=rules(rule))

    def under(inputs: PlanningInputs, pressure: dict[str, float]) -> PlanningInputs:
        by_node = {name: np.array([value, 0.0, 0.0]) for name, value in pressure.items()}
        return replace(inputs, load=replace(inputs.load, pressure=by_node))

    before = under(a_cluster(policy=policy), {"cpu": 30.0})
    busy, calm = (under(later(20.0, on_b=on_b, policy=policy), after) for on_b in (0, 3))
    stays = by_name(Reading((0.0, busy)).measured(inputs=before))["a"]

    assert (stays.hot_after, stays.because) == (None, "it has no fresh figure of cpu pressure")
    waits = Reading((0.0, under(later(20.0, on_b=0, policy=policy), {"cpu": 5.0})))
    assert by_name(waits.measured(inputs=before))["a"].hot_after is False
    assert by_name(Reading((0.0, calm)).measured(inputs=before))["a"].hot_after is False


def test_no_node_is_relieved_because_what_it_has_of_a_resource_is_not_known_any_more() -> None:
    read = later(20.0, on_b=0)
    allocatable = read.load.allocatable.copy()
    allocatable[0, 0] = np.nan
    dark = replace(read, load=replace(read.load, allocatable=allocatable))
    found = by_name(Reading((0.0, dark)).measured())["a"]

    assert (found.after, found.hot_after, found.because) == ({}, None, "it has no fresh load figure")


def test_a_pod_that_was_still_there_may_have_gone_no_sooner_than_the_look_that_misses_it() -> None:
    there = replace(a_cluster(3, measured_at=NOW + 11.0), now=NOW + 12.0)
    mixed = later(20.0, 5.0)  # over a time that begins after the first look, and before the second one
    reading = Reading((0.0, there), (1.0, replace(mixed, now=NOW + 17.0)), (60.0, later(50.0, 5.0)))
    measured = reading.measured(300.0)

    assert by_name(measured)["a"].hot_after is False
    assert measured.waited_seconds >= 60.0
