"""Events have one store and two shapes: core/v1 as it is kept, and events.k8s.io/v1."""

from __future__ import annotations

from rebalancer.sandbox.objects.accessors import Object

_PAIRS = (
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("source", "deprecatedSource"),
    ("reportingComponent", "reportingController"),
)


def to_new(event: Object) -> Object:
    """A core/v1 event as events.k8s.io/v1 shows it."""
    renames = dict(_PAIRS)
    return {renames.get(key, key): value for key, value in event.items()}


def to_core(event: Object) -> Object:
    """An events.k8s.io/v1 event as it is kept."""
    renames = {new: core for core, new in _PAIRS}
    return {renames.get(key, key): value for key, value in event.items()}
