"""Requests to the API server are retried only where that is safe, and not once a stop was asked for."""

from __future__ import annotations

from typing import Any

import pytest
from urllib3.exceptions import ProtocolError

from rebalancer.cluster.kinds import NODES
from rebalancer.cluster.live import RawApi, object_path
from rebalancer.cluster.live.client import KubernetesClient
from rebalancer.cluster.live.failures import RequestRejectedError
from rebalancer.cluster.live.login import Login
from rebalancer.deadlines import Deadline, StopRequest
from rebalancer.errors import StopRequestedError, UnreachableError
from rebalancer.http import NoAnswerError
from tests.unit.execution.fake_api import Answer, FakeTime, Request, Script, fake_api, refusal

SOON = 5.0  # half a second at most, but a machine may be busy; unheard, the wait is far longer
RESET = ProtocolError("Connection aborted.", ConnectionResetError(104, "reset"))


def test_a_read_is_repeated_after_overload_and_after_a_broken_connection() -> None:
    clock = FakeTime()
    answers = Script(refusal(503, "busy"), RESET, refusal(429, "slow down", retry_after=7), Answer(200, {}))
    api, transport = fake_api(answers, clock)
    assert api.list_page(NODES).body == b"{}"
    assert len(transport.requests) == 4
    assert clock.slept == [0.2, 0.4, 7.0]


@pytest.mark.parametrize("fault", [refusal(503, "busy"), RESET])
def test_a_write_whose_fate_is_unknown_is_not_repeated(fault: Answer | Exception) -> None:
    api, transport = fake_api(Script(fault))
    with pytest.raises(UnreachableError):
        api.write("write", "POST", object_path("v1", "shop", "configmaps"), {})
    assert len(transport.requests) == 1


def test_a_write_that_flow_control_turned_away_is_repeated() -> None:
    api, transport = fake_api(Script(refusal(429, "slow down", retry_after=3), Answer(201, {})))
    api.write("write", "POST", object_path("v1", "shop", "configmaps"), {})
    assert len(transport.requests) == 2


@pytest.mark.parametrize("status", [404, 409, 410, 422])
def test_a_rejected_request_is_distinguished_from_a_server_that_is_down(status: int) -> None:
    api, transport = fake_api(Script(refusal(status, "no")))
    with pytest.raises(RequestRejectedError, match="list nodes: no") as caught:
        api.list_page(NODES)
    assert caught.value.status == status
    assert len(transport.requests) == 1


def test_a_stop_is_heard_at_once_while_a_read_waits_to_be_repeated() -> None:
    waits: list[float] = []

    def asked_meanwhile(seconds: float) -> None:
        waits.append(seconds)
        stop.set()

    stop = StopRequest(sleep=asked_meanwhile)
    api, transport = fake_api(Script(refusal(429, "slow down", retry_after=20)))
    with pytest.raises(StopRequestedError, match="list nodes: asked to stop; slow down"):
        RawApi(api.client).until(Deadline(stop=stop)).list_page(NODES)
    assert len(waits) == 1
    assert waits[0] < 1.0
    assert len(transport.requests) == 1


def test_several_requests_share_one_deadline() -> None:
    clock = FakeTime()

    def slow(_request: Request) -> Answer:
        clock.now += 3
        return Answer(200, {})

    api, transport = fake_api(slow, clock)
    ending = api.within(5)
    ending.list_page(NODES)
    ending.list_page(NODES)
    with pytest.raises(UnreachableError, match="no time is left for it"):
        ending.list_page(NODES)
    assert len(transport.requests) == 2


@pytest.mark.parametrize(
    ("asked", "expected"),
    [(None, (5.0, 60.0)), (20.0, (5.0, 20.0)), (2.0, (2.0, 2.0)), (300.0, (5.0, 300.0))],
)
def test_a_single_request_waits_no_longer_than_was_asked(
    asked: float | None, expected: tuple[float, float]
) -> None:
    seen: list[tuple[float, float]] = []

    class Pool:
        def request(self, *_request: Any, timeout: Any, **_options: Any) -> None:
            seen.append((timeout.connect_timeout, timeout.read_timeout))
            raise OSError

    connection = KubernetesClient(Login("http://fake", Pool()), asked)
    with pytest.raises(NoAnswerError):
        connection.send("GET", "/version/", max_bytes=1)

    assert seen == [expected]
