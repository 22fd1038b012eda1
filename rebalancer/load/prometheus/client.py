"""Asks Prometheus: at its address, or from outside the cluster through the API server's service proxy.

Every failure is one line that says what was asked, where and how often. Credentials go to the address they
were given for and nowhere else: redirects are not followed, and the service proxy gets none.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from msgspec.structs import replace

from rebalancer import files, http
from rebalancer.addresses import checked_address
from rebalancer.cluster.live import RawApi, object_path
from rebalancer.cluster.live.failures import grant_for, status_message
from rebalancer.counting import counted
from rebalancer.deadlines import Deadline
from rebalancer.errors import InputError, UnreachableError
from rebalancer.http import RETRIED_STATUSES, Answer, NoAnswerError, retry_after_seconds, short_reason
from rebalancer.load.prometheus.queries import Connection, PrometheusQuery
from rebalancer.load.prometheus.responses import refusal
from rebalancer.load.services import runs_in_a_cluster, service_of
from rebalancer.retries import Retries, Retry

_MAX_ANSWER_BYTES = 128 << 20
_MAX_SECRET_BYTES = 64 << 10
_POD_IDENTITIES = Path("/var/run/secrets")  # kubernetes.io/serviceaccount, and the folders that clouds add
_ATTEMPTS = 3
_FIRST_WAIT_SECONDS = 0.4
_MAX_WAIT_SECONDS = 5.0


class _FailedAttemptError(Exception):
    """One request that brought no result; ``retry`` where another attempt may help."""

    def __init__(self, message: str, retry: Retry | None = None) -> None:
        super().__init__(message)
        self.retry = retry


class LivePrometheus:
    """Asks one Prometheus; after an answer that did not come it is not asked again."""

    def __init__(
        self,
        connection: Connection,
        api: RawApi | None,
        now: float,
        retries: Retries | None = None,
    ) -> None:
        self._connection = connection
        self._now = now
        self._retries = replace(
            retries or (api.retries if api is not None else Retries()),
            attempts=_ATTEMPTS,
            first_wait_seconds=_FIRST_WAIT_SECONDS,
            max_retry_after_seconds=_MAX_WAIT_SECONDS,
        )
        self._failed: UnreachableError | None = None
        try:
            checked_address(connection.address)
        except ValueError as error:
            raise InputError(str(error), where=connection.address) from error
        service = service_of(connection.address)
        proxied = service is not None and not connection.has_login and not runs_in_a_cluster()
        if service is not None and api is not None and proxied:
            self._api: RawApi | None = api
            proxy = object_path("v1", service.namespace, "services", service.service, "proxy")
            self._path = f"{proxy}/{service.path}".rstrip("/")
            self._base = f"{api.host.rstrip('/')}{self._path}"
        else:
            self._api = None
            self._path = ""
            self._base = connection.address.rstrip("/")
            self._headers = _headers(connection)
            self._pool_options = _pool_options(connection)

    def __call__(self, question: PrometheusQuery) -> bytes:
        """The body of a successful answer."""
        if self._failed is not None:
            raise self._failed
        try:
            return self._answer(question)
        except UnreachableError as error:
            self._failed = error
            raise

    def _answer(self, question: PrometheusQuery) -> bytes:
        where = f"{self._base}/{question.path()}"
        attempts = 0
        limit = self._retries.limit()

        def attempt() -> bytes:
            nonlocal attempts
            attempts += 1
            return self._ask_once(question, where, limit)

        try:
            return self._retries.call(f"query {where}", attempt, _again)
        except _FailedAttemptError as error:
            refused = str(error).startswith(("HTTP 401", "HTTP 403"))
            hint = grant_for(str(error), "are the credentials right?") if refused else ""
            times = counted(attempts, "attempt")
            raise UnreachableError(f"{error} ({times})", where=where, hint=hint) from error

    def _ask_once(self, question: PrometheusQuery, where: str, limit: Deadline) -> bytes:
        seconds = self._connection.timeout_seconds
        try:
            answer = self._get(question, seconds, limit)
        except NoAnswerError as error:
            # A server that is slow is not asked to do the same again.
            complaint = f"no answer{f' within {seconds:g} s' if error.slow else ''}: {error}"
            raise _FailedAttemptError(complaint, None if error.slow else Retry(complaint)) from error
        except ValueError as error:
            raise _FailedAttemptError(f"no answer: {short_reason(error)}") from error
        if answer.status == 200:
            return answer.body
        complaint = refusal(answer.body) or (status_message(answer) if self._api is not None else "")
        message = " ".join(part for part in (f"HTTP {answer.status}", complaint) if part)
        if answer.status in (400, 422):
            raise InputError(f"the query is refused: {message}: {_short(question.query)}", where=where)
        retry = Retry(message, retry_after_seconds(answer.headers))
        raise _FailedAttemptError(message, retry if answer.status in RETRIED_STATUSES else None)

    def _get(self, question: PrometheusQuery, seconds: float, limit: Deadline) -> Answer:
        path = f"{question.path()}?{urlencode(question.parameters(self._now))}"
        url = f"{self._base}/{path}"
        options: dict[str, Any] = {
            "max_bytes": _MAX_ANSWER_BYTES,
            "read_seconds": seconds,
            "deadline": limit.within(http.CONNECT_SECONDS + seconds),
            "what": f"get {url}",
        }
        if self._api is not None:
            headers = dict(self._connection.headers)
            return self._api.client.exchange("GET", f"{self._path}/{path}", headers=headers, **options)
        with http.pool(**self._pool_options) as pool:
            return http.request(pool, "GET", url, headers=lambda: self._headers, **options)


def _headers(connection: Connection) -> Mapping[str, str]:
    """What a request says about who we are."""
    login = ""
    if connection.bearer_token_file:
        login = f"Bearer {read_secret(connection.bearer_token_file)}"
    elif connection.token:
        login = f"Bearer {connection.token}"
    elif connection.username:
        named = f"{connection.username}:{read_secret(connection.password_file or '')}"
        login = f"Basic {base64.b64encode(named.encode('latin-1')).decode()}"
    headers = {**http.HEADERS, **dict(connection.headers)}
    if login:
        headers["Authorization"] = login
    return headers


def _pool_options(connection: Connection) -> dict[str, Any]:
    """How connections are protected. InputError where the authority cannot be read."""
    if connection.ca_file and not files.is_file(Path(connection.ca_file)):
        raise InputError("no such file of certificates", where=connection.ca_file)
    if connection.insecure_skip_verify:
        return {"verify": False}
    return {"ca_certs": connection.ca_file}


def read_secret(path: str) -> str:
    """The token or password in a file; InputError, without its text, when there is none to be used.

    The pod's own identity is none: whoever edits the policy could send it to a server of theirs.
    """
    try:
        if _is_pod_identity(path):
            raise InputError(
                f"credentials for a server may not stand below {_POD_IDENTITIES}, where the identity of "
                "rebalancer's own pod is",
                where=path,
                hint="mount a token of its own for this server in another folder",
            )
        with Path(path).open("rb") as file:
            content = file.read(_MAX_SECRET_BYTES + 1)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=path) from error
    except ValueError as error:
        raise InputError(f"is no path: {error}", where=path) from error
    try:
        text = content.decode().strip()
    except UnicodeDecodeError as error:
        raise InputError("is not text", where=path) from error
    if not text or len(content) > _MAX_SECRET_BYTES or not text.isprintable():
        raise InputError("does not hold a token or password on one line", where=path)
    return text


def _is_pod_identity(path: str) -> bool:
    """Whether a path, whichever way it takes, ends below the folder of the pod's own credentials."""
    return Path(os.path.realpath(_POD_IDENTITIES)) in Path(os.path.realpath(path)).parents


def _again(error: Exception) -> Retry | None:
    return error.retry if isinstance(error, _FailedAttemptError) else None


def _short(query: str) -> str:
    text = " ".join(query.split())
    return text if len(text) <= 120 else f"{text[:117]}…"
