"""What the API server does to objects: create, replace, delete, bind and scale, by the rules of each kind.

A new pod, and one that is bound, gets its priority, tolerations and the node's zone. What an object owns by
the ownerReferences of others goes with its owner, or is released before.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

from rebalancer.cluster import quantities, times
from rebalancer_demo.objects import (
    Object,
    StatusError,
    bad_request,
    conflict,
    controller_of,
    invalid,
    is_finished,
    name_of,
    namespace_of,
    node_of,
    not_found,
    set_condition,
    spec_of,
    success,
)
from rebalancer_demo.resources import INITIAL_STATUS, STORED
from rebalancer_demo.store import Store

_DEFAULT_TOLERATIONS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_LABELS_OF_THE_NODE = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
_SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def admit_pod(store: Store, pod: Object) -> None:
    """Complete a pod that is being created, in place; 403 when its priority class does not exist."""
    spec = pod.setdefault("spec", {})
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    _set_priority(store, pod, spec)
    _set_tolerations(spec)
    for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        _requests_from_limits(container)
    if spec.get("nodeName"):
        label_as_node(store, pod, spec["nodeName"])
    pod["status"] = {"phase": "Pending", "qosClass": quality_of_service(spec)}


def label_as_node(store: Store, pod: Object, node: str) -> None:
    """Give a pod the zone and the region of the node it is bound to, as 1.35 and later do."""
    record = store.record("nodes", "", node)
    labels = (record.object["metadata"].get("labels") or {}) if record else {}
    given = {key: labels[key] for key in _LABELS_OF_THE_NODE if key in labels}
    if given:
        pod["metadata"]["labels"] = {**(pod["metadata"].get("labels") or {}), **given}


def _set_priority(store: Store, pod: Object, spec: Object) -> None:
    name = spec.get("priorityClassName")
    classes = {
        priority_class["metadata"]["name"]: priority_class for priority_class in store.all("priorityclasses")
    }
    if not name:
        defaults = (chosen for chosen in classes.values() if chosen.get("globalDefault"))
        chosen = next(defaults, None)
        if chosen is None:
            spec.setdefault("priority", 0)
            return
        spec["priorityClassName"] = chosen["metadata"]["name"]
    elif name in classes:
        chosen = classes[name]
    elif name in _SYSTEM_PRIORITIES:
        chosen = {"value": _SYSTEM_PRIORITIES[name]}
    else:
        title = pod["metadata"].get("name", "")
        message = f'pods "{title}" is forbidden: no PriorityClass with name {name} was found'
        raise StatusError(403, "Forbidden", message, details={"name": title, "kind": "pods"})
    spec["priority"] = chosen.get("value", 0)
    if chosen.get("preemptionPolicy"):
        spec.setdefault("preemptionPolicy", chosen["preemptionPolicy"])


def _set_tolerations(spec: Object) -> None:
    tolerations = list(spec.get("tolerations") or ())
    for key in _DEFAULT_TOLERATIONS:
        tolerated = any(
            toleration.get("key") in {key, None, ""} and toleration.get("effect") in {"NoExecute", None, ""}
            for toleration in tolerations
        )
        if not tolerated:
            added = {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            tolerations.append(added)
    spec["tolerations"] = tolerations


def _requests_from_limits(container: Object) -> None:
    resources = container.get("resources") or {}
    limits = resources.get("limits") or {}
    if limits:
        container["resources"] = {**resources, "requests": {**limits, **(resources.get("requests") or {})}}


def quality_of_service(spec: Object) -> str:
    """Guaranteed, Burstable or BestEffort, from the CPU and memory of all containers."""
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    named = False
    guaranteed = bool(containers)
    for container in containers:
        resources = container.get("resources") or {}
        requests = resources.get("requests") or {}
        limits = resources.get("limits") or {}
        for resource in ("cpu", "memory"):
            named = named or resource in requests or resource in limits
            same = resource in limits and quantities.parse(
                str(requests.get(resource, limits[resource]))
            ) == quantities.parse(str(limits[resource]))
            guaranteed = guaranteed and same
    if guaranteed:
        return "Guaranteed"
    return "Burstable" if named else "BestEffort"


ORPHAN = "Orphan"


def dependents(store: Store, namespace: str, uid: str) -> list[tuple[str, Object]]:
    """The ReplicaSets and pods that a controller of this uid owns, each with its plural."""
    sets = [replica_set for replica_set in store.all("replicasets", namespace) if _owned(replica_set, uid)]
    owned = [("replicasets", replica_set) for replica_set in sets]
    owned += [("pods", pod) for pod in store.pods_of(uid)]
    return owned


def release(store: Store, namespace: str, uid: str) -> None:
    """Take the owner out of all that it owns."""

    def forget(manifest: Object) -> None:
        references = manifest["metadata"].get("ownerReferences") or ()
        manifest["metadata"]["ownerReferences"] = [
            reference for reference in references if reference.get("uid") != uid
        ]

    for plural, dependent in dependents(store, namespace, uid):
        store.mutate(plural, namespace_of(dependent), name_of(dependent), forget)


def _owned(manifest: Object, uid: str) -> bool:
    owner = controller_of(manifest)
    return owner is not None and owner.get("uid") == uid


_NAME = re.compile(r"[a-z0-9]([-a-z0-9.:]*[a-z0-9])?", re.ASCII)
_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # those of the real server, which avoids words
_DEFAULT_GRACE_SECONDS = 30


class Registry:
    """The rules of each kind above the store; controllers and the HTTP server write through it."""

    def __init__(self, store: Store, *, seed: int = 0) -> None:
        self.store = store
        self._random = random.Random(f"names-{seed}")  # noqa: S311 - names must be reproducible, not secret

    def suffix(self) -> str:
        """Five letters, as the server and the controllers append to a generated name."""
        with self.store.lock:
            return "".join(self._random.choices(_SUFFIX_LETTERS, k=5))

    def create(
        self, resource: str, manifest: Object, *, namespace: str = "", dry_run: bool = False
    ) -> Object:
        """Create an object as a POST does: name, namespace, admission; returns what is stored."""
        row = STORED[resource]
        metadata = manifest.setdefault("metadata", {})
        with self.store.lock:
            if row.namespaced:
                self._place(metadata, namespace)
            if not metadata.get("name") and metadata.get("generateName"):
                metadata["name"] = metadata["generateName"] + self.suffix()
            name = metadata.get("name")
            if not name:
                raise invalid(
                    row.kind, "", "metadata.name", "Required value: name or generateName is required"
                )
            if not _NAME.fullmatch(name):
                raise invalid(row.kind, name, "metadata.name", f'Invalid value: "{name}": not a DNS name')
            if metadata.get("resourceVersion"):
                raise bad_request("resourceVersion should not be set on objects to be created")
            if resource == "pods":
                admit_pod(self.store, manifest)
            elif row.has_status:
                manifest["status"] = dict(INITIAL_STATUS.get(resource, {}))
            if dry_run:
                if self.store.record(resource, metadata.get("namespace") or "", name):
                    return self.store.create(resource, manifest)  # raises the 409 of a name that is taken
                return {**manifest, "metadata": {**metadata, "uid": self.store.new_uid()}}
            return self.store.create(resource, manifest)

    def _place(self, metadata: Object, namespace: str) -> None:
        own_namespace = metadata.setdefault("namespace", namespace)
        if namespace and own_namespace != namespace:
            message = "the namespace of the provided object does not match the namespace sent on the request"
            raise bad_request(message)
        if self.store.record("namespaces", "", own_namespace) is None:
            raise not_found("namespaces", own_namespace)

    def replace(
        self,
        resource: str,
        namespace: str,
        name: str,
        make: Callable[[Object], Any],
        *,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Object:
        """Store what ``make`` makes of the present object, as a PUT or PATCH does.

        Without a subresource the status stays as it was, with ``status`` everything but the status does.
        """
        row = STORED[resource]
        with self.store.lock:
            record = self.store.record(resource, namespace, name)
            if record is None:
                raise not_found(resource, name, row.group)
            manifest = make(record.copy())
            if not isinstance(manifest, dict) or not isinstance(manifest.get("metadata"), dict):
                raise bad_request("the object provided has no metadata")
            manifest.pop("kind", None)
            manifest.pop("apiVersion", None)
            metadata = manifest["metadata"]
            if metadata.get("name", name) != name:
                raise bad_request("the name of the object does not match the name on the URL")
            uid = metadata.get("uid") or record.object["metadata"]["uid"]
            if uid != record.object["metadata"]["uid"]:
                why = (
                    f"Precondition failed: UID in precondition: {uid}, "
                    f"UID in object meta: {record.object['metadata']['uid']}"
                )
                raise conflict(resource, name, why, row.group)
            if subresource == "status":
                sent = metadata.get("resourceVersion")
                status = manifest.get("status") or {}
                manifest = {**record.copy(), "status": status}
                manifest["metadata"]["resourceVersion"] = sent
            elif row.has_status:
                manifest["status"] = record.copy().get("status") or {}
            manifest["metadata"]["name"] = name
            if row.namespaced:
                manifest["metadata"]["namespace"] = namespace
            for field in ("deletionTimestamp", "deletionGracePeriodSeconds"):
                manifest["metadata"].pop(field, None)
                if field in record.object["metadata"]:
                    manifest["metadata"][field] = record.object["metadata"][field]
            if dry_run:
                return manifest
            stored = self.store.update(resource, manifest)
            if stored["metadata"].get("deletionTimestamp") and self._may_go(resource, stored):
                self.store.remove(resource, namespace, name)
            return stored

    def _may_go(self, resource: str, manifest: Object) -> bool:
        """Whether an object marked for deletion waits for nothing: neither a finalizer nor a kubelet."""
        waits_for_kubelet = (
            resource == "pods" and manifest["metadata"].get("deletionGracePeriodSeconds", 0) > 0
        )
        return not manifest["metadata"].get("finalizers") and not waits_for_kubelet

    def delete(self, resource: str, namespace: str, name: str, options: Object | None = None) -> Object:
        """Delete an object, a running pod gracefully; returns its last or its terminating state.

        ``options`` are DeleteOptions; 409 when their preconditions do not hold.
        """
        options = options or {}
        with self.store.lock:
            record = self.store.record(resource, namespace, name)
            if record is None:
                raise not_found(resource, name, STORED[resource].group)
            self.check_preconditions(resource, record.object, options)
            grace = self._grace_seconds(resource, record.object, options)
            finalizers = record.object["metadata"].get("finalizers")
            if options.get("dryRun"):
                return record.object
            if options.get("propagationPolicy") == ORPHAN:
                release(self.store, namespace, record.object["metadata"]["uid"])
            if grace <= 0 and not finalizers:
                removed = self.store.remove(resource, namespace, name)
                return removed if removed is not None else record.object
            terminating = record.copy()
            metadata = terminating["metadata"]
            previous = metadata.get("deletionGracePeriodSeconds")
            if metadata.get("deletionTimestamp") and (previous is None or grace >= previous):
                return record.object  # a later deletion may only shorten the grace
            metadata["deletionTimestamp"] = times.render(self.store.clock() + grace)
            metadata["deletionGracePeriodSeconds"] = grace
            return self.store.update(resource, terminating)

    def check_preconditions(self, resource: str, manifest: Object, options: Object) -> None:
        """409 unless the uid and resourceVersion the caller named are those of the object."""
        preconditions = options.get("preconditions") or {}
        metadata = manifest["metadata"]
        for field, title, actual in (
            ("uid", "UID", metadata["uid"]),
            ("resourceVersion", "ResourceVersion", metadata["resourceVersion"]),
        ):
            if preconditions.get(field) and preconditions[field] != actual:
                why = (
                    f"Precondition failed: {title} in precondition: {preconditions[field]}, "
                    f"{title} in object meta: {actual}"
                )
                raise conflict(resource, metadata["name"], why, STORED[resource].group)

    def _grace_seconds(self, resource: str, manifest: Object, options: Object) -> int:
        if resource != "pods" or not node_of(manifest) or is_finished(manifest):
            return 0
        asked = options.get("gracePeriodSeconds")
        if asked is None:
            asked = spec_of(manifest).get("terminationGracePeriodSeconds")
        return _DEFAULT_GRACE_SECONDS if asked is None else max(int(asked), 0)

    def bind(self, namespace: str, name: str, binding: Object, *, dry_run: bool = False) -> Object:
        """Bind a pod to ``binding.target.name``; 409 when it is bound already or being deleted."""
        target = binding.get("target") or {}
        node = target.get("name")
        if not node or target.get("kind", "Node") not in {"Node", ""}:
            raise invalid("Binding", name, "target.name", "Required value")
        with self.store.lock:
            pod = self.store.get("pods", namespace, name)
            if pod is None:
                raise not_found("pods", name)
            uid = (binding.get("metadata") or {}).get("uid")
            self.check_preconditions("pods", pod, {"preconditions": {"uid": uid}})
            if pod["metadata"].get("deletionTimestamp"):
                raise conflict(
                    "pods/binding", name, f"pod {name} is being deleted, cannot be assigned to a host"
                )
            if node_of(pod):
                why = f'pod {name} is already assigned to node "{node_of(pod)}"'
                raise conflict("pods/binding", name, why)

            def assign(changed: Object) -> None:
                changed["spec"]["nodeName"] = node
                label_as_node(self.store, changed, node)
                set_condition(changed, "PodScheduled", "True", self.store.clock())

            if not dry_run:
                self.store.mutate("pods", namespace, name, assign)
        return success()

    def scale(self, resource: str, namespace: str, name: str) -> Object:
        """The Scale of a workload."""
        workload = self.store.get(resource, namespace, name)
        if workload is None:
            raise not_found(resource, name, STORED[resource].group)
        fields = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        selector = spec_of(workload).get("selector") or {}
        labels = selector.get("matchLabels", {}) if resource != "replicationcontrollers" else selector
        return {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": {field: workload["metadata"][field] for field in fields},
            "spec": {"replicas": spec_of(workload).get("replicas", 1)},
            "status": {
                "replicas": (workload.get("status") or {}).get("replicas", 0),
                "selector": ",".join(f"{key}={value}" for key, value in sorted(labels.items())),
            },
        }

    def set_scale(
        self,
        resource: str,
        namespace: str,
        name: str,
        make: Callable[[Object], Any],
        *,
        dry_run: bool = False,
    ) -> Object:
        """Set the replicas a changed Scale asks for."""
        changed = make(self.scale(resource, namespace, name))
        replicas = (changed.get("spec") or {}).get("replicas", 0)
        if not isinstance(replicas, int) or replicas < 0:
            raise StatusError(422, "Invalid", "spec.replicas: must be greater than or equal to 0")

        def resize(changed: Object) -> Object:
            changed["spec"]["replicas"] = replicas
            return changed

        self.replace(resource, namespace, name, resize, dry_run=dry_run)
        return self.scale(resource, namespace, name)
