"""An event tells why a pod went; that it cannot be written never matters."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from rebalancer.execution.events import MAX_NODE_EVENTS, EventWriter, RunStarted
from rebalancer.planning.plan import NodeAfter, NodeReport
from tests.rows import rows
from tests.unit.execution.builders import NOW, a_move, a_plan
from tests.unit.execution.fake_api import Answer, FakeTime, Request, fake_api, refusal


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


def test_a_run_is_not_held_up_by_events_that_are_turned_away() -> None:
    time = FakeTime()
    api, _ = fake_api(lambda _request: refusal(429, "too many requests", retry_after=30), time)
    events = EventWriter(api, "run-1", lambda: NOW)
    for _ in range(10):
        events.evicted(a_move())
    assert sum(time.slept) <= 20.0


def test_a_run_waits_no_longer_for_events_once_some_were_lost_to_a_slow_server(
    caplog: pytest.LogCaptureFixture,
) -> None:
    time = FakeTime()

    def lose_late(_request: Request) -> ConnectionResetError:
        time.now += 4.0
        return ConnectionResetError(104, "reset")

    api, transport = fake_api(lose_late, time)
    events = EventWriter(api, "run-1", lambda: NOW)
    for _ in range(10):
        events.evicted(a_move())
    events.stopped("rebalancer", "mine", "3f2a", "paused")
    assert len(transport.requests) == 5
    assert caplog.text.count("no more events are written in this run") == 1


def test_a_note_in_any_script_keeps_to_the_bytes_the_api_admits() -> None:
    api, transport = fake_api(lambda _request: Answer(201, {}))
    move = replace(a_move(), because="節点が熱い" * 200)
    EventWriter(api, "run-1", lambda: NOW).evicted(move)
    note = transport.requests[0].body["note"]

    assert 1000 < len(note.encode()) <= 1024
    assert note.startswith("Evicted pod ")


def test_a_node_that_cannot_be_cooled_has_one_event_an_hour() -> None:
    kept: dict[str, Any] = {}
    now = [NOW - NOW % 3600]

    def keep(request: Request) -> Answer:
        name = request.body["metadata"]["name"]
        if request.method == "POST" and name in kept:
            return refusal(409, "already exists")
        kept[name] = request.body
        return Answer(200, request.body)

    api, transport = fake_api(keep)
    events = EventWriter(api, "run-1", lambda: now[0])
    for pods in ("1 SingleReplica", "2 SingleReplica", "2 SingleReplica"):
        events.cannot_be_cooled({"node-1": f"stays at 91.0 % cpu; its pods: {pods}"})
        now[0] += 900
    [event] = kept.values()
    assert event["regarding"] == {"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": "node-1"}
    assert (event["type"], event["reason"]) == ("Warning", "CannotBeCooled")
    assert event["metadata"]["namespace"] == "default"
    assert "91.0 % cpu" in event["note"]

    events.cannot_be_cooled({"node-1": "stays at 91.0 % cpu; its pods: 2 DaemonSet"})
    assert len(kept) == 2
    now[0] += 900
    events.cannot_be_cooled({"node-1": "stays at 91.0 % cpu; its pods: 2 DaemonSet"})
    assert len(kept) == 3
    assert {request.method for request in transport.requests} == {"POST"}, "the only right there is"


def test_only_so_many_nodes_have_an_event_in_one_run() -> None:
    api, transport = fake_api(lambda _request: Answer(201, {}))
    hot = {f"node-{number}": "stays hot" for number in range(MAX_NODE_EVENTS + 5)}
    EventWriter(api, "run-1", lambda: NOW).cannot_be_cooled(hot)
    assert len(transport.requests) == MAX_NODE_EVENTS


def test_nodes_that_have_a_taint_say_why_the_first_ones_of_many() -> None:
    api, transport = fake_api(lambda _request: Answer(201, {}))
    why = {f"n-{number:03d}": f"for shop/web-{number} it is hot" for number in range(MAX_NODE_EVENTS + 5)}
    EventWriter(api, "run-1", lambda: NOW).steered(why, NOW)
    bodies = [request.body for request in transport.requests]

    assert [body["regarding"]["name"] for body in bodies] == sorted(why)[:MAX_NODE_EVENTS]
    assert bodies[0]["note"].endswith(" at most: for shop/web-0 it is hot")


def test_a_run_that_stopped_has_an_event_on_its_lease() -> None:
    """And with its uid, by which ``kubectl describe lease`` asks for events."""
    api, transport = fake_api(lambda _request: Answer(201, {"metadata": {"uid": "lease-uid"}}))
    EventWriter(api, "run-1", lambda: NOW).stopped("rebalancer", "mine", "3f2a", "3 of 9 nodes are not ready")
    [request] = transport.sent("POST")
    assert request.path == "/apis/events.k8s.io/v1/namespaces/rebalancer/events"
    assert request.body["regarding"]["kind"] == "Lease"
    assert request.body["regarding"]["name"] == "mine"
    assert request.body["regarding"]["uid"] == "lease-uid"
    assert request.body["note"] == "Stopped early: 3 of 9 nodes are not ready"
    assert len(request.body["metadata"]["name"]) <= 253


@rows("answer", [refusal(403, "no"), Answer(200, {}), Answer(200, []), Answer(200, b"<html>")])
def test_a_run_that_stopped_has_its_event_also_where_the_lease_cannot_be_read(answer: Answer) -> None:
    api, transport = fake_api(lambda request: answer if request.method == "GET" else Answer(201, {}))
    EventWriter(api, "run-1", lambda: NOW).stopped("rebalancer", "mine", "3f2a", "paused")
    [request] = transport.sent("POST")
    assert "uid" not in request.body["regarding"]


def test_a_node_that_is_only_above_its_cool_to_after_the_plan_is_not_said_to_stay_hot() -> None:
    api, transport = fake_api(lambda _request: Answer(201, {}))
    unsolved = dict.fromkeys(("hot", "warm"), "stays above coolTo")
    nodes = tuple(
        NodeReport(name=name, load={"cpu": 90.0}, hot=True, after=NodeAfter(load={"cpu": 75.0}, hot=hot))
        for name, hot in (("hot", True), ("warm", False))
    )
    EventWriter(api, "run-1", lambda: NOW)(RunStarted(replace(a_plan(), nodes=nodes, unsolved=unsolved)))

    assert [request.body["regarding"]["name"] for request in transport.requests] == ["hot"]
