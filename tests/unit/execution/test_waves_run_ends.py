"""What ends a run before its plan is done: the lease, missing rights, the API server, an interruption."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rebalancer.cluster.live.failures import RequestRejectedError
from rebalancer.errors import ExitCode, RebalancerError, RightsError, StopRequestedError, UnreachableError
from rebalancer.execution.lease import LeaseLostError, RunLease
from rebalancer.execution.outcomes import Outcome, Stop
from rebalancer.planning.plan import Move
from rebalancer.policy.schema import Safety
from rebalancer.state.results import Result
from tests.rows import rows
from tests.unit.execution.builders import a_move, results
from tests.unit.execution.fake_api import Answer, Request, fake_api, refusal
from tests.unit.execution.lease_server import LeaseServer
from tests.unit.execution.schedulers import BY_IMAGE
from tests.unit.execution.tiny_cluster import Run


@pytest.mark.parametrize(
    ("error", "stop", "code"),
    [
        (UnreachableError("connection refused"), Stop.UNREACHABLE, ExitCode.UNREACHABLE),
        (RequestRejectedError("not allowed", status=405), Stop.REJECTED, ExitCode.REJECTED),
    ],
)
def test_a_cluster_that_cannot_be_read_again_stops_the_run(
    error: UnreachableError, stop: Stop, code: ExitCode
) -> None:
    def validate(_moves: Sequence[Move]) -> dict[str, str]:
        raise error

    run = Run("web-1")
    outcomes = run(a_move(), validate=validate)
    assert (outcomes.stop, outcomes.exit_code) == (stop, code)
    assert results(outcomes) == [Result.SKIPPED]
    assert error.message in outcomes.outcomes[0].because


def test_a_run_ends_with_its_longest_duration() -> None:
    run = Run("web-1", "web-2")

    def validate(moves: Sequence[Move]) -> dict[str, str]:
        run.time.now += 400 * (len(moves) == 1)
        return {}

    outcomes = run(
        a_move("web-1", wave=1), a_move("web-2", wave=2), validate=validate, max_duration_seconds=300
    )
    assert results(outcomes) == [Result.LANDED, Result.SKIPPED]
    assert "longest duration of 300 s" in outcomes.stopped
    assert outcomes.exit_code == ExitCode.STOPPED


def test_a_pause_that_comes_during_the_run_stops_the_next_wave() -> None:
    run = Run("web-1", "web-2")
    outcomes = run(
        a_move("web-1", wave=1),
        a_move("web-2", wave=2),
        safety=lambda: Safety(pause=bool(run.cluster.evicted)),
    )
    assert results(outcomes) == [Result.LANDED, Result.SKIPPED]
    assert outcomes.stop is Stop.BRAKE


class StubLease:
    """A lease that is lost once something has happened so often."""

    def __init__(self, lost_at: int = 99) -> None:
        self.lost_at = lost_at
        self.asked: list[str] = []
        self.held = True

    def ensure(self, how: str = "ensure") -> None:
        self.asked.append(how)
        if len(self.asked) >= self.lost_at:
            raise LeaseLostError("taken by another")

    def renew_if_due(self) -> None:
        self.ensure("renew if due")


def test_the_lease_is_asked_for_before_each_wave_and_eviction_and_while_waiting() -> None:
    lease = StubLease()
    Run("web-1", "web-2")(a_move("web-1"), a_move("web-2"), lease=lease)
    assert lease.asked == ["renew if due", "ensure", "renew if due", "ensure", "renew if due"]


@rows("lost_at, evicted", [(1, 0), (2, 0), (3, 1), (4, 1), (5, 2)])
def test_without_a_lease_nothing_is_evicted(lost_at: int, evicted: int) -> None:
    lease = StubLease(lost_at)
    run = Run("web-1", "web-2", "web-3")
    outcomes = run(a_move("web-1"), a_move("web-2"), a_move("web-3", wave=2), lease=lease)
    assert results(outcomes) == [Result.LANDED] * evicted + [Result.SKIPPED] * (3 - evicted)
    assert len(run.cluster.evicted) == evicted
    assert (outcomes.stop, outcomes.exit_code) == (Stop.LEASE_LOST, ExitCode.STOPPED)


def test_a_lease_that_ran_out_while_the_state_was_saved_evicts_nothing() -> None:
    run = Run("web-1")
    api, _ = fake_api(LeaseServer(), run.time)
    held = RunLease(api, "rebalancer", "rebalancer", "A", run.time.clock).acquire()

    def slow_save(outcomes: Sequence[Outcome]) -> None:
        run.checkpoints.append(outcomes)
        if len(run.checkpoints) == 1:
            run.time.now += 70
            RunLease(api, "rebalancer", "rebalancer", "B", run.time.clock).acquire()

    outcomes = run(a_move(), lease=held, save=slow_save)
    assert not run.cluster.evicted
    assert results(outcomes) == [Result.SKIPPED]
    assert outcomes.stop is Stop.LEASE_LOST
    assert "held by 'B'" in outcomes.outcomes[0].because
    assert run.checkpoints[-1][0].evicted_at is None  # the next run learns that nothing was evicted


def test_a_run_that_stopped_reads_no_more() -> None:
    calls: list[int] = []

    def validate(moves: Sequence[Move]) -> dict[str, str]:
        calls.append(len(moves))
        return {}

    run = Run("web-1", "web-2")
    run.cluster.lands_on = "hot"
    run(a_move("web-1", wave=1), a_move("web-2", wave=2), validate=validate)
    assert calls == [2]


def test_an_api_server_that_rejects_evictions_is_asked_once_and_the_run_ends_with_a_code_of_its_own() -> None:
    run = Run("web-1", "web-2")
    run.cluster.refuse = dict.fromkeys(("web-1", "web-2"), refusal(405, "not served"))
    outcomes = run(a_move("web-1"), a_move("web-2"))
    assert results(outcomes) == [Result.REFUSED, Result.SKIPPED]
    assert (outcomes.stop, outcomes.exit_code) == (Stop.REJECTED, ExitCode.REJECTED)
    assert outcomes.stopped == (
        "evicting shop/web-1: the API server rejected the request with HTTP 405: not served; "
        "the pod is still there"
    )


def test_a_webhook_that_denies_one_pod_stops_no_other() -> None:
    run = Run("web-1", "web-2")
    run.cluster.refuse = {"web-1": refusal(422, 'admission webhook "x" denied the request: no')}
    outcomes = run(a_move("web-1"), a_move("web-2"))
    assert results(outcomes) == [Result.REFUSED, Result.LANDED]
    assert (outcomes.stop, outcomes.exit_code) == (None, ExitCode.PARTLY_DONE)


def test_a_missing_right_to_evict_stops_the_run() -> None:
    run = Run("web-1", "web-2")
    message = 'pods "web-1" is forbidden: User "x" cannot create resource "pods/eviction"'
    run.cluster.refuse["web-1"] = refusal(403, message)
    outcomes = run(a_move("web-1"), a_move("web-2"))
    assert results(outcomes) == [Result.REFUSED, Result.SKIPPED]
    assert (outcomes.stop, outcomes.exit_code) == (Stop.RIGHTS, ExitCode.RIGHTS_MISSING)


def test_a_stop_heard_while_a_request_is_retried_is_an_interruption() -> None:
    def checkpoint(_outcomes: Sequence[Outcome]) -> None:
        raise StopRequestedError("write configmap: asked to stop")

    run = Run("web-1")
    outcomes = run(a_move(), save=checkpoint)
    assert not run.cluster.evicted
    assert (outcomes.stop, outcomes.exit_code) == (Stop.INTERRUPTED, ExitCode.INTERRUPTED)


def test_nodes_that_cannot_be_listed_stop_the_run_before_its_first_eviction() -> None:
    run = Run("web-1")
    whole = run.cluster

    def broken(request: Request) -> Answer | Exception:
        return Answer(200, b"{") if request.path == "/api/v1/nodes" else whole(request)

    run.cluster = broken  # type: ignore[assignment]
    outcomes = run(a_move())
    assert outcomes.stop is Stop.UNREACHABLE
    assert not whole.evicted


@pytest.mark.parametrize(
    ("error", "stop"),
    [
        (UnreachableError("read timed out"), Stop.INTERRUPTED),
        (RightsError("not authorized"), Stop.RIGHTS),
    ],
)
def test_a_read_that_ended_with_the_runs_own_time_is_told_as_its_end(
    error: RebalancerError, stop: Stop
) -> None:
    asked_to_stop: list[bool] = []

    def validate(_moves: Sequence[Move]) -> dict[str, str]:
        asked_to_stop.append(True)
        raise error

    outcomes = Run("web-1")(a_move(), validate=validate, stop_requested=lambda: bool(asked_to_stop))
    assert outcomes.stop is stop


def test_a_run_that_is_asked_to_stop_does_not_ask_a_budget_again() -> None:
    run = Run("web-1")
    asked: list[str] = []

    def budget(request: Request) -> Answer | Exception:
        if request.method == "POST":
            asked.append(request.path)
            return refusal(429, "Cannot evict pod as it would violate the pod's disruption budget.")
        return run.cluster(request)

    api, _ = fake_api(budget, run.time)
    outcomes = run(a_move(), api=api, stop_requested=lambda: bool(asked))
    assert len(asked) == 1
    assert results(outcomes) == [Result.REFUSED]


def test_a_lease_that_is_lost_between_two_requests_for_a_pod_ends_the_run_as_lost() -> None:
    lease = StubLease(lost_at=3)  # renewed before the wave, held at the first request, gone at the next
    run = Run("web-1")
    run.cluster.refuse["web-1"] = refusal(429, "Cannot evict pod as it would violate the budget.")
    outcomes = run(a_move(), lease=lease)
    assert outcomes.stop is Stop.LEASE_LOST
    assert results(outcomes) == [Result.REFUSED]
    assert run.time.slept == []  # the loss was noticed before it waited to try again


def test_an_unknown_outcome_stops_the_run_and_names_the_pod() -> None:
    run = Run("web-1", "web-2")
    run.cluster.refuse["web-1"] = refusal(504, "timeout")
    outcomes = run(a_move("web-1"), a_move("web-2"))
    assert results(outcomes) == [Result.UNKNOWN, Result.SKIPPED]
    assert outcomes.stop is Stop.OUTCOME
    assert outcomes.stopped == (
        "whether shop/web-1 was evicted is not known: timeout; the pod is still there"
    )
    assert outcomes.outcomes[0].evicted_at is not None  # its load may be on its way


def test_a_run_that_ends_by_a_landing_says_where_that_was_if_anywhere() -> None:
    run = Run("web-1")
    run.cluster.lands_on = "hot"
    assert run(a_move()).stopped == "shop/web-1: Unexpected on hot: it is hot"
    run = Run("web-1")
    run.cluster.bound_after = 1e9
    assert run(a_move()).stopped.startswith("shop/web-1: Pending: ")


def test_a_landing_that_went_wrong_tells_more_than_the_request_to_stop_that_came_with_it() -> None:
    run = Run("web-1", "web-2")
    whole = run.cluster

    def cluster(request: Request) -> Answer | Exception:
        answer = whole(request)
        if whole.evicted == ["web-1"]:  # its replacement is not ready yet, and that of the next goes astray
            whole.pods["new-1"]["status"]["conditions"] = []
            whole.lands_on = "hot"
        return answer

    run.cluster = cluster  # type: ignore[assignment]
    outcomes = run(a_move("web-1"), a_move("web-2"), stop_requested=lambda: len(whole.evicted) == 2)
    assert results(outcomes) == [Result.UNKNOWN, Result.UNEXPECTED]
    assert outcomes.stop is Stop.OUTCOME
    assert outcomes.stopped == "shop/web-2: Unexpected on hot: it is hot"


def test_a_scheduler_whose_health_is_not_known_is_written_down_where_the_policy_goes_on() -> None:
    run = Run("web-1")
    proceed = Safety(unknown_scheduler="proceed")
    outcomes = run(a_move(), schedulers=(BY_IMAGE,), safety=lambda: proceed)
    assert results(outcomes) == [Result.LANDED]
    assert [event for event, _ in run.journal()].count("not-known") == 1
    run = Run("web-1")
    outcomes = run(a_move(), schedulers=(BY_IMAGE,))
    assert (outcomes.stop, run.cluster.evicted) == (Stop.BRAKE, [])
