"""Reads what kube-scheduler-simulator's recorder writes: one change of an object a line, in order.

    {"time":"2026-11-20T12:00:03Z","event":"Add","resource":{"apiVersion":"v1","kind":"Pod",…}}
    {"time":"2026-11-20T12:04:51Z","event":"Delete","resource":{…its name and namespace…}}

The objects as they stand at every fifth minute are the moments of a timeline. Such a recording holds no
figures of load and no workloads: policies see what pods request, and protect pods whose template is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from rebalancer.cluster import times
from rebalancer.cluster.dumps.listing import ListingBuilder, Recording, collector_paused
from rebalancer.cluster.dumps.streams import MAX_ITEM_BYTES, unpacked
from rebalancer.cluster.kinds import BY_NAME, NODES, PODS, Kind
from rebalancer.cluster.wire.json_items import header
from rebalancer.errors import InputError

_BLOCK = 1 << 20
_MAX_GAP_SECONDS = 7 * 86_400.0  # after a longer time without a change its moments are left out
_KINDS = (
    "Namespace",
    "PriorityClass",
    "StorageClass",
    "PersistentVolumeClaim",
    "Node",
    "PersistentVolume",
    "Pod",
)


class _Metadata(msgspec.Struct):
    name: str
    namespace: str = ""


class _Named(msgspec.Struct):
    metadata: _Metadata


class _Change(msgspec.Struct):
    time: str
    event: str
    resource: msgspec.Raw


_change = msgspec.json.Decoder(_Change)
_named = msgspec.json.Decoder(_Named)


def recordings(path: Path, every_seconds: float) -> Iterator[tuple[float, Recording]]:
    """The cluster at the end of each interval, from the first change to the last, with its Unix time.

    Raises InputError, with the line, for anything else than such a recording.
    """
    objects: dict[Kind, dict[tuple[str, str], msgspec.Raw]] = {BY_NAME[name]: {} for name in _KINDS}
    due = float("-inf")
    for number, line in enumerate(_lines(path), 1):
        try:
            change = _change.decode(line)
            at = times.parse(change.time)
            times.checked(at + every_seconds)  # the moment that the change belongs to
            version, name = header(change.resource)
            kind = BY_NAME.get(name)
            named = _named.decode(change.resource).metadata
            if change.event not in ("Add", "Update", "Delete"):
                raise ValueError(f"{change.event[:40]!a} is no event")
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"not what kube-scheduler-simulator records: {error!s:.200}", where=f"{path}:{number}"
            ) from error
        if due == float("-inf"):
            due = at + every_seconds
        while at > due:
            yield due, _recording(path, objects)
            due += every_seconds
            if at - due > _MAX_GAP_SECONDS:
                due = at
        if kind is None or kind not in objects or version != kind.api_version:
            continue
        key = named.namespace, named.name
        if change.event == "Delete":
            objects[kind].pop(key, None)
        else:
            objects[kind][key] = msgspec.Raw(bytes(change.resource))  # not a view of the line
    if due > float("-inf"):
        yield due, _recording(path, objects)


def _recording(path: Path, objects: dict[Kind, dict[tuple[str, str], msgspec.Raw]]) -> Recording:
    listings = {}
    with collector_paused():
        for kind, objects_of_kind in objects.items():
            if objects_of_kind or kind in (NODES, PODS):
                builder = ListingBuilder(kind)
                for key in sorted(objects_of_kind):
                    builder.add(objects_of_kind[key])
                listings[kind.plural] = builder.listing()
    return Recording(str(path), listings)


def _lines(path: Path) -> Iterator[bytes]:
    with unpacked(path) as stream:
        left = b""
        while block := stream.read(_BLOCK):
            *lines, left = (left + block).split(b"\n")
            yield from filter(None, lines)
            if len(left) > MAX_ITEM_BYTES:
                raise InputError(f"has a line of more than {MAX_ITEM_BYTES >> 20} MiB", where=str(path))
        if left.strip():
            yield left
