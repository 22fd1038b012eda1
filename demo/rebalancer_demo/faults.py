"""Faults to inject: requests that fail on their way, and replacements that break what a plan relies on.

A ``Fault`` hits requests to the API server: refused, lost, slow. A ``Misbehaviour`` hits pods: misplaced,
late or missing replacements.
"""

from __future__ import annotations

import random
import re
import threading
from dataclasses import dataclass, field
from typing import Literal

from rebalancer_demo.objects import Object, annotations_of, controller_of, name_of, namespace_of
from rebalancer_demo.resources import STORED
from rebalancer_demo.store import Store

Effect = Literal[
    "latency", "reset-before", "reset-after", "status", "truncate", "expire-continue", "cut-watch"
]


@dataclass(frozen=True)
class Fault:
    """What happens to requests of ``method`` (``*`` is any) whose path and query match ``path``.

    ``latency`` waits ``seconds``; ``reset-before`` drops the connection unread, ``reset-after`` once the
    request was carried out (accepted, the answer lost); ``status`` answers ``code`` with ``retry_after``
    seconds of advice; ``truncate`` sends half of the body; ``expire-continue`` answers 410 to a LIST that
    continues; ``cut-watch`` ends a watch after ``seconds``. It begins with the ``skip``-th match, hits
    ``times`` matches (0 is all), each with ``probability``.
    """

    effect: Effect
    path: str = ".*"
    method: str = "*"
    code: int = 503
    retry_after: int = 0
    seconds: float = 0.0
    times: int = 1
    skip: int = 0
    probability: float = 1.0
    message: str = ""


@dataclass
class _Armed:
    fault: Fault
    pattern: re.Pattern[str]
    seen: int = 0
    hits: int = 0


@dataclass
class Faults:
    """The faults in force; drawn from a seed, so that a test meets the same ones every time."""

    seed: int = 0
    _armed: list[_Armed] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._random = random.Random(f"faults-{self.seed}")  # noqa: S311 - must be reproducible, not secret

    def add(self, fault: Fault) -> None:
        """Put a fault in force, after those that are."""
        with self._lock:
            self._armed.append(_Armed(fault, re.compile(fault.path)))

    def clear(self) -> None:
        """Take all faults away."""
        with self._lock:
            self._armed.clear()

    @property
    def hits(self) -> int:
        """How many requests were hit so far."""
        with self._lock:
            return sum(armed.hits for armed in self._armed)

    def pick(self, method: str, path_and_query: str) -> list[Fault]:
        """The faults that hit this request, in the order they were added."""
        chosen = []
        with self._lock:
            for armed in self._armed:
                fault = armed.fault
                if fault.method not in {"*", method} or not armed.pattern.search(path_and_query):
                    continue
                if fault.effect == "expire-continue" and "continue=" not in path_and_query:
                    continue
                if fault.effect == "cut-watch" and "watch=" not in path_and_query:
                    continue
                armed.seen += 1
                if armed.seen <= fault.skip or (fault.times and armed.hits >= fault.times):
                    continue
                if fault.probability < 1.0 and self._random.random() >= fault.probability:
                    continue
                armed.hits += 1
                chosen.append(fault)
        return chosen


PlacementEffect = Literal["misplace", "delay", "drop", "drop-replacement"]
WORST = "worst"

_PREFIX = "sandbox.rebalancer/"
_PLURALS = {row.kind: plural for plural, row in STORED.items()}


@dataclass(frozen=True)
class Misbehaviour:
    """What goes wrong with the pods of a workload, or of a whole namespace; empty names match all.

    ``misplace`` binds to ``node`` (``worst``: the busiest that fits) whatever the scheduler decides;
    ``delay`` binds ``seconds`` late; ``drop`` never binds; ``drop-replacement`` never creates the pod.
    ``times`` is how many pods are hit, 0 for all.
    """

    effect: PlacementEffect
    namespace: str = ""
    workload: str = ""
    node: str = WORST
    seconds: float = 0.0
    times: int = 0


class Misbehaviours:
    """The misbehaviours in force: those added here, and those that annotations of pods and owners ask for."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._added: list[Misbehaviour] = []
        self._hits: dict[Misbehaviour, set[str]] = {}
        self._lock = threading.Lock()

    def add(self, misbehaviour: Misbehaviour) -> None:
        """Put one in force."""
        with self._lock:
            self._added.append(misbehaviour)

    def clear(self) -> None:
        """Behave again; what annotations ask for stays."""
        with self._lock:
            self._added.clear()
            self._hits.clear()

    def of_pod(self, pod: Object, effect: PlacementEffect) -> Misbehaviour | None:
        """The misbehaviour of that effect that hits a pod, if any."""
        owners = owners_of(self._store, pod)
        names = {name_of(owner) for owner in owners}
        return self._find(effect, namespace_of(pod), names, [pod, *owners], pod["metadata"].get("uid", ""))

    def of_workload(self, owner: Object) -> Misbehaviour | None:
        """Whether replacements of this ReplicaSet or StatefulSet are never created."""
        owners = [owner, *owners_of(self._store, owner)]
        names = {name_of(controller) for controller in owners}
        return self._find("drop-replacement", namespace_of(owner), names, owners, "")

    def _find(
        self, effect: PlacementEffect, namespace: str, workloads: set[str], annotated: list[Object], uid: str
    ) -> Misbehaviour | None:
        for manifest in annotated:
            of_annotation = _annotated(manifest, effect)
            if of_annotation:
                return of_annotation
        with self._lock:
            for misbehaviour in self._added:
                if misbehaviour.effect != effect or misbehaviour.namespace not in {"", namespace}:
                    continue
                if misbehaviour.workload and misbehaviour.workload not in workloads:
                    continue
                hits = self._hits.setdefault(misbehaviour, set())
                if misbehaviour.times and uid not in hits and len(hits) >= misbehaviour.times:
                    continue
                hits.add(uid)
                return misbehaviour
        return None


def owners_of(store: Store, manifest: Object) -> list[Object]:
    """The controller of an object and that one's controller: ReplicaSet and Deployment."""
    owners: list[Object] = []
    reference = controller_of(manifest)
    while reference is not None and len(owners) < 3:
        plural = _PLURALS.get(reference["kind"])
        owner = store.get(plural, namespace_of(manifest), reference["name"]) if plural else None
        if owner is None:
            break
        owners.append(owner)
        reference = controller_of(owner)
    return owners


def _annotated(manifest: Object, effect: PlacementEffect) -> Misbehaviour | None:
    annotations = annotations_of(manifest)
    if effect == "misplace" and _PREFIX + "misplace" in annotations:
        return Misbehaviour("misplace", node=annotations[_PREFIX + "misplace"])
    if effect == "delay" and _PREFIX + "delay" in annotations:
        return Misbehaviour("delay", seconds=float(annotations[_PREFIX + "delay"]))
    dropped = annotations.get(_PREFIX + "drop")
    if effect == "drop" and dropped in {"scheduling", "true"}:
        return Misbehaviour("drop")
    if effect == "drop-replacement" and dropped == "replacement":
        return Misbehaviour("drop-replacement")
    return None
