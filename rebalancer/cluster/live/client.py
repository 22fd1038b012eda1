"""Requests over the transport that a login comes with; answers stay bytes.

Only ``credentials`` knows the official client, which takes half a second of processor time to be imported.
"""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Callable, Iterator
from typing import Any

import urllib3
from urllib3.exceptions import HTTPError

from rebalancer.cluster.live.answers import Answer, NoAnswerError, StatusError, unsendable
from rebalancer.cluster.live.calls import CoreCalls, ObjectCalls
from rebalancer.deadlines import Deadline
from rebalancer.telemetry import span

CONNECT_SECONDS = 5.0
READ_SECONDS = 60.0
_MAX_REFUSAL_BYTES = 1 << 20
_PIECE_BYTES = 256 << 10  # of a stream, read at once at most
_NO_DEADLINE = Deadline()


class KubernetesClient:
    """One connection: the requests that are made, as methods, and ``send``, which calls one of them."""

    def __init__(self, api: Any, request_seconds: float | None = None) -> None:
        """``api`` is an ``ApiClient`` of the official client, or a ``PlainApi``."""
        self.api = api
        self._request_seconds = request_seconds
        self.lists_whole: bool | None = None  # whether a large LIST is read in one answer; not known yet
        self.core = CoreCalls(self._request)
        self.custom_objects = ObjectCalls(self._request)

    @property
    def host(self) -> str:
        """The API server's address."""
        return str(self.api.configuration.host)

    @property
    def verifies_certificates(self) -> bool:
        """Whether the server's certificate is checked; a kubeconfig can turn that off."""
        return bool(self.api.configuration.verify_ssl)

    def _request(
        self,
        method: str,
        path: str,
        query: list[tuple[str, Any]],
        headers: dict[str, str],
        body: Any,
        timeout: tuple[float, float],
    ) -> Any:
        """The response to one request, as ``Calls`` asks for it. Raises StatusError."""
        method, url, headers, body, _ = self.api.param_serialize(
            method, path, None, query, headers, body, auth_settings=["BearerToken"]
        )
        response = self.api.rest_client.pool_manager.request(
            method,
            url,
            body=None if body is None else json.dumps(body),
            headers=headers,
            timeout=urllib3.Timeout(connect=timeout[0], read=timeout[1]),
            preload_content=False,
        )
        if not 200 <= response.status < 300:
            refusal = response.read(_MAX_REFUSAL_BYTES, decode_content=True)
            response.release_conn()
            text = refusal.decode("utf-8", "replace")
            raise StatusError(response.status, response.reason or "", text, response.headers)
        return response

    def send(
        self,
        call: Callable[..., Any],
        *arguments: Any,
        max_bytes: int,
        read_seconds: float | None = None,
        deadline: Deadline = _NO_DEADLINE,
        what: str = "a request",
        body_needed: bool = True,
        **options: Any,
    ) -> Answer:
        """The answer to one request, at most one byte more than ``max_bytes`` of it.

        It is waited for until ``deadline``, and for so many seconds as a whole: the API server, too, ends
        a request after a minute. Raises StatusError, NoAnswerError, or StopRequestedError naming ``what``.
        Where the status line is all the answer that counts, nothing is raised when the body does not arrive.
        """
        whole = self._request_seconds
        read = READ_SECONDS if whole is None else whole
        read = read if read_seconds is None else min(read, read_seconds)
        timeout = (min(CONNECT_SECONDS, read), read)
        arriving: list[Any] = []

        def request() -> Answer:
            send = functools.partial(self._sent, call, _request_timeout=timeout, **options)
            return _received(functools.partial(send, *arguments), arriving, max_bytes, body_needed)

        try:
            with span("request", what=what) as asking:
                try:
                    return deadline.within(sum(timeout) if whole is None else whole).bound(what, request)
                except StatusError as error:
                    asking.add(status=error.status)
                    raise
        except TimeoutError as error:
            _end(arriving)
            raise NoAnswerError(error, slow=True) from error
        except BaseException:  # a signal may raise what it likes
            _end(arriving)
            raise

    def stream(
        self, call: Callable[..., Any], *arguments: Any, read_seconds: float = READ_SECONDS, **options: Any
    ) -> Stream:
        """An answer whose body goes on for as long as its reader likes; silence of so many seconds ends it.

        Raises StatusError or NoAnswerError.
        """
        timeout = (CONNECT_SECONDS, read_seconds)
        with _as_ours():
            return Stream(self._sent(call, *arguments, _request_timeout=timeout, **options))

    def _sent(self, call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """The response to one request. InputError for one that HTTP does not allow."""
        try:
            return call(*arguments, **options)
        except (HTTPError, OSError):
            raise
        except ValueError as error:
            if type(error) is ValueError or isinstance(error, UnicodeError):
                raise unsendable(self.host) from None
            raise  # a defect of ours


class Stream:
    """The body of an answer that has no end, piece by piece as it arrives."""

    def __init__(self, response: Any) -> None:
        self._response = response
        self.content_type = str(response.headers.get("Content-Type") or "")

    def pieces(self) -> Iterator[bytes]:
        """What arrives, until the server ends the body. Raises NoAnswerError when it breaks off."""
        with _as_ours():
            while piece := self._response.read1(_PIECE_BYTES, decode_content=True):
                yield piece

    def interrupt(self) -> None:
        """End the connection while another thread waits for what it brings; that thread closes it."""
        _end([self._response])

    def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(HTTPError, OSError):
            self._response.close()


@contextlib.contextmanager
def _as_ours() -> Iterator[None]:
    """Turn the transport's errors into NoAnswerError."""
    try:
        yield
    except (HTTPError, OSError) as error:
        raise NoAnswerError(error) from error


def _received(send: Callable[[], Any], arriving: list[Any], max_bytes: int, body_needed: bool) -> Answer:
    """Send a request and read its answer, which is in ``arriving`` meanwhile."""
    with _as_ours():
        response = send()
        arriving.append(response)
        body = b""
        try:
            with contextlib.nullcontext() if body_needed else contextlib.suppress(HTTPError, OSError):
                body = response.read(max_bytes + 1, decode_content=True)
            if len(body) > max_bytes:
                response.close()
        finally:
            response.release_conn()
    return Answer(body, response.headers.get("Content-Type") or "", response.headers.get("Date"))


def _end(arriving: list[Any]) -> None:
    """Close the connections of answers that nobody waits for any longer, so that their threads end."""
    for response in arriving:
        with contextlib.suppress(AttributeError, ValueError, RuntimeError, OSError):
            response.shutdown()
