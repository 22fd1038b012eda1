"""Labels that a pod gets only when it is bound: the zone and the region of its node.

Since 1.35 the API server copies them from the node to the pod (PodTopologyLabelsAdmission), so pods of one
template differ by the zone they run in. A replacement is created without them, and the scheduler places it
without them.

    web-1 on a node in zone a   app=web, topology.kubernetes.io/zone=a
    web-2 on a node in zone b   app=web, topology.kubernetes.io/zone=b
    the class of both before they were bound: app=web

Source: kubernetes v1.36.3 plugin/pkg/admission/podtopologylabels/admission.go:53.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rebalancer.cluster.arrays import PodClassIndex
from rebalancer.cluster.columns.pod_classes import PodClass, key_of

_PREFIXES = ("topology.kubernetes.io", "topology.k8s.io")  # the second is that of 1.33
BINDING_LABELS = frozenset(f"{prefix}/{what}" for prefix in _PREFIXES for what in ("zone", "region"))
GIVEN_SINCE_MINOR = 35


def classes_before_binding(
    classes: Sequence[PodClass],
) -> tuple[tuple[PodClass, ...], Mapping[int, PodClassIndex]]:
    """The classes with those of labelled pods before they were bound appended, and these by class."""
    added: list[PodClass] = []
    numbers: dict[bytes, PodClassIndex] = {}
    before: dict[int, PodClassIndex] = {}
    for index, pod in enumerate(classes):
        if BINDING_LABELS.isdisjoint(pod.labels):
            continue
        unbound = replace(pod, labels=without_binding_labels(pod.labels))
        key = key_of(unbound)
        if key not in numbers:
            numbers[key] = PodClassIndex(len(classes) + len(added))
            added.append(unbound)
        before[index] = numbers[key]
    return (*classes, *added), before


def without_binding_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Labels as they are before a pod is bound."""
    return {key: value for key, value in labels.items() if key not in BINDING_LABELS}
