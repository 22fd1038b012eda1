"""Disruption budgets, which bound what a wave may evict, and quotas, which must have room for a replacement.

``status.disruptionsAllowed`` is what a wave may spend; a status that is missing or older than the spec allows
nothing. The eviction API decides again when the time comes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction

import msgspec

from rebalancer.cluster import quantities
from rebalancer.cluster.kinds import RESOURCE_QUOTAS
from rebalancer.cluster.pod_classes import PodClass
from rebalancer.cluster.pods import PodTable
from rebalancer.cluster.records import DisruptionBudget, ResourceQuota
from rebalancer.cluster.selectors import Matcher, matcher
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.scheduling.matching import PodSelector, SelectorIndex, label_match
from rebalancer.scheduling.resources import pod_requests

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
        f"allows {status.disruptions_allowed}: {status.current_healthy} of {status.expected_pods} pods "
        f"healthy, {status.desired_healthy} needed"
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
        matches=matcher(record.spec.selector),
        allowed=allowed,
        healthy=healthy,
        always_allow_unready=record.spec.unhealthy_pod_eviction_policy == ALWAYS_ALLOW,
        message=message,
    )


class Spending(msgspec.Struct, frozen=True):
    """What evicting a pod would spend: its budgets, and whether it is free (an unready pod may be)."""

    budgets: tuple[Budget, ...]
    free: bool


class Budgets:
    """All budgets of a cluster, matched to pods once a pod class."""

    def __init__(self, snapshot: Snapshot) -> None:
        """Budgets that could not be read make their namespace unknown."""
        self.read = snapshot.budgets is not None
        self._pods: PodTable = snapshot.pods
        self._budgets: list[Budget] = []
        self._filed: SelectorIndex[int] = SelectorIndex()  # of numbers of budgets
        self._unreadable: dict[str, str] = {
            item.namespace: str(item) for item in snapshot.malformed if item.kind == "PodDisruptionBudget"
        }
        for record in snapshot.budgets or ():
            try:
                budget = _budget(record)
            except ValueError as error:
                name = f"{record.metadata.namespace}/{record.metadata.name}"
                self._unreadable[record.metadata.namespace] = f"PodDisruptionBudget {name}: {error}"
                continue
            selector = PodSelector(frozenset({record.metadata.namespace}), label_match(record.spec.selector))
            self._filed.add(selector, len(self._budgets))
            self._budgets.append(budget)
        self._matched: dict[int, tuple[Budget, ...]] = {}

    def unreadable(self, namespace: str) -> str:
        """The budget that could not be read and may match pods of a namespace; empty when there is none."""
        return self._unreadable.get(namespace) or self._unreadable.get("", "")

    def of(self, row: int) -> tuple[Budget, ...]:
        """The budgets that match a pod."""
        pod_class = int(self._pods.pod_class[row])
        found = self._matched.get(pod_class)
        if found is None:
            pod = self._pods.classes[pod_class]
            candidates = sorted(self._filed.candidates(pod.namespace, pod.labels))
            budgets = [self._budgets[number] for number in candidates]
            found = tuple(budget for budget in budgets if budget.matches(pod.labels))
            self._matched[pod_class] = found
        return found

    def spending(self, row: int) -> Spending:
        """What evicting a pod spends; an unready pod is free where the API lets it go so."""
        budgets = self.of(row)
        if self._pods.ready[row] or not budgets:
            return Spending(budgets, free=not budgets)
        return Spending(
            budgets, free=all(budget.always_allow_unready or budget.healthy for budget in budgets)
        )


class WaveBudgets:
    """What is left of each budget within one wave; the next wave reads again before it spends."""

    def __init__(self) -> None:
        self._spent: dict[str, int] = defaultdict(int)

    def copy(self) -> WaveBudgets:
        """An independent count."""
        other = WaveBudgets()
        other._spent = self._spent.copy()
        return other

    def exhausted(self, spending: Spending) -> Budget | None:
        """The budget that allows no further disruption in this wave."""
        if spending.free:
            return None
        return next((item for item in spending.budgets if self._spent[item.name] >= item.allowed), None)

    def spend(self, spending: Spending) -> None:
        """Count an eviction."""
        if not spending.free:
            for budget in spending.budgets:
                self._spent[budget.name] += 1


_COUNTED = frozenset({"pods", "count/pods"})
_THOUSAND = Fraction(1000)


class Quotas:
    """The quotas of a cluster, by namespace. A quota with scopes counts as if it matched every pod."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.read = snapshot.has(RESOURCE_QUOTAS)
        self._by_namespace: dict[str, list[ResourceQuota]] = defaultdict(list)
        for item in snapshot.recording.records(RESOURCE_QUOTAS):
            if isinstance(item, ResourceQuota):
                self._by_namespace[item.metadata.namespace].append(item)

    def lacking(self, pod: PodClass, others: Sequence[PodClass] = ()) -> str:
        """Which quota has no room for one more pod of a class, and in what; empty when all have.

        ``others`` are pods of the same namespace that will be made at the same time.
        """
        for quota in self._by_namespace.get(pod.namespace, ()):
            hard = quota.status.hard or quota.spec.hard or {}
            used = quota.status.used or {}
            for resource in sorted(hard):
                try:
                    wanted = _wanted(pod, resource)
                    left = quantities.parse(hard[resource]) - quantities.parse(used.get(resource, "0"))
                    left -= sum((_wanted(other, resource) for other in others), Fraction(0))
                except ValueError:
                    return f"quota {quota.metadata.name} could not be read in {resource}"
                if wanted > left and wanted > 0:
                    beside = f", and this wave makes {len(others)} more beside it" if others else ""
                    return (
                        f"quota {quota.metadata.name} has no room for a second one in {resource}: "
                        f"{used.get(resource, '0')} of {hard[resource]} used{beside}"
                    )
        return ""

    def without_room(self, namespace: str, resource: str) -> str:
        """Which quota of a namespace admits no further object of a kind; empty when all do.

        ``resource`` is such as ``count/replicasets.apps``. A quota that could not be read admits none.
        """
        for quota in self._by_namespace.get(namespace, ()):
            hard = (quota.status.hard or quota.spec.hard or {}).get(resource)
            used = (quota.status.used or {}).get(resource, "0")
            try:
                full = hard is not None and quantities.parse(used) >= quantities.parse(hard)
            except ValueError:
                full = True
            if full:
                return f"quota {quota.metadata.name} has no room for another one in {resource}"
        return ""

    def room(self, pod: PodClass) -> tuple[int, str] | None:
        """How many more pods of a class the tightest quota admits, and which that is; None without one.

        A quota that could not be read admits none.
        """
        found: list[tuple[int, str]] = []
        for quota in self._by_namespace.get(pod.namespace, ()):
            hard = quota.status.hard or quota.spec.hard or {}
            used = quota.status.used or {}
            for resource in sorted(hard):
                try:
                    wanted = _wanted(pod, resource)
                    left = quantities.parse(hard[resource]) - quantities.parse(used.get(resource, "0"))
                except ValueError:
                    found.append((0, f"quota {quota.metadata.name} could not be read in {resource}"))
                    continue
                if wanted > 0:
                    words = f"{used.get(resource, '0')} of {hard[resource]} {resource} used"
                    found.append((max(int(left // wanted), 0), f"quota {quota.metadata.name}, {words}"))
        return min(found, default=None)


def _wanted(pod: PodClass, resource: str) -> Fraction:
    """What a pod counts for in a resource of a quota; 0 for what is not of pods."""
    if resource in _COUNTED:
        return Fraction(1)
    if resource.startswith("limits."):
        name = resource.removeprefix("limits.")
        return sum(
            (
                quantities.parse((item.resources.limits or {}).get(name, "0"))
                for item in pod.spec.containers or ()
                if item.resources
            ),
            Fraction(0),
        )
    name = resource.removeprefix("requests.")
    amount = Fraction(pod_requests(pod).incoming.get(name, 0))
    return amount / _THOUSAND if name == "cpu" else amount
