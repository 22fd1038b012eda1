"""What a run writes for the next one, and what happens when it cannot be written."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace

import pytest

from rebalancer.errors import ExitCode, UnreachableError
from rebalancer.execution.outcomes import Outcome, Stop
from rebalancer.planning.plan import Move
from rebalancer.state.results import Result
from tests.unit.execution.builders import NOW, a_move, results
from tests.unit.execution.fake_api import Answer, Request, fake_api
from tests.unit.execution.tiny_cluster import Run


def test_nothing_is_evicted_without_a_record() -> None:
    run = Run("web-1", "web-2")

    def validate(_moves: Sequence[Move]) -> dict[str, str]:
        run.stream.close()
        return {}

    outcomes = run(a_move("web-1"), a_move("web-2"), validate=validate)
    assert not run.cluster.evicted
    assert (outcomes.stop, outcomes.exit_code) == (Stop.JOURNAL, ExitCode.STOPPED)


def test_a_pod_whose_eviction_could_not_be_written_down_stays_and_the_run_says_why() -> None:
    class FullDisk(io.StringIO):
        def write(self, text: str) -> int:
            if '"evicting"' in text:
                raise OSError(28, "No space left on device")
            return super().write(text)

    run = Run("web-1", "web-2")
    run.stream = FullDisk()
    outcomes = run(a_move("web-1"), a_move("web-2"))
    assert not run.cluster.evicted
    assert results(outcomes) == [Result.SKIPPED] * 2
    assert outcomes.outcomes[0].because == "the journal cannot be written"
    assert outcomes.stop is Stop.JOURNAL


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
    outcomes = run(a_move("web-1"), a_move("web-2"), save=checkpoint)
    assert not run.cluster.evicted
    assert results(outcomes) == [Result.SKIPPED, Result.SKIPPED]
    assert outcomes.stop is Stop.UNREACHABLE


def test_an_eviction_is_recorded_for_the_next_run_before_it_is_requested() -> None:
    run = Run("web-1")
    evicted_by_then: list[int] = []
    run(a_move(), save=lambda _: evicted_by_then.append(len(run.cluster.evicted)))
    assert evicted_by_then[0] == 0


def test_a_state_that_cannot_be_kept_at_the_end_of_a_run_stops_it_after_printing_its_outcomes() -> None:
    run = Run("web-1")

    def checkpoint(outcomes: Sequence[Outcome]) -> None:
        if outcomes[0].result is Result.LANDED:
            raise UnreachableError("connection refused")

    outcomes = run(a_move(), save=checkpoint)
    assert results(outcomes) == [Result.LANDED]
    assert (outcomes.stop, outcomes.exit_code) == (Stop.UNREACHABLE, ExitCode.UNREACHABLE)


def test_a_checkpoint_says_that_a_pod_was_perhaps_evicted_before_it_says_where_it_landed() -> None:
    run = Run("web-1")
    run(a_move())
    first, *_, last = run.checkpoints
    assert (first[0].result, first[0].evicted_at) == (Result.UNKNOWN, NOW)
    assert last[0].result is Result.LANDED


@pytest.mark.parametrize("date", ["Tue, 14 Nov 2023 22:14:00 GMT", "Thu, 14 Dec 2023 22:14:00 GMT"])
def test_whatever_a_server_says_the_time_is_records_have_our_date(date: str) -> None:
    """Behind one address there may be several API servers, one of which has a wrong clock."""
    run = Run("web-1")

    def dated(request: Request) -> Answer | Exception:
        answer = run.cluster(request)
        assert isinstance(answer, Answer)
        return replace(answer, headers={"Date": date})

    api, _ = fake_api(dated, run.time)
    api.get("read", "/api/v1/nodes")
    outcomes = run(a_move(), api=api)
    assert run.checkpoints[0][0].evicted_at == NOW
    assert outcomes.outcomes[0].evicted_at == NOW
