"""Lets our own model place the sandbox's pods, as the scheduler of its configuration would."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
import numpy as np

from rebalancer.cluster.dumps.listing import Listing, Recording, decode_listing
from rebalancer.cluster.kinds import KINDS, METRICS, Kind
from rebalancer.cluster.snapshot import Snapshot, build_snapshot
from rebalancer.load.scheduler_view import SchedulerView, WatcherMetrics
from rebalancer.planning.landing.scenarios import NOWHERE, LandingDraws
from rebalancer.profiles.types import SchedulerConfiguration
from rebalancer.scheduling.framework.plugin import PluginInputs
from rebalancer.scheduling.registry import make_scheduler
from rebalancer.scheduling.state.cluster_state import ClusterState
from rebalancer_demo.objects import Object, name_of, namespace_of
from rebalancer_demo.scheduler import ClusterView, UnschedulableError

_READ = tuple(kind for kind in KINDS if kind not in METRICS and not kind.optional)


class ModelDecider:
    """Places pods by the profiles of a configuration; a seed draws at which node its searches start.

    ``watcher`` answers what load-watcher would, whatever its address; None where no plugin asks.
    """

    def __init__(
        self,
        configuration: SchedulerConfiguration,
        watcher: Callable[[], WatcherMetrics] | None = None,
        *,
        seed: int = 0,
    ) -> None:
        self._configuration = configuration
        self._watcher = watcher
        self._draws = LandingDraws(np.random.default_rng(seed))
        self._listings: dict[str, tuple[int, Listing]] = {}

    def __call__(self, view: ClusterView, pod: Object) -> str | None:
        """The node the model would bind the pod to; UnschedulableError when no profile or node takes it."""
        snapshot = build_snapshot(
            Recording("sandbox", {kind.plural: self._list(view, kind) for kind in _READ})
        )
        row = snapshot.pods.row.get((namespace_of(pod), name_of(pod)))
        if row is None:
            return None  # gone meanwhile
        name = snapshot.pods.class_of(row).scheduler_name
        profile = self._configuration.profile(name)
        if profile is None:
            raise UnschedulableError(f"no profile has schedulerName {name}")
        inputs = PluginInputs.of(snapshot, self._view())
        scheduler = make_scheduler(self._configuration, profile, inputs)
        state = ClusterState.of(snapshot)
        placement = scheduler.place(state, state.pod_class[row])
        node = self._draws.node(placement)
        if node == NOWHERE:
            raise UnschedulableError(
                placement.rejected or _why_none(snapshot, scheduler.rejections(state, state.pod_class[row]))
            )
        return snapshot.nodes.names[node]

    def _list(self, view: ClusterView, kind: Kind) -> Listing:
        """The typed records of a kind; kept while nothing of it changes."""
        records, version = view.records(kind.plural)
        cached = self._listings.get(kind.plural)
        if cached is None or cached[0] != version:
            listing = decode_listing(kind, [msgspec.Raw(record.encoded) for record in records])
            cached = self._listings[kind.plural] = version, listing
        return cached[1]

    def _view(self) -> SchedulerView:
        if self._watcher is None:
            return SchedulerView()
        metrics = self._watcher()
        addresses = {
            address
            for profile in self._configuration.profiles
            for arguments in profile.arguments.values()
            if (address := getattr(arguments, "watcher_address", None)) is not None
        }
        return SchedulerView(dict.fromkeys(addresses, metrics))


def _why_none(snapshot: Snapshot, reasons: Mapping[int, str]) -> str:
    """``0/N nodes are available: COUNT REASON, …`` as the scheduler writes it."""
    counts: dict[str, int] = {}
    for reason in reasons.values():
        text = reason.split(": ", 1)[-1]
        counts[text] = counts.get(text, 0) + 1
    listed = ", ".join(sorted(f"{count} {text}" for text, count in counts.items()))
    return f"0/{len(snapshot.nodes)} nodes are available: {listed}."
