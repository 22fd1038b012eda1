"""Asks load-watcher, inside a cluster at its address, from outside through the API server's service proxy."""

from __future__ import annotations

import time

import urllib3
from urllib3.exceptions import HTTPError

from rebalancer.cluster.live.connection import RawApi, retrying, short_reason
from rebalancer.errors import InputError, UnreachableError
from rebalancer.load.load_watcher.document import decode_watcher
from rebalancer.load.service_addresses import service_of

_TIMEOUT = urllib3.Timeout(connect=5.0, read=30.0)
_MAX_ANSWER_BYTES = 64 << 20
_ATTEMPTS = 3
_REDIRECTS = 2


def fetch_watcher(api: RawApi | None, address: str, *, inside: bool) -> bytes:
    """What load-watcher answers to ``GET /watcher``; ``inside`` says that cluster addresses resolve here.

    Raises UnreachableError when there is no answer, InputError when it is not load-watcher's.
    """
    service = service_of(address)
    if service is not None and not inside and api is not None:
        content = api.service_proxy(service.namespace, service.service, f"{service.path}/watcher".lstrip("/"))
    else:
        content = _get(f"{address.rstrip('/')}/watcher")
    try:
        decode_watcher(content)
    except (ValueError, RecursionError) as error:
        raise InputError(f"the response is not load-watcher's: {error}", where=address) from error
    return content


def _get(url: str) -> bytes:
    # No retries in the transport: it would log each of them.
    try:
        with urllib3.PoolManager(retries=urllib3.Retry(total=_REDIRECTS, connect=0, read=0)) as pool:
            content: bytes = retrying(time.sleep, _ATTEMPTS)(_once, pool, url)
            return content
    except (HTTPError, OSError, ValueError) as error:
        raise UnreachableError(f"no answer: {short_reason(error)}", where=url) from error


def _once(pool: urllib3.PoolManager, url: str) -> bytes:
    response = pool.request("GET", url, timeout=_TIMEOUT, preload_content=False)
    try:
        content: bytes = response.read(_MAX_ANSWER_BYTES + 1, decode_content=True)
    finally:
        response.release_conn()
    if response.status != 200:
        raise UnreachableError(f"HTTP {response.status}", where=url)
    if len(content) > _MAX_ANSWER_BYTES:
        raise UnreachableError(f"the answer is larger than {_MAX_ANSWER_BYTES >> 20} MiB", where=url)
    return content
