"""Pressure of the nodes: for how much of the time something waited for cpu, memory or I/O.

The kernel counts the seconds in which at least one task waited (PSI, "some"). It is a second signal beside
utilization: it separates a node that is merely busy from one whose pods are slowed down. It cannot be added
up: a pod that leaves does not take its part of the waiting along, so no landing is ever judged by it.

Kubelets before 1.36 publish zeros where the kernel has no PSI. A node all of whose counters are zero since it
booted is therefore unknown, not calm.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rebalancer.load.figures.node_figures import PRESSURE_WINDOW_SECONDS, PressureFigures
from rebalancer.load.prometheus.nodes import NodeReading
from rebalancer.load.prometheus.questions import Question

RANGE = f"{PRESSURE_WINDOW_SECONDS // 60}m"


@dataclass(frozen=True, slots=True)
class _Counters:
    """What a preset calls the counters."""

    prefix: str
    matcher: str
    by: str

    def rate(self, resource: str) -> str:
        """PromQL: percent of the time."""
        counter = f"{self.prefix}_{resource}_waiting_seconds_total{{{self.matcher}}}"
        return f"100 * max by ({self.by}) (rate({counter}[{RANGE}]))"

    @property
    def seconds_since_boot(self) -> str:
        """PromQL: all counters of a node together."""
        name = f'__name__=~"{self.prefix}_(cpu|memory|io)_(waiting|stalled)_seconds_total"'
        return f"sum by ({self.by}) ({{{', '.join(filter(None, (name, self.matcher)))}}})"

    def timestamp(self, resource: str) -> str:
        """PromQL: when a counter was read."""
        return (
            f"max by ({self.by}) "
            f"(timestamp({self.prefix}_{resource}_waiting_seconds_total{{{self.matcher}}}))"
        )


_NODE_EXPORTER = _Counters("node_pressure", "", "instance")
_PRESETS = {
    "nodeExporter": _NODE_EXPORTER,
    "kubePrometheus": _NODE_EXPORTER,  # it has no recording rules of pressure
    "cadvisor": _Counters("container_pressure", 'id="/"', "instance, node"),
}


def read_pressure(reading: NodeReading) -> PressureFigures:
    """The pressure that is asked for; NaN, and a warning, where it is not known."""
    inputs, nodes = reading.inputs, reading.nodes
    counters = _PRESETS[inputs.settings.preset]
    nothing = np.full(len(nodes), np.nan)
    percent = dict.fromkeys(inputs.pressure, nothing)
    seconds = reading.ask("pressure", Question(counters.seconds_since_boot))
    if seconds is None:
        return PressureFigures(percent, nothing)
    since_boot = reading.last_values("pressure", seconds)
    reading.warn_about(since_boot == 0, "pressure is zero since boot, so not measured, on")
    oldest = np.full(len(nodes), np.inf)
    for resource in inputs.pressure:
        what = f"pressure of {resource}"
        rates = reading.ask(what, Question(counters.rate(resource)))
        dates = reading.ask(f"age of {what}", Question(counters.timestamp(resource)))
        if rates is None or dates is None:
            continue
        found = reading.last_values(what, rates)
        oldest = np.fmin(oldest, reading.last_values(what, dates, newest=True))
        percent[resource] = np.where((found >= 0) & (since_boot > 0), found, np.nan)
        reading.warn_about(np.isnan(percent[resource]) & (since_boot != 0), f"no {what} for")
    return PressureFigures(percent, np.where(np.isinf(oldest), np.nan, oldest) - reading.skew)
