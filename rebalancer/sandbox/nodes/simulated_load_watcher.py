"""A simulated load-watcher: its document (port 2020, GET /watcher) made from the usage of the sandbox.

The real one reports the load of some time ago, averaged over a window, so its readers react late;
``lag_seconds`` and ``averaging_seconds`` simulate that.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from typing import Any, NamedTuple

from rebalancer.cluster import quantities
from rebalancer.sandbox.api.http_request import Response
from rebalancer.sandbox.nodes.usage import UsageModel, cpu_nano
from rebalancer.sandbox.objects.accessors import Object, name_of, status_of
from rebalancer.sandbox.objects.store import Store

_MAX_SAMPLES = 900

Utilisation = dict[str, tuple[float, float]]  # node -> CPU, memory in percent of capacity


class _Sample(NamedTuple):
    time: float
    utilisation: Utilisation


class LoadWatcher:
    """Answers with the node utilisation of ``lag_seconds`` ago, averaged over ``averaging_seconds``.

    With both zero it is the present utilisation; otherwise ``sample`` has to be called as time passes.
    """

    def __init__(
        self, store: Store, usage: UsageModel, *, lag_seconds: float = 0.0, averaging_seconds: float = 0.0
    ) -> None:
        self._store = store
        self._usage = usage
        self.lag_seconds = lag_seconds
        self.averaging_seconds = averaging_seconds
        self._samples: list[_Sample] = []
        self._lock = threading.Lock()
        self._deviation: Utilisation = {}

    def load(self, document: Object) -> None:
        """Keep the standard deviations of a dumped ``watcher.json``, which the sandbox cannot compute."""
        for node, entry in document["data"]["NodeMetricsMap"].items():
            found = {
                metric["type"]: float(metric["value"])
                for metric in entry.get("metrics") or ()
                if metric.get("operator") == "STD"
            }
            self._deviation[node] = (found.get("CPU", 0.0), found.get("Memory", 0.0))

    def sample(self) -> None:
        """Remember the utilisation of now, and forget what no lag or average reaches back to."""
        sample = _Sample(self._store.clock(), self._utilisation())
        oldest = sample.time - self.lag_seconds - self.averaging_seconds
        with self._lock:
            self._samples.append(sample)
            while len(self._samples) > 1 and (
                self._samples[1].time <= oldest or len(self._samples) > _MAX_SAMPLES
            ):
                del self._samples[0]

    def _utilisation(self) -> Utilisation:
        usages, found = self._usage.of_nodes(), {}
        for node in self._store.all("nodes"):
            usage, capacity = usages.get(name_of(node)), status_of(node).get("capacity") or {}
            if usage is None or "cpu" not in capacity or "memory" not in capacity:
                continue
            found[name_of(node)] = (
                100.0 * usage.cpu_nano / cpu_nano(str(capacity["cpu"])),
                100.0 * usage.memory_bytes / quantities.units(str(capacity["memory"])),
            )
        return found

    def _window(self) -> tuple[list[Utilisation], float]:
        """The utilisations that count, and the time up to which they go."""
        now = self._store.clock()
        if not self.lag_seconds and not self.averaging_seconds:
            return [self._utilisation()], now
        end = now - self.lag_seconds
        with self._lock:
            known = [sample for sample in self._samples if sample.time <= end] or self._samples[:1]
        if not known:
            return [self._utilisation()], now
        # the newest sample before the window holds at its beginning
        first = max(
            (at for at, sample in enumerate(known) if sample.time <= end - self.averaging_seconds), default=0
        )
        return [sample.utilisation for sample in known[first:]], end

    def __call__(self, query: Mapping[str, str] | None = None) -> Any:
        """The document; with ``host`` of that node alone, 404 when it is unknown."""
        samples, end = self._window()
        host = (query or {}).get("host")
        nodes = {host} if host else samples[-1].keys()
        entries = {}
        for node in sorted(nodes):
            values = [sample[node] for sample in samples if node in sample]
            if not values:
                return Response(404, b"", "text/plain")
            entries[node] = {
                "metrics": self._metrics(node, values),
                "tags": {},
                "metadata": {"dataCenter": ""},
            }
        # start and end are the true window, although load-watcher always calls its duration 15m
        start = int(end - self.averaging_seconds)
        return {
            "timestamp": int(end),
            "window": {"duration": "15m", "start": start, "end": int(end)},
            "source": "Prometheus",
            "data": {"NodeMetricsMap": entries},
        }

    def _metrics(self, node: str, values: list[tuple[float, float]]) -> list[Object]:
        rows = []
        for index, kind in enumerate(("CPU", "Memory")):
            column = [value[index] for value in values]
            mean = sum(column) / len(column)
            spread = math.sqrt(sum((value - mean) ** 2 for value in column) / len(column))
            dumped = self._deviation.get(node, (0.0, 0.0))[index]
            for operator, value in (("AVG", mean), ("STD", max(spread, dumped))):
                rows.append(
                    {
                        "name": "",
                        "type": kind,
                        "operator": operator,
                        "rollup": "15m",
                        "value": round(value, 6),
                    }
                )
        return rows
