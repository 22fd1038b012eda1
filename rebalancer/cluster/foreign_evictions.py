"""Pods that somebody else is evicting, by objects of the EvictionRequest API.

Since Kubernetes 1.37 (alpha) an EvictionRequest asks for the eviction of a pod, and an Eviction is its
progress; both name the pod by its uid. Such a pod leaves without us, so it counts as one that is terminating:
it is not a candidate.

    EvictionRequest, intent Eviction, no condition         being evicted
    EvictionRequest, intent Withdrawn                      stays
    Eviction, condition Failed, as when it is cancelled    stays
"""

from __future__ import annotations

from rebalancer.cluster.dumps.listing import Recording
from rebalancer.cluster.kinds import EVICTION_REQUESTS, EVICTIONS, Kind
from rebalancer.cluster.records import EvictionRequest
from rebalancer.cluster.records.base import condition

_KINDS = (EVICTION_REQUESTS, EVICTIONS)
_WITHDRAWN = "Withdrawn"
_OVER = ("TargetEvicted", "Failed")


class ForeignEvictions:
    """Looks up whether somebody else is evicting a pod."""

    def __init__(self, recording: Recording) -> None:
        self.unread: Kind | None = next((kind for kind in _KINDS if kind.plural in recording.unread), None)
        self._of_uid: dict[str, str] = {}
        self._of_name: dict[tuple[str, str], str] = {}  # of objects that give no uid
        self._of_namespace: dict[str, str] = {}  # of objects that cannot be read: any pod may be meant
        for kind in _KINDS:
            for item in recording.records(kind):
                if isinstance(item, EvictionRequest) and _active(item):
                    self._add(kind, item)
            listing = recording.listings.get(kind.plural)
            for broken in listing.malformed if listing is not None else ():
                why = f"{kind.name} {broken.name} of its namespace cannot be read"
                self._of_namespace[broken.namespace] = why

    def _add(self, kind: Kind, item: EvictionRequest) -> None:
        pod = item.spec.target.pod
        if pod is None:
            return
        by = f" by {item.spec.requester[:100]}" if item.spec.requester else ""
        why = f"{kind.name} {item.metadata.name} asks for its eviction{by}"
        if pod.uid:
            self._of_uid.setdefault(pod.uid, why)
        else:
            self._of_name.setdefault((item.metadata.namespace, pod.name), why)

    def why_leaving(self, namespace: str, name: str, uid: str) -> str:
        """Which object asks for the eviction of this pod, or may do so, in words; empty when none does."""
        return (
            self._of_uid.get(uid)
            or self._of_name.get((namespace, name))
            or self._of_namespace.get(namespace)
            or ""
        )


def _active(item: EvictionRequest) -> bool:
    found = (condition(item.status.conditions, kind) for kind in _OVER)
    over = any(entry is not None and entry.status == "True" for entry in found)
    return not over and item.spec.intent != _WITHDRAWN
