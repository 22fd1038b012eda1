"""The changes that a user asks about, checked as far as that is possible before a cluster is read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rebalancer.cluster.malformed import admitted
from rebalancer.errors import InputError
from rebalancer.planning.explanation.subjects import SubjectName, parse_subject

MAX_ADDED = 1000  # nodes or pods of one change
_SCALED_KINDS = frozenset({"Deployment", "StatefulSet", "ReplicaSet", "Job"})
_MAX_SHOWN_LENGTH = 60


@dataclass(frozen=True, slots=True)
class AddedNodes:
    """More nodes like one of the cluster."""

    template: str
    count: int


@dataclass(frozen=True, slots=True)
class Scaling:
    """Another number of replicas of a workload."""

    workload: SubjectName
    replicas: int


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
            *(f"scale {_written(item.workload)} to {item.replicas}" for item in self.scaled),
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
    if not workload:
        raise _malformed("--scale", text, shape)
    subject = parse_subject(workload)
    if subject.kind not in _SCALED_KINDS:
        known = ", ".join(sorted(kind.lower() for kind in _SCALED_KINDS))
        raise InputError(f"--scale: a {subject.kind.lower()} cannot be scaled", hint=f"known: {known}")
    return Scaling(subject, _count("--scale", text, count, 0, shape))


def _written(workload: SubjectName) -> str:
    return f"{workload.kind.lower()}/{workload.name}"


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
    names = [_written(item.workload) for item in scaled]
    twice = next((name for at, name in enumerate(names) if name in names[:at]), None)
    if twice is not None:
        raise InputError(f"--scale names {twice} twice", hint="keep only one")
    return scaled
