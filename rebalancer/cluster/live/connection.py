"""The connection to an API server: the official client for credentials and transport, raw bytes for answers.

Every failure becomes one of our errors here, so that no caller sees a traceback of the transport.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import urllib3
import yaml
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt, wait_exponential
from urllib3.exceptions import HTTPError

from rebalancer.cluster.kinds import Kind
from rebalancer.errors import InputError, RightsError, UnreachableError

CONNECT_SECONDS = 5.0
READ_SECONDS = 60.0
MAX_WAIT_SECONDS = 30.0
_RETRIED_STATUSES = frozenset({429, 500, 502, 503, 504})
_ATTEMPTS = 4
_GRANT = "grant it as in k8s/base, for a run as in k8s/overlays/active"
_MAX_ANSWER_BYTES = 512 << 20


def connect(kubeconfig: Path | None = None, context: str | None = None) -> client.ApiClient:
    """A client for the kubeconfig given, else the pod's service account, else the default kubeconfig.

    Raises InputError when there is none or it cannot be used.
    """
    settings = client.Configuration()
    where = str(kubeconfig) if kubeconfig else os.environ.get("KUBECONFIG") or "~/.kube/config"
    if kubeconfig is not None and not _is_file(kubeconfig):
        raise InputError("no such kubeconfig", where=where, hint="is the path right?")
    try:
        if kubeconfig is None and context is None:
            with contextlib.suppress(config.ConfigException):
                config.load_incluster_config(client_configuration=settings)
                return _client(settings)
        with _complaints() as complaints:
            config.load_kube_config(
                config_file=str(kubeconfig) if kubeconfig else None,
                context=context,
                client_configuration=settings,
            )
        if complaints:
            raise config.ConfigException(complaints[0])
        return _client(settings)
    except _UNUSABLE as error:
        raise InputError(
            f"no usable Kubernetes configuration: {_first_line(error)}",
            where=where,
            hint="give --kubeconfig or KUBECONFIG, or read a recorded cluster with --from PATH",
        ) from error


# What the official loader raises for files that are damaged, incomplete or hold something else.
_UNUSABLE = (
    config.ConfigException,
    HTTPError,
    OSError,
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    RecursionError,
    yaml.YAMLError,
)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


def _first_line(error: BaseException) -> str:
    """What a loader complains of, without the pages that a login plugin or a YAML parser may add."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"not YAML: {error.problem} in line {mark.line + 1}, column {mark.column + 1}"
    return " ".join(str(error).split())[:500] or type(error).__name__


@contextlib.contextmanager
def _complaints() -> Iterator[list[str]]:
    """Catch what the official loader logs instead of raising it: a login plugin that failed."""
    found: list[str] = []
    thread = threading.get_ident()

    def keep(record: logging.LogRecord) -> bool:
        if record.thread != thread or record.levelno < logging.ERROR:
            return True
        found.append(record.getMessage())
        return False

    root = logging.getLogger()  # the loader logs there directly; a logger's filter sees no other's records
    root.addFilter(keep)
    try:
        yield found
    finally:
        root.removeFilter(keep)


def _refreshing(settings: client.Configuration) -> None:
    """Let a login that cannot be renewed end in one error, not in a log line and a refused request."""
    renew = settings.refresh_api_key_hook
    if renew is None:
        return

    def renewed(current: client.Configuration) -> None:
        with _complaints() as complaints:
            renew(current)
        if complaints:
            raise RightsError(
                f"the login cannot be renewed: {' '.join(complaints[0].split())[:500]}",
                where=str(current.host),
                hint="the kubeconfig's exec plugin failed",
            )

    settings.refresh_api_key_hook = renewed


def _client(settings: client.Configuration) -> client.ApiClient:
    # One attempt a request in the transport: retries are ours, so that each is bounded and told.
    settings.retries = urllib3.Retry(total=0, redirect=0)
    if not settings.verify_ssl:  # the kubeconfig says so; urllib3 would repeat it at every request
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    _refreshing(settings)
    api = client.ApiClient(settings)
    api.set_default_header("Accept-Encoding", "gzip")
    api.user_agent = "rebalancer"
    return api


def status_message(error: ApiException) -> str:
    """The message of the Status object in an error answer, else its reason."""
    body = error.body or ""
    with contextlib.suppress(ValueError, TypeError, AttributeError, RecursionError):
        message = json.loads(body).get("message")
        if isinstance(message, str) and message:
            return message[:500]
    return f"HTTP {error.status} {error.reason or ''}".strip()


def retry_after_seconds(error: BaseException | None) -> float | None:
    """Retry-After of an error answer in seconds, when it carries a usable one."""
    headers = getattr(error, "headers", None)
    value = headers.get("Retry-After") if headers else None
    try:
        seconds = float(value) if value is not None else None
    except ValueError:
        return None
    return seconds if seconds is not None and 0 <= seconds < float("inf") else None


@contextlib.contextmanager
def translated(what: str, host: str) -> Iterator[None]:
    """Turn failures of the transport into RightsError, UnreachableError or InputError naming ``what``."""
    try:
        yield
    except ApiException as error:
        message = status_message(error)
        if error.status == 401:
            raise RightsError(
                f"{what}: {message}", where=host, hint="the credentials are not accepted"
            ) from error
        if error.status == 403:
            raise RightsError(f"{what}: {message}", where=host, hint=_GRANT) from error
        if error.status and error.status < 500:
            raise NotServedError(f"{what}: {message}", where=host, status=error.status) from error
        raise UnreachableError(f"{what}: {message}", where=host) from error
    except (HTTPError, OSError) as error:
        raise UnreachableError(
            f"{what}: {short_reason(error)}",
            where=host,
            hint="is the API server up, and does the kubeconfig name it?",
        ) from error


class NotServedError(UnreachableError):
    """The server answers, but not this request (404, 410 and other refusals of the request itself)."""

    def __init__(self, message: str, *, where: str = "", hint: str = "", status: int = 404) -> None:
        super().__init__(message, where=where, hint=hint)
        self.status = status


def short_reason(error: BaseException) -> str:
    """What a transport says went wrong, without its own internals."""
    reason = getattr(error, "reason", None) or error
    words = reason.args[0] if getattr(reason, "args", ()) and isinstance(reason.args[0], str) else str(reason)
    said = re.sub(r"^.*?(?:\)|>): ", "", words)
    return f"{type(reason).__name__}: {said[:200]}"


def _passing(error: BaseException) -> bool:
    if isinstance(error, ApiException):
        return error.status in _RETRIED_STATUSES
    return isinstance(error, (HTTPError, OSError))


def _wait(state: RetryCallState) -> float:
    outcome = state.outcome
    asked = retry_after_seconds(outcome.exception()) if outcome else None
    backoff = wait_exponential(multiplier=0.2, max=5.0)(state)
    return min(asked if asked is not None else backoff, MAX_WAIT_SECONDS)


def _turned_away(error: BaseException) -> bool:
    return isinstance(error, ApiException) and error.status == 429


def retrying(
    sleep: Callable[[float], None],
    attempts: int = _ATTEMPTS,
    passing: Callable[[BaseException], bool] = _passing,
) -> Retrying:
    """Retries for reads: passing faults only, waiting as Retry-After says, a bounded number of times."""
    return Retrying(
        retry=retry_if_exception(passing),
        wait=_wait,
        stop=stop_after_attempt(attempts),
        sleep=sleep,
        reraise=True,
    )


@dataclass(frozen=True, slots=True)
class Answer:
    """The body of an answer, and what it says it is."""

    body: bytes
    content_type: str = ""


@dataclass(frozen=True, slots=True)
class RawApi:
    """Requests that return bytes, over one client; errors are translated, passing faults of GETs retried."""

    api: client.ApiClient
    sleep: Callable[[float], None]

    @property
    def host(self) -> str:
        """The API server's address."""
        return str(self.api.configuration.host)

    def get(self, what: str, call: Callable[..., Any], *arguments: Any, **options: Any) -> bytes:
        """The body of one GET made by a method of the generated client."""
        return self.ask(what, call, *arguments, **options).body

    def ask(self, what: str, call: Callable[..., Any], *arguments: Any, **options: Any) -> Answer:
        """The answer to one GET made by a method of the generated client."""
        with translated(what, self.host):
            result: Answer = retrying(self.sleep)(lambda: self._answer(what, call, arguments, options))
            return result

    def write(self, what: str, call: Callable[..., Any], *arguments: Any, **options: Any) -> bytes:
        """The body of the answer to one write.

        Sent again only where flow control turned it away: whether any other may be, the caller knows.
        """
        with translated(what, self.host):
            tries = retrying(self.sleep, passing=_turned_away)
            result: Answer = tries(lambda: self._answer(what, call, arguments, options))
            return result.body

    def _answer(
        self, what: str, call: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> Answer:
        response = call(
            *arguments,
            _preload_content=False,
            _request_timeout=(CONNECT_SECONDS, READ_SECONDS),
            **options,
        )
        try:
            body: bytes = response.read(_MAX_ANSWER_BYTES + 1, decode_content=True)
        finally:
            response.release_conn()
        if len(body) > _MAX_ANSWER_BYTES:
            raise UnreachableError(
                f"{what}: the answer is larger than {_MAX_ANSWER_BYTES >> 20} MiB", where=self.host
            )
        return Answer(body, response.headers.get("Content-Type") or "")

    def list_page(self, kind: Kind, **options: Any) -> Answer:
        """One page of a LIST over all namespaces."""
        resource = kind.resource or kind.plural
        if kind.group:
            call = client.CustomObjectsApi(self.api).list_cluster_custom_object
            what = f"list {resource}.{kind.group}"
            return self.ask(what, call, kind.group, kind.version, resource, **options)
        # The generated client names its methods after kinds: list_node, list_pod_for_all_namespaces.
        name = f"list_{re.sub('(?<!^)(?=[A-Z])', '_', kind.name).lower()}"
        core = client.CoreV1Api(self.api)
        everywhere = getattr(core, f"{name}_for_all_namespaces", None)
        return self.ask(f"list {resource}", everywhere or getattr(core, name), **options)

    def server_version(self) -> str:
        """The API server's version, e.g. ``1.35``; empty when it does not say."""
        body = self.get("read the version", client.VersionApi(self.api).get_code)
        try:
            answer = json.loads(body)
            return f"{int(answer['major'])}.{int(str(answer['minor']).rstrip('+'))}"
        except (ValueError, LookupError, TypeError, RecursionError):
            return ""

    def service_proxy(self, namespace: str, service: str, path: str) -> bytes:
        """GET a path of a service through the API server; ``service`` is ``[scheme:]name:port``."""
        call = client.CoreV1Api(self.api).connect_get_namespaced_service_proxy_with_path
        return self.get(f"get {path} of service {namespace}/{service}", call, service, namespace, path)

    def config_map(self, namespace: str, name: str) -> dict[str, str] | None:
        """The data of a ConfigMap; None when there is none."""
        call = client.CoreV1Api(self.api).read_namespaced_config_map
        try:
            body = self.get(f"read configmap {namespace}/{name}", call, name, namespace)
        except NotServedError as error:
            if error.status == 404:
                return None
            raise
        try:
            data = json.loads(body).get("data") or {}
            return {str(key): str(value) for key, value in data.items()}
        except (ValueError, AttributeError, RecursionError) as error:
            raise UnreachableError(
                f"read configmap {namespace}/{name}: the answer is no ConfigMap", where=self.host
            ) from error
