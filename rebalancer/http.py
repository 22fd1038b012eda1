"""One HTTP request: bounded in time and size, sent once, its failures in our own words.

Every request of the program, to an API server, load-watcher or Prometheus, is made by ``request`` or
``open_stream``, so the same rules hold for all of them:

    time        ``read_seconds`` for each byte, and the deadline for the whole, however slowly it comes
    a stop      ends the waiting at once, and the connection with it, however little of an answer has come
    size        an answer larger than ``max_bytes`` is an error, and is not read to its end
    redirects   are not followed, unless the caller allows some: credentials stay with their address
    retries     are made by ``rebalancer.retries`` alone, so that each is bounded and logged
    secrets     a request that HTTP does not allow is reported without the header that is wrong
    TLS         is what the pool does; certificates are verified unless a kubeconfig or policy says otherwise

urllib3 takes long to import, so the first request imports it: a recorded cluster is planned without it.
"""

from __future__ import annotations

import contextlib
import functools
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC
from typing import TYPE_CHECKING, Any

import msgspec

from rebalancer.deadlines import Deadline
from rebalancer.errors import InputError, StopRequestedError
from rebalancer.redaction import without_secrets

if TYPE_CHECKING:
    import urllib3

CONNECT_SECONDS = 5.0
READ_SECONDS = 60.0
RETRIED_STATUSES = frozenset({429, 500, 502, 503, 504})
_MAX_REFUSAL_BYTES = 1 << 20  # of an answer with an error status
_PIECE_BYTES = 256 << 10  # of a stream, read at once at most
_NO_DEADLINE = Deadline()
HEADERS = {"Accept-Encoding": "gzip", "User-Agent": "rebalancer"}  # of every request

Headers = Callable[[], Mapping[str, str]]
"""The headers of a request; to ask for them may renew a login, so that is bounded as the request is."""


class Answer(msgspec.Struct, frozen=True):
    """An answer with any status."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = {}
    reason: str = ""

    @property
    def ok(self) -> bool:
        """Whether the request was carried out."""
        return 200 <= self.status < 300

    @property
    def content_type(self) -> str:
        """What the body is, as the server says."""
        return self.headers.get("Content-Type") or ""


class NoAnswerError(Exception):
    """No answer came, or only part of one; ``kind`` is the transport's name for what happened.

    ``slow`` says that the server accepted the connection and did not answer in time.
    """

    def __init__(self, error: BaseException, *, slow: bool = False) -> None:
        super().__init__(short_reason(error))
        self.slow = slow
        self.kind = type(getattr(error, "reason", None) or error).__name__


class TooLargeError(ValueError):
    """An answer is larger than anybody needs it to be."""


def pool(*, verify: bool = True, **options: Any) -> urllib3.PoolManager:
    """Connections to servers; urllib3's options say how they are protected."""
    import urllib3  # noqa: PLC0415 - slow to import

    if not verify:  # whoever asks for it was told; urllib3 would repeat it at every request
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        options["cert_reqs"] = "CERT_NONE"
    return urllib3.PoolManager(**options)


def request(
    pool: urllib3.PoolManager,
    method: str,
    url: str,
    *,
    headers: Headers,
    max_bytes: int,
    body: str | None = None,
    read_seconds: float = READ_SECONDS,
    whole_seconds: float | None = None,
    deadline: Deadline = _NO_DEADLINE,
    what: str = "",
    redirects: int = 0,
    body_needed: bool = True,
) -> Answer:
    """Send a request once and wait for its answer until ``deadline``, and ``whole_seconds`` at most.

    Where the status line is all that counts, ``body_needed=False``, nothing is raised when the body of a
    success does not arrive. Raises NoAnswerError, TooLargeError, StopRequestedError naming ``what``, or
    InputError for a request that HTTP does not allow.
    """
    connect_seconds = min(CONNECT_SECONDS, read_seconds)
    whole = connect_seconds + read_seconds if whole_seconds is None else whole_seconds
    connections = Connections()

    def exchange() -> Answer:
        with contextlib.closing(connections), connections, _translated(url):
            response = _send(pool, method, url, headers(), body, connect_seconds, read_seconds, redirects)
            return _received(response, max_bytes, body_needed)

    try:
        return deadline.within(whole).bound(what or f"{method.lower()} {url}", exchange)
    except TimeoutError as error:
        connections.end()
        raise NoAnswerError(error, slow=True) from error
    except StopRequestedError:
        connections.end()
        raise


class Connections:
    """The connections that a thread makes or takes up within this block, which another thread can end.

    urllib3 shows a connection with the head of its answer only, and a head can be as long in coming as a
    body. What is kept until ``close`` is a handle of our own for each, so none is ended that another request
    took over.
    """

    _of_thread = threading.local()

    def __init__(self) -> None:
        self._handles: list[socket.socket] = []
        self._over = False

    def __enter__(self) -> None:
        self._of_thread.current = self

    def __exit__(self, *_: object) -> None:
        del self._of_thread.current

    def close(self) -> None:
        """They are used no longer."""
        while self._handles:
            with contextlib.suppress(IndexError):  # ended meanwhile
                self._handles.pop().close()

    @classmethod
    def note(cls, connection: Any) -> None:
        """The thread uses this connection."""
        current = getattr(cls._of_thread, "current", None)
        if current is not None:
            current._handles.append(socket.socket(fileno=os.dup(connection.fileno())))
            if current._over:
                current.end()

    def end(self) -> None:
        """Nobody waits any longer, so the thread is to end."""
        self._over = True
        while self._handles:
            with contextlib.suppress(IndexError, OSError), self._handles.pop() as handle:
                handle.shutdown(socket.SHUT_RDWR)


@functools.cache
def _pool_classes() -> Mapping[str, Any]:
    """urllib3's pools by scheme, with connections that are noted."""
    from urllib3 import HTTPConnectionPool, HTTPSConnectionPool  # noqa: PLC0415 - slow to import

    def noting(pool: Any) -> Any:
        class Connection(pool.ConnectionCls):  # type: ignore[misc]
            def _new_conn(self) -> Any:
                connection = super()._new_conn()
                Connections.note(connection)
                return connection

            def request(self, *arguments: Any, **options: Any) -> Any:
                if self.sock is not None:
                    Connections.note(self.sock)
                return super().request(*arguments, **options)

        return type(pool.__name__, (pool,), {"ConnectionCls": Connection})

    return {"http": noting(HTTPConnectionPool), "https": noting(HTTPSConnectionPool)}


def open_stream(
    pool: urllib3.PoolManager, url: str, *, headers: Headers, read_seconds: float, connections: Connections
) -> Stream:
    """An answer whose body goes on for as long as its reader likes; silence of so many seconds ends it.

    Another thread ends it at any time, before its head has come too, by ``connections.end``. Raises
    NoAnswerError, or InputError for a request that HTTP does not allow.
    """
    with contextlib.ExitStack() as stack:
        stack.callback(connections.close)
        with connections, _translated(url):
            response = _send(pool, "GET", url, headers(), None, CONNECT_SECONDS, read_seconds, 0)
        stack.pop_all()
        return Stream(response, url, connections)


class Stream:
    """The body of an answer that has no end, piece by piece as it arrives."""

    def __init__(self, response: Any, url: str, connections: Connections) -> None:
        self._response = response
        self._url = url
        self._connections = connections
        self.status = int(response.status)
        self.content_type = str(response.headers.get("Content-Type") or "")

    def refusal(self) -> Answer:
        """The whole answer, where it has an error status; the connection is free then."""
        with contextlib.closing(self._connections), _translated(self._url):
            return _received(self._response, _MAX_REFUSAL_BYTES, True)

    def pieces(self) -> Iterator[bytes]:
        """What arrives, until the server ends the body. Raises NoAnswerError when it breaks off."""
        with _translated(self._url):
            while piece := self._response.read1(_PIECE_BYTES, decode_content=True):
                yield piece

    def close(self) -> None:
        """Close the connection."""
        from urllib3.exceptions import HTTPError  # noqa: PLC0415 - slow to import

        self._connections.close()
        with contextlib.suppress(HTTPError, OSError):
            self._response.close()


def _send(
    pool: urllib3.PoolManager,
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: str | None,
    connect_seconds: float,
    read_seconds: float,
    redirects: int,
) -> Any:
    import urllib3  # noqa: PLC0415 - slow to import

    pool.pool_classes_by_scheme = _pool_classes()
    followed = urllib3.Retry(total=redirects, connect=0, read=0, respect_retry_after_header=False)
    return pool.request(
        method,
        url,
        body=body,
        headers=headers,
        timeout=urllib3.Timeout(connect=connect_seconds, read=read_seconds),
        preload_content=False,
        retries=followed if redirects else False,
    )


def _received(response: Any, max_bytes: int, body_needed: bool) -> Answer:
    """Read an answer to its end; of an error status as much as can be shown."""
    from urllib3.exceptions import HTTPError  # noqa: PLC0415 - slow to import

    ok = 200 <= response.status < 300
    most_bytes = max_bytes if ok else min(max_bytes, _MAX_REFUSAL_BYTES)
    content = b""
    whole = False
    try:
        with contextlib.suppress(HTTPError, OSError) if ok and not body_needed else contextlib.nullcontext():
            content = response.read(most_bytes + 1, decode_content=True)
            whole = len(content) <= most_bytes
    finally:
        if not whole:  # or what can't be unpacked would be left half read, on a connection that goes on
            response.close()
        response.release_conn()
    if ok and body_needed and len(content) > most_bytes:
        raise TooLargeError(f"the answer is larger than {max_bytes >> 20} MiB")
    return Answer(content[:most_bytes], int(response.status), response.headers, response.reason or "")


@contextlib.contextmanager
def _translated(url: str) -> Iterator[None]:
    """Turn the transport's errors into ours."""
    from urllib3.exceptions import HTTPError, NewConnectionError  # noqa: PLC0415 - slow to import
    from urllib3.exceptions import TimeoutError as TransportTimeoutError  # noqa: PLC0415

    try:
        yield
    except (HTTPError, OSError) as error:
        # urllib3 counts a refused connection among the timeouts.
        slow = isinstance(error, TransportTimeoutError) and not isinstance(error, NewConnectionError)
        raise NoAnswerError(error, slow=slow) from error
    except ValueError as error:
        if type(error) is ValueError or isinstance(error, UnicodeError):
            # The transport's own words may hold the login.
            raise InputError(
                "a request cannot be sent: an address or a credential holds what HTTP does not allow",
                where="/".join(url.split("/", 3)[:3]),
                hint="does a token end in a line break?",
            ) from None
        raise


def short_reason(error: BaseException) -> str:
    """What the transport says went wrong, without the addresses of its own objects."""
    reason = getattr(error, "reason", None) or error
    words = reason.args[0] if getattr(reason, "args", ()) and isinstance(reason.args[0], str) else str(reason)
    ends = min((at for at in (words.find("): "), words.find(">: ")) if at >= 0), default=-3)  # of an object
    message = without_secrets(words[ends + 3 :])  # before it is cut: a login may be
    return f"{type(reason).__name__}: {message[:200]}"


def retry_after_seconds(headers: Mapping[str, str] | None) -> float | None:
    """Seconds that the ``Retry-After`` of an answer asks to wait; None without a usable one.

    A date is compared with the answer's own ``Date``, so that our clock need not agree with the server's.
    """
    value = headers.get("Retry-After") if headers else None
    if value is None or headers is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        then = http_date(value)
        now = http_date(headers.get("Date"))
        return None if then is None else max(0.0, then - (time.time() if now is None else now))
    return seconds if 0 <= seconds < float("inf") else None


def http_date(text: str | None) -> float | None:
    """Unix seconds of a date in a header; None when there is none."""
    from email.utils import parsedate_to_datetime  # noqa: PLC0415 - slow to import, seldom needed

    try:
        date = parsedate_to_datetime(text) if text else None
        return date.replace(tzinfo=date.tzinfo or UTC).timestamp() if date else None
    except (ValueError, TypeError, OverflowError, OSError):
        return None
