"""Pressure as a second signal: both the utilization and the waiting must be above their thresholds."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from msgspec.structs import replace

from rebalancer.errors import InputError
from rebalancer.planning.plan import Plan
from rebalancer.policy.policy_file import parse_policy, pressure_resources, to_yaml
from rebalancer.state.run_state import RunState
from tests.builders import a_node
from tests.unit.planning.builders import (
    NOW,
    a_past_move,
    a_policy,
    a_workload,
    because,
    moved,
    plan_of,
    planning_inputs,
)

UNKNOWN = float("nan")
RULE = {"utilization": {"cpu": 70}, "coolTo": {"cpu": 60}, "pressure": {"cpu": 20, "memory": 5}}
HEADER = "apiVersion: rebalancer/v1alpha1\nkind: RebalancePolicy\n"
PROMETHEUS = "load: {sources: [{prometheus: {address: 'http://p:9090'}}]}\n"


def plan(used: float, state: RunState | None = None, /, **pressure: float) -> Plan:
    """Node a at so much cpu and pressure, and b at 75 % without any."""
    inputs = planning_inputs(
        [a_node("a", cpu=10), a_node("b", cpu=10), a_node("c", cpu=10)],
        [a_workload("web", ["a"] * 8)],
        policy=a_policy(hotNodes={"forRuns": 1, "any": [RULE]}),
        load={"a": used, "b": 75.0, "c": 69.0},
        state=state,
    )
    by_node = {name: np.array([value, 0.0, 0.0]) for name, value in pressure.items()}
    return plan_of(replace(inputs, load=replace(inputs.load, pressure=by_node)))


def reasons(found: Plan) -> Mapping[str, tuple[str, ...]]:
    return {node.name: node.because for node in found.nodes if node.because}


def test_a_busy_node_on_which_pods_wait_is_hot_and_says_for_what() -> None:
    assert reasons(plan(80, cpu=31.2)) == {
        "a": ("cpu 80.0 %: hot above 70 %, cool at 60 %; cpu pressure 31.2 % of the time, above 20 %",)
    }


def test_pressure_of_any_named_resource_is_enough() -> None:
    assert plan(80, cpu=1, memory=6).hot_count == 1


@pytest.mark.parametrize("pressure", [19.9, UNKNOWN], ids=["below its threshold", "unknown"])
def test_a_busy_node_without_known_waiting_is_not_hot(pressure: float) -> None:
    assert plan(99, cpu=pressure).hot_count == 0


def test_pressure_on_an_idle_node_does_not_make_it_hot() -> None:
    assert plan(50, cpu=90).hot_count == 0


def test_no_pod_lands_above_the_threshold_even_where_nothing_waits_yet() -> None:
    found = plan(80, cpu=31)
    assert moved(found) == {}
    assert because(found, "web-0").endswith("b would be at 85.0 % cpu, hot above 70.0 %")


def test_a_node_that_we_cooled_and_on_which_pods_still_wait_says_so() -> None:
    state = RunState(moves=(a_past_move(from_node="a", to_node="c"),))
    assert reasons(plan(50, state, cpu=33))["a"] == (
        "cooled but still waiting: cpu pressure 33.0 % of the time, above 20 %",
    )
    said = "a: cooled but still waiting: cpu pressure 33.0 % of the time, above 20 %"
    assert said in plan(50, state, cpu=33).warnings
    assert reasons(plan(50, state, cpu=3)) == {}
    assert reasons(plan(50, RunState(), cpu=33)) == {}


def test_pressure_that_still_shows_the_time_before_a_move_is_not_judged() -> None:
    """The rate looks back five minutes, from figures that may be three minutes old."""
    for seconds, judged in ((479, False), (480, True)):
        moment = NOW - seconds
        state = RunState(
            moves=(a_past_move(from_node="a", to_node="c", evicted_at=moment, landed_at=moment),)
        )
        assert any("still waiting" in text for text in plan(50, state, cpu=33).warnings) is judged


def test_a_rule_with_pressure_is_printed_and_read_back() -> None:
    text = HEADER + PROMETHEUS + "hotNodes: {any: [{utilization: {cpu: 70}, pressure: {cpu: 20, io: 5}}]}\n"
    policy = parse_policy(text, "p.yaml").policy
    assert parse_policy(to_yaml(policy), "printed").policy == policy
    assert pressure_resources(policy) == ("cpu", "io")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            PROMETHEUS + "hotNodes: {any: [{pressure: {cpu: 20}}]}\n",
            "pressure needs utilization in the same rule",
        ),
        (
            "hotNodes: {any: [{utilization: {cpu: 70}, pressure: {cpu: 20}}]}\n",
            "nothing measures pressure: load.sources has no prometheus source (add a prometheus source)",
        ),
        (
            "load: {sources: [{prometheus: {address: 'http://p:9090'}}], signals: {waits: {query: "
            "'rate(node_pressure_cpu_waiting_seconds_total[5m])'}}}\n",
            "waits reads pressure, which does not add up",
        ),
    ],
    ids=["alone", "without prometheus", "as a signal"],
)
def test_pressure_that_could_be_planned_with_alone_is_refused_with_the_reason(body: str, reason: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_policy(HEADER + body, "p.yaml")
    assert reason in str(caught.value)
