"""The strategy that moves pods whose containers were restarted often, those with the most restarts first.

It helps where the node is to blame: a broken device, a noisy neighbour, no route to a database. So a pod
moves only where its replacement will run on another node. A pod that fails everywhere is not moved again and
again: its workload is left alone for ``planning.cooldown``, which doubles, and for a day where the
replacement did not become ready.

    web-a   130 restarts    moves first; no other pod of web in the same run
    api-c   104 restarts    moves
    db-0     99 restarts    stays: the threshold is 100
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from pydantic import Field

from rebalancer.counting import counted
from rebalancer.planning.reasons import Reason
from rebalancer.planning.strategies.chosen_pods import ChosenStates
from rebalancer.planning.strategies.strategy import Replaced, Strategy

if TYPE_CHECKING:
    from rebalancer.cluster.arrays import PodRow
    from rebalancer.planning.builder import PlanBuilder


class RestartsSettings(ChosenStates):
    """Which pods were restarted too often: those that meet everything that is said here."""

    threshold: int = Field(default=100, ge=1, description="Restarts from which on a pod moves.")


class Restarts(Strategy):
    """Moves pods by their restarts, as RemovePodsHavingTooManyRestarts of descheduler does."""

    name = "restarts"
    description = "Move pods whose containers were restarted too often to another node."
    settings_type = RestartsSettings
    settings: RestartsSettings
    one_by_one = True
    settled = "it was not restarted so often, or is in none of the states any more"
    replaces = {
        "RemovePodsHavingTooManyRestarts": Replaced(
            {"podRestartThreshold": "threshold", "labelSelector": "podSelector"},
            "only to another node, and those of a workload one after the other",
        )
    }

    @property
    def lifts(self) -> Collection[Reason]:
        return (Reason.UNREADY_REPLICAS,)

    def pods(self, plan: PlanBuilder) -> Iterable[PodRow]:
        """Those with so many restarts, the most first."""
        from rebalancer.cluster.arrays import PodRow  # noqa: PLC0415 - imports numpy

        table = self.prepared.pods
        settings = self.settings
        restarted = [
            (-self._restarts(PodRow(row)), row)
            for row in table.columns.few("containers")
            if table.node[row] >= 0 and self._restarts(PodRow(row)) >= settings.threshold
        ]
        return [PodRow(row) for _, row in sorted(restarted)]

    def _restarts(self, pod: PodRow) -> int:
        containers = self.prepared.pods.columns.few("containers")[pod]
        init = self.settings.including_init_containers
        return sum(container.restarts for container in containers if init or not container.init)

    def why(self, pod: PodRow, plan: PlanBuilder) -> str:
        """How often it was restarted, and which of the states asked for it is in."""
        table = self.prepared.pods
        settings = self.settings
        restarts = self._restarts(pod)
        if restarts < settings.threshold or not settings.chooses(table.class_of(pod)):
            return ""
        states = settings.words(table.fields(pod), self.prepared.inputs.now)
        words = f"its containers were restarted {counted(restarts, 'time')}"
        return "" if states is None else ", ".join((words, *states))
