"""Requests over the transport that a login comes with; answers stay bytes.

Only ``credentials`` knows the official client, which takes half a second of processor time to be imported.
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

import urllib3
from urllib3.exceptions import HTTPError

from rebalancer.cluster.kinds import Kind
from rebalancer.cluster.live.failures import (
    Answer,
    NoAnswerError,
    RequestRejectedError,
    StatusError,
    read_again,
    translated,
    unsendable,
    write_again,
)
from rebalancer.deadlines import ANSWER_SECONDS, CLOSING_SECONDS, Deadline
from rebalancer.errors import UnreachableError
from rebalancer.retries import Again, Retries
from rebalancer.telemetry import span

# The requests that rebalancer makes, as methods with the names that the official client gives them.
#
# The client's own methods belong to classes that build a model of every kind of object when they are first
# used: one second of processor time before the first request of every command. What is sent is a path, a
# few
# options and JSON, so the client is only asked for what it is good at: addresses, credentials and
# transport.
#
#     core.list_namespaced_pod("shop", label_selector="app=web", _continue="abc")
#     GET /api/v1/namespaces/shop/pods?labelSelector=app%3Dweb&continue=abc


_JSON = "application/json"
_MERGE_PATCH = "application/merge-patch+json"

Send = Callable[..., Any]
"""Sends ``method, path, query, headers, body, timeout``; returns the response, its body not yet read."""


class Calls:
    """Makes requests by ``send``; what is not named by a parameter is an option of the query."""

    def __init__(self, send: Send) -> None:
        self._send = send

    def get(self, path: str, **options: Any) -> Any:
        """GET a path exactly as it is written."""
        return self._request("GET", path, None, options)

    def _request(self, method: str, path: str, body: Any, options: dict[str, Any]) -> Any:
        timeout = options.pop("_request_timeout")
        headers: Mapping[str, str] = options.pop("_headers", {})
        content_type = {} if body is None else {"Content-Type": _MERGE_PATCH if method == "PATCH" else _JSON}
        query = [(_query_name(name), value) for name, value in options.items() if value is not None]
        return self._send(method, path, query, {"Accept": _JSON, **content_type, **headers}, body, timeout)


class CoreCalls(Calls):
    """Nodes, pods and ConfigMaps."""

    def list_node(self, **options: Any) -> Any:
        """All nodes."""
        return self.get("/api/v1/nodes", **options)

    def list_pod_for_all_namespaces(self, **options: Any) -> Any:
        """All pods."""
        return self.get("/api/v1/pods", **options)

    def list_namespaced_pod(self, namespace: str, **options: Any) -> Any:
        """The pods of a namespace."""
        return self.get(_in_core(namespace, "pods"), **options)

    def read_namespaced_pod(self, name: str, namespace: str, **options: Any) -> Any:
        """One pod."""
        return self.get(_in_core(namespace, "pods", name), **options)

    def create_namespaced_pod_eviction(self, name: str, namespace: str, body: Any, **options: Any) -> Any:
        """Ask for the eviction of a pod."""
        return self._request("POST", _in_core(namespace, "pods", name, "eviction"), body, options)

    def read_namespaced_config_map(self, name: str, namespace: str, **options: Any) -> Any:
        """One ConfigMap."""
        return self.get(_in_core(namespace, "configmaps", name), **options)

    def create_namespaced_config_map(self, namespace: str, body: Any, **options: Any) -> Any:
        """Create a ConfigMap."""
        return self._request("POST", _in_core(namespace, "configmaps"), body, options)

    def replace_namespaced_config_map(self, name: str, namespace: str, body: Any, **options: Any) -> Any:
        """Replace a ConfigMap."""
        return self._request("PUT", _in_core(namespace, "configmaps", name), body, options)


class ObjectCalls(Calls):
    """Objects of any API group."""

    def list_namespaced_custom_object(
        self, group: str, version: str, namespace: str, plural: str, **options: Any
    ) -> Any:
        """The objects of a namespace."""
        return self.get(_in_group(group, version, namespace, plural), **options)

    def get_namespaced_custom_object(
        self, group: str, version: str, namespace: str, plural: str, name: str, **options: Any
    ) -> Any:
        """One object."""
        return self.get(_in_group(group, version, namespace, plural, name), **options)

    def create_namespaced_custom_object(
        self, group: str, version: str, namespace: str, plural: str, body: Any, **options: Any
    ) -> Any:
        """Create an object."""
        return self._request("POST", _in_group(group, version, namespace, plural), body, options)

    def replace_namespaced_custom_object(
        self, group: str, version: str, namespace: str, plural: str, name: str, body: Any, **options: Any
    ) -> Any:
        """Replace an object."""
        return self._request("PUT", _in_group(group, version, namespace, plural, name), body, options)

    def patch_namespaced_custom_object(
        self, group: str, version: str, namespace: str, plural: str, name: str, body: Any, **options: Any
    ) -> Any:
        """Change an object by a merge patch."""
        return self._request("PATCH", _in_group(group, version, namespace, plural, name), body, options)


def _in_core(namespace: str, *parts: str) -> str:
    return f"/api/v1/namespaces/{_written(namespace, *parts)}"


def _in_group(group: str, version: str, namespace: str, *parts: str) -> str:
    return f"/apis/{group}/{version}/namespaces/{_written(namespace, *parts)}"


def _written(*parts: str) -> str:
    """Parts of a path; a name may come from an object that anybody wrote."""
    return "/".join(quote(part, safe="") for part in parts)


def _query_name(option: str) -> str:
    """``field_selector`` as ``fieldSelector``; ``_continue`` avoids a keyword of Python."""
    return re.sub("_([a-z])", lambda found: found[1].upper(), option.removeprefix("_"))


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


# Requests to an API server: raw bytes back, errors translated to ours, passing failures of reads retried.


_MAX_ANSWER_BYTES = 512 << 20


@dataclass(frozen=True, slots=True)
class RawApi:
    """An API server as other packages see it; ``client`` has the calls, ``retries`` bounds the waiting."""

    client: KubernetesClient
    retries: Retries = field(default_factory=Retries)

    @property
    def host(self) -> str:
        """The API server's address."""
        return self.client.host

    def until(self, deadline: Deadline) -> RawApi:
        """The same API, whose requests and retries end with the run, or when it is asked to stop."""
        return replace(self, retries=replace(self.retries, run=deadline))

    def within(self, seconds: float) -> RawApi:
        """The same API, all of whose requests, with their retries, end at most that many seconds from now."""
        run = replace(self.retries.run, clock=self.retries.clock)
        return self.until(run.within(seconds))

    def finishing(self, seconds: float = CLOSING_SECONDS) -> RawApi:
        """The same API, for what a run finishes after its end, or after it was asked to stop."""
        return self.until(self.retries.run.finishing(seconds))

    def get(self, what: str, call: Callable[..., Any], *arguments: Any, **options: Any) -> bytes:
        """The body of one GET made by one of the client's calls."""
        return self.ask(what, call, *arguments, **options).body

    def ask(self, what: str, call: Callable[..., Any], *arguments: Any, **options: Any) -> Answer:
        """The answer to one GET made by one of the client's calls."""
        return self._request(what, read_again, self.retries.limit(), call, arguments, options)

    def write(self, what: str, call: Callable[..., Any], *arguments: Any, **options: Any) -> bytes:
        """The body of the answer to one write, which is waited for even after a request to stop.

        Sent again only where flow control turned it away: whether any other may be, the caller knows.
        """
        limit = self.retries.limit()
        limit = limit.finishing(max(limit.grace_seconds, ANSWER_SECONDS))
        return self._request(what, write_again, limit, call, arguments, options).body

    def _request(
        self,
        what: str,
        again: Callable[[Exception], Again | None],
        limit: Deadline,
        call: Callable[..., Any],
        arguments: tuple[Any, ...],
        options: dict[str, Any],
    ) -> Answer:
        def once() -> Answer:
            return self.client.send(
                call, *arguments, max_bytes=_MAX_ANSWER_BYTES, deadline=limit, what=what, **options
            )

        with translated(what, self.host):
            answer = self.retries.call(what, once, again)
        if len(answer.body) > _MAX_ANSWER_BYTES:
            raise UnreachableError(
                f"{what}: the answer is larger than {_MAX_ANSWER_BYTES >> 20} MiB", where=self.host
            )
        return answer

    def list_page(self, kind: Kind, **options: Any) -> Answer:
        """One page of a LIST over all namespaces."""
        what, call, arguments = self._collection(kind)
        return self.ask(f"list {what}", call, *arguments, **options)

    def watch(self, kind: Kind, read_seconds: float, **options: Any) -> Stream:
        """The body of a WATCH over all namespaces, which is to be closed; it is not tried again.

        It ends when no byte comes for so many seconds. Raises RightsError, RequestRejectedError or
        UnreachableError.
        """
        what, call, arguments = self._collection(kind)
        with translated(f"watch {what}", self.host):
            return self.client.stream(call, *arguments, read_seconds=read_seconds, watch=True, **options)

    def _collection(self, kind: Kind) -> tuple[str, Callable[..., Any], tuple[str, ...]]:
        """What a kind is called in messages, and the request that lists and watches it."""
        resource = kind.resource or kind.plural
        what = f"{resource}.{kind.group}" if kind.group else resource
        return what, self.client.core.get, (kind.path,)

    def server_version(self) -> str:
        """The API server's version, e.g. ``1.35``; empty when it does not say."""
        body = self.get("read the version", self.client.core.get, "/version/")
        try:
            answer = json.loads(body)
            return f"{int(answer['major'])}.{int(str(answer['minor']).rstrip('+'))}"
        except (ValueError, LookupError, TypeError, RecursionError):
            return ""

    def service_proxy(self, namespace: str, service: str, path: str) -> bytes:
        """GET a path of a service through the API server; ``service`` is ``[scheme:]name:port``."""
        proxy = f"/api/v1/namespaces/{quote(namespace, '')}/services/{quote(service, '')}/proxy/{quote(path)}"
        return self.get(f"get {path} of service {namespace}/{service}", self.client.core.get, proxy)

    def config_map(self, namespace: str, name: str) -> dict[str, str] | None:
        """The data of a ConfigMap; None when there is none."""
        call = self.client.core.read_namespaced_config_map
        try:
            body = self.get(f"read configmap {namespace}/{name}", call, name, namespace)
        except RequestRejectedError as error:
            if error.status == 404:
                return None
            raise
        try:
            data = json.loads(body).get("data") or {}
            return {str(key): str(value) for key, value in data.items()}
        except (ValueError, AttributeError, RecursionError) as error:
            raise UnreachableError(
                f"read configmap {namespace}/{name}: the answer is not a ConfigMap", where=self.host
            ) from error
