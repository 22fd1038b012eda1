"""The selector the scheduler derives for a pod from its Services and its controller.

Source: kubernetes v1.34.4 pkg/scheduler/framework/plugins/helper/spread.go:37.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import msgspec

from rebalancer.cluster.columns.pod_classes import PodClass
from rebalancer.cluster.kinds import (
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    SERVICES,
    STATEFUL_SETS,
    Kind,
)
from rebalancer.cluster.records import LabelSelector, Service, Workload
from rebalancer.cluster.selectors import LabelMatch, Pair
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.scheduling.matching.label_selectors import PodSelector, SelectorIndex, label_match

TEMPLATE_HASH = "pod-template-hash"  # which ReplicaSet of its Deployment a pod is of
_NEXT = "next"  # as the hash, and as the end of the name, of a ReplicaSet that is not there yet
# The controllers whose selectors count; a pod of any other has its Services' alone.
OWNER_KINDS: Mapping[tuple[str, str], Kind] = {
    ("apps/v1", "ReplicaSet"): REPLICA_SETS,
    ("apps/v1", "StatefulSet"): STATEFUL_SETS,
    ("v1", "ReplicationController"): REPLICATION_CONTROLLERS,
}


@dataclass(frozen=True, eq=False)
class Owners:
    """Services, and the selectors of controllers, by what pods need to find them."""

    services: tuple[Service, ...] = ()
    controllers: Mapping[tuple[str, str, str], Any] = field(
        default_factory=dict
    )  # kind, namespace, name -> its selector as it was read
    _matches: dict[tuple[str, str, str], LabelMatch | None] = field(default_factory=dict)  # computed so far

    @classmethod
    def of(cls, snapshot: Snapshot) -> Owners:
        """Those of a snapshot; none of a kind that was not read, which ``unread_inputs`` reports."""
        controllers = {}
        for kind in OWNER_KINDS.values():
            for item in snapshot.recording.records(kind):
                assert isinstance(item, Workload)
                controllers[kind.name, item.metadata.namespace, item.metadata.name] = item.spec.selector
        services = snapshot.recording.records(SERVICES)
        return cls(tuple(item for item in services if isinstance(item, Service)), controllers)

    @cached_property
    def _services(self) -> SelectorIndex[tuple[PodSelector, tuple[Pair, ...]]]:
        index: SelectorIndex[tuple[PodSelector, tuple[Pair, ...]]] = SelectorIndex()
        for service in self.services:
            if service.spec.selector is not None:
                pairs = tuple(sorted(service.spec.selector.items()))
                selector = PodSelector(frozenset({service.metadata.namespace}), LabelMatch(pairs))
                index.add(selector, (selector, pairs))
        return index

    def next_revision(self, pod: PodClass) -> PodClass:
        """The class of the pod that a Deployment makes of a changed template: one of another ReplicaSet.

        Its hash is another one, in the pod's labels as in what the ReplicaSet selects, so that what looks for
        pods of the same revision finds none.
        """
        hashed = {TEMPLATE_HASH: _NEXT} if TEMPLATE_HASH in pod.labels else {}
        owner = replace(pod.owner, name=f"{pod.owner.name}/{_NEXT}", uid="")
        old = self._own(REPLICA_SETS, pod)
        if old is not None:
            pairs = tuple(sorted({**dict(old.pairs), **hashed}.items()))
            self._matches[REPLICA_SETS.name, pod.namespace, owner.name] = replace(old, pairs=pairs)
        return replace(pod, labels={**pod.labels, **hashed}, owner=owner)

    def derived(self, pod: PodClass) -> LabelMatch:
        """All that the Services selecting the pod and its controller require; empty when there is nothing."""
        required = LabelMatch()
        for selector, pairs in self._services.candidates(pod.namespace, pod.labels):
            if selector.matches(pod.namespace, pod.labels):
                required = required.also(pairs)
        kind = OWNER_KINDS.get((pod.owner.api_version, pod.owner.kind))
        own = self._own(kind, pod) if kind else None
        return required.and_also(own) if own is not None else required

    def _own(self, kind: Kind, pod: PodClass) -> LabelMatch | None:
        """What the controller of a pod selects; None when it is not there or its selector is malformed."""
        key = kind.name, pod.namespace, pod.owner.name
        if key not in self._matches:
            self._matches[key] = _selector(kind, self.controllers[key]) if key in self.controllers else None
        return self._matches[key]


def _selector(kind: Kind, selector: Any) -> LabelMatch | None:
    """A ReplicationController's selector is a map, the others' a LabelSelector."""
    try:
        if kind is REPLICATION_CONTROLLERS:
            return LabelMatch(tuple(sorted(msgspec.convert(selector or {}, dict[str, str]).items())))
        return label_match(msgspec.convert(selector, LabelSelector | None))
    except msgspec.ValidationError:
        return None
