"""How a pod differs from the template it was made from: every field of the spec is compared.

A field that nobody has thought of is compared too, and admission is taken to leave it alone: where it
differs, the template was edited after the pod was made, and what comes back is not known. Exceptions stand in
``_BY_FIELD``, each with what admission or the API server does to the field.

    template                    pod                                   verdict
    nodeSelector absent         nodeSelector {disk: ssd}              ADDED: webhooks add selectors
    nodeSelector {disk: ssd}    nodeSelector absent                   EDITED: nothing takes one away
    schedulerName batch         schedulerName default-scheduler       EDITED
    priority absent             priority 1000                         ALIKE: it follows from the class

Sources: kubernetes v1.36.3 pkg/apis/core/v1/defaults.go, pkg/registry/core/pod/strategy.go and
plugin/pkg/admission.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from rebalancer.cluster import records
from rebalancer.cluster.pod_classes import PodClass
from rebalancer.planning.workloads.stateful_sets import REVISION_LABEL

_DEFAULT_SCHEDULER = "default-scheduler"
# Added to every pod by admission (DefaultTolerationSeconds).
_ADDED_TOLERATIONS = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
# Given by the controllers that make pods.
_ADDED_LABELS = frozenset(
    {
        "pod-template-hash",
        "rollouts-pod-template-hash",
        REVISION_LABEL,
        "statefulset.kubernetes.io/pod-name",
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/job-completion-index",
        "batch.kubernetes.io/controller-uid",
        "batch.kubernetes.io/job-name",
        "controller-uid",
        "job-name",
    }
)


class Verdict(enum.IntEnum):
    """How a field of a pod relates to that of a template."""

    ALIKE = enum.auto()
    ADDED = enum.auto()  # admission can have made the one of the other; a sibling shows whether it did
    EDITED = enum.auto()  # nothing makes the one of the other: the template was edited since


_Compare = Callable[[Any, Any], Verdict]


def _equal(declared: Any, actual: Any) -> Verdict:
    """The rule of every field that has no other; an empty value is an absent one, and false is not."""
    left, right = (None if value in ("", [], {}) else value for value in (declared, actual))
    return Verdict.ALIKE if left == right else Verdict.EDITED


def _ignored(_declared: Any, _actual: Any) -> Verdict:
    return Verdict.ALIKE


def _given(declared: Any, actual: Any) -> Verdict:
    """Admission gives it to every pod whose template says nothing."""
    return Verdict.ALIKE if declared in (None, "") else _equal(declared, actual)


def _given_by_some(declared: Any, actual: Any) -> Verdict:
    """Some webhooks give it to pods whose template says nothing."""
    return Verdict.ADDED if not declared and actual else _equal(declared, actual)


def _adding(shows: Callable[[Any], Any], contains: Callable[[Any, Any], bool]) -> _Compare:
    """Compare what ``shows`` leaves of both sides; admission adds to it and takes nothing away."""

    def compare(declared: Any, actual: Any) -> Verdict:
        left = shows(declared)
        right = shows(actual)
        if left == right:
            return Verdict.ALIKE
        return Verdict.ADDED if contains(left, right) else Verdict.EDITED

    return compare


def _map_within(declared: Mapping[str, str], actual: Mapping[str, str]) -> bool:
    return all(actual.get(name) == value for name, value in declared.items())


def _list_within(declared: Sequence[Any], actual: Sequence[Any]) -> bool:
    return all(value in actual for value in declared)


def _labels(labels: Mapping[str, str] | None) -> dict[str, str]:
    return {key: value for key, value in (labels or {}).items() if key not in _ADDED_LABELS}


def _tolerations(tolerations: Iterable[records.Toleration] | None) -> list[records.Toleration]:
    return [
        toleration
        for toleration in tolerations or ()
        if toleration.key not in _ADDED_TOLERATIONS or toleration.effect != "NoExecute"
    ]


def _volumes(volumes: Iterable[records.Volume] | None) -> list[records.Volume]:
    """Volumes whose source the scheduler reads; admission adds others, for service accounts."""
    return [volume for volume in volumes or () if volume != records.Volume(name=volume.name)]


def _scheduler_name(name: str) -> str:
    return "" if name == _DEFAULT_SCHEDULER else name


class _Asked(msgspec.Struct, frozen=True):
    """What a container asks of its node, as the API server stores it for a pod."""

    image: str
    requests: dict[str, str]  # a limit without a request is a request too
    limits: dict[str, str]
    ports: list[tuple[int, str, str]]  # of the host
    restarts: tuple[str | None, object]


def _asked(container: records.Container) -> _Asked:
    limits, requests = _amounts(container.resources)
    return _Asked(
        container.image,
        {**limits, **requests},
        limits,
        [
            (port.host_port, port.host_ip, port.protocol or "TCP")
            for port in container.ports or ()
            if port.host_port
        ],
        (container.restart_policy, container.restart_policy_rules or None),
    )


def _amounts(resources: records.ResourceRequirements | None) -> tuple[dict[str, str], dict[str, str]]:
    """Limits and requests."""
    return (resources.limits or {}, resources.requests or {}) if resources else ({}, {})


def _containers(containers: Iterable[records.Container] | None) -> dict[str, _Asked]:
    return {container.name: _asked(container) for container in containers or ()}


def _containers_within(declared: Mapping[str, _Asked], actual: Mapping[str, _Asked]) -> bool:
    """Whether admission can have added the rest: containers, requests, limits, and another registry."""
    return all(
        name in actual
        and _same_image(asked.image, actual[name].image)
        and _map_within(asked.requests, actual[name].requests)
        and _map_within(asked.limits, actual[name].limits)
        and _list_within(asked.ports, actual[name].ports)
        and asked.restarts == actual[name].restarts
        for name, asked in declared.items()
    )


def _same_image(declared: str, actual: str) -> bool:
    """Whether an image is the same but for its registry, which mirrors change, and a digest that pins it."""
    left, right = (image.rpartition("/")[2] for image in (declared, actual))
    return right == left or right.partition("@")[0] == left


def _spread(
    constraints: Iterable[records.TopologySpreadConstraint] | None,
) -> list[records.TopologySpreadConstraint]:
    return [
        msgspec.structs.replace(
            constraint, label_selector=_written(constraint.label_selector, constraint.match_label_keys)
        )
        for constraint in constraints or ()
    ]


def _affinity(affinity: records.Affinity | None) -> records.Affinity:
    """With the selectors of terms as they are written in a template."""
    affinity = affinity or records.Affinity()
    return records.Affinity(
        affinity.node_affinity, _terms(affinity.pod_affinity), _terms(affinity.pod_anti_affinity)
    )


def _terms(affinity: records.PodAffinity | None) -> records.PodAffinity:
    affinity = affinity or records.PodAffinity()
    preferred = [
        weighted
        if weighted.pod_affinity_term is None
        else msgspec.structs.replace(weighted, pod_affinity_term=_term(weighted.pod_affinity_term))
        for weighted in affinity.preferred or ()
    ]
    return records.PodAffinity([_term(term) for term in affinity.required or ()], preferred)


def _term(term: records.PodAffinityTerm) -> records.PodAffinityTerm:
    keys = (*(term.match_label_keys or ()), *(term.mismatch_label_keys or ()))
    return msgspec.structs.replace(term, label_selector=_written(term.label_selector, keys))


def _written(
    selector: records.LabelSelector | None, keys: Collection[str] | None
) -> records.LabelSelector | None:
    """A selector without what the API server merges into it for these keys, from the labels of each pod.

    Source: pkg/registry/core/pod/strategy.go, applyLabelKeysToLabelSelector.
    """
    if selector is None or not keys:
        return selector
    others = [requirement for requirement in selector.match_expressions or () if requirement.key not in keys]
    return records.LabelSelector(selector.match_labels, others or None)


def _affinity_within(declared: records.Affinity, actual: records.Affinity) -> bool:
    """Whether admission can have added the rest, which narrows the nodes, or prefers some."""
    left = declared.node_affinity
    right = actual.node_affinity
    if left is not None:
        if right is None or not _list_within(left.preferred or (), right.preferred or ()):
            return False
        if left.required is not None:
            terms = left.required.node_selector_terms or ()
            narrowed = (right.required.node_selector_terms if right.required else None) or ()
            if len(terms) != len(narrowed) or not all(map(_narrowed, terms, narrowed)):
                return False
    pairs = (
        (declared.pod_affinity, actual.pod_affinity),
        (declared.pod_anti_affinity, actual.pod_anti_affinity),
    )
    return all(
        _list_within(ours.required or (), theirs.required or ())
        and _list_within(ours.preferred or (), theirs.preferred or ())
        for ours, theirs in pairs
        if ours is not None and theirs is not None
    )


def _narrowed(declared: records.NodeSelectorTerm, actual: records.NodeSelectorTerm) -> bool:
    return _list_within(declared.match_expressions or (), actual.match_expressions or ()) and _list_within(
        declared.match_fields or (), actual.match_fields or ()
    )


# By attribute of ``PodSpec``: the fields that admission sets, or that decide nothing about a replacement.
_BY_FIELD: Mapping[str, _Compare] = {
    # The scheduler sets it, and ``why_not_placed`` asks the template for it.
    "node_name": _ignored,
    # How long a pod runs, and takes to stop, says nothing of where the next one starts.
    "active_deadline_seconds": _ignored,
    "termination_grace_period_seconds": _ignored,
    # Admission Priority sets the three from the PriorityClass, which a rule of its own looks up.
    "priority": _given,
    "priority_class_name": _given_by_some,
    "preemption_policy": _given,
    # Admission RuntimeClass sets it, see ``admitted``; where no RuntimeClass was read, a sibling shows it.
    "overhead": _given_by_some,
    # Webhooks of platforms that bring their own runtime, or their own scheduler (YuniKorn, KAI, Volcano).
    "runtime_class_name": _given_by_some,
    "scheduler_name": lambda declared, actual: _given_by_some(
        _scheduler_name(declared), _scheduler_name(actual)
    ),
    # LimitRanger adds requests and limits, webhooks add containers, and rewrite the registry of images.
    "containers": _adding(_containers, _containers_within),
    "init_containers": _adding(_containers, _containers_within),
    # defaults.go fills in the requests of a pod from those of its containers and from its own limits.
    "resources": _adding(_amounts, lambda declared, actual: all(map(_map_within, declared, actual))),
    # Admission ServiceAccount adds the volume of a token, webhooks those of their containers.
    "volumes": _adding(_volumes, _list_within),
    # Admissions PodNodeSelector and RuntimeClass, and webhooks.
    "node_selector": _adding(lambda given: given or {}, _map_within),
    "affinity": _adding(_affinity, _affinity_within),
    # Admissions DefaultTolerationSeconds, PodTolerationRestriction, ExtendedResourceToleration, RuntimeClass.
    "tolerations": _adding(_tolerations, _list_within),
    # strategy.go merges the labels that matchLabelKeys name into the selectors.
    "topology_spread_constraints": _adding(_spread, lambda _declared, _actual: False),
    # Protobuf writes it when it is false too.
    "host_network": lambda declared, actual: _equal(bool(declared), bool(actual)),
    "restart_policy": lambda declared, actual: _equal(declared or "Always", actual or "Always"),
}
_LABELS = _adding(_labels, _map_within)
_FIELDS = msgspec.structs.fields(records.PodSpec)


def differences(
    template: records.PodTemplate, pod: PodClass, complete: Collection[str] = ()
) -> Mapping[str, Verdict]:
    """The fields in which a pod differs from a template, by their names in the API; never ALIKE.

    ``complete`` are attributes of the template that hold all that admission makes of them.
    """
    verdicts = {"labels": _LABELS(template.metadata.labels, pod.labels)}
    for field in _FIELDS:
        compare = _equal if field.name in complete else _BY_FIELD.get(field.name, _equal)
        verdicts[field.encode_name] = compare(
            getattr(template.spec, field.name), getattr(pod.spec, field.name)
        )
    if pod.statuses:
        verdicts["an in-place resize"] = Verdict.ADDED
    return {name: verdict for name, verdict in verdicts.items() if verdict is not Verdict.ALIKE}


def why_not_placed(spec: records.PodSpec) -> str:
    """Why no placement follows from a spec, whatever the profile; empty where one does."""
    if spec.resource_claims:
        return f"it uses resource claim {spec.resource_claims[0].name}, which is not modelled"
    if spec.scheduling_gates:
        return f"scheduling gate {spec.scheduling_gates[0].name} would hold its replacement back"
    if spec.scheduling_group or spec.workload_ref:
        return placed_together("a pod group")
    if spec.unknown_field:
        return (
            f"its spec has {spec.unknown_field}, which this version of rebalancer does not know: "
            "it may decide where it runs"
        )
    return ""


def placed_together(group: str) -> str:
    """Why no placement of a pod of a group follows from its spec."""
    return f"it belongs to {group}, whose pods are placed together, which is not modelled"


def admitted(
    template: records.PodTemplate, runtime_classes: Mapping[str, records.RuntimeClass] | None
) -> records.PodTemplate | str:
    """A template with what admission adds for its RuntimeClass; why it would refuse its pods, in words.

    ``runtime_classes`` are by name, None where they were not read. Source: plugin/pkg/admission/runtimeclass.
    """
    spec = template.spec
    if runtime_classes is None or not spec.runtime_class_name:
        return template
    runtime_class = runtime_classes.get(spec.runtime_class_name)
    if runtime_class is None:
        return f"RuntimeClass {spec.runtime_class_name} does not exist any more"
    overhead = (runtime_class.overhead.pod_fixed if runtime_class.overhead else None) or {}
    scheduling = runtime_class.scheduling or records.RuntimeScheduling()
    selector = spec.node_selector or {}
    more = scheduling.node_selector or {}
    if spec.overhead and spec.overhead != overhead:
        return f"RuntimeClass {spec.runtime_class_name} has another overhead than its template"
    if any(selector.get(key, value) != value for key, value in more.items()):
        return f"RuntimeClass {spec.runtime_class_name} has another nodeSelector than its template"
    own = spec.tolerations or []
    added = [toleration for toleration in scheduling.tolerations or () if toleration not in own]
    return records.PodTemplate(
        metadata=template.metadata,
        spec=msgspec.structs.replace(
            spec, overhead=overhead, node_selector={**selector, **more}, tolerations=[*own, *added]
        ),
    )
