"""Figures of metrics-server: nodes and pods, joined into the report of the load."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from rebalancer.cluster import times
from rebalancer.cluster.dumps.reader import DumpReader
from rebalancer.load.raw_figures import RawFigures
from rebalancer.load.scheduler_view import EMPTY_VIEW
from rebalancer.load.sources import read_load
from rebalancer.planning.assemble import requests_by_pod
from rebalancer.policy.schema import RebalancePolicy
from tests.fuzz.clusters import folder, joined
from tests.fuzz.structure import json_structure
from tests.fuzz.target import Target
from tests.integration.cli.dumps import NOW, a_rich_cluster, list_of


def reading(plural: str) -> Callable[[bytes], None]:
    """Reads figures of these objects."""

    def decode(content: bytes) -> None:
        path = folder() / f"{plural}.json"
        path.write_bytes(content)
        snapshot = joined(DumpReader(path).read())
        requests, now = requests_by_pod(snapshot), times.parse(NOW)
        read_load(
            snapshot, RawFigures(), RebalancePolicy(), EMPTY_VIEW, requests, None, (), now=now, live=False
        )

    return decode


def _seeds(plural: str) -> Mapping[str, bytes]:
    items = a_rich_cluster()[plural]
    return {
        f"{plural}.json": list_of(plural, items),
        "none.json": list_of(plural, []),
        "one.json": json.dumps({"kind": "NodeMetricsList", "items": items[:1]}).encode(),
    }


TARGETS = tuple(
    Target(name, reading(plural), lambda plural=plural: _seeds(plural), json_structure())  # type: ignore[misc]
    for name, plural in (("node-metrics", "nodemetrics"), ("pod-metrics", "podmetrics"))
)
