"""A pause holds from the next eviction on, also inside a wave, and one that cannot be read holds too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from rebalancer.errors import ExitCode, InputError, RightsError, UnreachableError
from rebalancer.execution.lease import PAUSED, RunLease
from rebalancer.execution.outcomes import Outcomes, Stop
from rebalancer.policy.schema import Safety
from rebalancer.state.results import Result
from tests.rows import rows
from tests.unit.execution.builders import a_move
from tests.unit.execution.fake_api import Answer, Request, fake_api, not_found, refusal
from tests.unit.execution.lease_server import LeaseServer, lease_of, spec
from tests.unit.execution.tiny_cluster import Run

HTML = Answer(404, b"<html>404 Not Found</html>")
FORBIDDEN = refusal(403, 'leases "rebalancer" is forbidden')


@dataclass
class PausedRun:
    """Two moves of one wave by a run that holds its lease."""

    server: LeaseServer = field(default_factory=LeaseServer)
    run: Run = field(default_factory=lambda: Run("web-1", "web-2"))
    answer: Callable[[], Answer | None] = lambda: None  # to who reads the lease; None: the lease

    def __post_init__(self) -> None:
        def handler(request: Request) -> Answer | Exception:
            given = self.answer() if request.method == "GET" else None
            return self.server(request) if given is None else given

        self.lease: RunLease = lease_of(fake_api(handler, self.run.time)[0], self.run.time)
        self.held = self.lease.acquire()

    def carried_out(self, **more: Any) -> Outcomes:
        given = {"lease": self.held, "pause": self.lease.why_paused, **more}
        return self.run(a_move("web-1"), a_move("web-2"), **given)

    @property
    def evicted(self) -> list[str]:
        return self.run.cluster.evicted


def annotate(server: LeaseServer, reason: str) -> None:
    """As ``kubectl annotate`` does."""
    assert server.item is not None
    metadata = {**server.item["metadata"], "annotations": {PAUSED: reason}}
    server.item = {**server.item, "metadata": metadata}


def results(outcomes: Outcomes) -> list[Result]:
    return [outcome.result for outcome in outcomes.outcomes]


def test_runs_go_on_while_their_lease_says_nothing() -> None:
    paused = PausedRun()
    assert results(paused.carried_out()) == [Result.LANDED, Result.LANDED]
    assert paused.evicted == ["web-1", "web-2"]


@rows("reason", ["incident 42", "", "false", "no"])
def test_the_annotation_pauses_whatever_it_says(reason: str) -> None:
    paused = PausedRun()
    annotate(paused.server, reason)
    outcomes = paused.carried_out()
    assert paused.evicted == []
    assert (outcomes.stop, outcomes.exit_code) == (Stop.BRAKE, ExitCode.STOPPED)
    assert outcomes.stopped == (
        f"runs are paused by the lease kube-system/rebalancer ({reason!a}); "
        "rebalancer resume --lease kube-system/rebalancer lets them go on"
    )


def test_a_dry_run_is_paused_too_and_takes_no_lease() -> None:
    paused = PausedRun()
    annotate(paused.server, "incident 42")
    outcomes = paused.carried_out(lease=None, dry_run=True)
    assert outcomes.stop is Stop.BRAKE
    assert "incident 42" in outcomes.stopped


def test_pausing_between_two_evictions_of_one_wave_holds_for_the_second() -> None:
    paused = PausedRun()

    def answer() -> None:
        if paused.evicted:
            annotate(paused.server, "why")

    paused.answer = answer
    outcomes = paused.carried_out()
    assert paused.evicted == ["web-1"]
    assert results(outcomes) == [Result.LANDED, Result.SKIPPED]
    assert (outcomes.stop, outcomes.exit_code) == (Stop.BRAKE, ExitCode.STOPPED)
    assert outcomes.outcomes[1].because.startswith("runs are paused by the lease")
    assert paused.run.checkpoints[-1][1].evicted_at is None


def test_the_policy_pauses_between_two_evictions_of_one_wave_too() -> None:
    paused = PausedRun()
    outcomes = paused.carried_out(safety=lambda: Safety(pause=bool(paused.evicted)))
    assert paused.evicted == ["web-1"]
    assert results(outcomes) == [Result.LANDED, Result.SKIPPED]
    assert outcomes.stopped == "the policy is paused (safety.pause)"


@rows(
    "answer",
    [
        FORBIDDEN,
        refusal(500, "storage"),
        Answer(200, b"{"),
        Answer(200, {"kind": "Status", "status": "Success"}),
        HTML,
        Answer(404, b"404 page not found"),
        refusal(404, "the server could not find the requested resource"),
        not_found("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/another"),
        not_found("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/rebalancer"),  # it was removed
    ],
)
@rows("before", [0, 1])
def test_a_lease_that_cannot_be_read_lets_nothing_more_be_evicted(answer: Answer, before: int) -> None:
    paused = PausedRun()
    paused.answer = lambda: answer if len(paused.evicted) >= before else None
    outcomes = paused.carried_out(pause=lambda: "")  # of an eviction; that of a wave is the same
    assert len(paused.evicted) == before
    assert outcomes.stop is Stop.LEASE_LOST
    assert "lease kube-system/rebalancer" in outcomes.stopped


def test_a_lease_that_can_be_read_again_by_the_time_of_its_renewal_lets_a_run_go_on() -> None:
    paused = PausedRun()
    reads: list[int] = []

    def answer() -> Answer | None:
        reads.append(1)
        return refusal(500, "storage") if len(reads) <= paused.lease.api.retries.attempts else None

    paused.answer = answer
    paused.held.ensure()
    assert paused.server.version == 2


def test_a_policy_that_became_unusable_lets_nothing_more_be_evicted() -> None:
    paused = PausedRun()

    def safety() -> Safety:
        if paused.evicted:
            raise InputError("unknown field", where="policy.yaml:3:1")
        return Safety()

    outcomes = paused.carried_out(safety=safety)
    assert paused.evicted == ["web-1"]
    assert (outcomes.stop, outcomes.exit_code) == (Stop.SETTINGS, ExitCode.BAD_INPUT)


def test_pausing_makes_a_lease_that_the_next_run_takes_and_finds_paused() -> None:
    server = LeaseServer()
    run = Run()
    lease = lease_of(fake_api(server, run.time)[0], run.time)
    assert lease.pause("incident 42")
    assert "'incident 42'" in lease.why_paused()
    held = lease.acquire()
    with pytest.raises(Exception, match="incident 42"):
        held.ensure()
    assert held.held
    assert lease.pause(None)
    assert lease.why_paused() == ""
    held.ensure()


def test_pausing_leaves_a_lease_with_its_holder_and_holders_leave_it_paused() -> None:
    paused = PausedRun()
    assert paused.server.item is not None
    paused.server.item["metadata"]["annotations"] = {"of": "another"}
    before = spec(paused.server)
    assert paused.lease.pause("why")
    assert spec(paused.server) == before
    paused.held.renew()
    paused.held.release()
    assert paused.server.item["metadata"]["annotations"] == {"of": "another", PAUSED: "why"}
    assert paused.lease.pause(None)
    assert paused.server.item["metadata"]["annotations"] == {"of": "another"}


def test_pausing_twice_for_one_reason_and_going_on_twice_changes_nothing() -> None:
    paused = PausedRun()
    assert not paused.lease.pause(None)
    assert paused.lease.pause("why")
    version = paused.server.version
    assert not paused.lease.pause("why")
    assert paused.server.version == version
    assert paused.lease.pause("another reason")


def test_a_pause_is_written_beside_a_holder_that_renews_at_the_same_moment() -> None:
    paused = PausedRun()
    conflict = {"status": 409, "body": refusal(409, "the object has been modified").body}
    paused.server.faults = [conflict, "lost"]
    paused.lease.pause("why")
    assert "'why'" in paused.lease.why_paused()


@pytest.mark.parametrize("fault", [ConnectionResetError(104, "reset"), {"status": 409, "body": b""}])
def test_a_pause_that_could_not_be_written_is_an_error(fault: Any) -> None:
    paused = PausedRun()
    paused.server.faults = [fault] * 50
    with pytest.raises(UnreachableError, match="lease kube-system/rebalancer"):
        paused.lease.pause("why")


@rows("answer", [HTML, FORBIDDEN, refusal(422, "invalid"), refusal(404, "no such path")])
@rows("reason", ["why", None])
def test_a_pause_that_was_written_is_one_whatever_the_answer_says(reason: str | None, answer: Answer) -> None:
    paused = PausedRun()
    paused.lease.pause("before")
    paused.server.carried_out = [answer]

    assert paused.lease.pause(reason)

    assert bool(paused.lease.why_paused()) is (reason is not None)


@pytest.mark.parametrize(
    ("before", "known"),
    [(None, "read again: runs are not paused"), ("old", "read again: runs are paused ('old')")],
)
def test_a_pause_that_was_refused_says_what_the_lease_says(before: str | None, known: str) -> None:
    paused = PausedRun()
    paused.lease.pause(before)
    paused.server.faults = [{"status": 422, "body": refusal(422, "invalid").body}] * 9

    with pytest.raises(UnreachableError) as caught:
        paused.lease.pause("why")

    assert known in str(caught.value)


def test_a_pause_of_which_nothing_can_be_read_again_is_said_to_be_unknown() -> None:
    paused = PausedRun()
    paused.server.carried_out = [refusal(404, "no such path")]

    def go_away() -> None:
        paused.server.unreadable = True

    paused.server.once_written = go_away

    with pytest.raises(UnreachableError, match="whether runs are paused is not known"):
        paused.lease.pause("why")


def test_a_pause_that_the_api_server_has_not_kept_is_an_error() -> None:
    paused = PausedRun()

    def forget() -> None:
        assert paused.server.item is not None
        paused.server.item["metadata"].pop("annotations", None)

    paused.server.once_written = forget
    with pytest.raises(UnreachableError, match="has not kept"):
        paused.lease.pause("why")


def test_who_may_not_read_the_lease_is_told_which_right_is_missing() -> None:
    paused = PausedRun()
    paused.answer = lambda: FORBIDDEN
    with pytest.raises(RightsError, match="read lease kube-system/rebalancer"):
        paused.lease.pause("why")
