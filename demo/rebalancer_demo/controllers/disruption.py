"""The disruption controller: what each PodDisruptionBudget may spend.

Source: pkg/controller/disruption/disruption.go of v1.35.
"""

from __future__ import annotations

from collections.abc import Iterable

from rebalancer.cluster import times
from rebalancer_demo.admission import Registry
from rebalancer_demo.objects import (
    Object,
    controller_of,
    is_ready,
    is_terminating,
    label_selector,
    labels_of,
    name_of,
    namespace_of,
    set_condition,
    spec_of,
    status_of,
)
from rebalancer_demo.store import Change, Key

_FORGET_DISRUPTION_SECONDS = 120.0
_SCALED = {
    "ReplicaSet": "replicasets",
    "Deployment": "deployments",
    "StatefulSet": "statefulsets",
    "ReplicationController": "replicationcontrollers",
}


class _UnknownScaleError(Exception):
    """A budget in percent covers pods whose controller has no scale."""


class DisruptionController:
    """Keeps the status of every budget: expected and healthy pods, and the disruptions that are left."""

    def __init__(self, registry: Registry) -> None:
        self._store = registry.store

    def affected(self, change: Change) -> Iterable[Key]:
        """The budgets that a change concerns.

        Those that select a changed pod before or after the change, a changed budget itself, and all of the
        namespace when a workload is scaled.
        """
        changed = change.record.object
        if change.resource == "poddisruptionbudgets":
            return ((namespace_of(changed), name_of(changed)),)
        if change.resource in _SCALED.values():
            previous = change.previous.object if change.previous else {}
            if spec_of(previous).get("replicas") == spec_of(changed).get("replicas"):
                return ()
            return self._of_namespace(namespace_of(changed))
        if change.resource != "pods":
            return ()
        versions = [labels_of(changed)]
        if change.previous:
            versions.append(labels_of(change.previous.object))
        return [
            (namespace_of(budget), name_of(budget))
            for budget in self._store.all("poddisruptionbudgets", namespace_of(changed))
            if any(map(label_selector(spec_of(budget).get("selector")), versions))
        ]

    def _of_namespace(self, namespace: str) -> list[Key]:
        budgets = self._store.all("poddisruptionbudgets", namespace)
        return [(namespace_of(budget), name_of(budget)) for budget in budgets]

    def every(self) -> Iterable[Key]:
        """All budgets."""
        return self._of_namespace("")

    def reconcile(self, key: Key, now: float) -> float | None:
        """Recompute one budget's status; due again when an unconfirmed disruption is to be forgotten."""
        with self._store.lock:
            budget = self._store.get("poddisruptionbudgets", *key)
            if budget is None:
                return None
            selects = label_selector(spec_of(budget).get("selector"))
            pods = [pod for pod in self._store.all("pods", key[0]) if selects(labels_of(pod))]
            disrupted, again = self._disrupted(budget, pods, now)
            try:
                expected, desired = self._expectation(spec_of(budget), pods)
            except _UnknownScaleError as error:
                self._fail(key, str(error), now)
                return again
            healthy = sum(
                1
                for pod in pods
                if is_ready(pod) and not is_terminating(pod) and name_of(pod) not in disrupted
            )
            allowed = max(healthy - desired, 0) if expected > 0 else 0

            def write(changed: Object) -> None:
                status = changed.setdefault("status", {})
                status.update(
                    currentHealthy=healthy,
                    desiredHealthy=desired,
                    expectedPods=expected,
                    disruptionsAllowed=allowed,
                    observedGeneration=changed["metadata"].get("generation", 0),
                )
                status.pop("disruptedPods", None)
                if disrupted:
                    status["disruptedPods"] = disrupted
                reason = "SufficientPods" if allowed else "InsufficientPods"
                set_condition(
                    changed,
                    "DisruptionAllowed",
                    "True" if allowed else "False",
                    now,
                    reason=reason,
                    standard=True,
                )

            self._store.mutate("poddisruptionbudgets", *key, write)
        return again

    def _disrupted(
        self, budget: Object, pods: list[Object], now: float
    ) -> tuple[dict[str, str], float | None]:
        """The evictions that no deletion has confirmed yet, and the seconds until the next is forgotten."""
        promised = status_of(budget).get("disruptedPods") or {}
        unconfirmed = {}
        again = None
        for pod in pods:
            when = promised.get(name_of(pod))
            if when is None or is_terminating(pod):
                continue
            left = times.parse(when) + _FORGET_DISRUPTION_SECONDS - now
            if left > 0:
                unconfirmed[name_of(pod)] = when
                again = left if again is None else min(left, again)
        return unconfirmed, again

    def _expectation(self, spec: Object, pods: list[Object]) -> tuple[int, int]:
        """Expected pods and how many of them must be healthy."""
        max_unavailable = spec.get("maxUnavailable")
        min_available = spec.get("minAvailable")
        if max_unavailable is not None:
            expected = self._scale(pods)
            return expected, max(expected - _of(max_unavailable, expected), 0)
        if isinstance(min_available, str) and min_available.endswith("%"):
            expected = self._scale(pods)
            return expected, _of(min_available, expected)
        return len(pods), int(min_available or 0)

    def _scale(self, pods: list[Object]) -> int:
        """The sum of the scales of the pods' controllers; pods without one do not count."""
        scales: dict[str, int] = {}
        for pod in pods:
            owner = controller_of(pod)
            if owner is None or owner["uid"] in scales:
                continue
            uid, replicas = self._scale_of(namespace_of(pod), owner)
            scales[owner["uid"]] = 0 if uid in scales and uid != owner["uid"] else replicas
            scales.setdefault(uid, 0)
        return sum(scales.values())

    def _scale_of(self, namespace: str, reference: Object) -> tuple[str, int]:
        """The uid and scale of a pod's controller, or of that one's Deployment when it is known."""
        plural = _SCALED.get(reference["kind"])
        owner = self._store.get(plural, namespace, reference["name"]) if plural else None
        if owner is None or owner["metadata"]["uid"] != reference["uid"]:
            raise _UnknownScaleError(
                f"found no controllers for a pod of {reference['kind']} {reference['name']!r}"
            )
        above = controller_of(owner)
        if above is not None and above["kind"] in _SCALED:
            deployment = self._store.get(_SCALED[above["kind"]], namespace, above["name"])
            if deployment is not None:
                return above["uid"], spec_of(deployment).get("replicas", 1)
        return reference["uid"], spec_of(owner).get("replicas", 1)

    def _fail(self, key: Key, message: str, now: float) -> None:
        """Allow no disruption, as the real controller does when it cannot compute the status."""

        def write(changed: Object) -> None:
            status = changed.setdefault("status", {})
            status["disruptionsAllowed"] = 0
            status["observedGeneration"] = changed["metadata"].get("generation", 0)
            set_condition(
                changed,
                "DisruptionAllowed",
                "False",
                now,
                reason="SyncFailed",
                message=message,
                standard=True,
            )

        self._store.mutate("poddisruptionbudgets", *key, write)


def _of(value: object, total: int) -> int:
    """An int, or a percentage of ``total`` rounded up."""
    text = str(value)
    if text.endswith("%"):
        return -(-int(text[:-1]) * total // 100)
    return int(text)
