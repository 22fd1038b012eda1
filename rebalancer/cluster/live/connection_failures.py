"""Why no answer came, in words that lead to what must be changed: the address, a certificate, a network.

The transport's own words (``SSLError: [SSL: WRONG_VERSION_NUMBER]``) say what it noticed, not what is wrong:

    https:// in the kubeconfig, and the port speaks plain HTTP  ->  WRONG_VERSION_NUMBER
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_ADDRESS = "is the API server up, and does the kubeconfig name it?"


@dataclass(frozen=True, slots=True)
class ConnectionFailure:
    """What went wrong, and what to do about it."""

    message: str
    hint: str


def _row(pattern: str, message: str, hint: str) -> tuple[re.Pattern[str], ConnectionFailure]:
    return re.compile(pattern, re.IGNORECASE), ConnectionFailure(message, hint)


_KNOWN = (
    _row(
        r"WRONG_VERSION_NUMBER|record layer failure|UNKNOWN_PROTOCOL|http_request",
        "the server speaks plain HTTP, and the address begins with https://",
        "write http:// in the kubeconfig, or the port that speaks TLS",
    ),
    _row(
        r"certificate has expired",
        "the server's certificate has expired",
        "renew it, or set the clock of this machine",
    ),
    _row(
        r"certificate is not yet valid",
        "the server's certificate is not valid yet",
        "set the clock of this machine, or of the one that issued it",
    ),
    _row(
        r"(hostname|IP address) mismatch",
        "the server's certificate is for another name or address",
        "use one that it holds as server in the kubeconfig, or set tls-server-name there",
    ),
    _row(
        r"self.signed|unable to get (local )?issuer|CERTIFICATE_VERIFY_FAILED",
        "the server's certificate is signed by nobody who is trusted here",
        "set certificate-authority of the cluster in the kubeconfig",
    ),
    _row(
        r"alert (bad |unknown |revoked |expired )?certificate|certificate.required|alert unknown ca",
        "the server does not accept the client certificate",
        "renew client-certificate of the user in the kubeconfig",
    ),
    _row(r"connection refused", "connection refused: nothing listens there", _ADDRESS),
    _row(
        r"NameResolutionError|failed to resolve",
        "the server's name cannot be resolved",
        "is the address in the kubeconfig right, and the network or VPN up?",
    ),
    _row(
        r"ConnectTimeoutError|no route to host|network is unreachable|host is down",
        "the server cannot be reached over the network",
        "is a VPN down, or a firewall between?",
    ),
    _row(
        r"TimeoutError|read timed out",
        "",  # its own words say how long was waited
        "is the API server overloaded, or a proxy before it?",
    ),
    _row(
        r"ProxyError|tunnel connection failed",
        "the proxy does not let the request through",
        "see HTTPS_PROXY and NO_PROXY",
    ),
)


def connection_failure(words: str) -> ConnectionFailure:
    """The failure that the transport describes with these words, else the words themselves."""
    for pattern, failure in _KNOWN:
        if pattern.search(words):
            return failure if failure.message else ConnectionFailure(words, failure.hint)
    return ConnectionFailure(words, _ADDRESS)
