"""Random changes of the objects of one kind, as a server would write them: the same for the same seed.

    python -m tests.churn --events 1000000

applies as many events to what a watch keeps, and compares it again and again with a fresh reading, by digest.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import click
import msgspec

from rebalancer.cluster.dumps.listing import Listing, ListingBuilder, Recording
from rebalancer.cluster.dumps.writer import digest
from rebalancer.cluster.kinds import BY_PLURAL, NODES, PODS, REPLICA_SETS, Kind
from rebalancer.cluster.live.watching.latest_objects import LatestObjects, latest_objects
from rebalancer.cluster.records import Pod
from rebalancer.cluster.wire.protobuf import MEDIA_TYPE
from rebalancer.cluster.wire.watch_events import EventSplitter
from tests.builders import a_node, a_pod
from tests.protobuf_encoder import encode_event

Object = dict[str, Any]
_HONOURED = "cluster-autoscaler.kubernetes.io/safe-to-evict"
_PHASES = ("Pending", "Running", "Running", "Running", "Succeeded", "Failed", "Unheard-of")
_STATES: tuple[Object, ...] = (
    {"running": {}},
    {"waiting": {"reason": "CrashLoopBackOff"}},
    {"terminated": {"exitCode": 1, "reason": "Error"}},
)
_AGE = "2026-03-04T05:06:07Z"


def _pod(random: random.Random, name: str, namespace: str) -> Object:
    workload = random.randrange(5)
    pod = a_pod(
        name,
        namespace=namespace,
        node=random.choice(["", "n1", "n2", "gone"]),
        cpu=random.choice(["100m", "0.5", "2", "many"] if random.random() < 0.02 else ["100m", "0.5", "2"]),
        labels={"app": f"app-{workload}", "revision": str(random.randrange(3))},
        owner={
            "kind": "ReplicaSet",
            "name": f"app-{workload}",
            "uid": f"uid-{workload}",
            "apiVersion": "apps/v1",
            "controller": True,
        },
        annotations={_HONOURED: random.choice(["true", "false"]), "example.com/note": "x"}
        if random.random() < 0.3
        else None,
        ready=random.random() < 0.8,
    )
    pod["status"]["phase"] = random.choice(_PHASES)
    pod["status"]["reason"] = random.choice(("", "", "Evicted"))
    pod["status"]["containerStatuses"] = [
        {"name": "main", "restartCount": random.choice((0, 0, 3)), "state": random.choice(_STATES)}
    ]
    if random.random() < 0.1:
        pod["metadata"]["deletionTimestamp"] = _AGE
    if random.random() < 0.1:
        pod["status"]["nominatedNodeName"] = "n1"
    return pod


def _node(random: random.Random, name: str, _: str) -> Object:
    node = a_node(
        name,
        cpu=random.choice(["4", "8", "a lot"] if random.random() < 0.02 else ["4", "8"]),
        ready=random.random() < 0.9,
        unschedulable=random.random() < 0.1,
    )
    node["status"]["images"] = [
        {"names": [f"image:{random.randrange(4)}"], "sizeBytes": 1000 + random.randrange(2)}
    ]
    return node


def _replica_set(random: random.Random, name: str, namespace: str) -> Object:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "app:v1"}]}}
    spec = {"replicas": random.randrange(4), "selector": {"matchLabels": labels}, "template": template}
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}"}
    return {"metadata": metadata, "spec": spec, "status": {"replicas": random.randrange(4)}}


_MAKERS: dict[Kind, Callable[[random.Random, str, str], Object]] = {
    PODS: _pod,
    NODES: _node,
    REPLICA_SETS: _replica_set,
}


@dataclass
class Churn:
    """The objects of a kind on a server, which change one at a time."""

    seed: int
    kind: Kind = PODS
    names: int = 40
    objects: dict[tuple[str, str], Object] = field(default_factory=dict)
    version: int = 100

    def __post_init__(self) -> None:
        self._random = random.Random(f"churn-{self.seed}-{self.kind.plural}")
        for _ in range(self.names):
            self.change()

    def change(self) -> tuple[str, Object]:
        """Change something: the type of the event, and the object that it brings."""
        chance = self._random
        self.version += chance.randrange(1, 4)  # other kinds are written to as well
        name = f"{self.kind.plural}-{chance.randrange(self.names)}"
        namespace = "" if self.kind == NODES else chance.choice(["shop", "games"])
        key = namespace, name
        known = self.objects.get(key)
        if known is not None and chance.random() < 0.25:
            last = self.objects.pop(key)
            return "DELETED", self._written(last)
        made = self._written(_MAKERS[self.kind](chance, name, namespace))
        self.objects[key] = made
        return ("ADDED" if known is None else "MODIFIED"), made

    def _written(self, item: Object) -> Object:
        return {**item, "metadata": {**item["metadata"], "resourceVersion": str(self.version)}}

    def listed(self) -> tuple[Listing, ListingBuilder]:
        """What a LIST brings now."""
        builder = ListingBuilder(self.kind)
        builder.resource_version = str(self.version)
        for item in self.objects.values():
            builder.add(msgspec.json.encode(item))
        return builder.listing(0.0), builder


def json_line(kind: str, item: Object) -> bytes:
    """An event as the server writes it in JSON."""
    return msgspec.json.encode({"type": kind, "object": item}) + b"\n"


def protobuf_frame(kind: str, item: Object) -> bytes:
    """An event of a pod as the server writes it in protobuf."""
    return encode_event(kind, msgspec.convert(item, Pod))


def a_bookmark(version: int) -> bytes:
    """A bookmark in JSON."""
    return json_line("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})


def digest_of(listing: Listing) -> str:
    """What of a listing counts."""
    return digest(Recording("a test", {listing.kind.plural: listing}))


def watched(churn: Churn) -> LatestObjects:
    """What is watched from now on."""
    objects = latest_objects(*churn.listed())
    assert objects is not None
    return objects


def compare(
    churn: Churn, objects: LatestObjects, events: int, every: int, *, protobuf: bool
) -> Iterator[int]:
    """Apply events; yields their number after each comparison. Raises AssertionError where the two differ."""
    splitter = EventSplitter(MEDIA_TYPE if protobuf else "application/json")
    encode = protobuf_frame if protobuf else json_line
    for number in range(1, events + 1):
        for event in splitter.events(encode(*churn.change())):
            objects.apply(event)
        if number % every == 0 or number == events:
            listing, _ = churn.listed()
            kept = objects.listing(0.0)
            assert objects.position == churn.version
            assert kept.resource_version == listing.resource_version
            assert digest_of(kept) == digest_of(listing), f"seed {churn.seed}, after {number} events"
            yield number


@click.command()
@click.option("--events", type=click.IntRange(1), default=1_000_000, show_default=True)
@click.option("--kind", type=click.Choice([kind.plural for kind in _MAKERS]), default="pods")
@click.option("--names", type=click.IntRange(1), default=400, show_default=True, help="Objects at most.")
@click.option(
    "--every", type=click.IntRange(1), default=500, show_default=True, help="Events between digests."
)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--protobuf", is_flag=True)
def main(events: int, kind: str, names: int, every: int, seed: int, protobuf: bool) -> None:
    """Compare what a watch keeps with a fresh reading, after every so many random events."""
    churn = Churn(seed, BY_PLURAL[kind], names)
    began = time.perf_counter()
    compared = sum(1 for _ in compare(churn, watched(churn), events, every, protobuf=protobuf))
    seconds = time.perf_counter() - began
    click.echo(f"{events} events of {kind}, {compared} comparisons, all equal; {seconds:.0f} s, seed {seed}")


if __name__ == "__main__":
    main()
