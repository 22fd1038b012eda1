"""What comes back: the pod a controller makes in place of an evicted one.

It is made from the owner's template plus admission, not copied from the evicted pod. Where pod and template
agree, the pod's own class stands for it. Where they differ, the newest ready sibling shows what admission
makes of the template; where even that leaves a difference, the replacement is unpredictable. Claims that a
StatefulSet made for one pod come back with it, so they are no difference, and the pod's own class stands for
the replacement: its volumes decide where it can run. Labels that a pod gets when it is bound are none of a
replacement's while it is placed, unless the template has them.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from rebalancer.cluster.arrays import PodClassIndex, PodRow
from rebalancer.cluster.pod_classes import BINDING_LABELS, PodClass
from rebalancer.cluster.pods import PodTable
from rebalancer.cluster.records import Container, Metadata, PodTemplate, Toleration, Volume
from rebalancer.planning.workloads.lookup import WorkloadInfo, Workloads
from rebalancer.planning.workloads.stateful_sets import (
    REVISION_LABEL,
    next_revision,
    own_claims,
    revision_of,
    without_own_claims,
)

# Added to every pod by admission.
_ADDED_TOLERATIONS = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
_ADDED_LABELS = frozenset(
    {
        "pod-template-hash",
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


class Replacement(msgspec.Struct, frozen=True):
    """The class of the replacement, as an index of the pod table; or why it cannot be known."""

    pod_class: PodClassIndex
    unpredictable_reason: str = ""


class Replacements:
    """Finds what would replace each pod; pods of one class with alike siblings have the same."""

    def __init__(self, pods: PodTable, workloads: Workloads) -> None:
        self._pods = pods
        self._workloads = workloads
        self._found: dict[tuple[PodClassIndex, PodClassIndex | None], Replacement] = {}

    def of(self, row: PodRow) -> Replacement:
        """The class of the pod that would replace a pod."""
        workload = self._workloads.of(row)
        revision = next_revision(workload.record, self._pods.names[row]) if workload.record else ""
        sibling = self._workloads.newest_sibling(row, revision)
        labelled = workload.template is not None and not BINDING_LABELS.isdisjoint(
            workload.template.metadata.labels or {}
        )
        own = self._comparable(row, labelled)
        newest = None if sibling is None else self._comparable(sibling, labelled)
        key = own.index, newest.index if newest else None
        if key not in self._found:
            self._found[key] = self._find(own, newest, workload, revision)
        return self._found[key]

    def _comparable(self, row: PodRow, labelled: bool) -> _Comparable:
        """A pod as it was created; ``labelled`` if its template has labels that binding sets."""
        index, name = PodClassIndex(int(self._pods.pod_class[row])), self._pods.names[row]
        if not labelled:
            index = self._pods.class_before_binding.get(index, index)
        pod = self._pods.classes[index]
        return _Comparable(index, without_own_claims(pod, name), bool(own_claims(pod, name)))

    def _find(
        self, own: _Comparable, newest: _Comparable | None, workload: WorkloadInfo, revision: str
    ) -> Replacement:
        """What replaces a pod whose newest sibling, of the revision that comes back, is ``newest``."""
        template = workload.template
        if workload.counted:
            if newest is not None and _alike(newest.pod, own.pod):
                return Replacement(own.index)
            kind = workload.owner.kind
            return own.unpredictable(f"{kind}s are not read, and no ready sibling shows what comes back")
        if template is None:
            if workload.record is None and not self._workloads.was_read(workload.owner):
                return own.unpredictable(f"{workload.owner.kind}s were not read, so its template is unknown")
            if newest is None or newest.index == own.index:
                return Replacement(own.index)
            return own.unpredictable(
                "its controller's template is unknown and its newest sibling differs from it"
            )
        own_revision = revision_of(own.pod)
        if revision and own_revision not in ("", revision):
            if (
                newest is not None
                and revision_of(newest.pod)
                and not own.has_claims
                and not newest.has_claims
            ):
                return Replacement(newest.index)
            return own.unpredictable("it is of an older revision, and no ready sibling is of the current one")
        if workload.record and revision != workload.record.status.update_revision:
            if newest is not None and _alike(newest.pod, own.pod):
                return Replacement(own.index)  # the template is of another revision; its siblings are not
            return own.unpredictable(f"no ready sibling of revision {revision} is like it")
        return _by_template(template, own, newest)


class _Comparable(msgspec.Struct, frozen=True):
    """A pod's class, and what of it may be compared with its template and its siblings."""

    index: PodClassIndex
    pod: PodClass  # without the claims that are the pod's own
    has_claims: bool  # of its own

    def unpredictable(self, reason: str) -> Replacement:
        return Replacement(self.index, reason)


def _by_template(template: PodTemplate, own: _Comparable, newest: _Comparable | None) -> Replacement:
    """What replaces a pod made from this template."""
    differing = differences(template, own.pod)
    if not differing:
        return Replacement(own.index)
    if newest is not None:
        if not differences(template, newest.pod) and not own.has_claims and not newest.has_claims:
            return Replacement(newest.index)
        if _alike(newest.pod, own.pod) and not _lacks(template, own.pod):
            return Replacement(own.index)  # admission does the same to every pod of this template
    return own.unpredictable(
        f"it differs from its template in {', '.join(differing)}, and so do its siblings"
    )


def differences(template: PodTemplate, pod: PodClass) -> tuple[str, ...]:
    """The scheduling fields in which a pod differs from its template, admission's usual additions aside."""
    wanted, actual = template.spec, pod.spec
    pairs: dict[str, tuple[object, object]] = {
        "labels": (_labels(template.metadata.labels), _labels(pod.labels)),
        "containers": (_containers(wanted.containers), _containers(actual.containers)),
        "initContainers": (_containers(wanted.init_containers), _containers(actual.init_containers)),
        "resources": (wanted.resources, actual.resources),
        "nodeSelector": (wanted.node_selector or {}, actual.node_selector or {}),
        "affinity": (wanted.affinity, actual.affinity),
        "tolerations": (_tolerations(wanted.tolerations), _tolerations(actual.tolerations)),
        "topologySpreadConstraints": (
            wanted.topology_spread_constraints or [],
            actual.topology_spread_constraints or [],
        ),
        "schedulerName": (
            wanted.scheduler_name or "default-scheduler",
            actual.scheduler_name or "default-scheduler",
        ),
        "hostNetwork": (bool(wanted.host_network), bool(actual.host_network)),
        "overhead": (wanted.overhead or {}, actual.overhead or {}),
        "volumes": (_volumes(wanted.volumes), _volumes(actual.volumes)),
    }
    if wanted.priority is not None:
        pairs["priority"] = (wanted.priority, actual.priority)
    found = [name for name, (left, right) in pairs.items() if left != right]
    return (*found, "an in-place resize") if pod.statuses else tuple(found)


def _labels(labels: Mapping[str, str] | None) -> dict[str, str]:
    return {key: value for key, value in (labels or {}).items() if key not in _ADDED_LABELS}


def _tolerations(tolerations: list[Toleration] | None) -> list[Toleration]:
    return [
        item for item in tolerations or () if item.key not in _ADDED_TOLERATIONS or item.effect != "NoExecute"
    ]


def _defaulted(container: Container) -> dict[str, str]:
    """Requests as the API server stores them: a limit without a request is a request too."""
    resources = container.resources
    if resources is None:
        return {}
    return {**(resources.limits or {}), **(resources.requests or {})}


def _containers(containers: list[Container] | None) -> list[object]:
    return [
        (
            item.name,
            item.image,
            _defaulted(item),
            (item.resources.limits if item.resources else None) or {},
            [
                (port.host_port, port.host_ip, port.protocol or "TCP")
                for port in item.ports or ()
                if port.host_port
            ],
            item.restart_policy,
        )
        for item in containers or ()
    ]


def _volumes(volumes: list[Volume] | None) -> list[Volume]:
    """Volumes whose source the scheduler reads; admission adds others, for service accounts."""
    return [item for item in volumes or () if item != Volume(name=item.name)]


def _alike(pod: PodClass, other: PodClass) -> bool:
    """Whether two pods of a controller differ at most in what is each one's own."""
    return not differences(PodTemplate(metadata=Metadata(labels=dict(pod.labels)), spec=pod.spec), other)


def _lacks(template: PodTemplate, pod: PodClass) -> bool:
    """Whether a pod lacks something of its template; admission only adds, so then the template changed."""
    wanted, actual = template.spec, pod.spec
    found = {item.name: item for item in (*(actual.containers or ()), *(actual.init_containers or ()))}
    for item in (*(wanted.containers or ()), *(wanted.init_containers or ())):
        same = found.get(item.name)
        if same is None or _lacks_items(_defaulted(item), _defaulted(same)):
            return True
    return (
        _lacks_items(_labels(template.metadata.labels), pod.labels)
        or _lacks_items(wanted.node_selector or {}, actual.node_selector or {})
        or any(item not in (actual.tolerations or ()) for item in wanted.tolerations or ())
        or any(item not in (actual.volumes or ()) for item in wanted.volumes or ())
        or (wanted.affinity is not None and actual.affinity is None)
    )


def _lacks_items(wanted: Mapping[str, str], actual: Mapping[str, str]) -> bool:
    return any(actual.get(name) != value for name, value in wanted.items())
