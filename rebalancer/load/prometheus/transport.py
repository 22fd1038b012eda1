"""How a request reaches Prometheus: with credentials for its address, or with those for the API server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import urllib3

from rebalancer import files
from rebalancer.cluster.live import RawApi
from rebalancer.deadlines import Deadline
from rebalancer.errors import InputError
from rebalancer.load.http_get import HttpAnswer, get
from rebalancer.load.prometheus.questions import Connection

_MAX_ANSWER_BYTES = 128 << 20
_MAX_SECRET_BYTES = 64 << 10

Send = Callable[[str, float, Deadline], HttpAnswer]
"""GETs a URL within so many seconds and a deadline; raises what ``http_get.get`` raises."""


def through_service_proxy(api: RawApi) -> Send:
    """GETs with the credentials for the API server."""
    client = api.client.api

    def send(url: str, read_seconds: float, deadline: Deadline) -> HttpAnswer:
        path = url.removeprefix(api.host.rstrip("/"))
        _, full, headers, _, _ = client.param_serialize("GET", path, auth_settings=["BearerToken"])
        pool = client.rest_client.pool_manager
        return get(
            pool,
            full,
            headers=headers,
            read_seconds=read_seconds,
            max_bytes=_MAX_ANSWER_BYTES,
            deadline=deadline,
        )

    return send


def directly(connection: Connection) -> Send:
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
    if connection.ca_file and not files.is_file(Path(connection.ca_file)):
        raise InputError("no such file of certificates", where=connection.ca_file)
    options = {"cert_reqs": "CERT_NONE"} if insecure else {"ca_certs": connection.ca_file}
    if insecure:  # the policy says so; urllib3 would repeat it at every request
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)

    def send(url: str, read_seconds: float, deadline: Deadline) -> HttpAnswer:
        with urllib3.PoolManager(**options) as pool:
            return get(
                pool,
                url,
                headers=headers,
                read_seconds=read_seconds,
                max_bytes=_MAX_ANSWER_BYTES,
                deadline=deadline,
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
