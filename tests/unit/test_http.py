"""One request, whoever is asked: bounded, sent once, and its failures in our own words."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from email.utils import formatdate
from typing import Any

import pytest

from rebalancer import http
from rebalancer.cluster.kinds import NODES
from rebalancer.cluster.live import RawApi
from rebalancer.cluster.live.client import KubernetesClient
from rebalancer.cluster.live.login import Login
from rebalancer.deadlines import Deadline, StopRequest
from rebalancer.errors import ExitCode, InputError, StopRequestedError, UnreachableError
from rebalancer.http import NoAnswerError, TooLargeError, retry_after_seconds
from tests import loopback
from tests.rows import rows
from tests.waiting import NEVER_SECONDS, happened
from tests.waiting import ended as wait_for_end

LOGIN = {"authorization": "Bearer s3cret"}


@pytest.fixture
def pool() -> Iterator[Any]:
    connections = http.pool()
    yield connections
    connections.clear()


def get(pool: Any, url: str, **options: Any) -> http.Answer:
    return http.request(pool, "GET", url, headers=lambda: LOGIN, **{"max_bytes": 1000, **options})


def test_an_answer_has_its_status_whatever_that_is(pool: Any) -> None:
    statuses = iter([200, 204, 404, 503])
    with loopback.answering(lambda _: loopback.Answer(b"{}", next(statuses))) as url:
        answers = [get(pool, url) for _ in range(4)]
    assert [(answer.status, answer.ok) for answer in answers] == [
        (200, True),
        (204, True),
        (404, False),
        (503, False),
    ]


def test_an_answer_that_is_too_large_is_an_error_and_a_refusal_is_cut(pool: Any) -> None:
    with loopback.answering(lambda _: loopback.Answer(b"x" * 1001)) as url, pytest.raises(TooLargeError):
        get(pool, url)
    with loopback.answering(lambda _: loopback.Answer(b"x" * 1001, 500)) as url:
        assert len(get(pool, url).body) == 1000


def test_the_connection_of_an_answer_that_cannot_be_unpacked_is_closed(pool: Any) -> None:
    closed = threading.Event()

    class Handler(loopback.QuietHandler):
        def do_GET(self) -> None:  # noqa: N802 - named by the base class
            self.send_response(200)
            self.send_header("Content-Encoding", "gzip")
            self.end_headers()
            self.wfile.write(b"x" * 2000)
            with contextlib.suppress(OSError):
                self.rfile.read(1)
            closed.set()

    # The error holds on to the answer, so nothing else closes it.
    with loopback.serving(Handler) as url, pytest.raises(NoAnswerError, match="DecodeError") as refused:
        get(pool, url)
    happened(closed, awaited=f"the connection is closed after {refused.value}")


def test_where_the_status_counts_a_body_that_breaks_off_is_no_failure(pool: Any) -> None:
    class Handler(loopback.QuietHandler):
        def do_GET(self) -> None:  # noqa: N802 - named by the base class
            self.send_response(200)
            self.send_header("Content-Length", "10")
            self.end_headers()
            self.close_connection = True

    with loopback.serving(Handler) as url:
        assert get(pool, url, body_needed=False).ok
        with pytest.raises(NoAnswerError):
            get(pool, url)


def test_a_redirect_is_followed_only_where_the_caller_allows_it(pool: Any) -> None:
    asked: list[str] = []

    def answer(request: loopback.Request) -> loopback.Answer:
        asked.append(request.path)
        location = {"Location": "/elsewhere"} if request.path == "/" else {}
        return loopback.Answer(b"there", 302 if location else 200, location)

    with loopback.answering(answer) as url:
        assert get(pool, f"{url}/").status == 302
        assert get(pool, f"{url}/", redirects=1).body == b"there"
    assert asked == ["/", "/", "/elsewhere"]


def test_an_api_server_that_redirects_is_said_to_be_none_and_asked_once(pool: Any) -> None:
    asked: list[str] = []

    def answer(request: loopback.Request) -> loopback.Answer:
        asked.append(request.path)
        return loopback.Answer(status=302, headers={"Location": "/login"})

    with loopback.answering(answer) as url, pytest.raises(UnreachableError, match="HTTP 302") as caught:
        RawApi(KubernetesClient(Login(url, pool, headers=lambda: LOGIN))).list_page(NODES)
    assert "a proxy before one?" in str(caught.value)
    assert caught.value.exit_code is ExitCode.REJECTED
    assert asked == ["/api/v1/nodes"]


def test_a_header_that_http_does_not_allow_is_an_error_without_it(pool: Any) -> None:
    with pytest.raises(InputError, match="a request cannot be sent") as caught:
        http.request(
            pool,
            "GET",
            "http://127.0.0.1:1/path?token=canary",
            headers=lambda: {"authorization": "canary\n"},
            max_bytes=1,
        )
    assert "canary" not in str(caught.value)
    assert caught.value.where == "http://127.0.0.1:1"


def test_a_server_that_is_not_there_is_not_a_slow_one(pool: Any) -> None:
    with pytest.raises(NoAnswerError) as caught:
        get(pool, "http://127.0.0.1:1/")
    assert not caught.value.slow
    assert caught.value.kind == "NewConnectionError"


@rows("scheme", ["http", "https"])
@rows("by_stop", [False, True])
@rows(
    "sent",
    [b"", b"HTTP/1.1 200 OK\r\nX-Long: aaa", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"],
)
def test_what_nobody_waits_for_keeps_neither_its_connection_nor_its_thread(
    sent: bytes, by_stop: bool, scheme: str
) -> None:
    stop, ended, late = StopRequest(), threading.Event(), threading.Event()

    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError):
            connection.recv(65536)
            connection.sendall(sent if scheme == "http" else b"")
            late.set()
            if by_stop:
                stop.set()
            while connection.recv(65536):
                pass
        ended.set()

    def clock() -> float:
        return 1e9 if late.is_set() and not by_stop else 0.0

    connections, before = http.pool(), set(threading.enumerate())
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=serve, args=(listener,), daemon=True)
        server.start()
        with pytest.raises(StopRequestedError if by_stop else NoAnswerError):
            get(
                connections,
                f"{scheme}://127.0.0.1:{listener.getsockname()[1]}/",
                read_seconds=NEVER_SECONDS,
                whole_seconds=NEVER_SECONDS,
                deadline=Deadline(stop=stop, clock=clock),
                what="list nodes",
            )
        happened(ended, awaited="the connection is closed")
    left = [item for item in threading.enumerate() if item.name == "request" and item not in before]
    for thread in [server, *left]:
        wait_for_end(thread, awaited="its thread ends")
    connections.clear()


def test_a_connection_that_is_made_when_nobody_waits_any_longer_is_ended_at_once() -> None:
    ours, theirs = socket.socketpair()
    connections = http.Connections()
    with ours, theirs, connections:
        connections.end()
        http.Connections.note(ours)
        assert theirs.recv(1) == b""


@rows(
    "value, seconds",
    [("7", 7.0), ("0.5", 0.5), ("-5", None), ("nan", None), ("inf", None), ("soon", None), ("", None)],
)
def test_retry_after_in_seconds(value: str, seconds: float | None) -> None:
    assert retry_after_seconds({"Retry-After": value}) == seconds


def test_retry_after_as_a_date_is_measured_by_the_servers_own_clock() -> None:
    then = 1_000_000_000.0  # long ago by our clock
    headers = {"Date": formatdate(then, usegmt=True), "Retry-After": formatdate(then + 20, usegmt=True)}
    assert retry_after_seconds(headers) == 20.0
    headers["Retry-After"] = formatdate(then - 20, usegmt=True)
    assert retry_after_seconds(headers) == 0.0


def test_an_answer_that_does_not_ask_to_wait() -> None:
    assert retry_after_seconds(None) is None
    assert retry_after_seconds({"Date": "now"}) is None
