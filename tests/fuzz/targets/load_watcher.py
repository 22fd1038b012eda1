"""load-watcher's document, as plugins and as a load source read it."""

from __future__ import annotations

import json
from collections.abc import Mapping

from rebalancer.cluster import times
from rebalancer.load.plugin_sources import read_view
from rebalancer.load.raw_figures import ANY_ADDRESS, RawFigures
from rebalancer.load.usage import node_usage_of_watcher
from tests.fuzz.clusters import sound_snapshot
from tests.fuzz.structure import json_structure
from tests.fuzz.target import Target
from tests.integration.cli.dumps import NOW

ADDRESS = "http://load-watcher.monitoring:2020"


def decode(content: bytes) -> None:
    """Read the document beside a recorded cluster."""
    snapshot, figures = sound_snapshot(), RawFigures({ANY_ADDRESS: content})
    view = read_view(snapshot, figures, {ADDRESS: None}, (), times.parse(NOW))
    for metrics in view.watchers.values():
        node_usage_of_watcher(metrics, snapshot.nodes)


def seeds() -> Mapping[str, bytes]:
    """A document with every figure, one that is empty."""
    figures = [
        {"name": "host.cpu", "type": kind, "operator": operator, "rollup": "AVG", "value": value}
        for kind, operator, value in (("CPU", "AVG", 80.5), ("CPU", "STD", 3), ("Memory", "Latest", 40))
    ]
    window = {"duration": "15m", "start": 1795175000, "end": 1795176000}
    document = {
        "timestamp": 1795176000,
        "window": window,
        "source": "Prometheus",
        "data": {"NodeMetricsMap": {name: {"metrics": figures, "tags": {}} for name in ("n0", "n1")}},
    }
    return {
        "watcher.json": json.dumps(document).encode(),
        "empty.json": b'{"data": {"NodeMetricsMap": {}}}',
    }


TARGETS = (Target("load-watcher", decode, seeds, json_structure(), largest=64 << 20),)
