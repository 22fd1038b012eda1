"""Host ports in use on each node.

Source: kubernetes v1.34.4 pkg/scheduler/framework/plugins/nodeports/node_ports.go:157.
"""

from __future__ import annotations

import numpy as np

from rebalancer.cluster.arrays import BoolArray, IntArray
from rebalancer.cluster.records import PodSpec
from rebalancer.scheduling.resources.requests import is_sidecar
from rebalancer.scheduling.versions import REFERENCE_RELEASE, Release
from rebalancer.scheduling.versions.rules import SIDECAR_PORTS

ANY_ADDRESS = "0.0.0.0"  # noqa: S104 (a comparison, nothing is bound)
HostPort = tuple[str, int, str]  # protocol, port, address


def wanted_ports(spec: PodSpec, release: Release = REFERENCE_RELEASE) -> tuple[HostPort, ...]:
    """The host ports of containers and sidecars, defaulted as the API server does."""
    containers = list(spec.containers or ())
    if release.has(SIDECAR_PORTS):
        containers += [item for item in spec.init_containers or () if is_sidecar(item)]
    found: list[HostPort] = []
    for container in containers:
        for port in container.ports or ():
            number = port.host_port or (port.container_port if spec.host_network else 0)
            if number > 0:
                found.append((port.protocol or "TCP", number, port.host_ip or ANY_ADDRESS))
    return tuple(dict.fromkeys(found))


class HostPorts:
    """Counts of each host port on each node; only ports that some pod uses take room."""

    def __init__(self, nodes: int) -> None:
        self._nodes = nodes
        self._used: dict[tuple[str, int], dict[str, IntArray]] = {}

    def copy(self) -> HostPorts:
        """An independent copy."""
        other = HostPorts(self._nodes)
        other._used = {
            port: {address: counts.copy() for address, counts in addresses.items()}
            for port, addresses in self._used.items()
        }
        return other

    def count(self, ports: tuple[HostPort, ...], node: int, sign: int) -> None:
        """Add or take away a pod's ports on a node."""
        for protocol, port, address in ports:
            addresses = self._used.setdefault((protocol, port), {})
            if address not in addresses:
                addresses[address] = np.zeros(self._nodes, np.int64)
            addresses[address][node] += sign

    def conflicts(self, ports: tuple[HostPort, ...]) -> BoolArray:
        """Nodes where a wanted port is taken: same protocol and port, and one address covers the other."""
        taken = np.zeros(self._nodes, np.bool_)
        for protocol, port, address in ports:
            for used, counts in self._used.get((protocol, port), {}).items():
                if ANY_ADDRESS in (used, address) or used == address:
                    taken |= counts > 0
        return taken
