"""The service's own HTTP server: probes and metrics, and nothing that changes anything.

Whoever reaches the port may ask, so what a client can hold up is bounded, and clients that send or read a
byte now and then must not keep the kubelet's probes out, which would restart the service:

    one connection        closed after ten seconds of silence, and in any case after thirty
    one more than sixteen the oldest is closed, and the newest is answered
    a request             its body is not read, but by an extender: see ``rebalancer_extender``

A service lives while its loop keeps what it said: for how long it may be busy with what it does next. A loop
that has not reported by then hangs, and the probe lets the kubelet start it anew:

    waiting for the next run       reports again within a minute
    a look at the lease            may take as long as the lease is held for, and a minute more
    a run of at most 5 minutes     may take those, a wave's timeout and two minutes more

What it does is given the same time as its deadline, so that a slow API server ends a request and not the
service (``Health.busy_for``).
"""

from __future__ import annotations

import contextlib
import errno
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app

from rebalancer.files import refusing

STARTING = "starting"
WAITING_SECONDS = 60.0  # within which the loop reports while it does nothing


class Health:
    """Written by the loop, read by the probes; every field is replaced as a whole."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._heard_by = clock() + WAITING_SECONDS
        self.role = STARTING
        self.not_ready = STARTING  # why; empty when it is ready

    @contextmanager
    def busy_for(self, seconds: float) -> Iterator[None]:
        """What the loop does in this block takes so many seconds at most; it reports again a minute later."""
        self._heard_by = self._clock() + seconds + WAITING_SECONDS
        try:
            yield
        finally:
            self.waits()

    def waits(self) -> None:
        """The loop has nothing to do for now, and reports again within a minute."""
        self._heard_by = self._clock() + WAITING_SECONDS

    def ready(self, role: str) -> None:
        """The service does what it is for, in this role."""
        self.role = role
        self.not_ready = ""

    def failing(self, reason: str) -> None:
        """The service cannot do what it is for."""
        self.not_ready = reason

    @property
    def alive(self) -> bool:
        """Whether the loop keeps what it said."""
        return self._clock() <= self._heard_by


MAX_CONNECTIONS = 16
MAX_SECONDS = 30.0  # of one connection; Prometheus gives up a scrape after ten
_SILENCE_SECONDS = 10.0
_CLOSING_SECONDS = 5.0  # for the thread of a connection that was closed to end
_NAME = "rebalancer"  # of the server: which Python answers is nobody's business
_TEXT = [("Content-Type", "text/plain; charset=utf-8"), ("Cache-Control", "no-store")]

Start = Callable[..., Any]
Environment = dict[str, Any]
Application = Callable[[Environment, Start], Iterable[bytes]]


class _Server(ThreadingMixIn, WSGIServer):
    """A thread for each connection, and at most so many of them."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = MAX_CONNECTIONS

    def __init__(self, address: tuple[str, int], app: Application, tls: ssl.SSLContext | None) -> None:
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        self._free = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self._lock = threading.Lock()
        self._open: dict[socket.socket, float] = {}  # since when, the oldest first
        super().__init__(address, _Handler)
        self.set_app(_named(app))
        if tls is not None:  # the thread of a connection shakes hands, within the time of that
            self.socket = tls.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    def server_bind(self) -> None:
        """Bind without asking a name server who we are, as the class above does."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name = "localhost"
        self.server_port = int(self.server_address[1])
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection; where too many are open, close the oldest."""
        if not self._free.acquire(blocking=False):
            self._close_those_since(float("inf"), max_closed=1)
            if not self._free.acquire(timeout=_CLOSING_SECONDS):
                self.shutdown_request(request)
                return
        with self._lock:
            self._open[request] = time.monotonic()
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._forget(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._forget(request)

    def service_actions(self) -> None:
        """Close, a few times a second, the connections that have been open for too long."""
        self._close_those_since(time.monotonic() - MAX_SECONDS, max_closed=MAX_CONNECTIONS)

    def server_close(self) -> None:
        """Listen no longer, and end the connections that are open."""
        super().server_close()
        self._close_those_since(float("inf"), max_closed=MAX_CONNECTIONS)

    def _forget(self, request: socket.socket) -> None:
        with self._lock:
            self._open.pop(request, None)
        self._free.release()

    def _close_those_since(self, moment: float, *, max_closed: int) -> None:
        """Close connections that were opened before a moment, the oldest first; their threads end then."""
        with self._lock:
            for request in [request for request, since in self._open.items() if since < moment][:max_closed]:
                del self._open[request]
                with contextlib.suppress(OSError):
                    request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is not an event."""


class _Handler(WSGIRequestHandler):
    timeout = _SILENCE_SECONDS

    def log_message(self, *_arguments: object) -> None:
        """Probes and scrapes are not worth a line."""

    def version_string(self) -> str:
        """What an error page names as the server."""
        return _NAME

    def address_string(self) -> str:
        """The client's address, without asking a name server for its name."""
        return str(self.client_address[0])


def _named(app: Application) -> Application:
    """The application with our name as the server's in every answer."""

    def answer(environment: Environment, start: Start) -> Iterable[bytes]:
        return app(
            environment,
            lambda status, headers, *more: start(status, [*headers, ("Server", _NAME)], *more),
        )

    return answer


class Endpoints:
    """Answers ``/healthz``, ``/readyz`` and ``/metrics``."""

    def __init__(self, health: Health, registry: CollectorRegistry) -> None:
        self._health = health
        self._metrics = make_wsgi_app(registry)

    def __call__(self, environment: Environment, start: Start) -> Iterable[bytes]:
        """A WSGI application."""
        if environment.get("REQUEST_METHOD") == "HEAD":  # what GET answers, without its body
            body = b"".join(self._answer({**environment, "REQUEST_METHOD": "GET"}, start))
            return [] if body else [body]
        return self._answer(environment, start)

    def _answer(self, environment: Environment, start: Start) -> Iterable[bytes]:
        path = environment.get("PATH_INFO", "")
        if environment.get("REQUEST_METHOD") != "GET":
            return text_answer(start, "405 Method Not Allowed", "only GET and HEAD are answered")
        match path:
            case "/healthz":
                late = "" if self._health.alive else "the loop has not reported in time"
                return _told(start, late, "ok")
            case "/readyz":
                return _told(start, self._health.not_ready, f"ok: {self._health.role}")
            case "/metrics":
                body: Iterable[bytes] = self._metrics(environment, start)
                return body
        return text_answer(start, "404 Not Found", "there are /healthz, /readyz and /metrics")


def _told(start: Start, trouble: str, ok: str) -> Iterable[bytes]:
    return text_answer(start, "503 Service Unavailable" if trouble else "200 OK", trouble or ok)


@contextmanager
def answering(host: str, port: int, app: Application, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Answer on an address within this block; gives the URL. Raises InputError where it cannot be had."""
    with refusing("cannot listen", f"{host}:{port}", "name another ADDRESS:PORT with --listen"):
        server = _listening(host, port, app, tls)
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.2}, name="endpoints", daemon=True
    )
    shown = f"[{host}]" if ":" in host else host or "localhost"
    with server:
        thread.start()
        try:
            yield f"{'https' if tls else 'http'}://{shown}:{server.server_port}"
        finally:
            server.shutdown()
            thread.join(timeout=5.0)


def _listening(host: str, port: int, app: Application, tls: ssl.SSLContext | None) -> _Server:
    """A server on an address; without a host on every address, of IPv4 alone where there is no IPv6."""
    if host:
        return _Server((host, port), app, tls)
    try:
        return _Server(("::", port), app, tls)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise
        return _Server(("0.0.0.0", port), app, tls)  # noqa: S104 - the user gave no address


def text_answer(start: Start, status: str, text: str) -> Iterable[bytes]:
    """An answer of one line."""
    body = f"{text}\n".encode()
    start(status, [*_TEXT, ("Content-Length", str(len(body)))])
    return [body]
