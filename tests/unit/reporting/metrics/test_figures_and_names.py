from __future__ import annotations

from collections import Counter

from msgspec.structs import replace
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from rebalancer.execution.events import MoveEnded, RunFinished
from rebalancer.execution.outcomes import Outcomes, Stop
from rebalancer.planning.plan import Plan
from rebalancer.reporting.metrics import (
    MAX_NODE_SERIES,
    METRICS,
    SERVICE_METRICS,
    MetricKind,
    RunMetrics,
    plan_samples,
)
from rebalancer.state.results import Result
from tests.unit.reporting.builders import a_kept, a_move, a_plan, an_outcome, some_outcomes

GAUGES = {metric.name for metric in METRICS if metric.kind is MetricKind.GAUGE}


def rendered(plan: Plan | None, outcomes: Outcomes | None, *, exit_code: int, now: float) -> bytes:
    metrics = RunMetrics()
    if plan is not None:
        metrics.planned(plan)
    for outcome in outcomes.outcomes if outcomes else ():
        metrics.follow(MoveEnded(outcome))
    if outcomes is not None:
        metrics.follow(RunFinished(outcomes))
    metrics.ended(exit_code, now)
    return generate_latest(metrics.registry)


def samples(content: bytes) -> dict[tuple[str, tuple[str, ...]], float]:
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(content.decode())
        for sample in family.samples
    }


def test_the_metrics_of_a_run_are_its_hot_nodes_moves_and_exit_code() -> None:
    outcomes = some_outcomes(an_outcome(), an_outcome(Result.REFUSED, "b"), exit_code=4)
    found = samples(rendered(a_plan(), outcomes, exit_code=4, now=1795176000.0))

    assert found["rebalancer_nodes", ("known",)] == 9
    assert found["rebalancer_nodes", ("unknown",)] == 1
    assert found["rebalancer_hot_nodes", ()] == 2
    assert found["rebalancer_pods_kept", ("SingleReplica",)] == 2
    assert found["rebalancer_run_exit_code", ()] == 4


def test_the_metrics_of_a_run_that_failed_before_its_plan_are_its_failure_alone() -> None:
    found = samples(rendered(None, None, exit_code=6, now=5.0))

    assert {key: value for key, value in found.items() if key[0] in GAUGES} == {
        ("rebalancer_run_exit_code", ()): 6.0,
    }
    assert {key for key, value in found.items() if value and key[0] not in GAUGES} == {
        ("rebalancer_runs_total", ("6",))
    }


def test_a_run_that_stopped_early_can_be_alerted_on() -> None:
    outcomes = some_outcomes(stopped="a brake", exit_code=3)
    found = samples(rendered(a_plan(), replace(outcomes, stop=Stop.BRAKE), exit_code=3, now=5.0))

    assert found["rebalancer_run_exit_code", ()] == 3
    assert found["rebalancer_stops_total", ("Brake",)] == 1


def everything() -> RunMetrics:
    """The metrics of a run that has a figure for each of them."""
    metrics = RunMetrics()
    metrics.planned(a_plan())
    metrics.follow(MoveEnded(an_outcome()))
    metrics.follow(RunFinished(some_outcomes(an_outcome())))
    metrics.ended(0, 5.0)
    compared = {("default-scheduler", "Missed"): 1, ("default-scheduler", "AsComputed"): 0}
    metrics.compared(Counter(compared))
    for metric in SERVICE_METRICS:
        if metric.kind is MetricKind.GAUGE:
            metrics.set(metric, 1)
    return metrics


def test_a_result_that_no_decision_has_yet_is_a_zero() -> None:
    found = samples(generate_latest(everything().registry))

    name, profile = "rebalancer_scheduler_decisions_total", "default-scheduler"
    assert found[name, (profile, "Missed")] == 1
    assert found[name, (profile, "AsComputed")] == 0


def test_every_metric_is_in_the_table_and_named_once() -> None:
    names = [metric.name for metric in METRICS]
    content = generate_latest(everything().registry).decode()
    written = [line.split()[2] for line in content.splitlines() if line.startswith("# TYPE ")]

    assert written == names
    assert len(set(names)) == len(names)


def test_a_plan_withdraws_what_the_one_before_said() -> None:
    metrics = RunMetrics()
    metrics.planned(a_plan())
    metrics.planned(a_plan(kept=(), unsolved={}, hot_count=0))
    found = samples(generate_latest(metrics.registry))

    assert found["rebalancer_hot_nodes", ()] == 0
    assert not [name for name, _ in found if name in ("rebalancer_unsolved_node", "rebalancer_pods_kept")]
    assert set(plan_samples(a_plan())) == {item for item in METRICS if item.of_plan}


def test_landings_are_counted_by_what_the_plan_said_of_them() -> None:
    listed = tuple(f"node-{number}" for number in range(1, 5))
    metrics = RunMetrics()
    for result, node in (
        (Result.LANDED, listed[0]),
        (Result.LANDED, listed[1]),
        (Result.LANDED_ELSEWHERE, "node-8"),
        (Result.UNEXPECTED, "node-9"),
        (Result.NOT_REPLACED, ""),
    ):
        metrics.follow(MoveEnded(replace(an_outcome(result), node=node, move=a_move(to=listed))))
    found = samples(generate_latest(metrics.registry))

    landings = {
        labels[0]: value for (name, labels), value in found.items() if name.endswith("landings_total")
    }
    assert landings == {"Likeliest": 1, "Listed": 1, "Allowed": 1, "NotAllowed": 1}


def test_an_eviction_that_was_never_requested_is_not_counted() -> None:
    metrics = RunMetrics()
    for result in Result:
        metrics.follow(MoveEnded(an_outcome(result)))
    content = generate_latest(metrics.registry).decode()

    counted = {
        item.value
        for item in Result
        if f'rebalancer_evictions_total{{namespace="shop",reason="HotNode",result="{item.value}"}}' in content
    }
    assert counted == {item.value for item in Result} - {"Skipped", "Gone", "WouldEvict", "WouldRestart"}


def test_an_eviction_is_counted_under_the_strategy_that_wished_it_whatever_it_gained() -> None:
    metrics = RunMetrics()
    for strategy in ("hotNodes", "misplaced", "ofTheNextVersion"):
        outcome = an_outcome()
        move = replace(outcome.move, strategy=strategy)
        metrics.follow(MoveEnded(replace(outcome, move=move)))
    found = samples(generate_latest(metrics.registry))

    reasons = {labels[1] for name, labels in found if name == "rebalancer_evictions_total"}
    assert reasons == {"HotNode", "Misplaced", "OfTheNextVersion"}


def test_nodes_are_named_one_by_one_only_up_to_a_bound() -> None:
    names = [f"node-{number}" for number in range(MAX_NODE_SERIES + 50)]
    found = samples(rendered(a_plan(unsolved=dict.fromkeys(names, "hot")), None, exit_code=0, now=5.0))

    assert len([name for name, _ in found if name == "rebalancer_unsolved_node"]) == MAX_NODE_SERIES


def test_hostile_label_values_cannot_add_a_series() -> None:
    reason = 'x"} 1\nrebalancer_hot_nodes 99\n'
    found = samples(rendered(a_plan(kept=(a_kept("a", reason),)), None, exit_code=0, now=5.0))

    assert found["rebalancer_hot_nodes", ()] == 2


def test_equal_plans_give_equal_metrics() -> None:
    kept = (a_kept("a", "A"), a_kept("b", "B"))
    first = rendered(a_plan(kept=kept), None, exit_code=0, now=5.0)

    assert first == rendered(a_plan(kept=kept[::-1]), None, exit_code=0, now=5.0)


def test_who_stands_by_says_nothing_of_a_run_that_another_has_outdated() -> None:
    metrics = everything()
    metrics.stands_by()
    content = generate_latest(metrics.registry).decode()
    gauges = [
        line.split()[2]
        for line in content.splitlines()
        if line.startswith("# TYPE ") and line.endswith(" gauge")
    ]

    assert gauges == [
        "rebalancer_last_success_timestamp_seconds",
        "rebalancer_leader",
        "rebalancer_policy_last_reload_successful",
    ]
    assert 'rebalancer_evictions_total{namespace="' in content, "what was counted stays"
