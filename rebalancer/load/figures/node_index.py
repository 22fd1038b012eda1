"""Finds the node that a label names: by name, host name or address, with or without a port."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rebalancer.cluster.nodes import NodeTable

DEFAULT_LABELS = ("node", "nodename", "kubernetes_node", "instance")
_PORT = re.compile(r"(.+):\d{1,5}", re.ASCII)
_HOSTNAME_LABEL = "kubernetes.io/hostname"


class NodeNameIndex:
    """Rows of nodes by whatever a metric may call them; what two nodes share finds neither."""

    def __init__(self, nodes: NodeTable) -> None:
        self.names = nodes.names
        self._by_name = nodes.row
        self._by_address: dict[str, int | None] = {}
        for row, node in enumerate(nodes.records):
            hostname = (node.metadata.labels or {}).get(_HOSTNAME_LABEL)
            found = {item.address for item in node.status.addresses or ()} | {hostname or ""}
            for address in found - {"", node.metadata.name}:
                self._by_address[address] = row if address not in self._by_address else None

    def row(self, value: str) -> int | None:
        """The row of the node; None when there is none, or several."""
        match = _PORT.fullmatch(value)
        host = match[1].strip("[]") if match else value
        for text in (value, host):
            found = self._by_name.get(text)
            if found is None:
                found = self._by_address.get(text)
            if found is not None:
                return found
        return None

    def row_of_series(self, labels: Mapping[str, str], node_label: str | None) -> tuple[int | None, str]:
        """The row of the node a series is about, and the label's value; the first label present decides."""
        for label in (node_label,) if node_label else DEFAULT_LABELS:
            value = labels.get(label)
            if value:
                return self.row(value), value
        return None, ""
