"""Figures of metrics-server: nodes and pods, joined into the report of the load."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from rebalancer.cluster import times
from rebalancer.cluster.dumps.reader import DumpReader
from rebalancer.load.prometheus.reader import recorded_access
from rebalancer.load.prometheus.responses import RecordedResponses
from rebalancer.load.sources import LoadInputs, read_load
from rebalancer.observe.read import requests_by_pod
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
        read_load(
            LoadInputs(
                snapshot=snapshot,
                policy=RebalancePolicy(),
                requests=requests_by_pod(snapshot),
                watchers={},
                missing={},
                prometheus=recorded_access(RecordedResponses(), "fuzz"),
                samples=None,
                now=times.parse(NOW),
                live=False,
            )
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
