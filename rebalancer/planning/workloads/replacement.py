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
from msgspec.structs import replace

from rebalancer.cluster.arrays import PodClassIndex, PodRow
from rebalancer.cluster.kinds import PRIORITY_CLASSES, RUNTIME_CLASSES
from rebalancer.cluster.pod_classes import BINDING_LABELS, PodClass
from rebalancer.cluster.records import Metadata, PodTemplate, RuntimeClass
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.planning.workloads.lookup import WorkloadInfo, Workloads
from rebalancer.planning.workloads.stateful_sets import (
    next_revision,
    own_claims,
    revision_of,
    without_own_claims,
)
from rebalancer.planning.workloads.templates import Verdict, admitted, differences, why_not_placed


class Replacement(msgspec.Struct, frozen=True):
    """The class of the replacement, as an index of the pod table; or why it cannot be known."""

    pod_class: PodClassIndex
    unpredictable_reason: str = ""
    bound_to: str = ""  # the node that its template names: no scheduler places it


class Replacements:
    """Finds what would replace each pod."""

    def __init__(self, snapshot: Snapshot, workloads: Workloads) -> None:
        self._pods = snapshot.pods
        self._workloads = workloads
        # By name; None when they were not read.
        self._runtime_classes: Mapping[str, RuntimeClass] | None = None
        if snapshot.has(RUNTIME_CLASSES):
            runtime_classes = snapshot.recording.records(RUNTIME_CLASSES)
            self._runtime_classes = {
                runtime_class.metadata.name: runtime_class for runtime_class in runtime_classes
            }
        classes = snapshot.recording.records(PRIORITY_CLASSES)
        self._priorities = {priority_class.metadata.name: priority_class.value for priority_class in classes}
        self._of: dict[PodRow, Replacement] = {}

    def of(self, row: PodRow) -> Replacement:
        """The class of the pod that would replace a pod."""
        replacement = self._of.get(row)
        if replacement is None:
            replacement = self._of[row] = self._of_row(row)
        return replacement

    def _of_row(self, row: PodRow) -> Replacement:
        """What replaces a pod, as its newest ready sibling of the revision that comes back shows it."""
        workload = self._workloads.of(row)
        revision = next_revision(workload.record, self._pods.names[row]) if workload.record else ""
        sibling = self._workloads.newest_sibling(row, revision)
        labelled = workload.template is not None and not BINDING_LABELS.isdisjoint(
            workload.template.metadata.labels or {}
        )
        own = self._comparable(row, labelled)
        newest = None if sibling is None else self._comparable(sibling, labelled)
        return self._find(own, newest, workload, revision)

    def _comparable(self, row: PodRow, labelled: bool) -> _Comparable:
        """A pod as it was created; ``labelled`` if its template has labels that binding sets."""
        index = PodClassIndex(int(self._pods.pod_class[row]))
        name = self._pods.names[row]
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
                kind = workload.owner.kind
                why = f"{kind}s were not read, so its template is unknown" if kind else "it has no template"
                return own.unpredictable(why)
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
        newest = newest and self._with_class_name(newest, template)
        return _by_template(template, self._with_class_name(own, template), newest, self._runtime_classes)

    def _with_class_name(self, pod: _Comparable, template: PodTemplate) -> _Comparable:
        """A pod that was recorded with its priority only, with the class of its template if that gives it."""
        spec = pod.pod.spec
        name = template.spec.priority_class_name
        if spec.priority_class_name or not name or self._priorities.get(name) != spec.priority:
            return pod
        return replace(pod, pod=replace(pod.pod, spec=replace(spec, priority_class_name=name)))


class _Comparable(msgspec.Struct, frozen=True):
    """A pod's class, and what of it may be compared with its template and its siblings."""

    index: PodClassIndex
    pod: PodClass  # without the claims that are the pod's own
    has_claims: bool  # of its own

    def unpredictable(self, reason: str) -> Replacement:
        return Replacement(self.index, reason)


def _by_template(
    template: PodTemplate,
    own: _Comparable,
    newest: _Comparable | None,
    runtime_classes: Mapping[str, RuntimeClass] | None,
) -> Replacement:
    """What replaces a pod made from this template."""
    if template.spec.node_name:
        return Replacement(own.index, bound_to=template.spec.node_name)
    outcome = admitted(template, runtime_classes)
    refusal = why_not_placed(template.spec) or (outcome if isinstance(outcome, str) else "")
    if isinstance(outcome, str) or refusal:
        return own.unpredictable(f"of its template: {refusal}")
    complete = () if runtime_classes is None else ("overhead",)
    differing = differences(outcome, own.pod, complete)
    if not differing:
        return Replacement(own.index)
    edited = [name for name, verdict in differing.items() if verdict is Verdict.EDITED]
    if newest is not None:
        if not differences(outcome, newest.pod, complete) and not own.has_claims and not newest.has_claims:
            return Replacement(newest.index)
        if _alike(newest.pod, own.pod) and not edited:
            return Replacement(own.index)  # admission does the same to every pod of this template
    if edited:
        return own.unpredictable(
            f"it differs from its template in {', '.join(edited)}, which admission does not explain: "
            "the template was edited since"
        )
    return own.unpredictable(
        f"it differs from its template in {', '.join(differing)}, and no ready sibling shows what comes back"
    )


def _alike(pod: PodClass, other: PodClass) -> bool:
    """Whether two pods of a controller differ at most in what is each one's own."""
    return not differences(PodTemplate(metadata=Metadata(labels=dict(pod.labels)), spec=pod.spec), other)
