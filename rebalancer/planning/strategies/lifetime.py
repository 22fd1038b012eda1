"""The strategy that replaces old pods, the oldest first, and those of a workload one after the other.

What a pod gains is its age: the new one is young wherever the scheduler puts it, on the same node too. With
maxAge 168h, the pods of a Deployment:

    web-a   200 h old    replaced by the first run
    web-b   190 h old    stays while its sibling is replaced: a later run
    web-c   160 h old    its time has not come
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from pydantic import Field

from rebalancer.planning.reasons import Reason, age_text
from rebalancer.planning.strategies.chosen_pods import ChosenStates
from rebalancer.planning.strategies.strategy import Replaced, Strategy
from rebalancer.policy.units import Duration, parse_duration

if TYPE_CHECKING:
    from rebalancer.cluster.arrays import PodRow
    from rebalancer.cluster.pods import PodTable
    from rebalancer.planning.builder import PlanBuilder

MAX_LIFETIME = "rebalancer/max-lifetime"
_OF_THEIR_NODE = ("DaemonSet", "Node")  # owners whose pods are never evicted


class LifetimeSettings(ChosenStates):
    """Which pods have lived long enough: those that meet everything that is said here."""

    max_age: Duration | None = Field(
        default=None,
        description="Pods that were created longer ago. Without it, states, conditions and exitCodes, only "
        f"pods with the annotation {MAX_LIFETIME}.",
    )
    bare_pods: bool = Field(default=False, description="Also finished pods without a controller.")

    @property
    def is_for_all(self) -> bool:
        """Whether it is for pods without an annotation too."""
        return self.max_age is not None or self.names_states


class Lifetime(Strategy):
    """Replaces pods by their age, as PodLifeTime of descheduler does, and removes old ones that finished."""

    name = "lifetime"
    description = "Replace pods that are too old, the oldest first."
    settings_type = LifetimeSettings
    settings: LifetimeSettings
    one_by_one = True
    own_node = True  # the new pod is young wherever it runs
    settled = "its lifetime is not over any more"
    replaces = {
        "PodLifeTime": Replaced(
            {"maxPodLifeTimeSeconds": "maxAge", "podStatusPhases": "states", "labelSelector": "podSelector"},
            "those of a workload one after the other",
        )
    }

    @property
    def lifts(self) -> Collection[Reason]:
        return (Reason.UNREADY_REPLICAS,)

    @property
    def removes_bare_pods(self) -> bool:
        return self.settings.bare_pods

    def pods(self, plan: PlanBuilder) -> Iterable[PodRow]:
        """Those that may be old enough, the oldest first, until the run may move no more."""
        return self.until_spent(self._due(), plan)

    def _due(self) -> list[PodRow]:
        """The pods that may be old enough, the oldest first."""
        import numpy as np  # noqa: PLC0415 - not before a plan is made

        from rebalancer.cluster.arrays import PodRow  # noqa: PLC0415 - imports numpy

        table = self.prepared.pods
        settings = self.settings
        due = np.zeros(len(table), np.bool_)
        if settings.is_for_all:
            due = settings.may_be_met(table)
            due &= self.prepared.inputs.now - table.created > (settings.max_age or 0.0)
        due[[row for row, annotations in table.annotations.items() if MAX_LIFETIME in annotations]] = True
        rows = np.flatnonzero(due & (table.node >= 0) & ~np.isnan(table.created))
        oldest_first = rows[np.argsort(table.created[rows], kind="stable")]
        return [PodRow(row) for row in oldest_first.tolist()]

    def why(self, pod: PodRow, plan: PlanBuilder) -> str:
        return self._why(self.prepared.pods, pod)

    def why_remove(self, pods: PodTable, row: PodRow) -> str:
        is_bound = pods.node[row] >= 0
        return self._why(pods, row) if is_bound else ""

    def _why(self, table: PodTable, pod: PodRow) -> str:
        """How old it is and might have become, and which of the states asked for it is in."""
        settings = self.settings
        now = self.prepared.inputs.now
        fields = table.fields(pod)
        own = fields.annotations.get(MAX_LIFETIME)
        states = settings.words(fields, now)
        meets = own is not None or (settings.is_for_all and states is not None)
        meets &= table.class_of(pod).owner.kind not in _OF_THEIR_NODE
        max_age = (settings.max_age or 0.0) if own is None else _own_lifetime(own)
        if not meets or not now - fields.created > max_age or not settings.chooses(table.class_of(pod)):
            return ""
        lifetime = f"its lifetime is {age_text(max_age)}" if max_age else ""
        return ", ".join(
            filter(None, (f"it is {age_text(now - fields.created)} old", lifetime, *(states or ())))
        )


def _own_lifetime(text: str) -> float:
    """Seconds; a text that is no duration, such as never, gives no end."""
    try:
        return parse_duration(text)
    except ValueError:
        return math.inf
