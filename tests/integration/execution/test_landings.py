"""Every way a replacement can end is seen, and what the plan did not allow for stops the run."""

from __future__ import annotations

import pytest

from rebalancer.errors import ExitCode
from rebalancer.execution.outcomes import Stop, past_moves
from rebalancer.state.results import Result
from rebalancer.state.run_state import PastMove
from rebalancer_demo import Fault, Misbehaviour
from tests.integration.demo.builders import a_stateful_set
from tests.integration.execution.cluster import a_hot_cluster, a_move_of, hot_cluster, running


def test_a_plan_is_carried_out_wave_by_wave() -> None:
    with a_hot_cluster() as runner:
        moves = [a_move_of(runner.sandbox, f"web-{index}", wave=index + 1) for index in range(3)]
        outcomes = runner.run(*moves)
        on_hot = runner.sandbox.pods("shop", node="hot")
    assert [outcome.result for outcome in outcomes.outcomes] == [Result.LANDED] * 3
    assert (outcomes.exit_code, outcomes.stopped) == (ExitCode.DONE, "")
    assert not on_hot
    assert all(outcome.node in ("cool", "other") and outcome.ready_at for outcome in outcomes.outcomes)
    assert runner.events().count("wave-started") == 3


def test_an_acceptable_landing_the_plan_did_not_list_goes_on() -> None:
    with a_hot_cluster() as runner:
        runner.sandbox.misbehave(Misbehaviour("misplace", node="other"))
        first = a_move_of(runner.sandbox, "web-0", to=("cool",))
        second = a_move_of(runner.sandbox, "web-1", to=("other",), wave=2)
        outcomes = runner.run(first, second)
    assert [outcome.result for outcome in outcomes.outcomes] == [Result.LANDED_ELSEWHERE, Result.LANDED]
    assert outcomes.exit_code == ExitCode.DONE


def test_a_misplaced_replacement_stops_the_run() -> None:
    with a_hot_cluster() as runner:
        runner.sandbox.misbehave(Misbehaviour("misplace", node="hot"))
        moves = [a_move_of(runner.sandbox, f"web-{index}", wave=index + 1) for index in range(3)]
        outcomes = runner.run(*moves)
        left = runner.sandbox.pod("shop", "web-1")
    assert [outcome.result for outcome in outcomes.outcomes] == [
        Result.UNEXPECTED,
        Result.SKIPPED,
        Result.SKIPPED,
    ]
    assert outcomes.outcomes[0].because == "hot is hot"
    assert (outcomes.stop, outcomes.exit_code) == (Stop.OUTCOME, ExitCode.STOPPED)
    assert "Unexpected on hot" in outcomes.outcomes[1].because
    assert left is not None
    assert "deletionTimestamp" not in left["metadata"]


def test_a_misplaced_replacement_is_reported_and_accepted_when_the_policy_allows_it() -> None:
    with a_hot_cluster() as runner:
        runner.sandbox.misbehave(Misbehaviour("misplace", node="hot"))
        moves = [a_move_of(runner.sandbox, f"web-{index}", wave=index + 1) for index in range(2)]
        outcomes = runner.run(*moves, unexpected="continue")
    assert [outcome.result for outcome in outcomes.outcomes] == [Result.UNEXPECTED] * 2
    assert (outcomes.stopped, outcomes.exit_code) == ("", ExitCode.STOPPED)


@pytest.mark.parametrize(
    ("effect", "result"), [("drop", Result.PENDING), ("drop-replacement", Result.NOT_REPLACED)]
)
def test_a_replacement_that_does_not_come_stops_the_run(effect: str, result: Result) -> None:
    with a_hot_cluster() as runner:
        runner.sandbox.misbehave(Misbehaviour(effect))  # type: ignore[arg-type]
        moves = [a_move_of(runner.sandbox, f"web-{index}", wave=index + 1) for index in range(2)]
        outcomes = runner.run(*moves, timeout=120)
    assert [outcome.result for outcome in outcomes.outcomes] == [result, Result.SKIPPED]
    assert outcomes.exit_code == ExitCode.STOPPED


def test_a_replacement_that_never_gets_ready_stops_the_run() -> None:
    with a_hot_cluster(ready_after=None) as runner:
        outcomes = runner.run(a_move_of(runner.sandbox, "web-0"), timeout=120)
    assert [outcome.result for outcome in outcomes.outcomes] == [Result.NOT_READY]


def test_a_late_replacement_is_waited_for() -> None:
    with a_hot_cluster() as runner:
        runner.sandbox.misbehave(Misbehaviour("delay", seconds=30))
        outcomes = runner.run(a_move_of(runner.sandbox, "web-0"))
    assert [outcome.result for outcome in outcomes.outcomes] == [Result.LANDED]


def test_a_stateful_sets_pod_comes_back_by_its_name() -> None:
    with running(hot_cluster(a_stateful_set("db", replicas=2), replicas=2)) as runner:
        old = a_move_of(runner.sandbox, "db-1")
        outcomes = runner.run(old)
    [outcome] = outcomes.outcomes
    assert outcome.result is Result.LANDED
    assert outcome.replacement == "db-1"
    assert outcome.replacement_uid != old.pod.uid


EVACUATION = Fault(
    "status",
    path="/pods/web-0/eviction",
    method="POST",
    code=429,
    times=0,
    message='admission webhook "virt-launcher-eviction-interceptor.kubevirt.io" denied the request: '
    'Eviction triggered evacuation of VMI "shop/web"',
)


def test_a_pod_that_a_webhook_moves_is_waited_for_and_lands_like_any_other() -> None:
    with a_hot_cluster() as runner:
        runner.sandbox.faults.add(EVACUATION)
        move = a_move_of(runner.sandbox, "web-0")
        # As KubeVirt does once the virtual machine runs elsewhere.
        runner.time.meanwhile.append(lambda: runner.sandbox.registry.delete("pods", "shop", "web-0"))
        outcomes = runner.run(move)
        assert runner.sandbox.faults.hits == 1
    assert [outcome.result for outcome in outcomes.outcomes] == [Result.LANDED]
    assert outcomes.exit_code == ExitCode.DONE


def test_a_pod_that_a_webhook_does_not_move_in_time_is_started_once_and_remembered() -> None:
    kept: list[PastMove] = []
    with a_hot_cluster() as runner:
        runner.sandbox.faults.add(EVACUATION)
        move = a_move_of(runner.sandbox, "web-0")
        outcomes = runner.run(move, save=lambda found: kept.extend(past_moves(found)))
        assert runner.sandbox.faults.hits == 1
        assert runner.sandbox.pod("shop", "web-0") is not None
    assert [outcome.result for outcome in outcomes.outcomes] == [Result.STARTED]
    assert outcomes.exit_code == ExitCode.DONE
    assert (kept[-1].result, kept[-1].uid) == ("Started", move.pod.uid)
