"""What the API server adds to a new pod and to one that is bound: priority, tolerations, the node's zone."""

from __future__ import annotations

from rebalancer.cluster import quantities
from rebalancer.sandbox.objects.accessors import Object
from rebalancer.sandbox.objects.status import StatusError
from rebalancer.sandbox.objects.store import Store

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
    classes = {item["metadata"]["name"]: item for item in store.all("priorityclasses")}
    if not name:
        chosen = next((item for item in classes.values() if item.get("globalDefault")), None)
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
    named, guaranteed = False, bool(containers)
    for container in containers:
        resources = container.get("resources") or {}
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        for resource in ("cpu", "memory"):
            named = named or resource in requests or resource in limits
            same = resource in limits and quantities.parse(
                str(requests.get(resource, limits[resource]))
            ) == quantities.parse(str(limits[resource]))
            guaranteed = guaranteed and same
    if guaranteed:
        return "Guaranteed"
    return "Burstable" if named else "BestEffort"
