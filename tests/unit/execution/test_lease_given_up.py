"""What becomes of a lease that is given up, cannot be renewed, or becomes free while it is watched."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from rebalancer.cluster.live import RawApi
from rebalancer.errors import LeaseHeldError, StopRequestedError
from rebalancer.execution.lease import LeaseLostError, LeaseWatch, RunLease
from rebalancer.retries import Retries
from tests.unit.execution.builders import NOW
from tests.unit.execution.fake_api import FakeTime, fake_api
from tests.unit.execution.lease_server import NAMED, LeaseServer, lease_of, spec
from tests.waiting import HANG_SECONDS, NEVER_SECONDS, eventually, no_hang


@pytest.fixture
def server() -> LeaseServer:
    return LeaseServer()


@pytest.fixture
def time() -> FakeTime:
    return FakeTime(NOW)


@pytest.fixture
def api(server: LeaseServer, time: FakeTime) -> RawApi:
    return fake_api(server, time)[0]


def test_once_it_is_over_nothing_renews_it_any_more(server: LeaseServer, time: FakeTime) -> None:
    api = replace(fake_api(server)[0], retries=Retries())  # whose waits end at once when asked
    held = RunLease(api, "kube-system", "rebalancer", "one", time.clock, duration_seconds=0.6).acquire()
    with held.renewed_meanwhile():
        (renewing,) = [thread for thread in threading.enumerate() if thread.name == "lease"]
    renewing.join(HANG_SECONDS)
    assert not renewing.is_alive()


@pytest.mark.parametrize(("lasts", "pause"), [(60.0, 2.0), (24.0, 2.0), (12.0, 1.0), (0.6, 0.05)])
def test_it_is_looked_at_often_enough_to_renew_it_in_time(
    api: RawApi, time: FakeTime, monkeypatch: pytest.MonkeyPatch, lasts: float, pause: float
) -> None:
    waited: list[float] = []

    class Over(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waited.append(timeout or 0.0)
            return True

    held = RunLease(api, "kube-system", "rebalancer", "one", time.clock, duration_seconds=lasts).acquire()
    used = SimpleNamespace(Event=Over, Thread=threading.Thread)
    monkeypatch.setattr("rebalancer.execution.lease.threading", used)
    with held.renewed_meanwhile():
        eventually(waited.copy, awaited="it waits before it looks")
    assert waited == [pytest.approx(pause)]


def test_a_reading_that_hangs_is_given_up_while_the_lease_can_be_renewed(
    api: RawApi, time: FakeTime, server: LeaseServer
) -> None:
    held, ended = lease_of(api, time).acquire(), threading.Event()

    def hang() -> None:
        server.while_reading = lambda: None
        time.now += 20.5  # of 60 s, two thirds of which must be left
        ended.wait(NEVER_SECONDS)

    server.while_reading = hang
    with no_hang("a reading that is late ends"):
        held.ensure()
    ended.set()
    assert (server.version, held.seconds_left) == (2, 60)


def test_a_lease_that_is_given_up_names_nobody_and_lasts_a_second(
    api: RawApi, time: FakeTime, server: LeaseServer
) -> None:
    lease_of(api, time).acquire().release()
    found = spec(server)
    assert (found["holderIdentity"], found["leaseDurationSeconds"]) == ("", 1)


@pytest.mark.parametrize("take", [RunLease.acquire, lambda lease: LeaseWatch(lease).look()])
@pytest.mark.parametrize("moment", ["while_writing", "once_written"])
def test_a_lease_that_may_have_been_taken_when_nobody_waits_for_the_answer_any_more_is_given_up(
    api: RawApi, time: FakeTime, server: LeaseServer, moment: str, take: Callable[[RunLease], object]
) -> None:
    stopping = [StopRequestedError("a second signal")]

    def interrupt() -> None:
        if stopping:
            raise stopping.pop()

    setattr(server, moment, interrupt)
    with pytest.raises(StopRequestedError):
        take(lease_of(api, time))
    assert server.item is None or spec(server)["holderIdentity"] == ""


def test_a_lease_lasts_a_second_at_least_for_the_api_takes_whole_ones(
    api: RawApi, time: FakeTime, server: LeaseServer
) -> None:
    RunLease(api, "kube-system", "rebalancer", "one", time.clock, duration_seconds=0.3).acquire()
    assert spec(server)["leaseDurationSeconds"] == 1


@pytest.mark.parametrize(("removed", "said"), [(True, "it was removed"), (False, "nobody holds it any more")])
def test_a_lease_that_somebody_took_away_is_told_from_one_that_he_emptied(
    api: RawApi, time: FakeTime, server: LeaseServer, removed: bool, said: str
) -> None:
    held = lease_of(api, time).acquire()
    assert server.item is not None
    server.item = None if removed else {**server.item, "spec": {"holderIdentity": ""}}
    with pytest.raises(LeaseLostError, match=said):
        held.ensure()


def test_a_lease_that_was_given_up_is_not_renewed(api: RawApi, time: FakeTime, server: LeaseServer) -> None:
    held = lease_of(api, time).acquire()
    held.release()
    with pytest.raises(LeaseLostError, match="was released"):
        held.renew()
    server.unreadable = True  # it is asked about no more
    with pytest.raises(LeaseLostError, match="was released"):
        held.ensure()
    held.release()  # once more does nothing
    assert server.version == 2


@pytest.mark.parametrize("returned", [False, True])
def test_a_lost_lease_is_neither_asked_about_again_nor_given_up(
    time: FakeTime, server: LeaseServer, returned: bool
) -> None:
    """Not even where it is ours again by its name: what it was lost to may act."""
    api, transport = fake_api(server, time)
    held = lease_of(api, time).acquire()
    assert server.item is not None
    server.item["spec"]["holderIdentity"] = "two"
    with pytest.raises(LeaseLostError, match="held by 'two'"):
        held.ensure()
    server.item["spec"]["holderIdentity"] = "one" if returned else "three"
    asked = len(transport.requests)
    with pytest.raises(LeaseLostError, match="held by 'two'"):
        held.ensure()
    held.release()
    assert len(transport.requests) == asked


def test_a_lease_of_which_just_enough_is_left_is_trusted(
    api: RawApi, time: FakeTime, server: LeaseServer
) -> None:
    held = lease_of(api, time).acquire()
    time.now += 30
    server.while_writing = lambda: setattr(time, "now", time.now + 20)
    held.ensure()
    assert held.seconds_left == 40
    time.now += 1
    server.while_writing = lambda: setattr(time, "now", time.now + 21)
    with pytest.raises(LeaseLostError, match="too slow to evict safely"):
        held.ensure()


def test_a_lease_that_cannot_be_read_again_is_not_lost_and_allows_no_eviction(
    api: RawApi, time: FakeTime, server: LeaseServer
) -> None:
    held = lease_of(api, time).acquire()
    server.unreadable = True
    with pytest.raises(LeaseLostError, match="could not be renewed"):  # it may say that runs are paused
        held.ensure()
    server.unreadable = False
    held.ensure()
    assert held.held


def test_a_renewal_that_fails_is_not_the_loss_of_the_lease(
    api: RawApi, time: FakeTime, server: LeaseServer
) -> None:
    held = lease_of(api, time).acquire()
    server.faults = [{"status": 403, "body": {"kind": "Status", "message": "no"}}]
    with pytest.raises(LeaseLostError, match="could not be renewed"):
        held.renew()
    held.renew()
    assert held.held


def test_a_lease_for_which_somebody_else_is_always_faster_is_said_to_be_held(
    api: RawApi, time: FakeTime, server: LeaseServer
) -> None:
    server.faults = [{"status": 409, "body": {"kind": "Status", "message": "exists"}}] * 99
    with pytest.raises(LeaseHeldError, match="could not be taken in"):
        lease_of(api, time).acquire()


def test_transitions_count_who_took_it_and_renewals_do_not(
    api: RawApi, time: FakeTime, server: LeaseServer
) -> None:
    server.item = {
        "metadata": {**NAMED, "resourceVersion": "0"},
        "spec": {"leaseTransitions": 4, "x": "kept"},
    }
    held = lease_of(api, time).acquire()
    taken_at = spec(server)["acquireTime"]
    time.now += 30
    held.renew()
    found = spec(server)
    assert (found["leaseTransitions"], found["acquireTime"], found["x"]) == (5, taken_at, "kept")
    assert found["renewTime"] > taken_at


@pytest.mark.parametrize("left", ["given up", "removed"])
def test_a_lease_that_becomes_free_while_it_is_watched_is_taken_at_once(
    time: FakeTime, server: LeaseServer, left: str
) -> None:
    api, transport = fake_api(server, time)
    lease_of(api, time).acquire()
    time.now += 600
    began = time.now

    def while_asleep() -> None:
        assert server.item is not None
        if left == "removed":
            server.item = None
        else:
            server.item["spec"]["holderIdentity"] = ""
        time.while_asleep = lambda: None

    time.while_asleep = while_asleep
    assert lease_of(api, time, "two").acquire().held
    assert time.now - began <= 5
    assert spec(server)["holderIdentity"] == "two"
    assert len(transport.sent("POST")) == (2 if left == "removed" else 1), "what is there is replaced"


@pytest.mark.parametrize("seconds", [1, 120])
def test_a_lease_of_others_is_watched_for_as_long_as_it_says(
    api: RawApi, time: FakeTime, server: LeaseServer, seconds: int
) -> None:
    old = {"holderIdentity": "x", "renewTime": "2023-11-14T20:00:00Z", "leaseDurationSeconds": seconds}
    server.item = {"metadata": {**NAMED, "resourceVersion": "0"}, "spec": old}
    began = time.now
    assert lease_of(api, time).acquire().held
    assert time.now - began == seconds
