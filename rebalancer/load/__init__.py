"""What nodes and pods use, and what the scheduler's load-aware plugins see of it; each figure with its age.

``sources`` reads what the policy names and joins it into a ``LoadReport``; ``plugin_sources`` reads what the
scheduler's plugins read, as a ``SchedulerView``. Only the values are exported here, so that code
which computes with them imports neither the policy nor a network client.
"""

from rebalancer.load.figures.node_figures import RESOURCES, NodeFigures, PodFigures
from rebalancer.load.figures.pod_usage import PodMethod
from rebalancer.load.load_watcher.document import WatcherMetrics
from rebalancer.load.report import (
    PERCENT_RESOURCES,
    LoadReport,
    build_report,
    percent_of_allocatable,
    with_pods,
)
from rebalancer.load.view import NOTHING_SEEN, SchedulerView

__all__ = [
    "NOTHING_SEEN",
    "PERCENT_RESOURCES",
    "RESOURCES",
    "LoadReport",
    "NodeFigures",
    "PodFigures",
    "PodMethod",
    "SchedulerView",
    "WatcherMetrics",
    "build_report",
    "percent_of_allocatable",
    "with_pods",
]
