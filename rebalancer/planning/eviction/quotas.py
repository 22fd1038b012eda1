"""Quotas: which of them count a pod, what it counts for, and whether they have room for its replacement.

A quota without scopes counts every pod of its namespace; one with scopes those that match all of them. A pod
that is evicted counts until it is gone, so a replacement made before needs room beside it:

    pods 10, used 9        room for the replacement of one pod at a time
    pods 10, used 10       none, unless the replacement is made once the pod is gone (a StatefulSet)
    pods 10, used 12       none at all: the quota was lowered, and what runs is not taken away
    limits.cpu             refuses pods with a container that has no such limit

Source: kubernetes v1.36.3 pkg/quota/v1/evaluator/core/pods.go (PodUsageFunc, podMatchesScopeFunc and
Constraints) and apiserver v0.36.3 pkg/admission/plugin/resourcequota/controller.go, CheckRequest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

import msgspec

from rebalancer.cluster import quantities, records
from rebalancer.cluster.kinds import RESOURCE_QUOTAS
from rebalancer.cluster.pod_classes import PodClass
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.scheduling.resources import pod_amounts

_NATIVE = ("cpu", "memory", "ephemeral-storage")
# Of these every container must say what it takes, where a quota limits them.
_REQUIRED = frozenset(
    {"cpu", "memory", *(f"{kind}.{name}" for kind in ("requests", "limits") for name in ("cpu", "memory"))}
)
_CLAIMS = frozenset({"persistentvolumeclaims", "count/persistentvolumeclaims"})
_CLAIMED = ("requests.storage", ".storageclass.storage.k8s.io/")
_OF_CLAIMS = "VolumeAttributesClass"  # the one scope that selects claims and no pods


class _Counting(msgspec.Struct, frozen=True, eq=False):
    """A quota as it counts the pods of one class."""

    makes_claims: bool  # it counts claims, and each pod makes some
    # In the order in which they refuse: resource, what a pod takes, what is used in words, and what is left.
    room: tuple[tuple[str, Fraction, str, Fraction], ...]
    refusal: str  # why it admits no pod, whatever is left; empty where that alone decides


class Quotas:
    """The quotas of a cluster, by namespace."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.read = snapshot.has(RESOURCE_QUOTAS)
        self._by_namespace: dict[str, list[records.ResourceQuota]] = defaultdict(list)
        for quota in snapshot.recording.records(RESOURCE_QUOTAS):
            self._by_namespace[quota.metadata.namespace].append(quota)
        listing = snapshot.recording.listings.get(RESOURCE_QUOTAS.plural)
        self._unreadable: dict[str, str] = {}
        if listing is not None:  # one without a quota that could be read is empty
            self._unreadable = {malformed.namespace: str(malformed) for malformed in listing.malformed}
        self._usage: dict[PodClass, Mapping[str, Fraction]] = {}
        self._counted: dict[tuple[int, PodClass], _Counting] = {}  # by the id of a quota and the class

    def lacking(self, pod: PodClass, others: Sequence[PodClass] = (), leaving: PodClass | None = None) -> str:
        """Which quota would refuse one more pod of a class, and why; empty when none would.

        ``others`` are pods of the same namespace that will be made at the same time, and ``leaving`` one that
        counts until then.
        """
        if pod.namespace in self._unreadable:
            return f"{self._unreadable[pod.namespace]}: whether it has room is unknown"
        for quota in self._by_namespace.get(pod.namespace, ()):
            try:
                why = self._refusal(quota, pod, others, leaving)
            except ValueError as error:
                why = f"it cannot be compared with the pod: {error}"
            if why:
                return f"quota {quota.metadata.name}: {why}"
        return ""

    def _refusal(
        self,
        quota: records.ResourceQuota,
        pod: PodClass,
        others: Sequence[PodClass],
        leaving: PodClass | None,
    ) -> str:
        counting = self._counting(quota, pod)
        if leaving is None and counting.makes_claims:
            return "it counts claims, of which the replacement's ephemeral volumes make new ones"
        for resource, amount, used, left in counting.room:
            left_beside = left
            for other in others:
                left_beside -= self._in(quota, other, resource)
            if leaving is not None:
                left_beside += self._in(quota, leaving, resource)
            if amount > left_beside:
                beside = f", and this wave makes {len(others)} more beside it" if others else ""
                place = "its replacement" if leaving is not None else "a second one"
                words = f"{used} of {_text(quota, resource)} used{beside}"
                return f"has no room for {place} in {resource}: {words}"
        return counting.refusal

    def _counting(self, quota: records.ResourceQuota, pod: PodClass) -> _Counting:
        key = id(quota), pod
        if key not in self._counted:
            room: list[tuple[str, Fraction, str, Fraction]] = []
            makes_claims = False
            try:
                if any(volume.ephemeral for volume in pod.spec.volumes or ()):
                    makes_claims = any(map(_counts_claims, _hard(quota)))
                refusal = self._read_room(quota, pod, room)
            except ValueError as error:
                refusal = f"it cannot be compared with the pod: {error}"
            self._counted[key] = _Counting(makes_claims, tuple(room), refusal)
        return self._counted[key]

    def _read_room(
        self, quota: records.ResourceQuota, pod: PodClass, room: list[tuple[str, Fraction, str, Fraction]]
    ) -> str:
        """Fill in ``room``, see ``_Counting``; returns what else refuses pods of the class."""
        if not _selects(quota, pod.spec):
            return ""
        hard = _hard(quota)
        missing = next(_missing(pod.spec, _REQUIRED & hard.keys()), None)
        if missing:
            return f"it refuses pods whose container {missing[0]} does not say its {missing[1]}"
        usage = self._usage_of(pod)
        for resource in sorted(hard.keys() & usage.keys()):
            if not usage[resource]:
                continue
            used = (quota.status.used or {}).get(resource)
            if used is None:
                return f"it does not say yet how much {resource} is used, and admits no pod until it does"
            room.append((resource, usage[resource], used, hard[resource] - quantities.parse(used)))
        return ""

    def _in(self, quota: records.ResourceQuota, pod: PodClass, resource: str) -> Fraction:
        """What a pod counts for in a resource of a quota."""
        return self._usage_of(pod).get(resource, Fraction(0)) if _selects(quota, pod.spec) else Fraction(0)

    def _usage_of(self, pod: PodClass) -> Mapping[str, Fraction]:
        if pod not in self._usage:
            self._usage[pod] = usage(pod.spec)
        return self._usage[pod]

    def without_room(self, namespace: str, resource: str) -> str:
        """Which quota of a namespace admits no further object of a kind; empty when all do.

        ``resource`` is such as ``count/replicasets.apps``. A quota that could not be read admits none.
        """
        if namespace in self._unreadable:
            return f"{self._unreadable[namespace]}: whether it has room is unknown"
        for quota in self._by_namespace.get(namespace, ()):
            try:
                hard = _hard(quota).get(resource)
                used = (quota.status.used or {}).get(resource)
                full = hard is not None and (used is None or quantities.parse(used) >= hard)
            except ValueError:
                full = True
            if full:
                return f"quota {quota.metadata.name} has no room for another one in {resource}"
        return ""

    def room(self, pod: PodClass) -> tuple[int, str] | None:
        """How many more pods of a class the tightest quota admits, and which that is; None without one.

        A quota that could not be read admits none.
        """
        rooms: list[tuple[int, str]] = []
        if pod.namespace in self._unreadable:
            rooms.append((0, self._unreadable[pod.namespace]))
        for quota in self._by_namespace.get(pod.namespace, ()):
            name = f"quota {quota.metadata.name}"
            try:
                if not _selects(quota, pod.spec):
                    continue
                per_pod = self._usage_of(pod)
                hard = _hard(quota)
                used = {key: quantities.parse(text) for key, text in (quota.status.used or {}).items()}
            except ValueError:
                rooms.append((0, f"{name} could not be read"))
                continue
            for resource in sorted(hard.keys() & per_pod.keys()):
                if per_pod[resource] > 0:
                    left = hard[resource] - used.get(resource, hard[resource])
                    words = (quota.status.used or {}).get(resource, "an unknown part")
                    words = f"{words} of {_text(quota, resource)} {resource} used"
                    rooms.append((max(int(left // per_pod[resource]), 0), f"{name}, {words}"))
        return min(rooms, default=None)


def _hard(quota: records.ResourceQuota) -> dict[str, Fraction]:
    """The bounds of a quota; where its status is older than its spec, the lower of the two."""
    bounds: dict[str, Fraction] = {}
    for given in (quota.spec.hard, quota.status.hard):
        for name, text in (given or {}).items():
            amount = quantities.parse(text)
            bounds[name] = min(bounds.get(name, amount), amount)
    return bounds


def _text(quota: records.ResourceQuota, resource: str) -> str:
    """A bound as its quota writes it."""
    texts = [given[resource] for given in (quota.spec.hard, quota.status.hard) if given and resource in given]
    return min(texts, key=quantities.parse)


def usage(spec: records.PodSpec) -> dict[str, Fraction]:
    """What a new pod counts for in each resource that quotas may limit: cores, bytes, counts."""
    requests = pod_amounts(spec, limits=False)
    limits = pod_amounts(spec, limits=True)
    amounts = dict.fromkeys(("pods", "count/pods"), Fraction(1))
    for name, amount in requests.items():
        if name in _NATIVE or name.startswith("hugepages-"):
            amounts[name] = amount
        if name in amounts or "/" in name:
            amounts[f"requests.{name}"] = amount
    amounts |= {f"limits.{name}": limits[name] for name in _NATIVE if name in limits}
    return amounts


def _missing(spec: records.PodSpec, required: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Container and resource where a pod does not say what it takes of what a quota limits."""
    level = spec.resources or records.ResourceRequirements()
    names = (*(level.requests or ()), *(level.limits or ()))
    if any(name in _NATIVE[:2] or name.startswith("hugepages-") for name in names):
        return
    for container in spec.every_container:
        resources = container.resources or records.ResourceRequirements()
        for resource in sorted(required):
            kind, _, name = resource.rpartition(".")
            given = resources.limits if kind == "limits" else resources.requests
            if name not in (given or {}):
                yield container.name, resource


def _counts_claims(resource: str) -> bool:
    return resource in _CLAIMS or any(part in resource for part in _CLAIMED)


def _selects(quota: records.ResourceQuota, spec: records.PodSpec) -> bool:
    """Whether a quota counts a pod: all of its scopes match."""
    selector = quota.spec.scope_selector
    requirements = [records.ScopeRequirement(scope, "Exists") for scope in quota.spec.scopes or ()]
    requirements += (selector.match_expressions if selector else None) or ()
    return all(_matches(requirement, spec) for requirement in requirements)


def _matches(requirement: records.ScopeRequirement, spec: records.PodSpec) -> bool:
    """Whether a pod is within a scope; it is in one that is not known, which then counts too much."""
    scope = requirement.scope_name
    if scope in ("Terminating", "NotTerminating"):
        ends = spec.active_deadline_seconds is not None and spec.active_deadline_seconds >= 0
        return ends == (scope == "Terminating")
    if scope in ("BestEffort", "NotBestEffort"):
        return is_best_effort(spec) == (scope == "BestEffort")
    if scope == "PriorityClass":
        if requirement.operator == "Exists":
            return bool(spec.priority_class_name)
        if requirement.operator == "DoesNotExist":
            return not spec.priority_class_name
        is_one = bool(spec.priority_class_name) and spec.priority_class_name in (requirement.values or ())
        return is_one if requirement.operator == "In" else not is_one
    if scope == "CrossNamespacePodAffinity":
        return any(term.namespaces or term.namespace_selector is not None for term in _affinity_terms(spec))
    return scope != _OF_CLAIMS


def is_best_effort(spec: records.PodSpec) -> bool:
    """Whether a pod asks for neither cpu nor memory; what it asks for as a whole goes before its containers.

    Source: kubernetes v1.36.3 pkg/apis/core/v1/helper/qos/qos.go, ComputePodQOS.
    """
    asking: Iterable[records.Container | records.PodSpec] = (
        (spec,) if spec.resources else spec.every_container
    )
    amounts = (
        given.get(name)
        for part in asking
        if part.resources is not None
        for given in (part.resources.requests or {}, part.resources.limits or {})
        for name in ("cpu", "memory")
    )
    return not any(text is not None and quantities.parse(text) > 0 for text in amounts)


def _affinity_terms(spec: records.PodSpec) -> Iterator[records.PodAffinityTerm]:
    affinity = spec.affinity
    for kind in (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity else ():
        if kind is not None:
            yield from kind.required or ()
            yield from (
                weighted.pod_affinity_term
                for weighted in kind.preferred or ()
                if weighted.pod_affinity_term is not None
            )
