"""Asks Prometheus: at its address, or from outside the cluster through the API server's service proxy.

Every failure is one line that says what was asked, where and how often. Credentials go to the address they
were given for and nowhere else: redirects are not followed, and the service proxy gets none.
"""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import quote, urlencode

from rebalancer.cluster.live import RawApi
from rebalancer.cluster.live.answers import NoAnswerError, short_reason
from rebalancer.deadlines import Deadline
from rebalancer.errors import InputError, UnreachableError
from rebalancer.load.prometheus.questions import Connection, Question
from rebalancer.load.prometheus.transport import directly, through_service_proxy
from rebalancer.load.prometheus.wire import refusal
from rebalancer.load.service_addresses import service_of
from rebalancer.retries import RETRIED_STATUSES, Again, Retries, retry_after_seconds

_ATTEMPTS = 3
_FIRST_WAIT_SECONDS = 0.4
_MAX_WAIT_SECONDS = 5.0


class RefusedError(InputError):
    """Prometheus answered that the query itself is wrong (400, 422)."""


class _FailedAttemptError(Exception):
    """One request that brought no result; ``passing`` when another attempt may help."""

    def __init__(self, message: str, *, passing: bool = False, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.passing = passing
        self.retry_after = retry_after


class LivePrometheus:
    """Asks one Prometheus; after an answer that did not come it is not asked again."""

    def __init__(
        self,
        connection: Connection,
        api: RawApi | None,
        now: float,
        *,
        inside: bool,
        retries: Retries | None = None,
    ) -> None:
        """``inside`` says that cluster addresses resolve here."""
        self._connection = connection
        self._now = now
        self._retries = replace(
            retries or (api.retries if api is not None else Retries()),
            attempts=_ATTEMPTS,
            first_wait_seconds=_FIRST_WAIT_SECONDS,
            max_retry_after_seconds=_MAX_WAIT_SECONDS,
        )
        self._failed: UnreachableError | None = None
        service = service_of(connection.address)
        if service is not None and not inside and api is not None and not connection.has_login:
            proxied = f"api/v1/namespaces/{quote(service.namespace)}/services/{quote(service.service)}/proxy"
            self._base = f"{api.host.rstrip('/')}/{proxied}/{service.path}".rstrip("/")
            self._send = through_service_proxy(api)
        else:
            self._base = connection.address.rstrip("/")
            self._send = directly(connection)

    def __call__(self, question: Question) -> bytes:
        """The body of a successful answer."""
        if self._failed is not None:
            raise self._failed
        try:
            return self._answer(question)
        except UnreachableError as error:
            self._failed = error
            raise

    def _answer(self, question: Question) -> bytes:
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
            hint = "are the credentials right?" if str(error).startswith(("HTTP 401", "HTTP 403")) else ""
            times = f"{attempts} attempt{'s' if attempts > 1 else ''}"
            raise UnreachableError(f"{error} ({times})", where=where, hint=hint) from error

    def _ask_once(self, question: Question, where: str, limit: Deadline) -> bytes:
        seconds = self._connection.timeout_seconds
        try:
            answer = self._send(f"{where}?{urlencode(question.parameters(self._now))}", seconds, limit)
        except NoAnswerError as error:
            # A server that is slow is not asked to do the same again.
            within = f" within {seconds:g} s" if error.slow else ""
            raise _FailedAttemptError(f"no answer{within}: {error}", passing=not error.slow) from error
        except ValueError as error:
            raise _FailedAttemptError(f"no answer: {short_reason(error)}") from error
        if answer.status == 200:
            return answer.body
        message = " ".join(part for part in (f"HTTP {answer.status}", refusal(answer.body)) if part)
        if answer.status in (400, 422):
            raise RefusedError(f"the query is refused: {message}: {_short(question.query)}", where=where)
        passing = answer.status in RETRIED_STATUSES
        raise _FailedAttemptError(message, passing=passing, retry_after=retry_after_seconds(answer.headers))


def _again(error: Exception) -> Again | None:
    if isinstance(error, _FailedAttemptError) and error.passing:
        return Again(str(error), error.retry_after)
    return None


def _short(query: str) -> str:
    text = " ".join(query.split())
    return text if len(text) <= 120 else f"{text[:117]}…"
