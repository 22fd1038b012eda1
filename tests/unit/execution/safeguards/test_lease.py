"""Two runs never act at once."""

from __future__ import annotations

from typing import Any

import pytest
from urllib3.exceptions import ProtocolError

from rebalancer.cluster.live import RawApi
from rebalancer.errors import LeaseHeldError, RebalancerError, UnreachableError
from rebalancer.execution.safeguards.lease import LeaseLostError, RunLease
from tests.unit.execution.builders import NOW
from tests.unit.execution.fake_api import Answer, FakeTime, Request, fake_api, refusal


class LeaseServer:
    """Keeps one lease as the API server does: versions, conflicts, and faults on demand."""

    def __init__(self) -> None:
        self.item: dict[str, Any] | None = None
        self.version = 0
        self.faults: list[Any] = []

    def __call__(self, request: Request) -> Answer | Exception:
        if request.method == "GET":
            return refusal(404, "not found") if self.item is None else Answer(200, self.item)
        fault = self.faults.pop(0) if self.faults else None
        if fault is not None and fault != "lost":
            return fault if isinstance(fault, Exception) else Answer(**fault)
        if request.method == "POST" and self.item is not None:
            return refusal(409, "already exists")
        if request.method == "PUT":
            sent = request.body["metadata"].get("resourceVersion")
            if self.item is None or sent != self.item["metadata"]["resourceVersion"]:
                return refusal(409, "the object has been modified")
        self.version += 1
        self.item = request.body
        self.item["metadata"]["resourceVersion"] = str(self.version)
        return ProtocolError("reset") if fault == "lost" else Answer(200, self.item)


@pytest.fixture
def server() -> LeaseServer:
    return LeaseServer()


@pytest.fixture
def time() -> FakeTime:
    return FakeTime(NOW)


@pytest.fixture
def api(server: LeaseServer, time: FakeTime) -> RawApi:
    return fake_api(server, time)[0]


def lease_of(api: RawApi, time: FakeTime, identity: str = "one") -> RunLease:
    return RunLease(api, "kube-system", "rebalancer", identity, time.clock)


def test_a_free_lease_is_taken_and_says_by_whom(api: RawApi, time: FakeTime, server: LeaseServer) -> None:
    lease = lease_of(api, time)
    lease.acquire()
    assert lease.held
    assert server.item is not None
    spec = server.item["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("one", 60)
    assert spec["renewTime"] == "2023-11-14T22:13:20.000000Z"  # six digits, or the API server refuses it


def test_a_held_lease_is_refused_until_it_expires(api: RawApi, time: FakeTime) -> None:
    lease_of(api, time).acquire()
    other = lease_of(api, time, "two")
    with pytest.raises(LeaseHeldError, match="held by 'one'"):
        other.acquire()
    time.now += 61
    other.acquire()
    assert other.held


def test_a_released_lease_is_free_at_once(api: RawApi, time: FakeTime) -> None:
    lease = lease_of(api, time)
    lease.acquire()
    lease.release()
    other = lease_of(api, time, "two")
    other.acquire()
    assert (lease.held, other.held) == (False, True)


def test_a_release_does_not_touch_the_lease_of_another(
    api: RawApi, time: FakeTime, server: LeaseServer
) -> None:
    lease = lease_of(api, time)
    lease.acquire()
    time.now += 100
    lease_of(api, time, "two").acquire()
    lease.release()
    assert server.item is not None
    assert server.item["spec"]["holderIdentity"] == "two"


def test_renewing_keeps_it(api: RawApi, time: FakeTime) -> None:
    lease = lease_of(api, time)
    lease.acquire()
    for _ in range(5):
        time.now += 50
        lease.renew()
    with pytest.raises(LeaseHeldError):
        lease_of(api, time, "two").acquire()


def test_a_lease_that_another_took_is_lost(api: RawApi, time: FakeTime) -> None:
    lease = lease_of(api, time)
    lease.acquire()
    time.now += 100
    lease_of(api, time, "two").acquire()
    with pytest.raises(LeaseLostError, match="held by 'two'"):
        lease.renew()
    assert not lease.held


def test_a_lease_that_was_removed_is_lost(api: RawApi, time: FakeTime, server: LeaseServer) -> None:
    lease = lease_of(api, time)
    lease.acquire()
    server.item = None
    with pytest.raises(LeaseLostError, match="removed"):
        lease.renew()


@pytest.mark.parametrize(
    "fault",
    ["lost", ProtocolError("reset"), {"status": 503, "body": {}}, {"status": 409, "body": {}}],
)
def test_a_passing_fault_neither_loses_nor_doubles_it(
    api: RawApi, time: FakeTime, server: LeaseServer, fault: Any
) -> None:
    lease = lease_of(api, time)
    server.faults = [fault]
    lease.acquire()
    server.faults = [fault]
    lease.renew()
    assert lease.held


def test_a_lease_that_cannot_be_renewed_is_lost(api: RawApi, time: FakeTime, server: LeaseServer) -> None:
    lease = lease_of(api, time)
    lease.acquire()
    server.faults = [ProtocolError("reset")] * 10
    with pytest.raises(LeaseLostError):
        lease.renew()


def test_it_is_renewed_while_waiting_only_when_due(api: RawApi, time: FakeTime, server: LeaseServer) -> None:
    lease = lease_of(api, time)
    lease.acquire()
    lease.renew_if_due()
    assert server.version == 1
    time.now += 20
    lease.renew_if_due()
    assert server.version == 2


def test_a_failing_release_is_no_error(api: RawApi, time: FakeTime, server: LeaseServer) -> None:
    lease = lease_of(api, time)
    lease.acquire()
    server.faults = [ProtocolError("reset")]
    lease.release()
    assert not lease.held
    assert server.item is not None
    assert server.item["spec"]["holderIdentity"] == "one"  # until it expires
    assert server.faults == []


@pytest.mark.parametrize(
    "spec",
    [
        None,
        7,
        {"holderIdentity": 7},
        {"holderIdentity": "x", "renewTime": "soon"},
        {"holderIdentity": "x", "renewTime": None, "leaseDurationSeconds": "long"},
        {"holderIdentity": "x", "renewTime": "2023-11-14T20:00:00Z", "leaseDurationSeconds": 10**12},
        {"holderIdentity": "", "leaseTransitions": "many"},
    ],
)
def test_an_odd_lease_that_nobody_can_hold_is_taken(
    api: RawApi, time: FakeTime, server: LeaseServer, spec: Any
) -> None:
    server.item = {"metadata": {"resourceVersion": "0"}, "spec": spec}
    lease_of(api, time).acquire()
    assert server.item["spec"]["holderIdentity"] == "one"
    assert server.item["spec"]["renewTime"] == "2023-11-14T22:13:20.000000Z"


def test_a_lease_renewed_in_the_far_future_is_held_and_does_not_break_us(
    api: RawApi, time: FakeTime, server: LeaseServer
) -> None:
    spec = {"holderIdentity": "x" * 5000, "renewTime": "9999-12-31T23:59:59Z"}
    server.item = {"metadata": {"resourceVersion": "0"}, "spec": spec}
    with pytest.raises(LeaseHeldError) as caught:
        lease_of(api, time).acquire()
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("body", [b"", b"[]", b"7", b"[" * 9000])
def test_an_answer_that_is_no_lease_is_an_error_of_ours(time: FakeTime, body: bytes) -> None:
    api, _ = fake_api(lambda _request: Answer(200, body), time)
    with pytest.raises(RebalancerError):
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
    lease = lease_of(api, time)
    lease.acquire()
    assert lease.held
    assert time.slept == [3.0]
