"""How the sandbox can break the promise a plan relies on: misplaced, late and missing replacements."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Literal

from rebalancer.sandbox.objects.accessors import Object, annotations_of, controller_of, name_of, namespace_of
from rebalancer.sandbox.objects.resources import STORED
from rebalancer.sandbox.objects.store import Store

Effect = Literal["misplace", "delay", "drop", "drop-replacement"]
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

    effect: Effect
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

    def of_pod(self, pod: Object, effect: Effect) -> Misbehaviour | None:
        """The misbehaviour of that effect that hits a pod, if any."""
        owners = owners_of(self._store, pod)
        names = {name_of(owner) for owner in owners}
        return self._find(effect, namespace_of(pod), names, [pod, *owners], pod["metadata"].get("uid", ""))

    def of_workload(self, owner: Object) -> Misbehaviour | None:
        """Whether replacements of this ReplicaSet or StatefulSet are never created."""
        owners = [owner, *owners_of(self._store, owner)]
        names = {name_of(item) for item in owners}
        return self._find("drop-replacement", namespace_of(owner), names, owners, "")

    def _find(
        self, effect: Effect, namespace: str, workloads: set[str], annotated: list[Object], uid: str
    ) -> Misbehaviour | None:
        for item in annotated:
            found = _annotated(item, effect)
            if found:
                return found
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


def owners_of(store: Store, item: Object) -> list[Object]:
    """The controller of an object and that one's controller: ReplicaSet and Deployment."""
    found: list[Object] = []
    reference = controller_of(item)
    while reference is not None and len(found) < 3:
        plural = _PLURALS.get(reference["kind"])
        owner = store.get(plural, namespace_of(item), reference["name"]) if plural else None
        if owner is None:
            break
        found.append(owner)
        reference = controller_of(owner)
    return found


def _annotated(item: Object, effect: Effect) -> Misbehaviour | None:
    annotations = annotations_of(item)
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
