"""What goes wrong between us and the API server never makes a run lie or evict twice."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from rebalancer.errors import ExitCode, LeaseHeldError, RightsError
from rebalancer.execution.events import EvictionAnswered, RunEvent
from rebalancer.execution.journal import in_flight
from rebalancer.execution.lease import RunLease
from rebalancer.execution.outcomes import Stop
from rebalancer.planning.scheduler_location import PodSelection, SchedulerLocation
from rebalancer.policy.schema import Safety
from rebalancer.policy.units import Amount
from rebalancer.state.results import Result
from rebalancer_demo import Fault, User
from tests.integration.demo.builders import a_budget
from tests.integration.execution.cluster import NODES, Runner, a_hot_cluster, a_move_of

EVICTION = r"/eviction"


def evictions(runner: Runner) -> int:
    """How many pods anybody asked to go."""
    return sum("deletionTimestamp" in pod["metadata"] for pod in runner.sandbox.pods("shop"))


def results(
    runner: Runner, *names: str, to: tuple[str, ...] = ("cool", "other"), **options: Any
) -> tuple[list[Result], Any]:
    """Run a plan of a wave a pod."""
    moves = [a_move_of(runner.sandbox, name, wave=wave, to=to) for wave, name in enumerate(names, start=1)]
    outcomes = runner.run(*moves, **options)
    return [outcome.result for outcome in outcomes.outcomes], outcomes


def test_an_eviction_that_a_budget_refuses_is_refused_and_the_run_goes_on() -> None:
    with a_hot_cluster(more=(a_budget(minAvailable=3),)) as runner:
        found, outcomes = results(runner, "web-0", "web-1")
        assert evictions(runner) == 0
    assert found == [Result.REFUSED, Result.REFUSED]
    assert "disruption budget web" in outcomes.outcomes[0].because
    assert (outcomes.exit_code, outcomes.stopped) == (ExitCode.PARTLY_DONE, "")


def test_an_accepted_eviction_whose_answer_was_lost_counts_once() -> None:
    with a_hot_cluster() as runner:
        runner.sandbox.faults.add(Fault("reset-after", EVICTION, "POST"))
        found, outcomes = results(runner, "web-0")
    assert found == [Result.LANDED]
    assert "terminating" in runner.journaled()[3]["because"] or "gone" in runner.journaled()[3]["because"]
    assert outcomes.exit_code == ExitCode.DONE


@pytest.mark.parametrize(
    "fault",
    [
        Fault("reset-before", EVICTION, "POST"),
        Fault("status", EVICTION, "POST", code=503),
        Fault("status", EVICTION, "POST", code=429, retry_after=1),
        Fault("truncate", EVICTION, "POST"),
        Fault("reset-before", "/pods", "GET", times=2, skip=2),
        Fault("status", "/leases/", "PUT", code=500),
        Fault("reset-after", "/leases/", "PUT"),
    ],
)
def test_a_passing_fault_is_survived(fault: Fault) -> None:
    with a_hot_cluster() as runner:
        runner.sandbox.faults.add(fault)
        found, _ = results(runner, "web-0", "web-1")
        assert runner.sandbox.faults.hits
    assert found == [Result.LANDED, Result.LANDED]


def test_an_api_server_that_is_gone_after_an_eviction_leaves_it_unknown_and_stops() -> None:
    with a_hot_cluster() as runner:
        runner.sandbox.faults.add(Fault("reset-after", EVICTION, "POST"))
        runner.sandbox.faults.add(Fault("reset-before", "/pods/web-0$", "GET", times=0, skip=1))
        found, outcomes = results(runner, "web-0", "web-1")
        assert runner.sandbox.pod("shop", "web-1")["metadata"].get("deletionTimestamp") is None  # type: ignore[index]
    assert found == [Result.UNKNOWN, Result.SKIPPED]
    assert outcomes.outcomes[0].evicted_at is not None
    assert (outcomes.stop, outcomes.exit_code) == (Stop.OUTCOME, ExitCode.STOPPED)


def test_pods_that_cannot_be_seen_until_the_timeout_are_unknown() -> None:
    with a_hot_cluster() as runner:
        runner.sandbox.faults.add(Fault("status", "/namespaces/shop/pods", "GET", code=503, times=0, skip=2))
        found, outcomes = results(runner, "web-0", "web-1", timeout=60)
    assert found == [Result.UNKNOWN, Result.SKIPPED]
    assert "could not be seen" in outcomes.outcomes[0].because


def test_a_pod_that_was_replaced_since_the_plan_is_left_alone() -> None:
    with a_hot_cluster() as runner:
        outcomes = runner.run(a_move_of(runner.sandbox, "web-0", uid="of-its-predecessor"))
        assert evictions(runner) == 0
    assert [outcome.result for outcome in outcomes.outcomes] == [Result.GONE]
    assert outcomes.exit_code == ExitCode.DONE


def test_two_runs_never_act_at_once() -> None:
    with a_hot_cluster() as runner:
        other = runner.lease("run-0").acquire()
        with pytest.raises(LeaseHeldError, match="run-0"):
            results(runner, "web-0")
        assert evictions(runner) == 0
        other.release()
        assert results(runner, "web-0")[0] == [Result.LANDED]


def test_a_lease_taken_by_another_run_stops_this_one_before_its_next_eviction() -> None:
    with a_hot_cluster() as runner:

        def steal(_outcomes: object) -> None:
            calls = [line for line in runner.events() if line == "evicted"]
            if len(calls) == 1:
                later = RunLease(
                    runner.api, "kube-system", "rebalancer", "thief", lambda: runner.time.clock() + 900
                )
                later.acquire()

        found, outcomes = results(runner, "web-0", "web-1", save=steal)
    assert found == [Result.LANDED, Result.SKIPPED]
    assert (outcomes.stop, outcomes.exit_code) == (Stop.LEASE_LOST, ExitCode.STOPPED)
    assert "thief" in outcomes.stopped


def test_the_lease_is_free_after_a_run() -> None:
    with a_hot_cluster() as runner:
        results(runner, "web-0")
        lease = runner.sandbox.store.get("leases", "kube-system", "rebalancer")
    assert lease is not None
    assert lease["spec"]["holderIdentity"] == ""


def test_a_run_killed_after_an_eviction_leaves_a_truthful_journal_and_state() -> None:
    class Killed(BaseException):
        pass

    def killer(event: RunEvent) -> None:
        if isinstance(event, EvictionAnswered):
            raise Killed

    checkpoints: list[Any] = []
    with a_hot_cluster() as runner:
        with pytest.raises(Killed):
            results(runner, "web-0", "web-1", save=checkpoints.append, shown_to=(killer,))
        journal = runner.journaled()
    assert [line["event"] for line in journal] == ["run-started", "wave-started", "evicting", "evicted"]
    assert journal[-1]["pod"] == "shop/web-0"
    assert not in_flight(tuple(journal))
    [[outcome]] = checkpoints
    assert (outcome.result, outcome.move.pod.name) == (Result.UNKNOWN, "web-0")
    assert outcome.evicted_at is not None


def test_a_run_killed_during_an_eviction_leaves_it_in_flight() -> None:
    class Killed(BaseException):
        pass

    with a_hot_cluster() as runner:

        def sleep(_seconds: float) -> None:
            raise Killed

        runner.sandbox.faults.add(Fault("status", EVICTION, "POST", code=429))
        api = replace(runner.api, retries=replace(runner.api.retries, pause=sleep))
        with pytest.raises(Killed):
            results(runner, "web-0", api=api)
        [line] = in_flight(tuple(runner.journaled()))
    assert line["pod"] == "shop/web-0"


def test_a_signal_finishes_the_eviction_in_flight_and_releases_the_lease() -> None:
    with a_hot_cluster() as runner:
        stop = [False]

        def watching(event: RunEvent) -> None:
            stop[0] |= isinstance(event, EvictionAnswered)

        moves = [a_move_of(runner.sandbox, f"web-{index}") for index in range(3)]
        outcomes = runner.run(*moves, shown_to=(watching,), stop_requested=lambda: stop[0])
        lease = runner.sandbox.store.get("leases", "kube-system", "rebalancer")
    assert [outcome.result for outcome in outcomes.outcomes][1:] == [Result.SKIPPED] * 2
    assert outcomes.outcomes[0].evicted_at is not None
    assert (outcomes.stop, outcomes.exit_code) == (Stop.INTERRUPTED, ExitCode.INTERRUPTED)
    assert lease is not None
    assert lease["spec"]["holderIdentity"] == ""
    assert runner.events()[-1] == "run-finished"


def test_a_dry_run_evicts_nothing() -> None:
    with a_hot_cluster() as runner:
        found, outcomes = results(runner, "web-0", "web-1", dry_run=True)
        assert evictions(runner) == 0
    assert found == [Result.WOULD_EVICT] * 2
    assert outcomes.exit_code == ExitCode.DONE


def test_a_missing_right_stops_the_run_and_says_which() -> None:
    users = {"weak": User("weak", ())}
    with a_hot_cluster(users=users) as runner, pytest.raises(RightsError):
        results(runner, "web-0")


def test_a_node_that_dies_stops_the_run_before_the_next_wave() -> None:
    with a_hot_cluster() as runner:

        def validate(moves: Any) -> dict[str, str]:
            if len(moves) == 2:
                runner.sandbox.fail_node("other")
            return {}

        safety = Safety(max_not_ready_nodes=Amount(0))
        found, outcomes = results(
            runner, "web-0", "web-1", validate=validate, safety=lambda: safety, to=("cool",)
        )
    assert found == [Result.LANDED, Result.SKIPPED]
    assert (outcomes.stop, outcomes.exit_code) == (Stop.BRAKE, ExitCode.STOPPED)
    assert outcomes.stopped.startswith("1 of 3 nodes are not ready (other); the limit is 0")


def test_a_scheduler_that_is_gone_stops_the_run() -> None:
    location = SchedulerLocation("default-scheduler", pods=PodSelection(("kube-system",)))
    with a_hot_cluster(scheduler=False) as runner:
        found, outcomes = results(runner, "web-0", schedulers=(location,))
        assert evictions(runner) == 0
    assert found == [Result.SKIPPED]
    assert (outcomes.stop, outcomes.exit_code) == (Stop.BRAKE, ExitCode.STOPPED)
    assert "lease kube-system/kube-scheduler does not exist" in outcomes.stopped
    assert "safety.unknownScheduler: proceed" in outcomes.stopped


def test_a_paused_policy_evicts_nothing() -> None:
    with a_hot_cluster() as runner:
        found, outcomes = results(runner, "web-0", safety=lambda: Safety(pause=True))
        assert len(runner.sandbox.pods("shop", node=NODES[0])) == 3
    assert found == [Result.SKIPPED]
    assert "paused" in outcomes.stopped
