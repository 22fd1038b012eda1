"""Removes events after an hour, as the real API server does by a lease in etcd."""

from __future__ import annotations

from rebalancer.cluster import times
from rebalancer.sandbox.objects.accessors import key_of
from rebalancer.sandbox.objects.store import Store

_EVENT_SECONDS = 3600.0


def remove_old_events(store: Store, now: float) -> None:
    """Remove the events whose hour is over; ``now`` in Unix seconds."""
    for event in store.all("events"):
        last = event.get("lastTimestamp") or event["metadata"]["creationTimestamp"]
        if times.parse(last) + _EVENT_SECONDS < now:
            store.remove("events", *key_of(event))
