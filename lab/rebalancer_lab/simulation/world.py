"""The simulated cluster: where every pod is, what it uses, and what metrics show of that."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping

import msgspec
import numpy as np
from msgspec.structs import replace

from rebalancer.cluster.arrays import BoolArray, FloatArray, IntArray
from rebalancer.cluster.nodes import CPU, MEMORY
from rebalancer.cluster.pods import PHASES, PodTable
from rebalancer.load import scheduler_view
from rebalancer.load.report import percent_of_allocatable
from rebalancer.load.scheduler_view import SchedulerView
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.scheduling.resources import pod_requests, requested_amounts
from rebalancer.state.run_state import RunState

STEP_SECONDS = 60.0
# How long a deviation of a pod's load lasts: load is correlated from minute to minute.
_CORRELATION_SECONDS = 600.0
_DAY_SECONDS = 86_400.0


class LoadShape(msgspec.Struct, frozen=True):
    """How the load of pods changes from what was recorded, minute by minute, and how late metrics show it."""

    noise: float = 0.0  # standard deviation of a pod's load, as a share of it
    daily: float = 0.0  # amplitude of a sine over the day that starts at the recorded load
    lag_seconds: float = 0.0  # metrics are averages over this long; 0: they show the moment


class PodLoad(msgspec.Struct, eq=False, dict=True):
    """The load of every pod, step by step; a pure function of base, shape and seed."""

    _base: FloatArray  # (pods, resources), NaN unknown
    _shape: LoadShape
    _random: np.random.Generator
    first_step: int = 0  # where the daily curve begins; at step 0 the load is as recorded

    def __post_init__(self) -> None:
        self._steps = self.first_step
        self._deviation = self._draw() if self._shape.noise else np.zeros_like(self._base)

    def _draw(self) -> FloatArray:
        return self._random.standard_normal(self._base.shape)

    def now(self) -> FloatArray:
        """(pods, resources) what each pod uses at this moment."""
        hour = 2 * math.pi * self._steps * STEP_SECONDS / _DAY_SECONDS
        curve = 1.0 + self._shape.daily * math.sin(hour)
        factor = curve * (1.0 + self._shape.noise * self._deviation)
        return np.asarray(self._base * np.maximum(factor, 0.0), np.float64)

    def step(self) -> None:
        """One step of time."""
        self._steps += 1
        if self._shape.noise:
            correlation = math.exp(-STEP_SECONDS / _CORRELATION_SECONDS)
            self._deviation = (
                correlation * self._deviation + math.sqrt(1 - correlation * correlation) * self._draw()
            )


_RUNNING = PHASES.index("Running")
_PENDING = PHASES.index("Pending")


class SimulatedCluster:
    """A recorded cluster that goes on living: pods move, load changes, metrics lag."""

    def __init__(self, inputs: PlanningInputs, shape: LoadShape, random: np.random.Generator) -> None:
        self._inputs = inputs
        self._shape = shape
        pods = inputs.snapshot.pods
        self.now = inputs.now
        self.has_load = inputs.load.known  # (nodes,) has a figure of all that is required, which stays so
        self.node = pods.node.copy()  # (pods,) row of the node, -1 unbound
        self.pod_class = pods.pod_class.copy()
        self.gone = np.zeros(len(pods), np.bool_)  # (pods,) was terminating when recorded
        self._created = pods.created.copy()
        self._started = pods.started.copy()
        self._uids = list(pods.uids)
        self._seconds = 0.0  # that have passed
        self._steps = 0
        self._moves = np.zeros(len(pods), np.int64)
        base = _base_usage(inputs)
        self._window = max(1, round(shape.lag_seconds / STEP_SECONDS))
        self._load = PodLoad(base, shape, random, first_step=1 - self._window)
        # What a node uses besides its pods, so that the first cycle sees exactly what was recorded.
        self._overhead = inputs.load.usage - self._sum(base, self.node)
        self._node_samples: deque[FloatArray] = deque(maxlen=self._window)
        self._pod_samples: deque[FloatArray] = deque(maxlen=self._window)
        self._sample()
        for _ in range(self._window - 1):  # what the first figures are averages over
            self._load.step()
            self._sample()

    # Time

    def advance(self, seconds: float) -> None:
        """Let time pass; load changes and metrics are taken every step."""
        self._seconds += seconds
        steps = round(self._seconds / STEP_SECONDS) - self._steps
        for _ in range(steps):
            self._load.step()
            self._sample()
        self._steps += steps
        if not steps and self._window == 1:  # figures that show the moment show what was changed
            self._sample()
        self.now += seconds
        self.gone |= self._inputs.snapshot.pods.terminating
        self.node[self.gone] = -1

    def _sample(self) -> None:
        usage = self._load.now()
        self._pod_samples.append(usage)
        self._node_samples.append(self._sum(usage, self.node) + self._overhead)

    def _sum(self, usage: FloatArray, node: IntArray) -> FloatArray:
        """(nodes, resources) the sum over the pods on each node, by the node of each pod."""
        bound = node >= 0
        total = np.zeros((len(self._inputs.snapshot.nodes), usage.shape[1]))
        np.add.at(total, node[bound], np.nan_to_num(usage[bound]))
        return total

    # Change

    def place(self, row: int, node: int, pod_class: int) -> None:
        """A pod was replaced by one of a class on a node; -1 while it is Pending."""
        self._moves[row] += 1
        self._uids[row] = f"{self._inputs.snapshot.pods.uids[row]}+{self._moves[row]}"
        self.node[row] = node
        self.pod_class[row] = pod_class
        self._created[row] = self.now
        self._started[row] = self.now if node >= 0 else np.nan

    def bind(self, row: int, node: int) -> None:
        """A Pending pod was scheduled."""
        self.node[row] = node
        self._started[row] = self.now

    @property
    def pending(self) -> list[int]:
        """Rows of the pods without a node."""
        unbound = (self.node < 0) & ~self.gone & ~self._inputs.snapshot.pods.node_unknown
        return [int(row) for row in np.flatnonzero(unbound & ~self._inputs.snapshot.pods.terminating)]

    # What is seen

    def measure(self) -> None:
        """Let the figures show what was changed, without letting time pass."""
        self._node_samples.clear()
        self._pod_samples.clear()
        self._sample()

    def percent(self, without: BoolArray | None = None) -> FloatArray:
        """(nodes, resources + 1) the true load of this moment in percent of allocatable.

        What some of the (pods,) use counts for nothing where it is asked for ``without`` them.
        """
        node = self.node if without is None else np.where(without, -1, self.node)
        usage = self._sum(self._load.now(), node) + self._overhead
        pods = np.bincount(node[node >= 0], minlength=len(usage)).astype(np.int64)
        return percent_of_allocatable(usage, pods, self._inputs.load.allocatable)

    def inputs(self, state: RunState) -> PlanningInputs:
        """What a run would read now."""
        snapshot = replace(self._inputs.snapshot, pods=self._pods())
        report = self._inputs.load
        usage = np.mean(self._node_samples, axis=0)
        return replace(
            self._inputs,
            snapshot=snapshot,
            load=replace(
                report,
                usage=np.maximum(usage, 0.0),
                measured_at=np.where(np.isnan(report.measured_at), np.nan, self.now),
                window_seconds=np.full_like(report.window_seconds, self._shape.lag_seconds),
                pod_usage=np.mean(self._pod_samples, axis=0),
                pod_node=self.node.copy(),
            ),
            state=state,
            now=self.now,
        ).with_views(self._view)

    def _view(self, view: SchedulerView) -> SchedulerView:
        watchers = {address: self._watched(metrics) for address, metrics in view.watchers.items()}
        return replace(view, watchers=watchers)

    def _pods(self) -> PodTable:
        pods = self._inputs.snapshot.pods
        moved = self._moves > 0
        bound = self.node >= 0
        columns = pods.columns.changed(
            uid=self._uids,
            pod_class=self.pod_class,
            created=self._created,
            started=self._started,
            phase=np.where(moved, np.where(bound, _RUNNING, _PENDING), pods.phase),
            ready=np.where(moved, bound, pods.ready & bound),
            nominated={row: node for row, node in pods.nominated.items() if not bound[row]},
        )
        terminating = pods.terminating & ~moved
        return replace(pods, columns=columns, node=self.node.copy(), terminating=terminating)

    def _watched(self, metrics: scheduler_view.WatcherMetrics) -> scheduler_view.WatcherMetrics:
        """What load-watcher answers now of the nodes it knew, in percent of capacity."""
        nodes = self._inputs.snapshot.nodes
        capacity = np.maximum(nodes.capacity[:, [CPU, MEMORY]].astype(np.float64), 1.0)
        measured = np.stack(self._node_samples)[:, :, [0, 1]]  # cpu and memory
        samples = 100.0 * np.maximum(measured, 0.0) / capacity
        figures = {
            scheduler_view.AVERAGE: samples.mean(axis=0),
            scheduler_view.LATEST: samples[-1],
            "": samples[-1],
        }
        if len(samples) > 1:
            figures[scheduler_view.DEVIATION] = samples.std(axis=0)

        def updated(
            name: str, recorded: Iterable[scheduler_view.Metric]
        ) -> tuple[scheduler_view.Metric, ...]:
            row = nodes.row.get(name, -1)
            return tuple(_updated(metric, row, figures) for metric in recorded)

        return replace(
            metrics,
            nodes={name: updated(name, recorded) for name, recorded in metrics.nodes.items()},
            timestamp=self.now,
            window_start=self.now - self._shape.lag_seconds,
            window_end=self.now,
        )


def _updated(
    metric: scheduler_view.Metric, row: int, figures: Mapping[str, FloatArray]
) -> scheduler_view.Metric:
    column = {scheduler_view.CPU_TYPE: 0, scheduler_view.MEMORY_TYPE: 1}.get(metric.type)
    values = figures.get(metric.operator)
    if row < 0 or column is None or values is None or np.isnan(values[row, column]):
        return metric
    return scheduler_view.Metric(metric.type, metric.operator, float(values[row, column]))


def _base_usage(inputs: PlanningInputs) -> FloatArray:
    """(pods, resources) what each pod uses as recorded; its request while it is not known."""
    pods = inputs.snapshot.pods
    usage = inputs.load.relief.copy()  # pods together use no more than their node does
    for row in np.flatnonzero(np.isnan(usage).any(axis=1) & (pods.node < 0)).tolist():
        requests = pod_requests(pods.class_of(row)).incoming
        usage[row] = requested_amounts(requests, inputs.load.resources)
    return usage
