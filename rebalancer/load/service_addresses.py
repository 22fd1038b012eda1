"""Addresses of services: from outside a cluster they are reached through the API server's service proxy."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class ServiceAddress:
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
    except ValueError:  # a port beyond 65535, brackets that do not close
        return None
    labels = (url.hostname or "").split(".")
    if len(labels) < 2 or (len(labels) > 2 and labels[2] != "svc") or labels[-1].isdigit():
        return None
    scheme = "https:" if url.scheme == "https" else ""
    port = f":{number}" if number else ""
    return ServiceAddress(labels[1], f"{scheme}{labels[0]}{port}", url.path.strip("/"))


def runs_in_a_cluster(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether this process runs in a pod, where the addresses of services resolve."""
    return "KUBERNETES_SERVICE_HOST" in environment
