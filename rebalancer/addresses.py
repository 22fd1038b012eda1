"""Addresses that a policy, a scheduler's configuration or a command line names: what may stand in them.

Outside the cluster a service is asked through the API server's service proxy, with our own login. A transport
resolves ``..`` on its way, so that an address could lead to any other path of the API server:

    http://watcher.monitoring:2020/prefix             asked
    http://watcher.monitoring:2020/../../../secrets   refused, and so is %2e%2e, however often it is encoded
    http://bob:x/y@prometheus                         refused: the password ends the host, and would be shown
"""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

_MAX_ENCODINGS = 5
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def checked_path(path: str) -> str:
    """A path without empty segments and slashes at its ends; ValueError where it may lead elsewhere."""
    decoded = path
    before = ""
    for _ in range(_MAX_ENCODINGS):
        segments = (segment.partition(";")[0].strip() for segment in decoded.split("/"))
        if (
            "\\" in decoded
            or not decoded.isprintable()
            or any(segment in (".", "..") for segment in segments)
        ):
            raise ValueError("the path of the address leads out of the service: it holds . or .. or \\")
        before = decoded
        decoded = unquote(before)
        if decoded == before:
            return "/".join(filter(None, path.split("/")))
    raise ValueError("the path of the address is encoded too often")


def checked_address(address: str) -> str:
    """The address, unchanged; ValueError, without any of its words, unless it leads to its own host alone."""
    try:
        url = urlsplit(address)
    except ValueError:
        raise ValueError("the address is not a URL") from None
    if "@" in f"{url.path}{url.query}{url.fragment}":
        raise ValueError(
            "the address holds an @ behind its host; a password in which / ? or # stands has to be encoded"
        )
    try:
        _ = url.port
    except ValueError:
        raise ValueError("the port of the address is not a number up to 65535") from None
    checked_path(url.path)
    return address


def is_read_on_the_way(address: str) -> bool:
    """Whether others on the network can read what is sent there: plain http, and not to loopback."""
    try:
        parts = urlsplit(address)
        return parts.scheme == "http" and parts.hostname not in _LOOPBACK
    except ValueError:
        return False
