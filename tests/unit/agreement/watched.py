"""A cluster whose changes are kept, and which can be looked at as it was at any version."""

from __future__ import annotations

import functools
from typing import Any

import msgspec
from msgspec.structs import replace

from rebalancer.cluster.changes import Change, ChangeLog
from rebalancer.cluster.dumps.listing import ListingBuilder, Recording
from rebalancer.cluster.kinds import NODES, PODS, Kind
from rebalancer.cluster.live.watching.latest_objects import LatestObjects, latest_objects
from rebalancer.cluster.snapshot import Snapshot, build_snapshot
from rebalancer.cluster.wire.watch_events import EventSplitter
from rebalancer.planning.inputs import PlanningInputs
from tests.builders import a_node, a_pod
from tests.unit.planning.builders import planning_inputs

Object = dict[str, Any]
FIRST_VERSION = 100


@functools.cache
def _empty_recording() -> Recording:
    """Every kind, without objects."""
    return planning_inputs(()).snapshot.recording


class Watched:
    """Nodes and pods as their watches bring them; a second passes between two changes unless said."""

    def __init__(self, *nodes: Object) -> None:
        self.now = 0.0
        self.version = FIRST_VERSION
        self.log = ChangeLog(lambda: self.now)
        self.objects: dict[Kind, dict[str, Object]] = {NODES: {}, PODS: {}}
        self.objects[NODES] = {node["metadata"]["name"]: node for node in nodes}
        self.snapshots: dict[int, Snapshot] = {}
        kinds: tuple[Kind, ...] = (NODES, PODS)
        self._latest = {kind: self._watch(kind) for kind in kinds}
        self._keep()

    def _watch(self, kind: Kind) -> LatestObjects:
        builder = ListingBuilder(kind)
        builder.resource_version = str(self.version)
        for item in self.objects[kind].values():
            builder.add(msgspec.Raw(msgspec.json.encode(item)))
        latest = latest_objects(builder.listing(), builder)
        assert latest is not None
        latest.log = self.log
        self.log.begun(kind, self.version)
        return latest

    def _keep(self) -> None:
        recording = _empty_recording()
        listings = {kind.plural: latest.listing(0.0) for kind, latest in self._latest.items()}
        recording = replace(recording, listings={**recording.listings, **listings})
        self.snapshots[self.version] = build_snapshot(recording)

    def write(self, kind: Kind, item: Object, *, seconds: float = 1.0, event: str = "MODIFIED") -> int:
        """Let an object be as given; its version."""
        self.version += 1
        self.now += seconds
        item["metadata"] = {**item["metadata"], "resourceVersion": str(self.version)}
        name = item["metadata"]["name"]
        if event == "DELETED":
            del self.objects[kind][name]
        else:
            event = "MODIFIED" if name in self.objects[kind] else "ADDED"
            self.objects[kind][name] = item
        line = msgspec.json.encode({"type": event, "object": {"kind": kind.name, **item}}) + b"\n"
        for found in EventSplitter("application/json").events(line):
            assert self._latest[kind].apply(found)
        self._keep()
        return self.version

    def create(self, name: str, *, uid: str = "", seconds: float = 1.0, **fields: Any) -> int:
        """A pod on no node."""
        pod = a_pod(name, **{"cpu": "100m", **fields})
        pod["metadata"]["uid"] = uid or f"uid-{name}"
        return self.write(PODS, pod, seconds=seconds)

    def change(self, name: str, *, seconds: float = 1.0, **changes: Object) -> int:
        """A pod with other fields of its metadata, spec or status."""
        pod = self.objects[PODS][name]
        changed = {part: {**pod[part], **more} for part, more in changes.items()}
        return self.write(PODS, {**pod, **changed}, seconds=seconds)

    def bind(self, name: str, node: str, *, seconds: float = 1.0) -> int:
        """A scheduler binds a pod."""
        return self.change(name, seconds=seconds, spec={"nodeName": node})

    def delete(self, name: str, *, seconds: float = 1.0) -> int:
        """A pod is gone."""
        return self.write(PODS, self.objects[PODS][name], seconds=seconds, event="DELETED")

    def label(self, node: str, **labels: str) -> int:
        """A node with these labels instead of its own."""
        found = self.objects[NODES][node]
        return self.write(NODES, {**found, "metadata": {**found["metadata"], "labels": labels}})

    @property
    def changes(self) -> tuple[Change, ...]:
        """All changes, in order."""
        return self.log.since_taken()

    def inputs(self, **given: Any) -> PlanningInputs:
        """What a plan of the cluster as it is now is made from."""
        return replace(planning_inputs([a_node("none")], **given), snapshot=self.snapshots[self.version])
