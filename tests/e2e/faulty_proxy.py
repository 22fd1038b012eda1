"""A proxy on the way to the API server that loses, delays and spoils what passes through it.

It speaks plain HTTP on loopback and hands on everything, credentials too. Which requests it spoils, and
how, is said with the sandbox's ``Faults``; a ``tap`` sees every request on its way in and out.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import urllib3

from rebalancer_demo import Fault, Faults
from tests import loopback
from tests.e2e.processes import wait_until

_OF_ONE_CONNECTION = {"connection", "content-length", "host", "keep-alive", "transfer-encoding"}
_ALL_PODS = "/api/v1/pods"
_REASONS = {
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


@dataclass(frozen=True)
class Request:
    """A request that came, ``number`` of all from 1."""

    number: int
    method: str
    path: str  # with its query
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)

    @property
    def evicts(self) -> bool:
        """Whether it asks for an eviction."""
        return self.method == "POST" and self.path.split("?")[0].endswith("/eviction")


@dataclass(frozen=True)
class Answer:
    """What the API server said."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


Tap = Callable[[Request, Answer | None], bool]
"""Looks at a request on its way in, and again on its way back; False cuts the connection there and then."""


class FaultyProxy:
    """A proxy before an API server, at ``url``.

    Of requests that are cut or answered in the server's stead, those that change something arrive all the
    same after ``late_seconds``, if that is given: where it is infinite, when the proxy is left. With
    ``page_size`` LISTs come in pages of so many items, and that of all pods is refused without pages.
    """

    def __init__(
        self,
        upstream: str,
        certificate: Path,
        faults: Faults | None = None,
        *,
        tap: Tap = lambda _request, _answer: True,
        late_seconds: float | None = None,
        page_size: int | None = None,
    ) -> None:
        proxy = self

        class Handler(_Handler):
            def pass_on(self) -> None:
                proxy._handle(self)

        self.faults = faults or Faults()
        self.evictions = 0  # that the API server answered, whether the client learned of it or not
        self._upstream = upstream
        self._tap = tap
        self._late_seconds = late_seconds
        self._page_size = page_size
        self._arriving_last: list[Request] = []
        self._numbers = itertools.count(1)
        self._on_their_way = 0
        self._lock = threading.Lock()
        self._pool = urllib3.PoolManager(maxsize=16, ca_certs=str(certificate), retries=False)
        self._handler = Handler
        self._running = contextlib.ExitStack()
        self.url = ""  # known when it is started

    def __enter__(self) -> FaultyProxy:
        self.url = self._running.enter_context(loopback.serving(self._handler))
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()
        for request in self._arriving_last:
            self._forward(request)
        self.wait_until_idle()
        self._pool.clear()

    def wait_until_idle(self) -> None:
        """Wait until nothing is on its way any more, late requests included."""
        wait_until(lambda: self._on_their_way == 0, "nothing on its way through the proxy")

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        with self._lock:
            self._on_their_way += 1
        try:
            yield
        finally:
            with self._lock:
                self._on_their_way -= 1

    def _handle(self, client: _Handler) -> None:
        with self._counted():
            body = client.rfile.read(int(client.headers.get("Content-Length") or 0))
            headers = _end_to_end(dict(client.headers))
            request = Request(next(self._numbers), client.command, client.path, headers, body)
            faults = {fault.effect: fault for fault in self.faults.pick(request.method, request.path)}
            if "latency" in faults:
                time.sleep(faults["latency"].seconds)
            instead = faults.get("status") or faults.get("expire-continue")
            if self._page_size is not None and request.path == _ALL_PODS:
                instead = Fault("status", code=503)
            if not self._tap(request, None) or "reset-before" in faults:
                self._let_arrive_late(request)
                client.cut()
            elif instead is not None:
                self._let_arrive_late(request)
                client.answer(_refusal(instead))
            else:
                answer = self._forward(request)
                if not self._tap(request, answer) or "reset-after" in faults:
                    client.cut()
                else:
                    client.answer(answer, whole="truncate" not in faults)

    def _forward(self, request: Request) -> Answer:
        path = request.path
        if self._page_size is not None:
            path = re.sub(r"(?<=[?&]limit=)\d+", str(self._page_size), path)
        answer = self._pool.request(
            request.method,
            self._upstream + path,
            body=request.body or None,
            headers=request.headers,
            decode_content=False,
            timeout=urllib3.Timeout(60.0),
        )
        if request.evicts:
            with self._lock:
                self.evictions += 1
        return Answer(answer.status, _end_to_end(answer.headers), answer.data)

    def _let_arrive_late(self, request: Request) -> None:
        if self._late_seconds is None or request.method == "GET":
            return
        if math.isinf(self._late_seconds):
            self._arriving_last.append(request)
            return
        counted = self._counted()
        counted.__enter__()

        def deliver() -> None:
            with contextlib.ExitStack() as stack:
                stack.push(counted)
                self._forward(request)

        threading.Timer(self._late_seconds, deliver).start()


class _Handler(loopback.QuietHandler):
    protocol_version = "HTTP/1.1"

    def pass_on(self) -> None:
        raise NotImplementedError

    def do_GET(self) -> None:  # noqa: N802 - named by the base class
        self.pass_on()

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815 - named by the base class

    def answer(self, answer: Answer, *, whole: bool = True) -> None:
        """Send an answer, or a half of it and then nothing."""
        self.close_connection = self.close_connection or not whole
        try:
            self.send_response_only(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body if whole else answer.body[: len(answer.body) // 2])
        except OSError:  # the client is dead
            self.close_connection = True

    def cut(self) -> None:
        """Reset the connection."""
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.rfile.close()
        self.connection.close()

    def handle(self) -> None:
        """As the base class does; a client that dies is none of our business."""
        with contextlib.suppress(OSError):
            super().handle()

    def finish(self) -> None:
        """As the base class does, for a connection that may be cut already."""
        with contextlib.suppress(OSError, ValueError):
            super().finish()


def _end_to_end(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _OF_ONE_CONNECTION}


def _refusal(fault: Fault) -> Answer:
    """What is said in the API server's stead."""
    code = 410 if fault.effect == "expire-continue" else fault.code
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": fault.message or "the proxy says so",
        "reason": _REASONS.get(code, ""),
        "code": code,
    }
    headers = {"Content-Type": "application/json"}
    if fault.retry_after:
        headers["Retry-After"] = str(fault.retry_after)
    return Answer(code, headers, json.dumps(status).encode())
