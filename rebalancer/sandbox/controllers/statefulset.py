"""StatefulSets: pods by ordinal, the same name again only after the old pod is gone."""

from __future__ import annotations

from collections.abc import Iterable

from rebalancer.sandbox.controllers.workloads import (
    every_key,
    owner_keys,
    pod_of_template,
    ready_count,
    set_status,
)
from rebalancer.sandbox.faults.misbehaviour import Misbehaviours
from rebalancer.sandbox.objects.accessors import (
    Object,
    controller_of,
    is_active,
    is_finished,
    is_ready,
    is_terminating,
    name_of,
    namespace_of,
    spec_of,
)
from rebalancer.sandbox.objects.change_log import Change, Key
from rebalancer.sandbox.rules.defaults import Registry

_RETRY_SECONDS = 1.0


class StatefulSetController:
    """Creates missing pods in order, each once those before it are ready (or all at once when Parallel)."""

    def __init__(self, registry: Registry, misbehaviours: Misbehaviours) -> None:
        self._registry = registry
        self._store = registry.store
        self._misbehaviours = misbehaviours

    def affected(self, change: Change) -> Iterable[Key]:
        """The owner of a changed pod, and a changed StatefulSet."""
        return owner_keys(change, "statefulsets")

    def every(self) -> Iterable[Key]:
        """All StatefulSets."""
        return every_key(self._store, "statefulsets")

    def reconcile(self, key: Key, now: float) -> float | None:  # noqa: ARG002 - nothing here depends on time
        """Create the next missing pod or delete the last surplus one; then count."""
        item = self._store.get("statefulsets", *key)
        if item is None or is_terminating(item):
            return None
        spec = spec_of(item)
        start, replicas = (spec.get("ordinals") or {}).get("start", 0), spec.get("replicas", 1)
        again = self._fill(item, range(start, start + replicas))
        pods = [pod for pod in self._store.pods_of(item["metadata"]["uid"]) if is_active(pod)]
        wanted = {f"{name_of(item)}-{ordinal}" for ordinal in range(start, start + replicas)}
        surplus = sorted(
            (pod for pod in pods if name_of(pod) not in wanted), key=lambda pod: _ordinal(name_of(pod))
        )
        if surplus:
            self._registry.delete("pods", key[0], name_of(surplus[-1]))
        ready = ready_count(pods)
        counts = {
            "replicas": len(pods),
            "readyReplicas": ready,
            "availableReplicas": ready,
            "currentReplicas": len(pods),
            "updatedReplicas": len(pods),
        }
        set_status(self._store, "statefulsets", item, counts)
        return again

    def _fill(self, item: Object, ordinals: range) -> float | None:
        parallel = spec_of(item).get("podManagementPolicy") == "Parallel"
        for ordinal in ordinals:
            pod = self._store.get("pods", namespace_of(item), f"{name_of(item)}-{ordinal}")
            if pod is None:
                if self._misbehaviours.of_workload(item):
                    return _RETRY_SECONDS
                pod = self._create(item, ordinal)
                if pod is None:
                    return None
            elif is_finished(pod) and not is_terminating(pod) and _owns(item, pod):
                self._registry.delete("pods", namespace_of(item), name_of(pod))
            if not parallel and not (is_ready(pod) and is_active(pod)):
                return None
        return None

    def _create(self, item: Object, ordinal: int) -> Object | None:
        pod = pod_of_template(item, "statefulsets")
        if pod is None:
            return None
        name = f"{name_of(item)}-{ordinal}"
        metadata, spec = pod["metadata"], pod["spec"]
        metadata.pop("generateName")
        metadata["name"] = name
        labels = metadata.setdefault("labels", {})
        labels["statefulset.kubernetes.io/pod-name"] = name
        labels["apps.kubernetes.io/pod-index"] = str(ordinal)
        spec["hostname"] = name
        if spec_of(item).get("serviceName"):
            spec["subdomain"] = spec_of(item)["serviceName"]
        claims = [name_of(claim) for claim in spec_of(item).get("volumeClaimTemplates") or ()]
        others = [volume for volume in spec.get("volumes") or () if volume.get("name") not in claims]
        volumes = [
            {"name": claim, "persistentVolumeClaim": {"claimName": f"{claim}-{name}"}} for claim in claims
        ]
        if volumes or others:
            spec["volumes"] = [*volumes, *others]
        return self._registry.create("pods", pod)


def _ordinal(name: str) -> int:
    last = name.rpartition("-")[2]
    return int(last) if last.isascii() and last.isdigit() else -1


def _owns(owner: Object, pod: Object) -> bool:
    reference = controller_of(pod)
    return reference is not None and reference.get("uid") == owner["metadata"]["uid"]
