"""What the Trimaran plugins share: load-watcher's figures, what pods request, arguments, and a base class.

Values that the Go plugins silently replace by a default are replaced here too.

Source: scheduler-plugins v0.34.7 pkg/trimaran/collector.go:110, resourcestats.go:45,
apis/config/v1/defaults.go:133.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, Protocol, Self, TypeVar

import msgspec
import numpy as np
from pydantic import BeforeValidator

from rebalancer.cluster import quantities
from rebalancer.cluster.arrays import BoolArray, FloatArray, IntArray
from rebalancer.cluster.nodes import CPU, MEMORY
from rebalancer.cluster.pod_classes import PodClass
from rebalancer.cluster.records import Container
from rebalancer.load.scheduler_view import (
    AVERAGE,
    CPU_TYPE,
    DEVIATION,
    LATEST,
    MEMORY_TYPE,
    Metric,
    WatcherMetrics,
)
from rebalancer.profiles.types import Arguments, Input, MetricProvider, extension_points
from rebalancer.scheduling.framework.plugin import Plugin, PluginInputs
from rebalancer.scheduling.state.cluster_state import ClusterState

_MEGA = 1.0 / 1024.0 / 1024.0
_AMOUNT: dict[str, Callable[[str], int]] = {"cpu": quantities.cpu_milli, "memory": quantities.units}


def statistics(metrics: Sequence[Metric], kind: str) -> tuple[float, float] | None:
    """Mean and deviation of a type of figure; None when there is none of it."""
    average = deviation = 0.0
    any_found = average_found = False
    for metric in metrics:
        if metric.type != kind:
            continue
        any_found = True
        if metric.operator == AVERAGE:
            average = metric.value
            average_found = True
        elif metric.operator == DEVIATION:
            deviation = metric.value
        elif metric.operator in ("", LATEST) and not average_found:
            average = metric.value
    return (average, deviation) if any_found else None


class Figures(msgspec.Struct, frozen=True, eq=False):
    """The figures of one type over the nodes, in percent."""

    valid: BoolArray  # (nodes,)
    average: FloatArray  # (nodes,) 0 where not valid
    deviation: FloatArray  # (nodes,)


def figures(watcher: WatcherMetrics | None, names: Sequence[str], kind: str) -> Figures:
    """The figures of the nodes named."""
    nodes = watcher.nodes if watcher else {}
    has_figures = np.zeros(len(names), np.bool_)
    averages = np.zeros(len(names))
    deviations = np.zeros(len(names))
    for row, name in enumerate(names):
        statistics_of_node = statistics(nodes.get(name, ()), kind)
        if statistics_of_node is not None:
            has_figures[row] = True
            averages[row], deviations[row] = statistics_of_node
    return Figures(has_figures, averages, deviations)


def listed(watcher: WatcherMetrics | None, names: Sequence[str]) -> BoolArray:
    """(nodes,) has any figure at all."""
    nodes = watcher.nodes if watcher else {}
    return np.array([bool(nodes.get(name)) for name in names], np.bool_)


def in_mebibytes(amounts: FloatArray | float) -> FloatArray:
    """Bytes in MiB, as the plugins compare memory."""
    return np.asarray(amounts * _MEGA, np.float64)


def _amount(container: Container, which: str, resource: str) -> int:
    amounts = getattr(container.resources, which) if container.resources else None
    return _AMOUNT[resource](amounts[resource]) if amounts and resource in amounts else 0


def pod_amount(pod: PodClass, which: str, resource: str) -> int:
    """max(Σ containers, each init container) + overhead; ``which`` is requests or limits.

    Sidecars are nothing special here, there are no defaults, and pod-level amounts do not count.
    """
    spec = pod.spec
    total = sum(_amount(container, which, resource) for container in spec.containers or ())
    starting = [_amount(container, which, resource) for container in spec.init_containers or ()]
    overhead = (spec.overhead or {}).get(resource)
    return max(total, *starting, 0) + (_AMOUNT[resource](overhead) if overhead is not None else 0)


def requested(pod: PodClass, resource: str) -> int:
    """What a pod requests of cpu (thousandths) or memory (bytes)."""
    return pod_amount(pod, "requests", resource)


def limited(pod: PodClass, resource: str) -> int:
    """A pod's limit, at least its request."""
    return max(pod_amount(pod, "limits", resource), requested(pod, resource))


class TrimaranArguments(Arguments):
    """The arguments that all Trimaran plugins share."""

    watcher_address: str = ""
    metric_provider: MetricProvider = MetricProvider.model_construct()


def positive_or(default: int) -> BeforeValidator:
    """Replaces integers that are not positive by a default."""

    def replace(value: object) -> object:
        bad = isinstance(value, int) and not isinstance(value, bool) and value <= 0
        return default if bad else value

    return BeforeValidator(replace)


class WatcherArguments(Protocol):
    """Arguments that say which load-watcher is asked."""

    @property
    def watcher_address(self) -> str:
        """Its URL; empty for the one that is built into the plugin."""


A = TypeVar("A", bound=WatcherArguments)


class TrimaranPlugin(Plugin, Generic[A]):
    """A plugin that scores by what load-watcher says of the nodes."""

    points = extension_points("score")
    inputs = frozenset({Input.WATCHER})

    @classmethod
    def make(cls, arguments: A, inputs: PluginInputs) -> Self:
        return cls(arguments, inputs.view.watchers.get(arguments.watcher_address))

    def __init__(self, arguments: A, watcher: WatcherMetrics | None) -> None:
        self._arguments = arguments
        self._watcher = watcher

    def _figures(self, state: ClusterState, kind: str) -> Figures:
        """The figures of one type over the nodes."""
        return figures(self._watcher, state.nodes.names, kind)

    def _allocatable(self, state: ClusterState, kind: str) -> IntArray:
        """(nodes,) what there is of the resource of a type of figure."""
        return state.classes.allocatable[:, CPU if kind == CPU_TYPE else MEMORY]

    def _compared(self, state: ClusterState, kind: str) -> FloatArray:
        """(nodes,) the same in the unit in which the plugins compare it."""
        amounts = self._allocatable(state, kind).astype(np.float64)
        return in_mebibytes(amounts) if kind == MEMORY_TYPE else amounts
