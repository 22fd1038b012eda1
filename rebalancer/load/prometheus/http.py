"""Asks Prometheus: at its address, or from outside the cluster through the API server's service proxy.

Every failure is one line that says what was asked, where and how often. Credentials go to the address they
were given for and nowhere else: redirects are not followed, and the service proxy gets none.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, urlencode

import urllib3
from urllib3.exceptions import HTTPError, NewConnectionError
from urllib3.exceptions import TimeoutError as TransportTimeoutError

from rebalancer.cluster.live.connection import RawApi, retry_after_seconds, short_reason
from rebalancer.errors import InputError, UnreachableError
from rebalancer.load.prometheus.questions import Connection, Question
from rebalancer.load.prometheus.wire import refusal
from rebalancer.load.service_addresses import service_of

CONNECT_SECONDS = 5.0
_ATTEMPTS = 3
_MAX_WAIT_SECONDS = 5.0
_MAX_ANSWER_BYTES = 128 << 20
_MAX_SECRET_BYTES = 64 << 10
_PASSING = frozenset({429, 500, 502, 503, 504})


class RefusedError(InputError):
    """Prometheus answered that the query itself is wrong (400, 422)."""


class LivePrometheus:
    """Asks one Prometheus; after an answer that did not come it is not asked again."""

    def __init__(
        self,
        connection: Connection,
        api: RawApi | None,
        now: float,
        *,
        inside: bool,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """``inside`` says that cluster addresses resolve here."""
        self._connection = connection
        self._now = now
        self._sleep = sleep
        self._failed: UnreachableError | None = None
        service = service_of(connection.address)
        if service is not None and not inside and api is not None and not connection.has_login:
            proxied = f"api/v1/namespaces/{quote(service.namespace)}/services/{quote(service.service)}/proxy"
            self._base = f"{api.host.rstrip('/')}/{proxied}/{service.path}".rstrip("/")
            self._send = _through(api)
        else:
            self._base = connection.address.rstrip("/")
            self._send = _direct(connection)

    def __call__(self, question: Question) -> bytes:
        """The body of a successful answer."""
        if self._failed is not None:
            raise self._failed
        url = f"{self._base}/{question.path()}?{urlencode(question.parameters(self._now))}"
        try:
            return self._answer(url, question)
        except UnreachableError as error:
            self._failed = error
            raise

    def _answer(self, url: str, question: Question) -> bytes:
        where = f"{self._base}/{question.path()}"
        timeout = urllib3.Timeout(connect=CONNECT_SECONDS, read=self._connection.timeout_seconds)
        said, attempt = "", 0
        for attempt in range(1, _ATTEMPTS + 1):
            wait = 0.2 * 2**attempt
            try:
                status, content, asked = self._send(url, timeout)
            except NewConnectionError as error:  # urllib3 counts a refused connection among the timeouts
                said = f"no answer: {short_reason(error)}"
            except TransportTimeoutError as error:
                said = f"no answer within {self._connection.timeout_seconds:g} s: {short_reason(error)}"
                break  # a server that is slow is not asked to do the same again
            except (HTTPError, OSError, ValueError) as error:
                said = f"no answer: {short_reason(error)}"
            else:
                if status == 200:
                    return content
                said = " ".join(part for part in (f"HTTP {status}", refusal(content)) if part)
                if status in (400, 422):
                    raise RefusedError(f"the query is refused: {said}: {_short(question.query)}", where=where)
                if status not in _PASSING:
                    break
                wait = asked if asked is not None else wait
            if attempt < _ATTEMPTS:
                self._sleep(min(wait, _MAX_WAIT_SECONDS))
        hint = "are the credentials right?" if said.startswith(("HTTP 401", "HTTP 403")) else ""
        times = f"{attempt} attempt{'s' if attempt > 1 else ''}"
        raise UnreachableError(f"{said} ({times})", where=where, hint=hint)


Send = Callable[[str, urllib3.Timeout], tuple[int, bytes, float | None]]
"""GETs a URL: status, body, Retry-After in seconds."""


def _read(response: urllib3.BaseHTTPResponse) -> tuple[int, bytes, float | None]:
    try:
        content: bytes = response.read(_MAX_ANSWER_BYTES + 1, decode_content=True)
    finally:
        response.release_conn()
    if len(content) > _MAX_ANSWER_BYTES:
        raise ValueError(f"the answer is larger than {_MAX_ANSWER_BYTES >> 20} MiB")
    return int(response.status), content, retry_after_seconds(response)


def _through(api: RawApi) -> Send:
    """GETs with the credentials for the API server."""

    def send(url: str, timeout: urllib3.Timeout) -> tuple[int, bytes, float | None]:
        path = url.removeprefix(api.host.rstrip("/"))
        _, full, headers, _, _ = api.api.param_serialize("GET", path, auth_settings=["BearerToken"])
        pool = api.api.rest_client.pool_manager
        return _read(
            pool.request("GET", full, headers=headers, timeout=timeout, preload_content=False, retries=False)
        )

    return send


def _direct(connection: Connection) -> Send:
    """GETs with the credentials given for the address."""
    headers = {"Accept-Encoding": "gzip", "User-Agent": "rebalancer"}
    if connection.bearer_token_file:
        headers["Authorization"] = f"Bearer {read_secret(connection.bearer_token_file)}"
    elif connection.token:
        headers["Authorization"] = f"Bearer {connection.token}"
    elif connection.username:
        password = read_secret(connection.password_file or "")
        headers |= urllib3.make_headers(basic_auth=f"{connection.username}:{password}")
    insecure = connection.insecure_skip_verify
    if connection.ca_file and not Path(connection.ca_file).is_file():
        raise InputError("no such file of certificates", where=connection.ca_file)
    options = {"cert_reqs": "CERT_NONE"} if insecure else {"ca_certs": connection.ca_file}
    if insecure:  # the policy says so; urllib3 would repeat it at every request
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)

    def send(url: str, timeout: urllib3.Timeout) -> tuple[int, bytes, float | None]:
        with urllib3.PoolManager(**options) as pool:
            return _read(
                pool.request(
                    "GET", url, headers=headers, timeout=timeout, preload_content=False, retries=False
                )
            )

    return send


def read_secret(path: str) -> str:
    """The token or password in a file; InputError, without its text, when there is none to be used."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(_MAX_SECRET_BYTES + 1)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=path) from error
    try:
        text = content.decode().strip()
    except UnicodeDecodeError as error:
        raise InputError("is not text", where=path) from error
    if not text or len(content) > _MAX_SECRET_BYTES or not text.isprintable():
        raise InputError("does not hold a token or password on one line", where=path)
    return text


def _short(query: str) -> str:
    text = " ".join(query.split())
    return text if len(text) <= 120 else f"{text[:117]}…"
