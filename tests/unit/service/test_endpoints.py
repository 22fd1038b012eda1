"""What the port answers, to probes, to Prometheus, and to whoever else finds it."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from rebalancer.errors import InputError
from rebalancer.reporting.metrics import RunMetrics
from rebalancer.service import endpoints
from rebalancer.service.endpoints import (
    MAX_CONNECTIONS,
    WAITING_SECONDS,
    Endpoints,
    Health,
    answering,
)
from tests.waiting import HANG_SECONDS, eventually


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Port:
    url: str
    health: Health
    clock: Clock

    @property
    def address(self) -> tuple[str, int]:
        host, port = self.url.removeprefix("http://").split(":")
        return host, int(port)

    def get(self, path: str, method: str = "GET") -> tuple[int, str]:
        request = urllib.request.Request(self.url + path, method=method)
        try:
            with urllib.request.urlopen(request, timeout=HANG_SECONDS) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()


@pytest.fixture
def port() -> Iterator[Port]:
    clock = Clock()
    health = Health(clock)
    with answering("127.0.0.1", 0, Endpoints(health, RunMetrics().registry)) as url:
        yield Port(url, health, clock)


def test_it_lives_as_long_as_the_loop_keeps_what_it_said(port: Port) -> None:
    with port.health.busy_for(300.0):
        port.clock.now = 300.0 + WAITING_SECONDS
        assert port.get("/healthz") == (200, "ok\n")
        port.clock.now += 1.0
        assert port.get("/healthz")[0] == 503
    assert port.get("/healthz")[0] == 200, "it has reported"
    port.clock.now += WAITING_SECONDS + 1.0
    assert port.get("/healthz")[0] == 503


def test_it_is_ready_when_it_does_what_it_is_for_and_says_why_it_is_not(port: Port) -> None:
    assert port.get("/readyz") == (503, "starting\n")
    port.health.ready("leads")
    assert port.get("/readyz") == (200, "ok: leads\n")
    port.health.failing("no answer")
    assert port.get("/readyz") == (503, "no answer\n")
    port.health.ready("stands by")
    assert port.get("/readyz") == (200, "ok: stands by\n")


def test_metrics_are_answered_in_the_format_that_prometheus_asks_for(port: Port) -> None:
    status, text = port.get("/metrics")

    assert status == 200
    assert 'rebalancer_stops_total{stop="Brake"} 0.0' in text


def test_nothing_else_is_answered(port: Port) -> None:
    assert port.get("/")[0] == 404
    assert port.get("/metrics/../etc")[0] == 404
    assert port.get("/metrics", "POST")[0] == 405


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/nothing"])
def test_head_is_answered_as_get_is_without_a_body_and_nothing_says_which_python_answers(
    port: Port, path: str
) -> None:
    def answer(method: str) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(*port.address, timeout=HANG_SECONDS)
        connection.request(method, path)
        response = connection.getresponse()
        headers = {name: value for name, value in response.getheaders() if name != "Date"}
        body = response.read()
        connection.close()
        return response.status, headers, body

    (status, headers, body), (status_of_head, headers_of_head, nothing) = answer("GET"), answer("HEAD")
    assert (status, nothing) == (status_of_head, b"")
    assert body
    assert headers["Server"] == headers_of_head["Server"] == "rebalancer"


def test_a_request_that_is_none_is_refused_without_the_version_of_python(port: Port) -> None:
    with socket.create_connection(port.address) as client:
        client.settimeout(HANG_SECONDS)
        client.sendall(b"GET\r\n\r\n")
        assert b"Python" not in client.recv(10_000)


def _is_closed(client: socket.socket) -> bool:
    """Whether the server closes a connection; one from which it has not read all that came is reset."""
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


def test_silent_clients_hold_up_only_so_many_connections_and_only_for_a_while(
    port: Port, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoints._Handler, "timeout", 0.2)
    with contextlib.ExitStack() as stack:
        silent = [stack.enter_context(socket.create_connection(port.address)) for _ in range(MAX_CONNECTIONS)]
        for client in silent:
            client.settimeout(HANG_SECONDS)
            assert _is_closed(client)  # by the server, which waited no longer
    assert port.get("/healthz")[0] == 200


def test_a_port_that_is_taken_is_said_with_the_option(port: Port) -> None:
    host, number = port.address
    with pytest.raises(InputError, match="--listen"), answering(host, number, lambda *_: []):
        pass


def test_clients_that_stay_keep_no_probe_out(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each sends a byte now and then, and would never be silent; the oldest makes room."""
    monkeypatch.setattr(endpoints, "_CLOSING_SECONDS", HANG_SECONDS)
    monkeypatch.setattr(endpoints._Handler, "timeout", HANG_SECONDS)
    monkeypatch.setattr(endpoints, "MAX_SECONDS", HANG_SECONDS)
    with contextlib.ExitStack() as stack:
        clients = []
        for _ in range(2 * MAX_CONNECTIONS):
            client = stack.enter_context(socket.create_connection(port.address))
            client.settimeout(HANG_SECONDS)
            client.sendall(b"GET /metrics HTTP/1.0\r\nX: ")
            clients.append(client)
            assert port.get("/healthz")[0] == 200
        assert _is_closed(clients[0])


def test_a_connection_ends_in_time_whatever_the_client_does(
    port: Port, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoints, "MAX_SECONDS", 0.5)
    with socket.create_connection(port.address) as client:
        client.setblocking(False)

        def closed() -> bool:
            try:
                client.send(b"x")
                return client.recv(1) == b""
            except BlockingIOError:
                return False
            except ConnectionError:
                return True

        eventually(closed, awaited="the server closes a connection that is never silent")


def test_at_its_end_no_client_keeps_a_connection_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints._Handler, "timeout", HANG_SECONDS)

    def app(_environment: object, _start: object) -> list[bytes]:
        raise AssertionError

    with contextlib.ExitStack() as stack:
        with answering("127.0.0.1", 0, app) as url:
            host, port = url.removeprefix("http://").split(":")
            client = stack.enter_context(socket.create_connection((host, int(port))))
            client.settimeout(HANG_SECONDS)
            client.sendall(b"GET / HTTP/1.0\r\nX: ")
            eventually(lambda: _threads("process_request_thread"), awaited="the connection is served")
        assert _is_closed(client)


def _threads(work: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if work in thread.name]


def test_threads_are_as_few_as_connections(port: Port) -> None:
    before = threading.active_count()
    with contextlib.ExitStack() as stack:
        for _ in range(5 * MAX_CONNECTIONS):
            stack.enter_context(socket.create_connection(port.address)).sendall(b"G")
            eventually(
                lambda: threading.active_count() - before <= MAX_CONNECTIONS + 1,
                awaited="the thread of a connection that was closed ends",
            )
