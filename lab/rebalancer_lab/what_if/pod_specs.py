"""The pods that a file describes, as the API server would store them.

A file holds what somebody wrote; the scheduler sees what the API server made of it. So the defaults that
matter for placement are filled in here: a limit without a request is a request, a container of a pod in the
host's network takes its ports there, a priority class gives a priority, and every pod tolerates for a while a
node that is not ready. What else could change a pod, such as a LimitRange or a webhook, is not known, and the
answer says so.

Source: kubernetes v1.35.4 pkg/apis/core/v1/defaults.go:164, plugin/pkg/admission/priority,
plugin/pkg/admission/defaulttolerationseconds/admission.go:80.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from rebalancer.cluster import records
from rebalancer.cluster.kinds import PRIORITY_CLASSES, RUNTIME_CLASSES
from rebalancer.cluster.malformed import admitted
from rebalancer.cluster.pod_classes import ClassIndex, PodClass
from rebalancer.cluster.pods import GANG
from rebalancer.cluster.quantities import parse as parse_quantity
from rebalancer.cluster.selectors import matcher_of
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.documents import Document, Path
from rebalancer.planning.workloads.templates import admitted as with_runtime_class
from rebalancer.planning.workloads.templates import placed_together
from rebalancer_lab.what_if.api_fields import unknown_fields
from rebalancer_lab.what_if.claims import OwnClaim, own_claims_in, without_ephemeral_claims
from rebalancer_lab.what_if.manifest_objects import POD_MAKERS, PodMaker, object_with_pods

_AMOUNTS = frozenset({"requests", "limits", "overhead"})  # maps of quantities, which may be numbers in YAML
_TOLERATED_FOR_A_WHILE = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_HASH = "new"
_NEED_A_SELECTOR = frozenset({"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Rollout"})
_TOLERATED_BY_DAEMONS = (
    ("not-ready", "NoExecute"),
    ("unreachable", "NoExecute"),
    ("disk-pressure", "NoSchedule"),
    ("memory-pressure", "NoSchedule"),
    ("pid-pressure", "NoSchedule"),
    ("unschedulable", "NoSchedule"),
)
# Every API server makes these classes. Source: kubernetes v1.35.4 pkg/apis/scheduling/types.go:28.
_SYSTEM_CLASSES = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
_MAX_SHOWN_LENGTH = 60


class AskedPod(msgspec.Struct, frozen=True):
    """The pods that a file describes: their class, who makes them, and what is not known of them."""

    name: str  # Kind namespace/name of what the file holds
    pod_class: PodClass
    template: records.PodTemplate
    kind: str  # of the object in the file
    selector: records.LabelSelector | None  # of the controller that would make them; None where there is none
    notes: tuple[str, ...]  # how the file was read
    unpredictable: str  # why where they land cannot be known; empty when it can
    replicas: int | None = None  # how many the file asks for, where it says so
    claims: tuple[OwnClaim, ...] = ()  # that each pod gets of its own
    first_ordinal: int = 0  # the number of the first pod of a StatefulSet
    warnings: tuple[str, ...] = ()  # fields that the API does not have


def read_pod(text: str, source: str, namespace: str | None = None, named: str = "") -> Document:
    """The object of a file that makes pods, or the one of several that ``named`` means (KIND/NAME).

    InputError where there is none.
    """
    document = object_with_pods(text, source, named)
    place = _metadata(document).get("namespace")
    if namespace is not None and place not in (None, namespace):
        raise document.error(("metadata", "namespace"), f"{place!a:.60} is not -n {namespace!a:.60}")
    return document


def _replicas(document: Document) -> int | None:
    """``spec.replicas`` of a controller, where it is a number. InputError for one below 0."""
    spec = document.value.get("spec")
    replicas = spec.get("replicas") if isinstance(spec, dict) else None
    if type(replicas) is not int:
        return None
    if replicas < 0:
        raise document.error(
            ("spec", "replicas"), f"{replicas} is below 0", hint="the API server would refuse it"
        )
    return replicas


def asked_pod(document: Document, snapshot: Snapshot, namespace: str | None = None) -> AskedPod:
    """The pods of a document as this cluster's API server would store them; InputError where it would not."""
    kind = document.value["kind"]
    maker = POD_MAKERS[kind]
    metadata = _metadata(document)
    place = _name(document, metadata.get("namespace"), "namespace") or namespace or "default"
    name = _name(document, metadata.get("name"), "name") or "unnamed"
    template = _template(document, maker.path)
    if not template.spec.containers:
        raise document.error(
            (*maker.path, "spec"), "has no containers", hint="the API server would refuse it"
        )
    notes = []
    if template.spec.node_name:
        notes.append("spec.nodeName is left out: a pod that names its node is not scheduled")
    spec, unknown = _as_stored(document, maker.path, template.spec, snapshot)
    labels = dict(template.metadata.labels or {})
    selector = _selector(document, kind, labels)
    if maker.hash_label:
        labels[maker.hash_label] = _HASH
        if selector is not None:  # that of the ReplicaSet which makes the pods
            with_hash = {**(selector.match_labels or {}), maker.hash_label: _HASH}
            selector = replace(selector, match_labels=with_hash)
    owners = template.metadata.owner_references if kind == "Pod" else None
    if maker.controller:
        owner = records.OwnerReference(
            maker.controller, name, f"asked {kind} {place}/{name}", maker.api_version, controller=True
        )
        owners = [owner]
    if kind == "DaemonSet":
        spec = replace(spec, tolerations=[*(spec.tolerations or ()), *_tolerations_of_a_daemon(spec)])
    claims = own_claims_in(document, maker.path, kind)
    stored = records.Metadata(namespace=place, labels=labels, owner_references=owners)
    gang = (template.metadata.annotations or {}).get(GANG)
    classes = ClassIndex()
    try:
        classes.number_of(records.Pod(metadata=stored, spec=without_ephemeral_claims(spec)))
        _check_limits("the pod", spec.resources)
        for container in spec.every_container:
            _check_limits(f"container {container.name!a:.70}", container.resources)
    except ValueError as error:
        raise document.error((*maker.path, "spec"), str(error)) from error
    return AskedPod(
        name=f"{kind} {place}/{name}",
        pod_class=classes.classes[0],
        template=records.PodTemplate(metadata=records.Metadata(labels=labels), spec=spec),
        kind=kind,
        selector=selector if maker.controller else None,
        notes=(*notes, *unknown),
        unpredictable=placed_together(f"gang {gang}") if gang else "",
        replicas=_replicas(document),
        claims=claims,
        first_ordinal=_first_ordinal(document),
        warnings=_unknown_fields(document, maker),
    )


def _unknown_fields(document: Document, maker: PodMaker) -> tuple[str, ...]:
    """A sentence for each field that the API does not have."""
    if maker.message:
        return tuple(unknown_fields(document, maker.message))
    return tuple(unknown_fields(document, "core/v1.PodTemplateSpec", maker.path))


def _first_ordinal(document: Document) -> int:
    """The number of the first pod of a StatefulSet."""
    spec = document.value.get("spec")
    ordinals = spec.get("ordinals") if isinstance(spec, dict) else None
    start = ordinals.get("start") if isinstance(ordinals, dict) else None
    return start if type(start) is int and start > 0 else 0


def _tolerations_of_a_daemon(spec: records.PodSpec) -> Iterator[records.Toleration]:
    """Those that the controller of DaemonSets gives every pod.

    Source: kubernetes v1.35.4 pkg/controller/daemon/util/daemonset_util.go:50.
    """
    for name, effect in _TOLERATED_BY_DAEMONS:
        yield records.Toleration(key=f"node.kubernetes.io/{name}", operator="Exists", effect=effect)
    if spec.host_network:
        yield records.Toleration(
            key="node.kubernetes.io/network-unavailable", operator="Exists", effect="NoSchedule"
        )


def _metadata(document: Document) -> Mapping[str, Any]:
    metadata = document.value.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise document.error(("metadata",), "should be a mapping")
    return metadata


def _name(document: Document, value: Any, key: str) -> str:
    """A name of the metadata, checked: it is compared with those of the cluster and printed."""
    if value is None:
        return ""
    if not isinstance(value, str) or not admitted(value):
        raise document.error(("metadata", key), f"{str(value)[:_MAX_SHOWN_LENGTH]!a} is not a name")
    return value


def _template(document: Document, path: Path) -> records.PodTemplate:
    part: Any = document.value
    for position, key in enumerate(path):
        inner = part.get(key) if isinstance(part, dict) else None
        if inner is None:
            raise document.error(path[:position], f"has no {key}", hint=_of_another_workload(part))
        part = inner
    try:
        return msgspec.convert(_with_text_amounts(part), records.PodTemplate)
    except msgspec.ValidationError as error:
        raise document.error(path, f"cannot be read: {error}") from error


def _of_another_workload(spec: Any) -> str:
    """Where the template is, of a Rollout that takes that of a Deployment."""
    reference = spec.get("workloadRef") if isinstance(spec, dict) else None
    if not isinstance(reference, dict):
        return ""
    shown = f"{reference.get('kind')!s:.60} {reference.get('name')!s:.60}"
    return f"its pods are made of the template of {shown}: ask with the file of that"


def _with_text_amounts(part: Any, key: str = "") -> Any:
    """The same values, quantities as text: ``cpu: 1`` is as good as ``cpu: "1"``."""
    if isinstance(part, list):
        return [_with_text_amounts(member) for member in part]
    if not isinstance(part, dict):
        return part
    if key in _AMOUNTS:
        numbers = (int, float)
        return {
            name: str(value) if isinstance(value, numbers) and not isinstance(value, bool) else value
            for name, value in part.items()
        }
    return {name: _with_text_amounts(value, name) for name, value in part.items()}


def _as_stored(
    document: Document, path: Path, spec: records.PodSpec, snapshot: Snapshot
) -> tuple[records.PodSpec, tuple[str, ...]]:
    """The spec with the defaults of the API server, and what could not be filled in."""
    spec, unknown_overhead = _of_runtime_class(document, path, spec, snapshot)
    spec, unknown = _with_priority(document, path, spec, snapshot)
    stored = replace(
        spec,
        scheduler_name=spec.scheduler_name or "default-scheduler",
        containers=[_container(container, spec) for container in spec.containers or ()],
        init_containers=[_container(container, spec) for container in spec.init_containers or ()] or None,
        resources=_pod_resources(spec),
        tolerations=_tolerations(spec),
    )
    return stored, unknown + unknown_overhead


def _of_runtime_class(
    document: Document, path: Path, spec: records.PodSpec, snapshot: Snapshot
) -> tuple[records.PodSpec, tuple[str, ...]]:
    """The spec with what its RuntimeClass adds: overhead, a nodeSelector and tolerations."""
    if not spec.runtime_class_name:
        return spec, ()
    if not snapshot.has(RUNTIME_CLASSES):
        note = "the overhead of its runtimeClassName is not known and not counted"
        return spec, () if spec.overhead else (note,)
    classes = {
        runtime_class.metadata.name: runtime_class
        for runtime_class in snapshot.recording.records(RUNTIME_CLASSES)
    }
    where = (*path, "spec", "runtimeClassName")
    hint = "the API server would refuse the pod"
    if spec.runtime_class_name not in classes:
        raise document.error(where, f"there is no class {spec.runtime_class_name!a:.60}", hint=hint)
    completed = with_runtime_class(records.PodTemplate(spec=spec), classes)
    if isinstance(completed, str):
        raise document.error(where, completed, hint=hint)
    return completed.spec, ()


def _container(container: records.Container, spec: records.PodSpec) -> records.Container:
    ports = container.ports
    if spec.host_network and ports:
        ports = [replace(port, host_port=port.host_port or port.container_port) for port in ports]
    return replace(container, resources=_requested(container.resources), ports=ports)


def _requested(resources: records.ResourceRequirements | None) -> records.ResourceRequirements | None:
    """A limit without a request is a request too."""
    if resources is None or not resources.limits:
        return resources
    requests = {**resources.limits, **(resources.requests or {})}
    return records.ResourceRequirements(requests=requests, limits=resources.limits)


def _check_limits(whose: str, resources: records.ResourceRequirements | None) -> None:
    """ValueError where the API server would refuse the requests for their limits.

    Source: kubernetes v1.35.0 pkg/apis/core/validation/validation.go:7864, helper.IsOvercommitAllowed.
    """
    limits = (resources and resources.limits) or {}
    for name, request in sorted(((resources and resources.requests) or {}).items()):
        limit = limits.get(name)
        shown = f"{whose} requests {name!a:.70}"
        shared = ("/" not in name or "kubernetes.io/" in name) and not name.startswith("hugepages-")
        if limit is None:
            if not shared:
                raise ValueError(f"{shown} without a limit, which has to be the same")
        elif parse_quantity(request) > parse_quantity(limit):
            raise ValueError(f"{shown} {request:.64}, more than its limit {limit:.64}")
        elif not shared and parse_quantity(request) != parse_quantity(limit):
            raise ValueError(f"{shown} {request:.64}, which has to be its limit {limit:.64}")


def _pod_resources(spec: records.PodSpec) -> records.ResourceRequirements | None:
    """The resources of the whole pod; a limit counts as its request where no container requests any."""
    resources = spec.resources
    if resources is None or not resources.limits:
        return resources
    of_containers = {
        name
        for container in spec.every_container
        for name in ((_requested(container.resources) or records.ResourceRequirements()).requests or {})
    }
    missing = {name: amount for name, amount in resources.limits.items() if name not in of_containers}
    requests = {**missing, **(resources.requests or {})}
    return records.ResourceRequirements(requests=requests, limits=resources.limits)


def _tolerations(spec: records.PodSpec) -> list[records.Toleration]:
    """The pod's own, and those that admission gives every pod that has no such toleration."""
    own = list(spec.tolerations or ())
    tolerated = {toleration.key for toleration in own if toleration.effect in ("", "NoExecute")}
    if "" in tolerated:  # all taints
        return own
    added = [key for key in _TOLERATED_FOR_A_WHILE if key not in tolerated]
    return own + [records.Toleration(key=key, operator="Exists", effect="NoExecute") for key in added]


def _with_priority(
    document: Document, path: Path, spec: records.PodSpec, snapshot: Snapshot
) -> tuple[records.PodSpec, tuple[str, ...]]:
    """The spec with what its class, or the default class, says of its priority; and what is not known."""
    if spec.priority_class_name in _SYSTEM_CLASSES:
        return replace(spec, priority=_SYSTEM_CLASSES[spec.priority_class_name]), ()
    if not snapshot.has(PRIORITY_CLASSES):
        named = f" {spec.priority_class_name!a:.60}" if spec.priority_class_name else ""
        note = f"priority classes were not read: the priority of class{named} is taken as 0"
        return spec, () if spec.priority is not None or not named else (note,)
    classes = snapshot.recording.records(PRIORITY_CLASSES)
    if spec.priority_class_name:
        named_so = (candidate for candidate in classes if candidate.metadata.name == spec.priority_class_name)
        priority_class = next(named_so, None)
        if priority_class is None:
            hint = "the API server would refuse the pod"
            where = (*path, "spec", "priorityClassName")
            raise document.error(where, f"there is no class {spec.priority_class_name!a:.60}", hint=hint)
    else:
        priority_class = next((candidate for candidate in classes if candidate.global_default), None)
        if priority_class is None:
            return spec, ()
    policy = spec.preemption_policy or priority_class.preemption_policy
    return replace(spec, priority=priority_class.value, preemption_policy=policy), ()


def _selector(document: Document, kind: str, labels: Mapping[str, str]) -> records.LabelSelector | None:
    """What the controller of the file selects; InputError when its own pods are not among that."""
    if kind not in _NEED_A_SELECTOR:
        return None
    value = document.value["spec"].get("selector")
    hint = "the API server would refuse it"
    if value is None:
        raise document.error(("spec",), "has no selector", hint=hint)
    try:
        selects = matcher_of(value)(labels)
    except (ValueError, TypeError) as error:
        raise document.error(("spec", "selector"), f"is not a selector: {error}") from error
    selector = msgspec.convert(value, records.LabelSelector)
    if not (selector.match_labels or selector.match_expressions):
        raise document.error(("spec", "selector"), "is empty", hint=hint)
    if not selects:
        raise document.error(("spec", "selector"), "does not select the pods of the template", hint=hint)
    return selector
