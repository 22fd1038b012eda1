"""load-watcher's document: ``GET /watcher``, decoded and checked.

Source: load-watcher v0.2.4 pkg/watcher/watcher.go:260.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import msgspec

CPU, MEMORY = "CPU", "Memory"
AVERAGE, DEVIATION, LATEST = "AVG", "STD", "Latest"
_MAX_PERCENT = 1e9


class Metric(msgspec.Struct, frozen=True, gc=False):
    """One figure of a node, in percent of capacity."""

    type: str = ""
    operator: str = ""
    value: float = 0.0


class _NodeMetrics(msgspec.Struct, frozen=True, gc=False):
    metrics: list[Metric] | None = None


_Seconds = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


class _Window(msgspec.Struct, frozen=True, gc=False):
    start: _Seconds = 0
    end: _Seconds = 0


class _Data(msgspec.Struct, frozen=True, gc=False):
    nodes: dict[str, _NodeMetrics] = msgspec.field(name="NodeMetricsMap")


class _Document(msgspec.Struct, frozen=True, gc=False):
    data: _Data
    timestamp: float = 0.0
    window: _Window = _Window()
    source: str = ""


@dataclass(frozen=True, slots=True)
class WatcherMetrics:
    """What load-watcher answered: figures by node in the order given, and the window they cover."""

    nodes: Mapping[str, tuple[Metric, ...]]
    timestamp: float  # Unix seconds
    window_start: float  # Unix seconds
    window_end: float  # Unix seconds
    source: str


_decoder = msgspec.json.Decoder(_Document)


def decode_watcher(content: bytes) -> WatcherMetrics:
    """Read the document; raises ValueError (msgspec's included) when it is none.

    A figure that is not a number is dropped, so that its node is unknown rather than wrong.
    """
    document = _decoder.decode(content)
    nodes = {
        name: tuple(
            metric
            for metric in item.metrics or ()
            if math.isfinite(metric.value) and abs(metric.value) <= _MAX_PERCENT
        )
        for name, item in sorted(document.data.nodes.items())
    }
    end = float(document.window.end)
    return WatcherMetrics(
        nodes, document.timestamp or end, float(document.window.start), end, document.source or "load-watcher"
    )
