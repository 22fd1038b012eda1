"""Simulated kubelets: bound pods run and become ready, terminating ones vanish, nodes send heartbeats."""

from __future__ import annotations

from collections.abc import Iterable

from rebalancer.cluster import times
from rebalancer_demo.admission import Registry
from rebalancer_demo.objects import (
    Object,
    annotations_of,
    condition_of,
    is_finished,
    is_ready,
    is_terminating,
    node_of,
    phase_of,
    set_condition,
    spec_of,
    status_of,
)
from rebalancer_demo.store import Change, Key

READY_AFTER = "sandbox.rebalancer/ready-after"
TERMINATES_AFTER = "sandbox.rebalancer/terminates-after"
_UNREACHABLE = "node.kubernetes.io/unreachable"


class Kubelets:
    """The kubelets of all nodes; times in seconds of the sandbox's clock.

    A pod is ready ``ready_after`` after it starts, or never; a terminating one is gone after
    ``terminates_after`` or its grace period, whichever is shorter. Annotations of the pod override both. Pods
    that a dump shows as started stay as they are.
    """

    def __init__(
        self, registry: Registry, *, ready_after: float | None = 0.2, terminates_after: float = 0.5
    ) -> None:
        self._registry = registry
        self._store = registry.store
        self._ready_after = ready_after
        self._terminates_after = terminates_after
        self._started: dict[str, float] = {}  # uid -> when this kubelet started it
        self._asked_to_stop: dict[str, float] = {}
        self._addresses = 0
        self.failed: set[str] = set()

    def affected(self, change: Change) -> Iterable[Key]:
        """The pods to look at after a change."""
        if change.resource == "pods":
            metadata = change.record.object["metadata"]
            if change.kind == "DELETED":
                self._started.pop(metadata["uid"], None)
                self._asked_to_stop.pop(metadata["uid"], None)
                return ()
            return ((metadata["namespace"], metadata["name"]),)
        return ()

    def every(self) -> Iterable[Key]:
        """All pods."""
        return ((pod["metadata"]["namespace"], pod["metadata"]["name"]) for pod in self._store.all("pods"))

    def reconcile(self, key: Key, now: float) -> float | None:
        """Bring one pod on; the seconds until it is due again."""
        pod = self._store.get("pods", *key)
        if pod is None or not node_of(pod) or node_of(pod) in self.failed:
            return None
        if is_terminating(pod):
            return self._terminate(pod, now)
        if is_finished(pod):
            return None
        if not status_of(pod).get("startTime"):
            self._start(pod, now)
        return self._make_ready(key, now)

    def _start(self, pod: Object, now: float) -> None:
        metadata = pod["metadata"]
        with self._store.lock:
            self._addresses += 1
            number = self._addresses
        address = f"10.{128 + number // 65536 % 128}.{number // 256 % 256}.{number % 256}"

        def start(changed: Object) -> bool:
            if node_of(changed) in self.failed:  # since the pod was read
                return False
            status = changed.setdefault("status", {})
            status.update(
                phase="Running", startTime=times.render(now), podIP=address, podIPs=[{"ip": address}]
            )
            set_condition(changed, "PodScheduled", "True", now)
            set_condition(changed, "Initialized", "True", now)
            set_condition(changed, "ContainersReady", "False", now, reason="ContainersNotReady")
            set_condition(changed, "Ready", "False", now, reason="ContainersNotReady")
            status["containerStatuses"] = [
                {
                    "name": container.get("name", ""),
                    "image": container.get("image", ""),
                    "imageID": f"sandbox://{container.get('image', '')}",
                    "containerID": f"sandbox://{metadata['uid']}/{container.get('name', '')}",
                    "ready": False,
                    "restartCount": 0,
                    "started": True,
                    "state": {"running": {"startedAt": times.render(now)}},
                }
                for container in spec_of(changed).get("containers") or ()
            ]
            return True

        self._started[metadata["uid"]] = now
        self._store.mutate("pods", metadata["namespace"], metadata["name"], start)

    def _make_ready(self, key: Key, now: float) -> float | None:
        pod = self._store.get("pods", *key)
        if pod is None or pod["metadata"]["uid"] not in self._started or is_ready(pod):
            return None
        text = annotations_of(pod).get(READY_AFTER)
        after = self._ready_after
        if text is not None:
            after = None if text == "never" else float(text)
        if after is None:
            return None
        left = self._started[pod["metadata"]["uid"]] + after - now
        if left > 0:
            return left

        def make_ready(changed: Object) -> bool:
            if node_of(changed) in self.failed:  # since the pod was read
                return False
            set_condition(changed, "ContainersReady", "True", now)
            set_condition(changed, "Ready", "True", now)
            for container in changed["status"].get("containerStatuses") or ():
                container["ready"] = True
            return True

        self._store.mutate("pods", *key, make_ready)
        return None

    def _terminate(self, pod: Object, now: float) -> float | None:
        metadata = pod["metadata"]
        grace = float(metadata.get("deletionGracePeriodSeconds", self._terminates_after))
        # the deletion time knows only whole seconds, so what was seen at once counts from when it was seen
        asked = min(now, times.parse(metadata["deletionTimestamp"]) - grace + 1.0)
        asked = self._asked_to_stop.setdefault(metadata["uid"], asked)
        text = annotations_of(pod).get(TERMINATES_AFTER)
        after = self._terminates_after if text is None else float(text)
        left = asked + min(after, grace) - now
        if left > 0:
            return left
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": metadata["uid"]}}
        self._registry.delete("pods", metadata["namespace"], metadata["name"], options)
        return None

    # Nodes

    def heartbeat(self, now: float) -> None:
        """Renew the Ready condition of every node that lives; a node without one becomes ready."""
        for node in self._store.all("nodes"):
            name = node["metadata"]["name"]
            condition = condition_of(node, "Ready")
            if name in self.failed or (condition is not None and condition.get("status") != "True"):
                continue
            self._store.mutate("nodes", "", name, lambda changed: _beat(changed, now))

    def fail(self, name: str, now: float) -> None:
        """Let a node die: Ready becomes Unknown, it is tainted unreachable, its pods are no longer ready."""
        if name in self.failed:
            return
        self.failed.add(name)

        def fail(changed: Object) -> None:
            message = "Kubelet stopped posting node status."
            set_condition(changed, "Ready", "Unknown", now, reason="NodeStatusUnknown", message=message)
            taints = changed.setdefault("spec", {}).setdefault("taints", [])
            for effect in ("NoSchedule", "NoExecute"):
                taints.append({"key": _UNREACHABLE, "effect": effect, "timeAdded": times.render(now)})

        self._store.mutate("nodes", "", name, fail)
        for pod in self._store.pods_on(name):
            metadata = pod["metadata"]
            self._store.mutate(
                "pods",
                metadata["namespace"],
                metadata["name"],
                lambda changed: set_condition(changed, "Ready", "False", now),
            )

    def recover(self, name: str, now: float) -> None:
        """Let a node come back, and its pods become ready again."""
        self.failed.discard(name)

        def recover(changed: Object) -> None:
            set_condition(changed, "Ready", "True", now, reason="KubeletReady")
            _beat(changed, now)
            taints = spec_of(changed).get("taints") or ()
            changed["spec"]["taints"] = [taint for taint in taints if taint.get("key") != _UNREACHABLE]

        self._store.mutate("nodes", "", name, recover)
        for pod in self._store.pods_on(name):
            if phase_of(pod) == "Running":
                metadata = pod["metadata"]
                self._store.mutate(
                    "pods",
                    metadata["namespace"],
                    metadata["name"],
                    lambda changed: set_condition(changed, "Ready", "True", now),
                )


def _beat(node: Object, now: float) -> None:
    if condition_of(node, "Ready") is None:
        set_condition(node, "Ready", "True", now, reason="KubeletReady")
    for condition in node["status"]["conditions"]:
        if condition.get("type") == "Ready":
            condition["lastHeartbeatTime"] = times.render(now)


def is_heartbeat(old: Object, new: Object) -> bool:
    """Whether two versions of a node differ in nothing a scheduler looks at."""
    return (
        old.get("spec") == new.get("spec")
        and old["metadata"].get("labels") == new["metadata"].get("labels")
        and status_of(old).get("allocatable") == status_of(new).get("allocatable")
        and is_ready(old) == is_ready(new)
    )
