"""The embedded API server: HTTP/1.1 on loopback, a thread a connection, and the way to each handler.

From a path to the part of the API server that answers it, once the user may ask.
"""

from __future__ import annotations

import contextlib
import gzip
import logging
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from rebalancer_demo.admission import Registry
from rebalancer_demo.api import discovery
from rebalancer_demo.api.bodies import access_review
from rebalancer_demo.api.discovery import openapi_document
from rebalancer_demo.api.requests import (
    Request,
    Response,
    ServiceProxy,
    Target,
    User,
    forbidden,
    target_of,
    who,
)
from rebalancer_demo.api.tables import as_table, wants_table
from rebalancer_demo.api.verbs import Computed, Subresources, Verbs, computed_answer
from rebalancer_demo.faults import Fault, Faults
from rebalancer_demo.objects import Object, StatusError, expired, no_such_path
from rebalancer_demo.resources import Surface

_VERBS = {
    "GET": "get",
    "HEAD": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}


class Api:
    """The API of the embedded cluster, without its transport.

    ``users`` by bearer token (none: everyone may do everything); ``computed`` makes the metrics objects;
    ``surface`` says which kinds are served in which versions; ``address`` is the host and port that discovery
    names.
    """

    def __init__(
        self,
        registry: Registry,
        *,
        computed: Computed,
        users: Mapping[str, User] | None = None,
        bookmark_seconds: float = 60.0,
        continue_seconds: float = 300.0,
        surface: Surface | None = None,
    ) -> None:
        self.surface = surface or Surface()
        self.store = registry.store
        self.users: dict[str, User] = dict(users or {})
        self.address = "127.0.0.1"
        self.proxy = ServiceProxy()
        self.verbs = Verbs(registry, bookmark_seconds=bookmark_seconds, continue_seconds=continue_seconds)
        self._subresources = Subresources(registry, self.verbs, self.surface)
        self._computed = computed

    def answer(self, request: Request, goes_on: Callable[[], bool] = lambda: True) -> Response:
        """The answer to a request; refusals are answers too. A watch streams while ``goes_on()``."""
        try:
            if request.path in {"/healthz", "/readyz", "/livez"}:
                return Response(200, b"ok", "text/plain; charset=utf-8")
            user = who(self.users, request.headers.get("authorization"))
            answer = self._route(request, user, goes_on)
            if (
                wants_table(request)
                and (target := target_of(self.surface, request.path.rstrip("/"))) is not None
            ):
                return answer if target.subresource else as_table(answer, request, target)
            return answer
        except StatusError as error:
            headers = {"Retry-After": str(error.retry_after)} if error.retry_after else {}
            return Response.json(error.body(), error.code, headers=headers)

    def _route(self, request: Request, user: User, goes_on: Callable[[], bool]) -> Response:
        path = request.path.rstrip("/")
        if path == "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews" and request.method == "POST":
            return Response.json(access_review(user, request.object()), 201)
        target = target_of(self.surface, path)
        if target is None:
            return self._describe(path)
        self._authorize(request, user, target)
        if target.subresource == "proxy" and target.resource.plural == "services":
            return self.proxy.answer(request, target)
        if target.subresource:
            return self._subresources.answer(request, target)
        if target.resource.computed:
            return computed_answer(request, target, self._computed)
        return self.verbs.answer(request, target, goes_on)

    def _authorize(self, request: Request, user: User, target: Target) -> None:
        verb = _VERBS.get(request.method, request.method.lower())
        if verb == "get" and request.flag("watch"):
            verb = "watch"
        elif verb == "get" and not target.name:
            verb = "list"
        elif verb == "delete" and not target.name:
            verb = "deletecollection"
        resource = target.resource.plural + (f"/{target.subresource}" if target.subresource else "")
        if not user.may(verb, resource, target.namespace):
            raise forbidden(
                user,
                verb,
                resource,
                group=target.resource.group,
                namespace=target.namespace,
                name=target.name,
            )

    def _describe(self, path: str) -> Response:
        """The documents of discovery, which anyone who is known may read."""
        steps = path.strip("/").split("/")
        document: Object | None = None
        if path == "/version":
            document = discovery.version(self.surface)
        elif path == "/api":
            document = discovery.core_versions(self.address)
        elif path == "/apis":
            document = discovery.groups(self.surface)
        elif steps[0] == "api" and len(steps) == 2:
            document = discovery.resource_list(self.surface, "", steps[1])
        elif steps[0] == "apis" and len(steps) == 2:
            document = discovery.group(self.surface, steps[1])
        elif steps[0] == "apis" and len(steps) == 3:
            document = discovery.resource_list(self.surface, steps[1], steps[2])
        elif steps[0] == "openapi":
            document = openapi_document(self.surface, path)
        if document is None:
            raise no_such_path(
                f"the embedded cluster does not serve {path or '/'}; see kubectl api-resources"
            )
        return Response.json(document)


_GZIP_FROM_BYTES = 128 * 1024
_LOG = logging.getLogger(__name__)


class _DropConnection(Exception):  # noqa: N818 - a signal to the handler, not a failure
    """Close this connection now, without another byte."""


class ApiServer:
    """Serves an ``Api`` on a port of 127.0.0.1 from ``start`` to ``stop``, which ends every thread."""

    def __init__(self, api: Api, faults: Faults | None = None, *, port: int = 0) -> None:
        self.api = api
        self.faults = faults or Faults()
        self.stopping = threading.Event()
        self._server = _Server(("127.0.0.1", port), self)
        api.address = f"127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="sandbox-api")

    @property
    def url(self) -> str:
        """http://127.0.0.1:PORT."""
        return f"http://{self.api.address}"

    def start(self) -> None:
        """Begin to answer; connections made before are waiting."""
        self._thread.start()

    def stop(self) -> None:
        """End all connections and threads; watches end at once."""
        self.stopping.set()
        if self._thread.ident is not None:
            self._server.shutdown()
            self._thread.join()
        self._server.cut_connections()
        self.api.store.wake()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    block_on_close = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], owner: ApiServer) -> None:
        self.owner = owner
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        # HTTPServer would look its own name up in DNS, which a sandbox without network waits for.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name = "127.0.0.1"
        self.server_port = int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._connections.discard(request)
        super().shutdown_request(request)

    def cut_connections(self) -> None:
        with self._lock:
            for connection in self._connections:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - the base class
        _LOG.exception("a connection of the sandbox broke off")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "rebalancer-sandbox"
    disable_nagle_algorithm = True
    wbufsize = 64 * 1024
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as http.server names it
        _LOG.debug(format, *args)

    def handle(self) -> None:
        with contextlib.suppress(_DropConnection, ConnectionError):
            super().handle()

    def finish(self) -> None:
        try:
            with contextlib.suppress(OSError):
                super().finish()
        finally:
            self.rfile.close()  # which the base class leaves open where what is buffered can't be sent

    def _serve(self) -> None:
        owner = self.server.owner
        body = self._body()
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request.of(self.command, self.path, headers, body)
        faults = owner.faults.pick(self.command, self.path)
        refusal = self._before(faults)
        if refusal is not None:
            answer = Response.json(refusal.body(), refusal.code, headers=_advice(refusal))
        else:
            answer = self._ask(owner.api, request, faults)
        if any(fault.effect == "reset-after" for fault in faults):
            self._reset()
        if answer.stream is not None:
            self._send_stream(answer, answer.stream)
        else:
            truncated = any(fault.effect == "truncate" for fault in faults)
            self._send(answer, request, truncated=truncated)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815 - as http.server names them

    def _body(self) -> bytes:
        """The body of the request, by its length or in chunks, as kubectl sends what it reads from a file."""
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            length = int(self.headers.get("Content-Length") or 0)
            return self.rfile.read(length) if length else b""
        pieces = []
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass  # trailers, which nobody needs
        return b"".join(pieces)

    def _ask(self, api: Api, request: Request, faults: list[Fault]) -> Response:
        cuts = [fault.seconds for fault in faults if fault.effect == "cut-watch"]
        end = time.monotonic() + min(cuts) if cuts else None

        def goes_on() -> bool:
            if self.server.owner.stopping.is_set() or (end is not None and time.monotonic() >= end):
                return False
            return self._client_is_there()

        try:
            return api.answer(request, goes_on)
        except Exception as error:  # noqa: BLE001
            # the edge of the server: whatever a handler did, the client gets an answer and a test can see why
            _LOG.exception("the sandbox could not answer %s %s", request.method, request.path)
            status = StatusError(500, "InternalError", f"{type(error).__name__}: {error}")
            return Response.json(status.body(), 500)

    def _before(self, faults: list[Fault]) -> StatusError | None:
        """Suffer the faults that come before the request is carried out; a refusal is to be sent instead."""
        for fault in faults:
            if fault.effect == "latency":
                self.server.owner.stopping.wait(fault.seconds)
            elif fault.effect == "reset-before":
                self._reset()
            elif fault.effect == "expire-continue":
                return expired(fault.message or "The provided continue parameter is too old")
            elif fault.effect == "status":
                reasons = {429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable"}
                message = fault.message or "injected by the sandbox"
                reason = reasons.get(fault.code, "")
                return StatusError(fault.code, reason, message, retry_after=fault.retry_after)
        return None

    def _client_is_there(self) -> bool:
        readable, _, _ = select.select([self.connection], [], [], 0)
        if not readable:
            return True
        try:
            return bool(self.connection.recv(1, socket.MSG_PEEK))
        except OSError:
            return False

    def _reset(self) -> None:
        """Drop the connection the hard way: with a reset, as a dying load balancer does."""
        self.close_connection = True
        linger = struct.pack("ii", 1, 0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        raise _DropConnection

    def _send(self, answer: Response, request: Request, *, truncated: bool) -> None:
        body = answer.body
        self.send_response(answer.code)
        self.send_header("Content-Type", answer.media_type)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if len(body) > _GZIP_FROM_BYTES and "gzip" in request.headers.get("accept-encoding", ""):
            body = gzip.compress(body, compresslevel=1, mtime=0)
            self.send_header("Content-Encoding", "gzip")
            self.send_header("Vary", "Accept-Encoding")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[: len(body) // 2] if truncated else body)
        self.wfile.flush()
        if truncated:
            self.close_connection = True

    def _send_stream(self, answer: Response, stream: Iterator[bytes]) -> None:
        self.send_response(answer.code)
        self.send_header("Content-Type", answer.media_type)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in stream:
            if piece:
                self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()


def _advice(refusal: StatusError) -> dict[str, str]:
    return {"Retry-After": str(refusal.retry_after)} if refusal.retry_after else {}
