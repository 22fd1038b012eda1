"""Clusters whose scheduler has Trimaran's TargetLoadPacking: it packs nodes by their measured load."""

from __future__ import annotations

from msgspec.structs import replace

from rebalancer.load.scheduler_view import AVERAGE, CPU_TYPE, Metric, SchedulerView, WatcherMetrics
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.scheduling.registry import load_configuration

_WATCHER = "http://load-watcher"
_WINDOW_SECONDS = 900.0
_CONFIGURATION = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins: {{score: {{enabled: [{{name: TargetLoadPacking, weight: 9}}]}}}}
  pluginConfig: [{{name: TargetLoadPacking, args: {{watcherAddress: "{_WATCHER}"}}}}]
"""


def watched(inputs: PlanningInputs, window_end: float) -> WatcherMetrics:
    """What load-watcher answers where it sees the load of the nodes that we see."""
    column = inputs.load.percent_resources.index("cpu")
    cpu = inputs.load.percent[:, column].tolist()
    nodes = inputs.snapshot.nodes.names
    figures = {name: (Metric(CPU_TYPE, AVERAGE, load),) for name, load in zip(nodes, cpu, strict=True)}
    return WatcherMetrics(figures, inputs.now, window_end - _WINDOW_SECONDS, window_end, "bench")


def packed(inputs: PlanningInputs) -> PlanningInputs:
    """The same cluster, whose scheduler packs nodes up to 40 % of their cpu and sees the load that we see."""
    configuration = load_configuration(_CONFIGURATION, "bench")
    view = SchedulerView({_WATCHER: watched(inputs, inputs.now)})
    (scheduler,) = inputs.schedulers
    return replace(inputs, schedulers=(replace(scheduler, configuration=configuration, view=view),))
