"""Which of our errors follows from a request to an API server that failed, in words that say what to change.

    HTTP 401, 403                         RightsError, with what to grant
    429, 5xx, or no answer                UnreachableError
    3xx, any other 4xx, 403 of admission  RequestRejectedError: it answers, and rejects this request

The transport's own words say what it noticed, not what is wrong: with https:// in the kubeconfig and a port
that speaks plain HTTP it says ``SSLError: [SSL: WRONG_VERSION_NUMBER]``. So where no answer came they are
looked up in a table.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, ClassVar
from urllib.parse import unquote

from rebalancer.errors import ExitCode, RightsError, UnreachableError
from rebalancer.http import RETRIED_STATUSES, Answer, NoAnswerError, retry_after_seconds
from rebalancer.retries import Retry

_ADDRESS = "is the API server up, and does the kubeconfig name it?"
_BETWEEN = "is the API server being restarted, or is a proxy before it at fault?"

# What is found in the transport's words, what went wrong then, and what to do about it.
_TRANSPORT_FAILURES = (
    (
        r"WRONG_VERSION_NUMBER|record layer failure|UNKNOWN_PROTOCOL|http_request",
        "the server speaks plain HTTP, and the address begins with https://",
        "write http:// in the kubeconfig, or the port that speaks TLS",
    ),
    (
        r"certificate has expired",
        "the server's certificate has expired",
        "renew it, or set the clock of this machine",
    ),
    (
        r"certificate is not yet valid",
        "the server's certificate is not valid yet",
        "set the clock of this machine, or of the one that issued it",
    ),
    (
        r"(hostname|IP address) mismatch",
        "the server's certificate is for another name or address",
        "use one that it holds as server in the kubeconfig, or set tls-server-name there",
    ),
    (
        r"self.signed|unable to get (local )?issuer|CERTIFICATE_VERIFY_FAILED",
        "the server's certificate is signed by nobody who is trusted here",
        "set certificate-authority of the cluster in the kubeconfig",
    ),
    (
        r"alert (bad |unknown |revoked |expired )?certificate|certificate.required|alert unknown ca",
        "the server does not accept the client certificate",
        "renew client-certificate of the user in the kubeconfig",
    ),
    (r"connection refused", "connection refused: nothing listens there", _ADDRESS),
    (
        r"NameResolutionError|failed to resolve",
        "the server's name cannot be resolved",
        "is the address in the kubeconfig right, and the network or VPN up?",
    ),
    (
        r"ConnectTimeoutError|no route to host|network is unreachable|host is down",
        "the server cannot be reached over the network",
        "is a VPN down, or a firewall between?",
    ),
    (
        r"TimeoutError|read timed out",
        "",  # its own words say how long was waited
        "is the API server overloaded, or a proxy before it?",
    ),
    (
        r"ProxyError|tunnel connection failed",
        "the proxy does not let the request through",
        "see HTTPS_PROXY and NO_PROXY",
    ),
    (
        r"IncompleteRead|Connection broken|ended prematurely|InvalidChunkLength|failed to decode it",
        "the answer broke off, or came damaged",
        _BETWEEN,
    ),
    (
        r"Connection aborted|RemoteDisconnected|connection reset|broken pipe",
        "the connection was closed before an answer came",
        _BETWEEN,
    ),
)


def connection_failure(words: str) -> tuple[str, str]:
    """What the transport describes with these words, else the words themselves; and what to do about it."""
    for pattern, message, hint in _TRANSPORT_FAILURES:
        if re.search(pattern, words, re.IGNORECASE):
            return message or words, hint
    return words, _ADDRESS


_GRANT = "grant it as in k8s/base, for a run as in k8s/overlays/active"
# How admission words a 403, which no right would change: webhooks, quotas, and the end of a namespace.
DENIED = ("denied the request", "denied request")  # by a webhook; by a ValidatingAdmissionPolicy
_ADMISSION = (*DENIED, "exceeded quota", "is being terminated")
_PROXIED = "services/proxy"  # the resource by which the API server passes a request on to a service
_REACH = f"from outside the cluster it is reached by the right to get {_PROXIED}: grant that in its namespace"
_LOGIN = "the credentials are not accepted: a token may have expired, so "
NO_API_SERVER = "is this an API server, or a proxy before one?"
_OVERLOADED = "it is overloaded, or turns away too many requests: see API priority and fairness"
_PLAIN_HTTP = "HTTP request to an HTTPS server"  # what Go's servers answer to it
TOO_MANY_REQUESTS = 429


def grant_for(refusal: str, otherwise: str = _GRANT) -> str:
    """What is to be granted to whom the API server answers so."""
    return _REACH if _PROXIED in refusal else otherwise


def remedy(error: RightsError, right: str) -> str:
    """What to do about a refusal for want of this right; where no login was accepted, none would help."""
    cause = error.__cause__
    not_logged_in = isinstance(cause, StatusError) and cause.status == HTTPStatus.UNAUTHORIZED
    return error.hint if not_logged_in else right


class StatusError(Exception):
    """An answer with an error status; its body should be a Status object, and may be anything."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(f"HTTP {answer.status} {answer.reason}".strip())
        self.status = answer.status
        self.retry_after = retry_after_seconds(answer.headers)
        self._document: Any = None
        with contextlib.suppress(ValueError, TypeError, RecursionError):
            self._document = json.loads(answer.body)
        self.text = answer.body[:500].decode(errors="replace")  # as it begins, whatever it is

    @property
    def kind(self) -> object:
        """Of the object in the body; None where there is none."""
        return self._document.get("kind") if isinstance(self._document, dict) else None

    @property
    def is_status(self) -> bool:
        """Whether the body is a Status object, as every API server sends it."""
        return self.kind == "Status"

    @property
    def is_failure(self) -> bool:
        """Whether the body is a Status that says that the request failed, whatever the HTTP status."""
        return self.is_status and self._document.get("status") == "Failure"

    @property
    def message(self) -> str:
        """The message of the Status object, else the status line."""
        if _PLAIN_HTTP in self.text:
            return "the server speaks HTTPS, and the address begins with http://"
        message = self._document.get("message") if isinstance(self._document, dict) else None
        return message[:500] if isinstance(message, str) and message else str(self)

    @property
    def absent(self) -> tuple[object, object] | None:
        """The plural and the name of the object that does not exist, by the API server's word; else None."""
        if not (self.status == HTTPStatus.NOT_FOUND and self.is_status):
            return None
        details = self._document.get("details")
        if self._document.get("reason") != "NotFound" or not isinstance(details, dict):
            return None
        return details.get("kind"), details.get("name")

    def causes(self, reason: str) -> list[str]:
        """The messages of the causes in the Status object that have this reason."""
        with contextlib.suppress(ValueError, TypeError, LookupError, AttributeError):
            causes = self._document["details"]["causes"]
            return [str(cause["message"]) for cause in causes if cause["reason"] == reason]
        return []


def status_message(answer: Answer) -> str:
    """What the Status in an answer says; empty where it has none."""
    error = StatusError(answer)
    return error.message if error.is_status else ""


class AnswerTooLargeError(UnreachableError):
    """The answer is larger than the request may bring; what came of it was dropped."""


class RequestRejectedError(UnreachableError):
    """The API server answers, but rejects this request: 404, 409, 410, 422 and other client errors."""

    exit_code: ClassVar[ExitCode] = ExitCode.REJECTED

    def __init__(
        self,
        message: str,
        *,
        where: str = "",
        hint: str = "",
        status: int = 404,
        absent: tuple[object, object] | None = None,
    ) -> None:
        """``absent`` is the plural and the name of the object that, by the API server, does not exist."""
        super().__init__(message, where=where, hint=hint)
        self.status = status
        self._absent = absent

    def proves_absence(self, path: str) -> bool:
        """Whether the API server says of the object at this path that it does not exist.

        Nothing else does: a proxy answers 404 as well, and so does an API server that does not know the kind.
        """
        plural, name = path.rstrip("/").split("/")[-2:]
        return self._absent == (plural, unquote(name))


@contextlib.contextmanager
def translated(what: str, host: str, log_in: str = "") -> Iterator[None]:
    """Turn failures into RightsError, RequestRejectedError or UnreachableError that name ``what``.

    ``log_in`` says how a person logs in again, where that is known.
    """
    try:
        yield
    except StatusError as error:
        line = f"{what}: {error.message}"
        if error.status == 401:
            raise RightsError(line, where=host, hint=f"{_LOGIN}{log_in or 'log in again'}") from error
        if error.status == 403 and not (error.is_status and any(map(error.message.count, _ADMISSION))):
            raise RightsError(line, where=host, hint=grant_for(line)) from error
        if error.status == TOO_MANY_REQUESTS:
            raise UnreachableError(line, where=host, hint=_OVERLOADED) from error
        if error.status < 500:
            hint = "" if error.is_status else NO_API_SERVER
            raise RequestRejectedError(
                line, where=host, hint=hint, status=error.status, absent=error.absent
            ) from error
        raise UnreachableError(line, where=host) from error
    except NoAnswerError as error:
        message, hint = connection_failure(str(error))
        raise UnreachableError(f"{what}: {message}", where=host, hint=hint) from error


def read_again(error: Exception) -> Retry | None:
    """Whether a read is worth repeating: after overload, a server's fault, or a broken connection."""
    if isinstance(error, StatusError) and error.status in RETRIED_STATUSES:
        return Retry(error.message, error.retry_after)
    return Retry(str(error)) if isinstance(error, NoAnswerError) else None


def write_again(error: Exception) -> Retry | None:
    """Whether a write may be repeated blindly: only one that flow control turned away was surely not done."""
    if isinstance(error, StatusError) and error.status == TOO_MANY_REQUESTS:
        return Retry(error.message, error.retry_after)
    return None
