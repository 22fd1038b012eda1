"""A server that sends a byte now and then is late as a whole: no request outlasts what it was given."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from urllib.parse import parse_qs, urlsplit

import pytest
from msgspec.structs import replace

from rebalancer.cluster.kinds import NODES, PODS
from rebalancer.cluster.live import RawApi
from rebalancer.cluster.live.lists import READING_SECONDS, read_list
from rebalancer.cluster.live.reader import LiveReader
from rebalancer.cluster.live.watching import LiveCluster
from rebalancer.cluster.live.watching.feed import Feed
from rebalancer.cluster.live.watching.latest_objects import latest_objects
from rebalancer.deadlines import Deadline, StopRequest
from rebalancer.errors import InputError, StopRequestedError, UnreachableError
from rebalancer.load.prometheus.client import LivePrometheus
from rebalancer.load.prometheus.queries import Connection, PrometheusQuery
from rebalancer.load.services import fetch_watcher
from rebalancer.retries import Retries
from tests.churn import Churn
from tests.integration.demo.builders import START
from tests.integration.reading.servers import Answer, answering, api_of
from tests.waiting import HANG_SECONDS, eventually, no_hang

LIST = b'{"kind": "NodeList", "metadata": {"resourceVersion": "1"}, "items": []}'
BODY = LIST + b" " * 100_000  # takes hours, byte by byte
HEADERS = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(BODY)
SLOW = {
    "drips its headers": (b"", HEADERS + BODY),
    "drips its body": (HEADERS, BODY),
    "says nothing": (b"", b""),
}
EVERY_SECONDS = 0.1
ENDS = "the request ends, however slow its answer is"


@contextlib.contextmanager
def slow_server(at_once: bytes, dripped: bytes, asked: Callable[[], object] = lambda: None) -> Iterator[str]:
    """A server that sends a part of its answer at once and the rest byte by byte; yields its URL.

    ``asked`` is called once it has a request.
    """
    over = threading.Event()

    def serve(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.recv(65536)
            asked()
            connection.sendall(at_once)
            for byte in dripped:
                if over.wait(EVERY_SECONDS):
                    return
                connection.sendall(bytes([byte]))
            over.wait()

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        over.set()
        listener.shutdown(socket.SHUT_RDWR)


@pytest.fixture(params=SLOW)
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    with slow_server(*SLOW[request.param]) as found:
        yield found


def test_a_list_ends_with_its_deadline_retries_included(url: str) -> None:
    answer = pytest.raises(UnreachableError, match="no whole answer within")
    with api_of(url) as api, no_hang(ENDS), answer:
        api.within(0.5).list_page(NODES)


@pytest.mark.parametrize("kind", SLOW)
def test_a_list_ends_with_a_request_to_stop(kind: str) -> None:
    stop = StopRequest()
    with slow_server(*SLOW[kind], stop.set) as url, api_of(url) as api:
        waiting = RawApi(api.client).until(Deadline(stop=stop))
        with no_hang(ENDS), pytest.raises(StopRequestedError, match="list nodes: asked to stop"):
            waiting.list_page(NODES)


READINGS: dict[str, Callable[[RawApi], object]] = {
    "a reading": lambda api: LiveReader(api, lambda: START).read([PODS, NODES]),
    "a cluster that is watched": lambda api: LiveCluster(api, lambda: START).current(),
    "a LIST by itself": lambda api: read_list(api, PODS, "list pods", PODS.path),
}
PAGE_SECONDS = 20.0


@pytest.mark.parametrize("way", READINGS)
@pytest.mark.parametrize("expires", [False, True], ids=["pages", "pages that expire"])
def test_a_reading_ends_however_many_pages_it_takes(way: str, expires: bool) -> None:
    """Each page is in time; only all of them together are not."""
    passed: list[float] = []

    def answer(path: str) -> Answer:
        url = urlsplit(path)
        if url.path == "/version/":
            return 200, b'{"major": "1", "minor": "31"}'
        kind = {PODS.path: "Pod", NODES.path: "Node"}.get(url.path)
        if kind is None:
            return 403, b'{"kind": "Status", "message": "not yours"}'
        if kind == "Pod":
            passed.append(PAGE_SECONDS)
        page = int(parse_qs(url.query).get("continue", ["0"])[0])
        if expires and page == 10:
            return 410, b'{"kind": "Status", "status": "Failure", "reason": "Expired"}'
        token = str(page + 1) if kind == "Pod" else ""
        metadata = {"resourceVersion": "5", "continue": token}
        items = [{"metadata": {"name": f"web-{page}", "namespace": "default"}}] if kind == "Pod" else []
        return 200, json.dumps({"kind": f"{kind}List", "metadata": metadata, "items": items}).encode()

    with answering(answer) as url, api_of(url) as api:
        by_pages = RawApi(api.client, replace(api.retries, clock=lambda: sum(passed)))
        with no_hang("the reading ends"), pytest.raises(UnreachableError) as caught:
            READINGS[way](by_pages)

    assert "expired" not in str(caught.value)
    assert len(passed) <= READING_SECONDS / PAGE_SECONDS + 1
    if way != "a LIST by itself":
        assert f"the cluster was not read within {READING_SECONDS:.0f} s" in str(caught.value)
        assert re.search(r"; pods: \d+ so far", str(caught.value))


def test_an_answer_that_comes_in_time_is_used() -> None:
    with slow_server(HEADERS + BODY[:-3], BODY[-3:]) as url, api_of(url) as api:
        assert api.within(HANG_SECONDS).list_page(NODES).body == BODY


def test_a_query_to_prometheus_ends_with_its_timeout(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rebalancer.http.CONNECT_SECONDS", 0.1)
    ask = LivePrometheus(Connection(url, timeout_seconds=0.4), None, 0.0, retries=Retries())
    with no_hang(ENDS), pytest.raises(UnreachableError, match=r"within 0\.4 s"):
        ask(PrometheusQuery("up"))


def test_a_watch_is_begun_anew_and_closed_however_slowly_its_answer_begins() -> None:
    objects, asked = latest_objects(*Churn(5, PODS, names=8).listed()), list[None]()
    assert objects is not None
    endless = b"HTTP/1.1 200 OK\r\nX-Long: " + b"a" * 60_000  # longer than anything is waited for
    with slow_server(b"", endless, lambda: asked.append(None)) as url, api_of(url) as api:
        feed = Feed(api, objects, threading.Condition(threading.RLock()))
        feed.start()
        for _ in range(3):
            eventually(asked.copy, awaited="a watch is asked for")
            asked.clear()
            feed.hurry()
        feed.close()
        feed.join(HANG_SECONDS)
        assert not feed.alive


def test_a_load_watcher_that_drips_ends_with_the_deadline_of_the_run(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with api_of(url) as api:
        ending = RawApi(api.client).until(Deadline().within(0.5))
        with no_hang(ENDS), pytest.raises(UnreachableError, match="no whole answer"):
            fetch_watcher(ending, url)


def test_a_login_that_no_header_may_hold_is_an_error_without_it() -> None:
    connection = Connection("http://127.0.0.1:1", token="canary\n")
    ask = LivePrometheus(connection, None, 0.0, retries=Retries())

    with pytest.raises(InputError, match="a request cannot be sent") as caught:
        ask(PrometheusQuery("up"))
    assert "canary" not in str(caught.value)
    assert caught.value.__cause__ is None
