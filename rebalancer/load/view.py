"""What the scheduler's load-aware plugins see: their own sources, with their own windows and lag."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rebalancer.load.load_watcher.document import WatcherMetrics


@dataclass(frozen=True, slots=True)
class SchedulerView:
    """The inputs of load-aware plugins; ``missing`` has the reason for each address without figures."""

    watchers: Mapping[str, WatcherMetrics] = field(default_factory=dict)  # by watcherAddress; "" built in
    missing: Mapping[str, str] = field(default_factory=dict)  # address -> why there is no figure
    # By Prometheus address and query: the value by node name. A node with no sample, or several, is absent.
    queries: Mapping[tuple[str, str], Mapping[str, float]] = field(default_factory=dict)


NOTHING_SEEN = SchedulerView()
