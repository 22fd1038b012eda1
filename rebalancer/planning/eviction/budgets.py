"""Disruption budgets, which bound what a wave may evict.

``status.disruptionsAllowed`` is what a wave may spend; a status that is missing or older than the spec allows
nothing. The eviction API decides again when the time comes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from rebalancer.cluster.pods import PodTable
from rebalancer.cluster.records import DisruptionBudget
from rebalancer.cluster.selectors import Matcher, matcher
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.counting import counted
from rebalancer.scheduling.matching import PodSelector, SelectorIndex, label_match

ALWAYS_ALLOW = "AlwaysAllow"


class Budget(msgspec.Struct, frozen=True, eq=False):
    """One disruption budget: which pods it matches and how many a wave may disrupt."""

    name: str  # namespace/name
    matches: Matcher
    allowed: int
    healthy: bool  # as many pods are healthy as the budget wants
    always_allow_unready: bool
    message: str  # what its status says, for reports


def allowed_by(budget: DisruptionBudget) -> tuple[int, str]:
    """Disruptions a wave may spend, and why."""
    status = budget.status
    if status is None:
        return 0, "has no status yet"
    if status.observed_generation < budget.metadata.generation:
        return 0, "has a status older than its spec"
    message = (
        f"allows {status.disruptions_allowed}: {status.current_healthy:,} of "
        f"{counted(status.expected_pods, 'pod')} healthy, {status.desired_healthy} needed"
    )
    return max(status.disruptions_allowed, 0), message


def _budget(record: DisruptionBudget) -> Budget:
    allowed, message = allowed_by(record)
    status = record.status
    healthy = (
        status is not None
        and status.observed_generation >= record.metadata.generation
        and status.current_healthy >= status.desired_healthy
        and status.desired_healthy > 0
    )
    return Budget(
        name=f"{record.metadata.namespace}/{record.metadata.name}",
        matches=matcher(record.selector),
        allowed=allowed,
        healthy=healthy,
        always_allow_unready=record.spec.unhealthy_pod_eviction_policy == ALWAYS_ALLOW,
        message=message,
    )


class Budgets:
    """All budgets of a cluster, matched to pods once a pod class."""

    def __init__(self, snapshot: Snapshot) -> None:
        """Budgets that could not be read make their namespace unknown."""
        self.read = snapshot.budgets is not None
        self._pods: PodTable = snapshot.pods
        self._budgets: list[Budget] = []
        self._filed: SelectorIndex[int] = SelectorIndex()  # of numbers of budgets
        self._unreadable: dict[str, str] = {
            malformed.namespace: str(malformed)
            for malformed in snapshot.malformed
            if malformed.kind == "PodDisruptionBudget"
        }
        for record in snapshot.budgets or ():
            try:
                budget = _budget(record)
            except ValueError as error:
                name = f"{record.metadata.namespace}/{record.metadata.name}"
                self._unreadable[record.metadata.namespace] = f"PodDisruptionBudget {name}: {error}"
                continue
            selector = PodSelector(frozenset({record.metadata.namespace}), label_match(record.selector))
            self._filed.add(selector, len(self._budgets))
            self._budgets.append(budget)
        self._matched: dict[int, tuple[Budget, ...]] = {}

    def unreadable(self, namespace: str) -> str:
        """The budget that could not be read and may match pods of a namespace; empty when there is none."""
        return self._unreadable.get(namespace) or self._unreadable.get("", "")

    def of(self, row: int) -> tuple[Budget, ...]:
        """The budgets that match a pod."""
        pod_class = int(self._pods.pod_class[row])
        matched = self._matched.get(pod_class)
        if matched is None:
            pod = self._pods.classes[pod_class]
            candidates = sorted(self._filed.candidates(pod.namespace, pod.labels))
            budgets = [self._budgets[number] for number in candidates]
            matched = tuple(budget for budget in budgets if budget.matches(pod.labels))
            self._matched[pod_class] = matched
        return matched

    def spent_by(self, row: int) -> tuple[Budget, ...]:
        """The budgets of which evicting a pod spends one; none where the API lets an unready pod go so."""
        budgets = self.of(row)
        if not self._pods.ready[row] and all(
            budget.always_allow_unready or budget.healthy for budget in budgets
        ):
            return ()
        return budgets


def exhausted(budgets: Iterable[Budget], spent: Mapping[str, int]) -> Budget | None:
    """The first of these that allows no further disruption in a wave, which ``spent`` so many by name."""
    return next((budget for budget in budgets if spent.get(budget.name, 0) >= budget.allowed), None)
