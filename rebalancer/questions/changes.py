"""The changes that a user asks about, checked as far as that is possible before a cluster is read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rebalancer.cluster.malformed import admitted
from rebalancer.documents import did_you_mean
from rebalancer.errors import InputError

MAX_ADDED = 1000  # nodes or pods of one change
# What kubectl calls them as well.
_KINDS = {
    "deployment": "Deployment",
    "deployments": "Deployment",
    "deploy": "Deployment",
    "statefulset": "StatefulSet",
    "statefulsets": "StatefulSet",
    "sts": "StatefulSet",
    "replicaset": "ReplicaSet",
    "replicasets": "ReplicaSet",
    "rs": "ReplicaSet",
    "replicationcontroller": "ReplicationController",
    "rc": "ReplicationController",
    "job": "Job",
    "jobs": "Job",
}
_MAX_SHOWN_LENGTH = 60


@dataclass(frozen=True, slots=True)
class AddedNodes:
    """More nodes like one of the cluster."""

    template: str
    count: int


@dataclass(frozen=True, slots=True)
class Scaling:
    """Another number of replicas of a workload."""

    kind: str
    namespace: str
    name: str
    replicas: int

    @property
    def key(self) -> str:
        """``namespace/Kind/name``."""
        return f"{self.namespace}/{self.kind}/{self.name}"


@dataclass(frozen=True, slots=True)
class Changes:
    """What is changed on the copy of the cluster, together."""

    drained: tuple[str, ...] = ()  # names of nodes; drained nodes are cordoned
    cordoned: tuple[str, ...] = ()
    added: tuple[AddedNodes, ...] = ()
    scaled: tuple[Scaling, ...] = ()

    def words(self) -> tuple[str, ...]:
        """Each change as a user would say it."""
        return (
            *(f"drain {name}" for name in self.drained),
            *(f"cordon {name}" for name in self.cordoned),
            *(f"add {item.count} like {item.template}" for item in self.added),
            *(f"scale {item.kind}/{item.namespace}/{item.name} to {item.replicas}" for item in self.scaled),
        )

    def __bool__(self) -> bool:
        return bool(self.words())


def parse_changes(
    drained: Iterable[str], cordoned: Iterable[str], added: Iterable[str], scaled: Iterable[str]
) -> Changes:
    """The changes that options name; InputError for a text of another form."""
    return Changes(
        drained=tuple(dict.fromkeys(_name("--drain", text) for text in drained)),
        cordoned=tuple(dict.fromkeys(_name("--cordon", text) for text in cordoned)),
        added=tuple(_added(text) for text in added),
        scaled=_each_once(tuple(_scaling(text) for text in scaled)),
    )


def _name(option: str, text: str) -> str:
    name = text.removeprefix("node/").removeprefix("no/")
    if not admitted(name):
        raise InputError(f"{option} {text[:_MAX_SHOWN_LENGTH]!a} is not the name of a node")
    return name


def _added(text: str) -> AddedNodes:
    template, _, count = text.rpartition("=")
    if not template:
        raise _malformed("--add-node", text, "TEMPLATE_NODE=N, e.g. node-1=2")
    return AddedNodes(
        _name("--add-node", template), _count("--add-node", text, count, 1, "TEMPLATE_NODE=N, e.g. node-1=2")
    )


def _scaling(text: str) -> Scaling:
    shape = "KIND/NAMESPACE/NAME=N, e.g. deployment/shop/api=5"
    workload, _, count = text.rpartition("=")
    parts = workload.split("/")
    if len(parts) != 3 or not all(map(admitted, parts[1:])):
        raise _malformed("--scale", text, shape)
    kind = _KINDS.get(parts[0].lower())
    if kind is None:
        known = sorted(set(_KINDS.values()))
        raise InputError(
            f"--scale: {parts[0][:_MAX_SHOWN_LENGTH]!a} is no workload that can be scaled",
            hint=did_you_mean(parts[0], known, otherwise=f"known: {', '.join(known)}"),
        )
    return Scaling(kind, parts[1], parts[2], _count("--scale", text, count, 0, shape))


def _count(option: str, text: str, count: str, least: int, shape: str) -> int:
    if not (count.isascii() and count.isdigit() and len(count) <= 6):
        raise _malformed(option, text, shape)
    number = int(count)
    if not least <= number <= MAX_ADDED:
        raise InputError(f"{option}: {number} is not between {least} and {MAX_ADDED}")
    return number


def _malformed(option: str, text: str, shape: str) -> InputError:
    return InputError(
        f"{option} {text[:_MAX_SHOWN_LENGTH]!a} has not the expected form", hint=f"write {shape}"
    )


def _each_once(scaled: tuple[Scaling, ...]) -> tuple[Scaling, ...]:
    keys = [item.key for item in scaled]
    twice = next((key for at, key in enumerate(keys) if key in keys[:at]), None)
    if twice is not None:
        raise InputError(f"--scale names {twice} twice", hint="keep only one")
    return scaled
