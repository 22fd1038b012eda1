"""The strategy that moves pods of a workload off a node that runs more of them than an even share.

As many leave a node as it has above that (``even_shares``): first those that are not ready, then the cheapest
to evict, and only where no node that the scheduler may choose would run more than an even share. So what is
too many shrinks with every move, and moves of other strategies do not add to it:

    web  7 pods, 3 nodes: 3 are even    a 5, b 2, c 0     two pods of a move, to b or c
    api  4 pods, 4 nodes: 1 is even     a 2, b 2, c full  all stay where the scheduler can choose a and b only
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING

from msgspec.structs import replace

from rebalancer.planning.strategies.chosen_pods import ChosenPods
from rebalancer.planning.strategies.strategy import Replaced, Strategy

if TYPE_CHECKING:
    from rebalancer.cluster.arrays import BoolArray, PodRow
    from rebalancer.planning.builder import PartialPlan, PlanBuilder
    from rebalancer.planning.landing.purpose import Landings
    from rebalancer.planning.plan import StrategyReport
    from rebalancer.planning.strategies.even_shares import EvenShares


class Duplicates(Strategy):
    """Spreads the pods of workloads over nodes, as RemoveDuplicates of descheduler is meant to."""

    name = "duplicates"
    description = "Move pods of a workload off nodes that run more than an even share of them."
    settings_type = ChosenPods
    settings: ChosenPods
    settled = "its node runs no more than an even share of them any more"
    replaces = {
        "RemoveDuplicates": Replaced(
            difference="all pods of a Deployment with the same images count, also those that may not be "
            "evicted, and one moves only to a node with fewer of them"
        )
    }

    @cached_property
    def _shares(self) -> EvenShares:
        from rebalancer.planning.strategies.even_shares import EvenShares  # noqa: PLC0415 - imports numpy

        return EvenShares(self.prepared, self.settings)

    def pods(self, plan: PlanBuilder) -> Iterable[PodRow]:
        """Those of crowded nodes: of the most crowded first, unready ones first, then the cheapest.

        It ends with the run's limit: what else is crowded then is a figure of the report.
        """
        from rebalancer.cluster.arrays import PodRow  # noqa: PLC0415 - imports numpy

        pods = self.prepared.pods
        node = self.prepared.pods.node
        surplus: list[tuple[int, str, int, bool, float, PodRow]] = []
        for alike in () if plan.used.spent else self._shares.crowded():
            counts = Counter(node[alike.rows].tolist())
            rows = [PodRow(row) for row in alike.rows.tolist() if counts[int(node[row])] > alike.share]
            for row, cost in zip(rows, self.prepared.disruption.costs(rows), strict=True):
                here = int(node[row])
                ready = bool(pods.ready[row])
                surplus.append((alike.share - counts[here], alike.workload, here, ready, cost, row))
        return takewhile(lambda _: not plan.used.spent, (row for *_, row in sorted(surplus)))

    def why(self, pod: PodRow, plan: PlanBuilder) -> str:
        """How many of them its node runs, and how many are even."""
        alike = self._shares.of(pod)
        node = self.prepared.node_of(pod)
        if alike is None or alike.nodes < 2 or node < 0:
            return ""
        here = int(self._shares.on_nodes(alike, plan.scenarios.all[0].after_termination)[node])
        if here <= alike.share:
            return ""
        return (
            f"{self.prepared.nodes.names[node]} runs {here} of the {len(alike.rows)} pods like it of "
            f"{alike.workload}, an even share on {alike.nodes} nodes is {alike.share}"
        )

    def spoils(self, landings: Landings) -> BoolArray | None:
        """Nodes that would run more than an even share of them with the replacement."""
        alike = self._shares.of(landings.pod) if landings.state is not None else None
        if alike is None or alike.nodes < 2 or landings.state is None:
            return None
        on_nodes = self._shares.on_nodes(alike, landings.state)
        return on_nodes[landings.rows] >= alike.share

    def spoiled(self, landings: Landings, at: int) -> str:
        alike = self._shares.of(landings.pod)
        if alike is None or landings.state is None:
            return super().spoiled(landings, at)
        there = int(self._shares.on_nodes(alike, landings.state)[landings.rows[at]])
        return f"would run {there + 1} pods of {alike.workload} like it, an even share is {alike.share}"

    def report(self, plan: PartialPlan) -> StrategyReport:
        """How many pods are above an even share, before and after the plan."""
        counts = [0, 0]
        for alike in self._shares.crowded():
            for at, state in enumerate((self.prepared.state, plan.scenarios.all[0].after_termination)):
                above = self._shares.on_nodes(alike, state) - alike.share
                counts[at] += int(above[above > 0].sum())
        before, after = counts
        message = f"pods above an even share: {before}, after the plan {after}" if before else ""
        message += f"; {spent} is reached" if after and (spent := plan.builder.used.spent) else ""
        figures = {"tooMany": float(before), "tooManyAfter": float(after)}
        return replace(super().report(plan), message=message, figures=figures)
