"""Finished pods that a run removes: what owned them has made others in their stead already.

Such a pod uses nothing of its node and serves nobody. Its removal moves no load, spends no budget and has no
landing, so it is no move: a plan lists it among its ``cleanups``, and a run removes it before its first wave.

    report-x7k   Failed (Evicted), 3 d old       removed, as the strategy ``failed`` wishes
    report-p2m   Succeeded, 9 d old              removed, as ``lifetime`` with maxAge 168h wishes
    api-debug    Failed, without a controller    stays, unless the strategy has ``barePods``
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from rebalancer.cluster.arrays import PodRow
from rebalancer.planning.eviction import EvictionContext, refusals_of_finished
from rebalancer.planning.plan import Cleanup, PodReference, UnmovedPod
from rebalancer.planning.reasons import NotMoved, Reason, set_policy
from rebalancer.planning.remedies import remedy

if TYPE_CHECKING:
    from rebalancer.planning.strategies.strategy import Strategy


class FinishedPods:
    """Which finished pods strategies wish to remove, and what protects them; rows of ``with_finished``."""

    def __init__(self, eviction: EvictionContext, strategies: Sequence[Strategy]) -> None:
        self._strategies = strategies
        self._limit = eviction.policy.limits.cleanups
        self._first_row = len(eviction.pods)
        self._pods = eviction.pods.with_finished
        self._of_running = eviction

    @cached_property
    def _context(self) -> EvictionContext:
        inputs = self._of_running.inputs
        inputs = replace(inputs, snapshot=replace(inputs.snapshot, pods=self._pods))
        leaving = np.zeros(len(self._pods), np.bool_)
        return EvictionContext.of(
            inputs, {}, self._of_running.claims, leaving, self._of_running.moved_by_this_run
        )

    def wishes(self, row: PodRow) -> dict[Strategy, str]:
        """The strategies that wish to remove a pod, each with why, in words such as ``it is 30 d old``."""
        why_by_strategy = {strategy: strategy.why_remove(self._pods, row) for strategy in self._strategies}
        return {strategy: why for strategy, why in why_by_strategy.items() if why}

    def refusals(self, row: PodRow, strategy: Strategy | None = None) -> list[NotMoved]:
        """What protects a pod from its removal for a strategy, or for any."""
        refusals: list[NotMoved] = []
        is_bare = not self._pods.class_of(row).owner.kind
        for refusal in refusals_of_finished(self._context, row):
            if strategy is None or refusal.reason != Reason.NO_CONTROLLER:
                refusals.append(refusal)
            elif strategy.removes_bare_pods:
                continue
            elif is_bare:
                bare_pods = set_policy(f"strategies.{strategy.name}.barePods", value=True)
                refusals.append(replace(refusal, remedies=(bare_pods,)))
            else:
                refusals.append(refusal)
        return refusals

    def remedy(self, row: PodRow, refusal: NotMoved) -> str:
        """What would have a pod removed that a reason keeps."""
        return remedy(self._context, row, refusal)

    def cleanups(self) -> tuple[tuple[Cleanup, ...], tuple[UnmovedPod, ...]]:
        """The pods that a run removes, in order of namespace and name, and those that stay though wished."""
        cleanups: list[Cleanup] = []
        staying: list[UnmovedPod] = []
        for row in map(PodRow, range(self._first_row, len(self._pods))):
            strategy, why = next(iter(self.wishes(row).items()), (None, ""))
            if strategy is None:
                continue
            pod = self.reference(row)
            refusal = next(iter(self.refusals(row, strategy)), None)
            if refusal is None and len(cleanups) >= self._limit:
                refusal = NotMoved(Reason.LIMIT, f"cleanups {self._limit} is reached", ("limits.cleanups",))
            if refusal is None:
                cleanups.append(Cleanup(pod=pod, node=self.node(row), because=why, strategy=strategy.name))
                continue
            staying.append(
                UnmovedPod(
                    pod=pod,
                    node=self.node(row),
                    reason=str(refusal.reason),
                    because=f"{refusal.message} ({strategy.name}: {why})",
                    setting=refusal.setting,
                    remedy=self.remedy(row, refusal),
                )
            )
        return tuple(cleanups), tuple(staying)

    def reference(self, row: PodRow) -> PodReference:
        """A pod and its controller."""
        return self._context.pod_reference(row)

    def node(self, row: PodRow) -> str:
        """The name of the node on which a pod ran; empty where the cluster has it no more."""
        node = int(self._pods.node[row])
        return self._of_running.nodes.names[node] if node >= 0 else ""
