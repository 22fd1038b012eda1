"""Two runs never act at once."""

from __future__ import annotations

import functools
import os
import platform
from typing import Any

import pytest
from msgspec.structs import replace
from urllib3.exceptions import ProtocolError

from rebalancer.cluster.live import RawApi
from rebalancer.errors import InputError, LeaseHeldError, StopRequestedError, UnreachableError
from rebalancer.execution.lease import LeaseLostError, holder_identity
from tests.unit.execution.builders import NOW
from tests.unit.execution.fake_api import Answer, FakeTime, Request, fake_api, not_found
from tests.unit.execution.lease_server import NAMED, LeaseServer, lease_of, spec
from tests.waiting import eventually


@pytest.fixture
def server() -> LeaseServer:
    return LeaseServer()


@pytest.fixture
def time() -> FakeTime:
    return FakeTime(NOW)


@pytest.fixture
def api(server: LeaseServer, time: FakeTime) -> RawApi:
    return fake_api(server, time)[0]


def test_a_free_lease_is_taken_and_says_by_whom(api: RawApi, time: FakeTime, server: LeaseServer) -> None:
    held = lease_of(api, time).acquire()
    assert held.held
    found = spec(server)
    assert (found["holderIdentity"], found["leaseDurationSeconds"]) == ("one", 60)
    assert found["renewTime"] == "2023-11-14T22:13:20.000000Z"  # six digits, or the API server refuses it


def test_a_holder_is_named_by_pod_or_host_process_and_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POD_NAME", "rebalancer-29384-xk2lm")
    assert holder_identity("3f2a") == f"rebalancer-29384-xk2lm_{os.getpid()}_3f2a"
    monkeypatch.delenv("POD_NAME")
    assert holder_identity("3f2a") == f"{platform.node()}_{os.getpid()}_3f2a"


def test_a_held_lease_is_refused_until_it_expires(api: RawApi, time: FakeTime) -> None:
    lease_of(api, time).acquire()
    with pytest.raises(LeaseHeldError, match="lease kube-system/rebalancer: held by 'one'"):
        lease_of(api, time, "two").acquire()
    time.now += 61
    assert lease_of(api, time, "two").acquire().held


@pytest.mark.parametrize("skew", [-600, -41, 0, 41, 600])
def test_a_lease_that_its_holder_renews_is_never_taken_however_clocks_differ(
    api: RawApi, time: FakeTime, server: LeaseServer, skew: float
) -> None:
    held = lease_of(api, time).acquire()
    time.now += 19  # the usual time between two renewals
    time.while_asleep = held.renew_if_due
    with pytest.raises(LeaseHeldError, match="held by 'one'"):
        lease_of(api, time, "two", skew=skew).acquire()
    held.ensure()
    assert spec(server)["holderIdentity"] == "one"


@pytest.mark.parametrize("skew", [-600, 600])
def test_a_lease_is_taken_only_after_it_was_seen_unchanged_for_its_whole_duration(
    api: RawApi, time: FakeTime, skew: float
) -> None:
    held = lease_of(api, time).acquire()
    seen = time.now
    lease_of(api, time, "two", skew=skew).acquire()
    assert time.now - seen >= 60
    assert not held.held


def test_a_run_asked_to_stop_watches_no_longer(time: FakeTime, server: LeaseServer) -> None:
    api, _ = fake_api(server, time)
    lease_of(api, time).acquire()
    time.now += 600
    stopping = replace(api.retries, pause=lambda _seconds: True)
    with pytest.raises(StopRequestedError):
        lease_of(replace(api, retries=stopping), time, "two").acquire()


def test_a_lease_is_held_to_the_last_of_its_seconds(api: RawApi, time: FakeTime) -> None:
    held = lease_of(api, time).acquire()
    time.now += 59.5
    assert held.held
    time.now += 0.5
    assert not held.held


def test_a_released_lease_is_free_at_once(api: RawApi, time: FakeTime) -> None:
    held = lease_of(api, time).acquire()
    held.release()
    moment = time.now
    other = lease_of(api, time, "two").acquire()
    assert (held.held, other.held, time.now) == (False, True, moment)


def test_a_release_does_not_touch_the_lease_of_another(
    api: RawApi, time: FakeTime, server: LeaseServer
) -> None:
    held = lease_of(api, time).acquire()
    time.now += 100
    lease_of(api, time, "two").acquire()
    held.release()
    assert spec(server)["holderIdentity"] == "two"


def test_renewing_keeps_it(api: RawApi, time: FakeTime) -> None:
    held = lease_of(api, time).acquire()
    for _ in range(5):
        time.now += 50
        held.renew()
    with pytest.raises(LeaseHeldError):
        lease_of(api, time, "two").acquire()


def test_a_lease_that_another_took_is_lost_for_good(api: RawApi, time: FakeTime, server: LeaseServer) -> None:
    held = lease_of(api, time).acquire()
    time.now += 100
    other = lease_of(api, time, "two").acquire()
    for attempt in (held.renew, held.ensure):
        with pytest.raises(LeaseLostError, match="held by 'two'"):
            attempt()
    other.release()
    with pytest.raises(LeaseLostError, match="held by 'two'"):
        held.ensure()
    assert not held.held


def test_a_lease_that_was_removed_is_lost(api: RawApi, time: FakeTime, server: LeaseServer) -> None:
    held = lease_of(api, time).acquire()
    server.item = None
    with pytest.raises(LeaseLostError, match="removed"):
        held.renew()


def test_a_lease_is_trusted_only_while_enough_of_it_is_left_for_an_eviction(
    api: RawApi, time: FakeTime, server: LeaseServer
) -> None:
    held = lease_of(api, time).acquire()
    time.now += 19
    held.ensure()
    assert server.version == 1
    time.now += 2
    held.ensure()
    assert (server.version, held.seconds_left) == (2, 60)


@pytest.mark.parametrize("passed_seconds", [19.0, 19.5, 19.99, 20.0])
def test_a_lease_that_falls_due_while_it_is_read_again_is_renewed_and_not_lost(
    api: RawApi, time: FakeTime, server: LeaseServer, passed_seconds: float
) -> None:
    held = lease_of(api, time).acquire()
    time.now += passed_seconds
    server.while_reading = lambda: setattr(time, "now", time.now + 1.0)  # a busy API server
    held.ensure()
    assert server.version == 2
    assert held.seconds_left >= 40


@pytest.mark.parametrize(
    ("holder", "message"), [("somebody-else", "held by 'somebody-else'"), (None, "removed")]
)
def test_a_lease_taken_by_hand_before_its_time_allows_no_further_eviction(
    api: RawApi, time: FakeTime, server: LeaseServer, holder: str | None, message: str
) -> None:
    held = lease_of(api, time).acquire()
    assert server.item is not None
    if holder is None:
        server.item = None
    else:
        server.item["spec"]["holderIdentity"] = holder
    for _ in range(2):
        with pytest.raises(LeaseLostError, match=message):
            held.ensure()
    assert not held.held


def test_a_renewal_counts_from_when_it_was_sent(api: RawApi, time: FakeTime, server: LeaseServer) -> None:
    held = lease_of(api, time).acquire()
    server.while_writing = lambda: setattr(time, "now", time.now + 30)
    time.now += 30
    with pytest.raises(LeaseLostError, match="too slow to evict safely"):
        held.ensure()


@pytest.mark.parametrize(
    "fault",
    ["lost", ProtocolError("reset"), {"status": 503, "body": {}}, {"status": 409, "body": {}}],
)
def test_a_passing_fault_neither_loses_nor_doubles_it(
    api: RawApi, time: FakeTime, server: LeaseServer, fault: Any
) -> None:
    server.faults = [fault]
    held = lease_of(api, time).acquire()
    server.faults = [fault]
    held.renew()
    assert held.held


def test_a_lease_that_cannot_be_renewed_allows_nothing(
    api: RawApi, time: FakeTime, server: LeaseServer
) -> None:
    held = lease_of(api, time).acquire()
    time.now += 30
    server.faults = [ProtocolError("reset")] * 10
    with pytest.raises(LeaseLostError):
        held.ensure()


def test_it_is_renewed_while_waiting_only_when_due(api: RawApi, time: FakeTime, server: LeaseServer) -> None:
    held = lease_of(api, time).acquire()
    held.renew_if_due()
    assert server.version == 1
    time.now += 20
    held.renew_if_due()
    assert server.version == 2


def is_at(server: LeaseServer, version: int) -> bool:
    return server.version == version


def test_it_is_renewed_while_something_else_takes_long(
    api: RawApi, time: FakeTime, server: LeaseServer
) -> None:
    held = lease_of(api, time).acquire()
    with held.renewed_meanwhile():
        for version in (2, 3):
            time.now += 20
            eventually(functools.partial(is_at, server, version), awaited="the lease is renewed")
        assert held.held


def test_a_failing_release_is_no_error(api: RawApi, time: FakeTime, server: LeaseServer) -> None:
    held = lease_of(api, time).acquire()
    server.faults = [ProtocolError("reset")]
    held.release()
    assert not held.held
    assert spec(server)["holderIdentity"] == "one"  # until it expires
    assert server.faults == []


def test_a_missing_namespace_is_bad_input_and_not_a_lease_held_by_others(time: FakeTime) -> None:
    def answer(request: Request) -> Answer:
        return not_found(request.path if request.method == "GET" else request.path.rpartition("/")[0])

    api, _ = fake_api(answer, time)
    with pytest.raises(InputError, match="namespace 'kube-system' does not exist") as caught:
        lease_of(api, time).acquire()
    assert "--lease" in caught.value.hint


@pytest.mark.parametrize(
    "odd",
    [
        None,
        7,
        {"holderIdentity": 7},
        {"holderIdentity": "x", "renewTime": "soon"},
        {"holderIdentity": "x", "renewTime": None, "leaseDurationSeconds": "long"},
        {"holderIdentity": "x", "renewTime": "2023-11-14T20:00:00Z", "leaseDurationSeconds": -7},
        {"holderIdentity": "", "leaseTransitions": "many"},
    ],
)
def test_an_odd_lease_that_nobody_can_hold_is_taken(
    api: RawApi, time: FakeTime, server: LeaseServer, odd: Any
) -> None:
    server.item = {"metadata": {**NAMED, "resourceVersion": "0"}, "spec": odd}
    lease_of(api, time).acquire()
    assert server.item["spec"]["holderIdentity"] == "one"


def test_a_lease_renewed_in_the_far_future_does_not_lock_everybody_out(
    api: RawApi, time: FakeTime, server: LeaseServer
) -> None:
    far = {"holderIdentity": "x" * 5000, "renewTime": "9999-12-31T23:59:59Z"}
    server.item = {"metadata": {**NAMED, "resourceVersion": "0"}, "spec": far}
    seen = time.now
    assert lease_of(api, time).acquire().held
    assert time.now - seen >= 60


def test_a_lease_that_says_it_lasts_no_time_is_watched_as_if_it_were_ours(
    api: RawApi, time: FakeTime, server: LeaseServer
) -> None:
    none = {"holderIdentity": "x", "renewTime": "2023-11-14T20:00:00Z", "leaseDurationSeconds": 0}
    server.item = {"metadata": {**NAMED, "resourceVersion": "0"}, "spec": none}
    seen = time.now
    assert lease_of(api, time).acquire().held
    assert time.now - seen >= 60


def test_a_lease_of_others_that_lasts_very_long_is_not_waited_for(
    api: RawApi, time: FakeTime, server: LeaseServer
) -> None:
    long = {"holderIdentity": "x" * 5000, "leaseDurationSeconds": 10**12}
    server.item = {"metadata": {**NAMED, "resourceVersion": "0"}, "spec": long}
    with pytest.raises(LeaseHeldError, match="delete the lease") as caught:
        lease_of(api, time).acquire()
    assert len(str(caught.value)) < 500
    assert time.slept == []


@pytest.mark.parametrize(("seconds", "hint"), [(120, "the lease frees itself"), (121, "delete the lease")])
def test_who_is_held_up_is_told_to_wait_for_as_long_as_anybody_would(
    api: RawApi, time: FakeTime, server: LeaseServer, seconds: int, hint: str
) -> None:
    renewed = {"renewTime": "2023-11-14T22:13:10.000000Z", "leaseDurationSeconds": seconds}
    server.item = {
        "metadata": {**NAMED, "resourceVersion": "0"},
        "spec": {"holderIdentity": "other", **renewed},
    }
    with pytest.raises(LeaseHeldError, match=hint):
        lease_of(api, time).acquire()


@pytest.mark.parametrize("body", [b"", b"[]", b"7", b"[" * 9000])
def test_an_answer_that_is_no_lease_is_an_error_of_ours(time: FakeTime, body: bytes) -> None:
    api, _ = fake_api(lambda _request: Answer(200, body), time)
    with pytest.raises(UnreachableError, match=r"is not a lease.*or a proxy before one\?"):
        lease_of(api, time).acquire()


@pytest.mark.parametrize(
    "fault", [ProtocolError("reset"), {"status": 503, "body": {"message": "shutting down"}}]
)
def test_a_lease_that_cannot_be_written_is_not_said_to_be_held(
    api: RawApi, time: FakeTime, server: LeaseServer, fault: Any
) -> None:
    server.faults = [fault] * 10
    with pytest.raises(UnreachableError, match="write lease kube-system/rebalancer"):
        lease_of(api, time).acquire()


def test_a_write_that_flow_control_turns_away_is_sent_again_when_it_says(
    api: RawApi, time: FakeTime, server: LeaseServer
) -> None:
    server.faults = [
        {"status": 429, "body": {"message": "too many requests"}, "headers": {"Retry-After": "3"}}
    ]
    assert lease_of(api, time).acquire().held
    assert time.slept == [3.0]


@pytest.mark.parametrize("before", [2**31 - 1, 2**40, -1, -(2**31), "many", None, 1.5])
def test_a_count_of_transitions_always_fits_the_field_of_the_api(
    server: LeaseServer, api: RawApi, time: FakeTime, before: object
) -> None:
    server.item = {"metadata": {**NAMED, "resourceVersion": "0"}, "spec": {"leaseTransitions": before}}
    lease_of(api, time).acquire()
    assert spec(server)["leaseTransitions"] == 1


@pytest.mark.parametrize("metadata", [NAMED, {**NAMED, "resourceVersion": ""}])
def test_a_lease_without_a_version_is_never_overwritten(
    server: LeaseServer, api: RawApi, time: FakeTime, metadata: object
) -> None:
    """A write that names no version always succeeds: two runs could take one lease at once."""
    server.item = {"metadata": metadata, "spec": {"holderIdentity": ""}}
    with pytest.raises(UnreachableError, match="was read without a resourceVersion"):
        lease_of(api, time).acquire()
    assert spec(server) == {"holderIdentity": ""}
