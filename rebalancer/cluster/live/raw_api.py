"""Requests to an API server: raw bytes back, errors translated to ours, passing failures of reads retried."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from rebalancer.cluster.kinds import Kind
from rebalancer.cluster.live.answers import (
    Answer,
    RequestRejectedError,
    read_again,
    translated,
    write_again,
)
from rebalancer.deadlines import ANSWER_SECONDS, CLOSING_SECONDS, Deadline
from rebalancer.errors import UnreachableError
from rebalancer.retries import Again, Retries

if TYPE_CHECKING:
    from rebalancer.cluster.live.client import KubernetesClient, Stream

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
