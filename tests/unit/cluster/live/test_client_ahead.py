"""A page that was asked for ahead is sent once, and is worth what any other answer is worth."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from rebalancer.cluster.kinds import NAMESPACES, NODES
from rebalancer.cluster.live.client import PAGE_SIZE, RawApi
from rebalancer.cluster.live.failures import AnswerTooLargeError
from rebalancer.cluster.live.reader import LiveReader
from rebalancer.deadlines import Deadline, StopRequest
from rebalancer.errors import RightsError, StopRequestedError, UnreachableError
from rebalancer.retries import Retries
from tests.builders import a_node
from tests.unit.execution.fake_api import Answer, Request, Script, Transport, fake_api, refusal
from tests.waiting import HANG_SECONDS

FIRST_PAGE = {"limit": PAGE_SIZE}


def paths(transport: Transport) -> list[str]:
    return [request.path for request in transport.requests]


def test_who_asks_for_it_is_given_the_answer_once() -> None:
    api, transport = fake_api(Script(Answer(200, {"one": 1}), Answer(200, {"two": 2})))
    api.ask_ahead(NODES)
    assert api.list_page(NODES, FIRST_PAGE).body == b'{"one": 1}'
    assert api.list_page(NODES, FIRST_PAGE).body == b'{"two": 2}'
    assert paths(transport) == [NODES.path] * 2
    assert transport.requests[0].query == transport.requests[1].query


@pytest.mark.parametrize("other", [(NAMESPACES, FIRST_PAGE), (NODES, {**FIRST_PAGE, "continue": "x"})])
def test_another_request_is_not_given_it(other: tuple[object, dict[str, object]]) -> None:
    asked = threading.Event()

    def answered(request: Request) -> Answer:
        ahead = request.path == NODES.path and "continue" not in request.query
        if ahead:
            asked.set()
        return Answer(200, {"ahead": ahead})

    api, _ = fake_api(answered)
    api.ask_ahead(NODES)
    assert asked.wait(HANG_SECONDS)
    assert api.list_page(*other).body == b'{"ahead": false}'  # type: ignore[arg-type]
    assert api.list_page(NODES, FIRST_PAGE).body == b'{"ahead": true}'


def test_one_that_failed_is_asked_for_again() -> None:
    api, transport = fake_api(Script(refusal(503, "busy"), Answer(200, {})))
    api.ask_ahead(NODES)
    assert api.list_page(NODES, FIRST_PAGE).body == b"{}"
    assert len(transport.requests) == 2


def test_a_refusal_is_one_where_the_page_is_asked_for() -> None:
    api, transport = fake_api(Script(refusal(403, "no")))
    api.ask_ahead(NODES)
    with pytest.raises(RightsError, match="list nodes"):
        api.list_page(NODES, FIRST_PAGE)
    assert len(transport.requests) == 1


def test_one_that_is_too_large_is_asked_for_in_smaller_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rebalancer.cluster.live.client.MAX_PAGE_BYTES", 10)
    api, _ = fake_api(lambda _: Answer(200, {"items": ["x" * 100]}))
    api.ask_ahead(NODES)
    with pytest.raises(AnswerTooLargeError):
        api.list_page(NODES, FIRST_PAGE)


class Silent:
    """A server that accepts a request and does not answer until the test is over."""

    def __init__(self, asked: Callable[[], None] = lambda: None) -> None:
        self.asked = asked
        self.over = threading.Event()
        self.api, _ = fake_api(self._answer)

    def _answer(self, _: Request) -> Answer:
        self.asked()
        self.over.wait(HANG_SECONDS)
        return Answer(200, {})

    def __enter__(self) -> RawApi:
        self.api.ask_ahead(NODES)
        return self.api

    def __exit__(self, *_: object) -> None:
        self.over.set()


def test_it_is_waited_for_no_longer_than_its_reader_waits() -> None:
    with Silent() as api, pytest.raises(UnreachableError, match="list nodes"):
        RawApi(api.client, Retries(attempts=1)).within(0.2).list_page(NODES, FIRST_PAGE)


def test_a_request_to_stop_ends_the_waiting() -> None:
    stop = StopRequest()
    with Silent(stop.set) as api, pytest.raises(StopRequestedError):
        api.until(Deadline(stop=stop)).list_page(NODES, FIRST_PAGE)


def test_the_nodes_are_as_old_as_the_request_for_them() -> None:
    found = {"kind": "NodeList", "apiVersion": "v1", "metadata": {}, "items": [a_node("n0")]}
    times = [100.0]
    api, transport = fake_api(lambda _: Answer(200, found))
    api.client._clock = lambda: times[0]
    api.ask_ahead(NODES)
    times[0] += 7.0
    listing = LiveReader(api, lambda: 1_000.0).read([NODES]).listings[NODES.plural]
    assert len(transport.requests) == 1
    assert listing.read_at == 993.0
