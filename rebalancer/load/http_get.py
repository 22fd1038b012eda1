"""One GET of a load source: bounded in time and size, its failures translated.

Importing the transport costs a tenth of a second, so the modules that use this one import it when a source
is contacted: recorded clusters are planned without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import urllib3
from urllib3.exceptions import HTTPError, NewConnectionError
from urllib3.exceptions import TimeoutError as TransportTimeoutError

from rebalancer.cluster.live.failures import NoAnswerError, unsendable
from rebalancer.deadlines import Deadline

CONNECT_SECONDS = 5.0
_NO_DEADLINE = Deadline()


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An answer with any status."""

    status: int
    body: bytes
    headers: Mapping[str, str]


def get(
    pool: urllib3.PoolManager,
    url: str,
    *,
    read_seconds: float,
    max_bytes: int,
    deadline: Deadline = _NO_DEADLINE,
    headers: Mapping[str, str] | None = None,
    redirects: int = 0,
) -> HttpAnswer:
    """GET a URL once; ``read_seconds`` bounds the whole answer.

    Raises NoAnswerError, StopRequestedError, InputError for a request that HTTP does not allow, or ValueError
    for an answer larger than ``max_bytes``.
    """
    limit = deadline.within(CONNECT_SECONDS + read_seconds)
    try:
        return limit.bound(f"get {url}", lambda: _get(pool, url, read_seconds, max_bytes, headers, redirects))
    except TimeoutError as error:
        raise NoAnswerError(error, slow=True) from error


def _get(
    pool: urllib3.PoolManager,
    url: str,
    read_seconds: float,
    max_bytes: int,
    headers: Mapping[str, str] | None,
    redirects: int,
) -> HttpAnswer:
    try:
        response = pool.request(
            "GET",
            url,
            headers=headers,
            timeout=urllib3.Timeout(connect=CONNECT_SECONDS, read=read_seconds),
            preload_content=False,
            retries=_redirects_only(redirects) if redirects else False,
        )
        try:
            body: bytes = response.read(max_bytes + 1, decode_content=True)
        finally:
            response.release_conn()
    except NewConnectionError as error:  # urllib3 counts a refused connection among the timeouts
        raise NoAnswerError(error) from error
    except TransportTimeoutError as error:
        raise NoAnswerError(error, slow=True) from error
    except (HTTPError, OSError) as error:
        raise NoAnswerError(error) from error
    except ValueError:
        raise unsendable(url) from None
    if len(body) > max_bytes:
        raise ValueError(f"the answer is larger than {max_bytes >> 20} MiB")
    return HttpAnswer(int(response.status), body, response.headers)


def _redirects_only(count: int) -> urllib3.Retry:
    """Follow redirects and nothing else: what failed is repeated, and logged, by ``rebalancer.retries``."""
    return urllib3.Retry(total=count, connect=0, read=0, respect_retry_after_header=False)
