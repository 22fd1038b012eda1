"""Loads of nodes as load-watcher serves them, computed from the pods a node has."""

from __future__ import annotations

import contextlib
import json
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests import loopback
from tests.e2e.api import Api

# What a pod really uses, whatever it requests: annotations of its template.
CPU_MILLI = "e2e/uses-cpu-milli"
MEMORY_MIB = "e2e/uses-memory-mib"


@dataclass(frozen=True)
class Load:
    """Use of a node in percent of its capacity."""

    cpu: float
    memory: float
    cpu_deviation: float | None = None  # within the window
    memory_deviation: float | None = None


@dataclass(frozen=True)
class Served:
    """What a client was served, and when; a client is known by its User-Agent."""

    at: float  # Unix seconds
    client: str
    loads: Mapping[str, Load]


class LoadServer:
    """A stand-in for load-watcher at ``address``/watcher: what ``loads`` says, as of ``measured_at``.

    What it served is kept: it is all that a scheduler's plugins know of the nodes' load.
    """

    def __init__(
        self, loads: Callable[[], Mapping[str, Load]], measured_at: Callable[[], float] = time.time
    ) -> None:
        self.served: list[Served] = []
        self.address = ""  # known when it is started
        self._loads = loads
        self._measured_at = measured_at
        self._running = contextlib.ExitStack()

    def __enter__(self) -> LoadServer:
        self.address = self._running.enter_context(loopback.answering(self._answer))
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    def _answer(self, request: loopback.Request) -> loopback.Answer:
        now, known = time.time(), dict(self._loads())
        self.served.append(Served(now, request.headers.get("User-Agent", ""), known))
        body = json.dumps(watcher_document(known, self._measured_at())).encode()
        return loopback.Answer(body, headers={"Content-Type": "application/json"})


def known_at(served: Sequence[Served], moment: float, nodes: Sequence[str]) -> str:
    """What the scheduler, and then rebalancer, had last been served of some nodes before a moment."""
    found = []
    for who, is_scheduler in (("scheduler", True), ("rebalancer", False)):
        answers = [item for item in served if item.at <= moment and _asked_by_go(item) == is_scheduler]
        for item in answers[-2:]:  # a plugin may still have the one before
            figures = ", ".join(f"{node} {item.loads[node].cpu:.3f}" for node in nodes if node in item.loads)
            found.append(f"{who} {moment - item.at:.1f} s before: CPU {figures}")
    return "; ".join(found)


def _asked_by_go(item: Served) -> bool:
    return item.client.startswith("Go-http-client")


def loads_of(api: Api, nodes: Sequence[dict[str, Any]] | None = None) -> dict[str, Load]:
    """The load of each node now: the sum of what its pods use; ``nodes`` where they were listed already."""
    used: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for pod in api.list("/api/v1/pods"):
        annotations = pod["metadata"].get("annotations", {})
        node = pod["spec"].get("nodeName", "")
        used[node][0] += float(annotations.get(CPU_MILLI, 0))  # whole numbers, whose sums are exact
        used[node][1] += float(annotations.get(MEMORY_MIB, 0))
    loads = {}
    for node in api.list("/api/v1/nodes") if nodes is None else nodes:
        name, capacity = node["metadata"]["name"], node["status"]["capacity"]
        cpu_milli, memory_mib = used[name]
        loads[name] = Load(
            100.0 * cpu_milli / (1000.0 * float(capacity["cpu"])),
            100.0 * memory_mib / _mebibytes(capacity["memory"]),
        )
    return loads


def watcher_document(loads: Mapping[str, Load], now: float) -> dict[str, Any]:
    """The document of load-watcher for these loads, averages over the 15 minutes before ``now``."""
    nodes = {name: {"metrics": _metrics(load)} for name, load in loads.items()}
    # The loads are those of the moment: the window is as short as that.
    window = {"duration": "5s", "start": int(now) - 5, "end": int(now)}
    return {"timestamp": int(now), "window": window, "source": "e2e", "data": {"NodeMetricsMap": nodes}}


def _metrics(load: Load) -> list[dict[str, Any]]:
    figures = (
        ("CPU", "AVG", load.cpu),
        ("Memory", "AVG", load.memory),
        ("CPU", "STD", load.cpu_deviation),
        ("Memory", "STD", load.memory_deviation),
    )
    return [
        {"type": kind, "operator": operator, "rollup": "15m", "value": value}
        for kind, operator, value in figures
        if value is not None
    ]


def _mebibytes(quantity: str) -> float:
    units = {"Ki": 1 / 1024, "Mi": 1.0, "Gi": 1024.0}
    return float(quantity[:-2]) * units[quantity[-2:]]
