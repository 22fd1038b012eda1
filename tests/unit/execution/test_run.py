"""A run does what its plan says while nothing speaks against it, and every move gets an outcome."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from rebalancer.cluster.live.answers import RequestRejectedError
from rebalancer.errors import ExitCode, InputError, InternalError, StopRequestedError, UnreachableError
from rebalancer.execution import Outcome, Outcomes, Result, Stop
from rebalancer.execution.outcomes import RESULT_CODES, STOP_CODES, decode, encode, exit_code
from rebalancer.execution.safeguards.lease import LeaseLostError, RunLease
from rebalancer.execution.waves import MAX_SECONDS_TO_PLACE
from rebalancer.planning.plan import POD_GONE, POD_LEAVING, Move
from rebalancer.policy.schema import Safety
from tests.unit.execution.builders import NOW, a_move
from tests.unit.execution.fake_api import Answer, Request, fake_api, refusal
from tests.unit.execution.safeguards.test_lease import LeaseServer
from tests.unit.execution.tiny_cluster import Run


def results(outcomes: Outcomes) -> list[Result]:
    return [outcome.result for outcome in outcomes.outcomes]


def test_each_eviction_is_journaled_before_and_after() -> None:
    run = Run("web-1")
    run(a_move())
    assert run.journal() == [
        ("run-started", ""),
        ("wave-started", ""),
        ("evicting", "shop/web-1"),
        ("evicted", "shop/web-1"),
        ("outcome", "shop/web-1"),
        ("wave-finished", ""),
        ("run-finished", ""),
    ]


def test_an_empty_plan_is_done() -> None:
    outcomes = Run()()
    assert (outcomes.exit_code, outcomes.outcomes) == (ExitCode.DONE, ())


def test_outcomes_keep_the_order_of_the_plan_and_evictions_that_of_the_waves() -> None:
    run = Run("web-1", "web-2", "web-3")
    outcomes = run(a_move("web-1", wave=3), a_move("web-2", wave=1), a_move("web-3", wave=2))
    assert run.cluster.evicted == ["web-2", "web-3", "web-1"]
    assert [outcome.move.pod.name for outcome in outcomes.outcomes] == ["web-1", "web-2", "web-3"]


def test_moves_that_no_longer_hold_are_skipped_with_the_reason() -> None:
    run = Run("web-1", "web-2")
    seen: list[list[str]] = []

    def validate(moves: Sequence[Move]) -> dict[str, str]:
        seen.append([move.pod.name for move in moves])
        return {"uid-web-2": "cool is hot now"} if len(seen) == 2 else {}

    outcomes = run(a_move("web-1", wave=1), a_move("web-2", wave=2), validate=validate)
    assert seen == [["web-1", "web-2"], ["web-2"]]
    assert results(outcomes) == [Result.LANDED, Result.SKIPPED]
    assert outcomes.outcomes[1].because == "cool is hot now"
    assert (outcomes.exit_code, outcomes.stopped) == (ExitCode.PARTLY_DONE, "")


@pytest.mark.parametrize("leaving", [POD_GONE, f"{POD_LEAVING}: is already being deleted"])
def test_a_pod_that_left_by_itself_before_its_wave_is_no_failure_of_the_run(leaving: str) -> None:
    run = Run("web-1")
    outcomes = run(
        a_move("web-1", wave=1),
        a_move("web-2", wave=1),
        a_move("web-3", wave=2),
        validate=lambda moves: {"uid-web-3": leaving},
    )
    assert results(outcomes) == [Result.LANDED, Result.GONE, Result.GONE]
    assert (outcomes.exit_code, outcomes.stopped) == (ExitCode.DONE, "")
    assert [item.move.pod.name for item in run.checkpoints[-1] if item.evicted_at is not None] == ["web-1"]


def test_a_landing_is_compared_with_those_its_move_has_now() -> None:
    run = Run("web-1")
    run.cluster.lands_on = "cold"
    now = a_move(to=("cold",))
    outcomes = run(a_move(), validate=lambda moves: {move.pod.uid: now for move in moves})
    assert results(outcomes) == [Result.LANDED]
    assert [landing.node for landing in outcomes.outcomes[0].move.landings] == ["cold"]
    assert "placed-again" in run.stream.getvalue()


def test_a_pod_is_evicted_once_the_one_before_it_is_placed_again_so_that_they_are_placed_in_order() -> None:
    run = Run("web-1", "web-2", "web-3")
    run.cluster.bound_after = 1.5
    outcomes = run(a_move("web-1"), a_move("web-2"), a_move("web-3"))
    assert results(outcomes) == [Result.LANDED] * 3
    first, second, third = run.cluster.evicted_at
    assert 1.5 <= second - first < MAX_SECONDS_TO_PLACE
    assert 1.5 <= third - second < MAX_SECONDS_TO_PLACE


def test_a_replacement_that_is_long_in_coming_does_not_hold_up_the_wave() -> None:
    run = Run("web-1", "web-2")
    run.cluster.bound_after = 30.0
    assert results(run(a_move("web-1"), a_move("web-2"))) == [Result.LANDED] * 2
    first, second = run.cluster.evicted_at
    assert MAX_SECONDS_TO_PLACE <= second - first < 2 * MAX_SECONDS_TO_PLACE


def test_a_wave_of_which_nothing_holds_evicts_nothing() -> None:
    run = Run("web-1")
    outcomes = run(a_move(), validate=lambda moves: {move.pod.uid: "no" for move in moves})
    assert results(outcomes) == [Result.SKIPPED]
    assert not run.cluster.evicted


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


@pytest.mark.parametrize(("lost_at", "evicted"), [(1, 0), (2, 0), (3, 1), (4, 1), (5, 2)])
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

    outcomes = run(a_move(), lease=held, checkpoint=slow_save)
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
        "evicting shop/web-1: the API server rejected the request with HTTP 405: not served"
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


def test_nothing_is_evicted_without_a_record() -> None:
    run = Run("web-1", "web-2")

    def validate(_moves: Sequence[Move]) -> dict[str, str]:
        run.stream.close()
        return {}

    outcomes = run(a_move("web-1"), a_move("web-2"), validate=validate)
    assert not run.cluster.evicted
    assert (outcomes.stop, outcomes.exit_code) == (Stop.JOURNAL, ExitCode.STOPPED)


def test_a_record_that_fails_after_an_eviction_stops_the_run_and_its_landing_is_still_seen() -> None:
    class FullDisk(io.StringIO):
        def write(self, text: str) -> int:
            if '"evicted"' in text:
                raise OSError(28, "No space left on device")
            return super().write(text)

    run = Run("web-1", "web-2")
    run.stream = FullDisk()
    outcomes = run(a_move("web-1"), a_move("web-2"))
    assert results(outcomes) == [Result.LANDED, Result.SKIPPED]
    assert "No space left" in outcomes.stopped


def test_nothing_is_evicted_that_could_not_be_recorded_for_the_next_run() -> None:
    def checkpoint(_outcomes: Sequence[Outcome]) -> None:
        raise UnreachableError("connection refused")

    run = Run("web-1", "web-2")
    outcomes = run(a_move("web-1"), a_move("web-2"), checkpoint=checkpoint)
    assert not run.cluster.evicted
    assert results(outcomes) == [Result.SKIPPED, Result.SKIPPED]
    assert outcomes.stop is Stop.UNREACHABLE


def test_a_stop_heard_while_a_request_is_retried_is_an_interruption() -> None:
    def checkpoint(_outcomes: Sequence[Outcome]) -> None:
        raise StopRequestedError("write configmap: asked to stop")

    run = Run("web-1")
    outcomes = run(a_move(), checkpoint=checkpoint)
    assert not run.cluster.evicted
    assert (outcomes.stop, outcomes.exit_code) == (Stop.INTERRUPTED, ExitCode.INTERRUPTED)


def test_an_eviction_is_recorded_for_the_next_run_before_it_is_requested() -> None:
    run = Run("web-1")
    evicted_by_then: list[int] = []
    run(a_move(), checkpoint=lambda _: evicted_by_then.append(len(run.cluster.evicted)))
    assert evicted_by_then[0] == 0


def test_a_state_that_cannot_be_kept_at_the_end_of_a_run_stops_it_after_printing_its_outcomes() -> None:
    run = Run("web-1")

    def checkpoint(outcomes: Sequence[Outcome]) -> None:
        if outcomes[0].result is Result.LANDED:
            raise UnreachableError("connection refused")

    outcomes = run(a_move(), checkpoint=checkpoint)
    assert results(outcomes) == [Result.LANDED]
    assert (outcomes.stop, outcomes.exit_code) == (Stop.UNREACHABLE, ExitCode.UNREACHABLE)


def test_a_checkpoint_says_that_a_pod_was_perhaps_evicted_before_it_says_where_it_landed() -> None:
    run = Run("web-1")
    run(a_move())
    first, *_, last = run.checkpoints
    assert (first[0].result, first[0].evicted_at) == (Result.UNKNOWN, NOW)
    assert last[0].result is Result.LANDED


def test_a_defect_of_ours_is_not_hidden() -> None:
    def judge(_move: Move, _node: str) -> str | None:
        raise InternalError("a defect")

    run = Run("web-1")
    run.cluster.lands_on = "elsewhere"
    with pytest.raises(InternalError):
        run(a_move(), check_landing=judge)


def test_a_plan_that_names_a_pod_twice_or_without_a_uid_is_refused_before_anything_happens() -> None:
    run = Run("web-1")
    with pytest.raises(InputError, match="shop/web-1: the plan moves this pod twice"):
        run(a_move(), a_move())
    nameless = msgspec.structs.replace(a_move(), pod=msgspec.structs.replace(a_move().pod, uid=""))
    with pytest.raises(InputError, match="without the pod's uid"):
        run(nameless)
    assert not run.stream.getvalue()


def test_a_dry_run_that_a_budget_refuses_says_so() -> None:
    run = Run("web-1", "web-2")
    run.cluster.refuse["web-1"] = refusal(403, "no")
    outcomes = run(a_move("web-1"), a_move("web-2"), dry_run=True)
    assert results(outcomes) == [Result.REFUSED, Result.SKIPPED]
    assert outcomes.exit_code == ExitCode.PARTLY_DONE
    assert not run.cluster.evicted


def test_outcomes_are_reported_once_each() -> None:
    told: list[str] = []

    class Watching:
        def __getattr__(self, name: str) -> Any:
            if name == "outcome_known":
                return lambda outcome: told.append(outcome.move.pod.name)
            return lambda *_: None

    run = Run("web-1", "web-2")
    run.cluster.lands_on = "hot"
    run(a_move("web-1", wave=1), a_move("web-2", wave=2), observer=Watching())
    assert told == ["web-1", "web-2"]


def test_outcomes_are_read_back_as_they_were_written() -> None:
    outcomes = Run("web-1")(a_move())
    assert decode(encode(outcomes)) == outcomes


def test_every_result_and_every_stop_has_an_exit_code() -> None:
    assert set(RESULT_CODES) == set(Result)
    assert set(STOP_CODES) == set(Stop)


def test_the_worst_result_decides_the_exit_code_unless_something_stopped_the_run() -> None:
    assert exit_code([Result.LANDED, Result.LANDED_ELSEWHERE], None) == ExitCode.DONE
    assert exit_code([Result.LANDED, Result.REFUSED], None) == ExitCode.PARTLY_DONE
    assert exit_code([Result.REFUSED, Result.UNEXPECTED], None) == ExitCode.STOPPED
    assert exit_code([Result.UNEXPECTED], Stop.INTERRUPTED) == ExitCode.INTERRUPTED
    assert exit_code([], None) == ExitCode.DONE


def test_nodes_that_cannot_be_listed_stop_the_run_before_its_first_eviction() -> None:
    run = Run("web-1")
    whole = run.cluster

    def broken(request: Request) -> Answer | Exception:
        return Answer(200, b"{") if request.path == "/api/v1/nodes" else whole(request)

    run.cluster = broken  # type: ignore[assignment]
    outcomes = run(a_move())
    assert outcomes.stop is Stop.UNREACHABLE
    assert not whole.evicted
