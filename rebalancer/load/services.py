"""Services that load is read from: directly inside a cluster, through the API server's service proxy outside.

    http://load-watcher.monitoring:2020     a service: outside, the proxy of the API server reaches it
    https://prometheus.example.com          no service: it is asked at its address from anywhere

Credentials of the policy stay with the address they are for: the service proxy gets none.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from rebalancer import http
from rebalancer.addresses import checked_address, checked_path
from rebalancer.errors import InputError, UnreachableError
from rebalancer.http import NoAnswerError, short_reason
from rebalancer.load.scheduler_view import decode_watcher
from rebalancer.retries import Retries

if TYPE_CHECKING:
    from rebalancer.cluster.live import RawApi


class ServiceAddress(msgspec.Struct, frozen=True):
    """A service of the cluster, as the service proxy names it."""

    namespace: str
    service: str  # [scheme:]name[:port]
    path: str

    @property
    def name(self) -> str:
        """The name alone, without scheme and port."""
        return self.service.removeprefix("https:").partition(":")[0]


def service_of(address: str) -> ServiceAddress | None:
    """The service an address ``http://NAME.NAMESPACE[.svc…][:PORT]`` names; None when it names none."""
    try:
        url = urlsplit(address)
        number = url.port
        path = checked_path(url.path)
    except ValueError:  # a port beyond 65535, brackets that do not close, a path that leads elsewhere
        return None
    labels = (url.hostname or "").split(".")
    if len(labels) < 2 or (len(labels) > 2 and labels[2] != "svc") or labels[-1].isdigit():
        return None
    scheme = "https:" if url.scheme == "https" else ""
    port = f":{number}" if number else ""
    return ServiceAddress(labels[1], f"{scheme}{labels[0]}{port}", path)


def runs_in_a_cluster() -> bool:
    """Whether this process runs in a pod, where the addresses of services resolve."""
    return "KUBERNETES_SERVICE_HOST" in os.environ


_READ_SECONDS = 30.0
_MAX_ANSWER_BYTES = 64 << 20
_ATTEMPTS = 3
_MAX_REDIRECTS = 2


def fetch_watcher(api: RawApi | None, address: str) -> bytes:
    """What load-watcher answers to ``GET /watcher``.

    Raises UnreachableError when there is no answer, InputError when it is not load-watcher's.
    """
    try:
        checked_address(address)
    except ValueError as error:
        raise InputError(str(error), where=address) from error
    service = service_of(address)
    if service is not None and api is not None and not runs_in_a_cluster():
        content = api.service_proxy(service.namespace, service.service, f"{service.path}/watcher".lstrip("/"))
    else:
        content = _get(f"{address.rstrip('/')}/watcher", api.retries if api is not None else Retries())
    try:
        decode_watcher(content)
    except (ValueError, RecursionError) as error:
        raise InputError(f"the response is not load-watcher's: {error}", where=address) from error
    return content


def _get(url: str, retries: Retries) -> bytes:
    from rebalancer.cluster.live.failures import StatusError, read_again  # noqa: PLC0415 - for live clusters

    limit = retries.limit()

    def once() -> bytes:
        answer = http.request(
            pool,
            "GET",
            url,
            headers=lambda: http.HEADERS,
            read_seconds=_READ_SECONDS,
            max_bytes=_MAX_ANSWER_BYTES,
            deadline=limit,
            redirects=_MAX_REDIRECTS,
        )
        if answer.status != 200:
            raise StatusError(answer)
        return answer.body

    try:
        with http.pool() as pool:
            return replace(retries, attempts=_ATTEMPTS).call(f"get {url}", once, read_again)
    except StatusError as error:
        raise UnreachableError(f"HTTP {error.status}", where=url) from error
    except NoAnswerError as error:
        raise UnreachableError(f"no answer: {error}", where=url) from error
    except ValueError as error:
        raise UnreachableError(f"no answer: {short_reason(error)}", where=url) from error
