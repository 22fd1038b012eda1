from __future__ import annotations

from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from rebalancer.execution.outcomes import Outcomes, Result
from rebalancer.planning.plan import Plan
from rebalancer.reporting.metrics import METRICS, run_metrics
from tests.unit.reporting.builders import a_kept, a_plan, an_outcome, some_outcomes


def rendered(plan: Plan | None, outcomes: Outcomes | None, *, exit_code: int, now: float) -> bytes:
    return generate_latest(run_metrics(plan, outcomes, exit_code=exit_code, now=now))


def samples(content: bytes) -> dict[tuple[str, tuple[str, ...]], float]:
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(content.decode())
        for sample in family.samples
    }


def test_the_metrics_of_a_run_are_its_hot_nodes_moves_and_exit_code() -> None:
    outcomes = some_outcomes(an_outcome(), an_outcome(Result.REFUSED, "b"), exit_code=4)
    found = samples(rendered(a_plan(), outcomes, exit_code=4, now=1795176000.0))

    assert found["rebalancer_nodes", ()] == 10
    assert found["rebalancer_hot_nodes", ()] == 2
    assert found["rebalancer_known_nodes", ()] == 9
    assert found["rebalancer_unsolved_nodes", ()] == 1
    assert found["rebalancer_moves_planned", ()] == 2
    assert found["rebalancer_moves", ("Landed",)] == 1
    assert found["rebalancer_moves", ("Refused",)] == 1
    assert found["rebalancer_moves", ("Unexpected",)] == 0
    assert found["rebalancer_pods_kept", ("SingleReplica",)] == 2
    assert found["rebalancer_highest_load_percent", ("cpu",)] == 91.0
    assert found["rebalancer_highest_load_after_percent", ("cpu",)] == 84.0
    assert found["rebalancer_run_exit_code", ()] == 4
    assert found["rebalancer_run_timestamp_seconds", ()] == 1795176000.0
    assert found["rebalancer_plan_timestamp_seconds", ()] == 1795176000.0


def test_the_metrics_of_a_run_that_failed_before_its_plan_are_its_failure_alone() -> None:
    found = samples(rendered(None, None, exit_code=6, now=5.0))

    assert found == {("rebalancer_run_timestamp_seconds", ()): 5.0, ("rebalancer_run_exit_code", ()): 6.0}


def test_a_run_that_stopped_early_can_be_alerted_on() -> None:
    found = samples(rendered(a_plan(), some_outcomes(stopped="a brake", exit_code=3), exit_code=3, now=5.0))

    assert found["rebalancer_run_stopped", ()] == 1


def test_every_metric_is_in_the_table_and_named_once() -> None:
    names = [metric.name for metric in METRICS]
    content = rendered(a_plan(), some_outcomes(an_outcome()), exit_code=0, now=5.0)
    written = [family.name for family in text_string_to_metric_families(content.decode())]

    assert written == names
    assert len(set(names)) == len(names)


def test_hostile_label_values_cannot_add_a_series() -> None:
    reason = 'x"} 1\nrebalancer_hot_nodes 99\n'
    found = samples(rendered(a_plan(kept=(a_kept("a", reason),)), None, exit_code=0, now=5.0))

    assert found["rebalancer_hot_nodes", ()] == 2


def test_equal_plans_give_equal_metrics() -> None:
    kept = (a_kept("a", "A"), a_kept("b", "B"))
    first = rendered(a_plan(kept=kept), None, exit_code=0, now=5.0)

    assert first == rendered(a_plan(kept=kept[::-1]), None, exit_code=0, now=5.0)
