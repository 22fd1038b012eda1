"""An event tells why a pod went; that it cannot be written never matters."""

from __future__ import annotations

import msgspec
import pytest

from rebalancer.execution.eviction.events import EventWriter
from tests.unit.execution.builders import NOW, a_move
from tests.unit.execution.fake_api import Answer, fake_api, refusal


def test_an_event_stands_on_the_controller_of_the_evicted_pod() -> None:
    api, transport = fake_api(lambda _request: Answer(201, {}))
    EventWriter(api, "run-1", lambda: NOW).evicted(a_move())
    [request] = transport.requests
    assert request.path == "/apis/events.k8s.io/v1/namespaces/shop/events"
    assert request.body["regarding"]["kind"] == "ReplicaSet"
    assert request.body["regarding"]["uid"] == "rs-uid"
    assert request.body["note"] == "Evicted pod web-1 from hot: hot is at 90%"
    assert request.body["eventTime"] == "2023-11-14T22:13:20.000000Z"


def test_the_event_of_a_pod_with_an_unknown_kind_of_controller_is_on_the_pod() -> None:
    api, transport = fake_api(lambda _request: Answer(201, {}))
    EventWriter(api, "run-1", lambda: NOW).evicted(a_move(kind="Rollout"))
    assert transport.requests[0].body["regarding"]["kind"] == "Pod"


@pytest.mark.parametrize("fault", [refusal(403, "no"), refusal(409, "again"), ConnectionResetError(104, "x")])
def test_an_event_that_cannot_be_written_never_matters(fault: Answer | Exception) -> None:
    api, transport = fake_api(lambda _request: fault)
    EventWriter(api, "run-1", lambda: NOW).evicted(a_move())
    assert [request.method for request in transport.requests] == ["POST"]


def test_a_note_in_any_script_keeps_to_the_bytes_the_api_admits() -> None:
    api, transport = fake_api(lambda _request: Answer(201, {}))
    move = msgspec.structs.replace(a_move(), because="節点が熱い" * 200)
    EventWriter(api, "run-1", lambda: NOW).evicted(move)
    note = transport.requests[0].body["note"]

    assert 1000 < len(note.encode()) <= 1024
    assert note.startswith("Evicted pod ")
