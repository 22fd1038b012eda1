"""What plugins are made from besides their arguments, and what shows them which objects were read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from rebalancer.cluster.arrays import FloatArray
from rebalancer.cluster.kinds import Kind
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.load.scheduler_view import EMPTY_VIEW, SchedulerView
from rebalancer.profiles.arguments import Arguments
from rebalancer.profiles.types import ExtensionPoint
from rebalancer.scheduling.matching.affinity_terms import AffinityTerm, NamespaceLabels, terms_of
from rebalancer.scheduling.matching.owners import Owners
from rebalancer.scheduling.state.volumes import claims_by_name, is_bound

# The figures of a window do not show a pod that was bound less than this before the window's end
# (scheduler-plugins v0.34.7 pkg/trimaran/targetloadpacking/targetloadpacking.go:157).
_UNSEEN_SECONDS = 60.0
# The scheduler asks for figures this often, so the window it knows may be this much older than ours.
SCHEDULER_LAG_SECONDS = 30.0
_LISTING_SECONDS = 5.0  # the time a scheduler takes at its start until it has listed the pods
# A scheduler takes all pods that it lists at its start to be bound at that moment (trimaran/handler.go:96).
# Their load is in the figures for it once our window ends so much later.
RECENT_AFTER_START_SECONDS = _UNSEEN_SECONDS + SCHEDULER_LAG_SECONDS + _LISTING_SECONDS


@dataclass(frozen=True, slots=True, eq=False)
class PluginInputs:
    """What plugins are made from besides their arguments."""

    view: SchedulerView = EMPTY_VIEW
    bound_at: FloatArray | None = None  # (pods,) Unix seconds, NaN when unknown
    node: Sequence[int] = ()  # by pod: its node's row
    pod_class: Sequence[int] = ()  # by pod
    owners: Owners = field(default_factory=Owners)
    namespaces: NamespaceLabels = field(default_factory=dict)  # labels by name
    unseen_seconds: float = _UNSEEN_SECONDS
    cores: int | None = None  # that the scheduler runs on; None when unknown

    @property
    def lagging(self) -> PluginInputs:
        """The same inputs as of the oldest window that the scheduler may still use."""
        return replace(self, unseen_seconds=_UNSEEN_SECONDS + SCHEDULER_LAG_SECONDS)

    def recently_bound(self, window_end: float) -> tuple[tuple[int, int], ...]:
        """(class, node) of the pods bound too late for a window's figures to show them."""
        if self.bound_at is None:
            return ()
        rows = np.flatnonzero(self.bound_at > window_end - self.unseen_seconds)
        return tuple((self.pod_class[row], self.node[row]) for row in rows.tolist() if self.node[row] >= 0)

    @classmethod
    def of(cls, snapshot: Snapshot, view: SchedulerView) -> PluginInputs:
        """The inputs that a snapshot and the scheduler's view of the load give."""
        pods = snapshot.pods
        return cls(
            view,
            pods.started,
            pods.node.tolist(),
            pods.pod_class.tolist(),
            Owners.of(snapshot),
            snapshot.namespaces or {},
        )


@dataclass(frozen=True, slots=True)
class Enabled:
    """How a profile enables a plugin: its arguments, and the extension points where it runs."""

    arguments: Arguments | None
    points: frozenset[ExtensionPoint]


class ObjectsRead:
    """Which kinds of objects a snapshot holds, and what plugins look up there to know what they need.

    Made once for all classes of a snapshot, because the look-ups go through all its pods and claims.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def has(self, kind: Kind) -> bool:
        """Whether objects of a kind were read, even if there were none."""
        return self._snapshot.has(kind)

    @cached_property
    def bound_claims(self) -> frozenset[tuple[str, str]]:
        """Namespace and name of the persistent volume claims that are completely bound."""
        return frozenset(key for key, claim in claims_by_name(self._snapshot).items() if is_bound(claim))

    @cached_property
    def namespace_selecting_terms(self) -> frozenset[AffinityTerm]:
        """The affinity terms of any pod that select namespaces by their labels."""
        classes = self._snapshot.pods.classes
        return frozenset(term for pod in classes for term, _ in terms_of(pod) if term.selects_namespaces)
