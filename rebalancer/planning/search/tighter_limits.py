"""Limits below those of the policy, under which the search makes other plans.

A limit that is raised may lead the search elsewhere, to a plan that leaves more excess. Every plan under
tighter limits is a plan under the policy's limits too. So the search is repeated below them, in the same way
as it would be made if the policy had these values, and the best plan counts. Then a policy with higher limits
compares what one with lower limits compares, and more.

    perNode 3, perNamespace 2    a search in which at most 2 pods leave a node and 2 a namespace
    first                        (2, 2), (3, 1)
    then                         (1, 2), (2, 1)
    then                         (1, 1)

Only values are tried that can matter: from what a search used at most, down to 1. Those below which even
landings for every pod would not leave less excess than the best plan known are left out.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from rebalancer.cluster.arrays import FloatArray, NodeRow
from rebalancer.planning.landing.evaluation import Candidate
from rebalancer.planning.prepared import PreparedInputs
from rebalancer.planning.search.limits import UsedLimits
from rebalancer.planning.search.node_pods import relief_of
from rebalancer.planning.search.plan_builder import PlanBuilder
from rebalancer.planning.search.relief import NEGLIGIBLE, removed
from rebalancer.policy import Amount, Limits

_MORE = 1  # a limit matters up to so many pods more than a search used: other orders may use them


class TighterLimits:
    """What lower limits could give, and which of them to try."""

    def __init__(
        self,
        prepared: PreparedInputs,
        start: PlanBuilder,
        candidates: Mapping[NodeRow, Sequence[Candidate]],
    ) -> None:
        self._limits = prepared.policy.limits
        owners = [prepared.eviction.workload(item.row) for items in candidates.values() for item in items]
        self._desired = {owner.key: owner.desired or 0 for owner in owners}
        namespaces = prepared.pods.namespaces
        self._nodes: list[tuple[FloatArray, FloatArray, list[str]]] = []
        for node, items in candidates.items():
            excess = prepared.hotness.excess(node, start.expected_percent(node))
            relief = np.nan_to_num(relief_of(items, prepared.inputs.load.allocatable[node]))
            self._nodes.append((excess, relief, [namespaces[item.row] for item in items]))

    def least(self, limits: Limits) -> float:
        """The points of excess that would be left at least if all pods that may leave found a landing."""
        left, gains = 0.0, defaultdict[str, list[float]](list)
        total = 0.0
        for excess, relief, namespaces in self._nodes:
            most = -np.sort(-relief, axis=0)[: limits.per_node]
            left += float(np.maximum(excess - most.sum(axis=0), 0.0).sum())
            total += float(excess.sum())
            for name, gain in zip(namespaces, removed(relief, excess).tolist(), strict=True):
                gains[name].append(gain)
        most_removed = sum(
            sum(sorted(items, reverse=True)[: limits.per_namespace]) for items in gains.values()
        )
        return round(max(left, total - most_removed), 6)

    def binds(self, reference: UsedLimits) -> bool:
        """Whether a limit other than perRun was reached."""
        limits = self._limits
        return (
            reference.most_used("per_node") >= limits.per_node
            or reference.most_used("per_namespace") >= limits.per_namespace
            or any(
                used >= limits.per_workload.of(self._desired[key])
                for key, used in reference.by_workload.items()
            )
        )

    def below(self, reference: UsedLimits, best: Callable[[], float]) -> Iterator[Limits]:
        """Tighter limits, the nearest first, while they could leave less excess than ``best``.

        ``reference`` is what a search used under the policy's limits, with perRun out of its way.
        """
        axes = self._values(reference)
        nearest = (0,) * len(axes)
        queue, seen = [(0, nearest)], {nearest}
        while queue:
            distance, steps = heapq.heappop(queue)
            limits = self._limits_of([axis[step] for axis, step in zip(axes, steps, strict=True)])
            if self.least(limits) >= best() - NEGLIGIBLE:
                continue  # and so it is with all that are tighter still
            if distance:
                yield limits
            for at, axis in enumerate(axes):
                further = (*steps[:at], steps[at] + 1, *steps[at + 1 :])
                if further[at] < len(axis) and further not in seen:
                    seen.add(further)
                    heapq.heappush(queue, (distance + 1, further))

    def _limits_of(self, values: Sequence[int]) -> Limits:
        per_node, per_namespace, number = values
        per_workload = Amount(number, percent=self._limits.per_workload.percent)
        return self._limits.model_copy(
            update={"per_node": per_node, "per_namespace": per_namespace, "per_workload": per_workload}
        )

    def _values(self, reference: UsedLimits) -> list[list[int]]:
        """The values of each limit that can matter, from the policy's own down."""
        limits, percent = self._limits, self._limits.per_workload.percent
        nodes = [used + _MORE for used in reference.by_node.values()]
        namespaces = [used + _MORE for used in reference.by_namespace.values()]
        workloads = [(self._desired[key], used + _MORE) for key, used in reference.by_workload.items()]
        most = 100 if percent else max((used for _, used in workloads), default=0)
        return [
            _distinct(limits.per_node, max(nodes, default=0), lambda given: [min(given, n) for n in nodes]),
            _distinct(
                limits.per_namespace,
                max(namespaces, default=0),
                lambda given: [min(given, used) for used in namespaces],
            ),
            _distinct(
                limits.per_workload.number,
                most,
                lambda given: [min(Amount(given, percent=percent).of(own), used) for own, used in workloads],
            ),
        ]


def _distinct(given: int, most: int, allowed: Callable[[int], list[int]]) -> list[int]:
    """``given``, and each value from ``most`` down to 1 that allows less than the one before it."""
    found, before = [given], allowed(given)
    for value in range(min(given - 1, most), 0, -1):
        now = allowed(value)
        if now != before:
            before = now
            found.append(value)
    return found
