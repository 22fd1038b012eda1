"""Which pods and nodes of a plan are listed: what ``-n``, ``-l`` and ``--field-selector`` choose.

Choosing never changes a plan: its figures and its verdict stay those of the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from rebalancer.cluster.kinds import NAMESPACES
from rebalancer.cluster.records import LabelSelector
from rebalancer.cluster.selectors import FieldRequirement, fields_match, matcher, query
from rebalancer.documents.models import did_you_mean
from rebalancer.errors import InputError
from rebalancer.planning.plan import Move, NodeReport, Plan, PodReference
from rebalancer.reporting.words import plain

if TYPE_CHECKING:
    from rebalancer.cluster.snapshot import Snapshot

POD_FIELDS = ("metadata.name", "metadata.namespace", "spec.nodeName", "spec.schedulerName")
FIELDS = {"pods": POD_FIELDS, "nodes": ("metadata.name", "spec.unschedulable")}  # that may be asked for
_OF_THE_PLAN = frozenset(POD_FIELDS[:3])  # what a plan itself says of its pods


class Choice(msgspec.Struct, frozen=True):
    """What the options ask for; everything that is left out chooses all."""

    namespace: str | None = None
    labels: LabelSelector | None = None
    fields: tuple[FieldRequirement, ...] = ()

    def __bool__(self) -> bool:
        return self != Choice()

    @property
    def needs_snapshot(self) -> bool:
        """Whether a plan alone does not say which of its pods are chosen."""
        return self.labels is not None or any(
            requirement.path not in _OF_THE_PLAN for requirement in self.fields
        )

    def __str__(self) -> str:
        parts = [f"namespace {plain(self.namespace)}"] if self.namespace else []
        parts += [f"label {plain(query(self.labels))}"] if self.labels else []
        parts += [
            f"{requirement.path} {'is' if requirement.equal else 'is not'} {plain(requirement.value)}"
            for requirement in self.fields
        ]
        return ", ".join(parts)


def ensure_namespace(choice: Choice, snapshot: Snapshot) -> None:
    """Raise InputError where the namespace that is asked for is none of the cluster."""
    if choice.namespace is None or not snapshot.has(NAMESPACES):
        return
    names = {namespace.metadata.name for namespace in snapshot.recording.records(NAMESPACES)}
    names.update(snapshot.pods.namespaces)
    if choice.namespace not in names:
        raise InputError(
            f"the cluster has no namespace {choice.namespace[:100]!a}",
            hint=did_you_mean(choice.namespace, sorted(names)),
        )


def chosen_pods(plan: Plan, choice: Choice, snapshot: Snapshot | None = None) -> Plan:
    """The plan with the moves and the pods that stay of the choice only.

    ``snapshot`` is what the plan was made of, where the choice needs it.
    """
    if not choice:
        return plan
    selects = matcher(choice.labels or LabelSelector())

    def chosen(pod: PodReference, node: str) -> bool:
        if choice.namespace is not None and pod.namespace != choice.namespace:
            return False
        row = None if snapshot is None else snapshot.pods.row.get((pod.namespace, pod.name))
        pod_class = None if snapshot is None or row is None else snapshot.pods.class_of(row)
        scheduler = pod_class.scheduler_name if pod_class else ""
        fields = dict(zip(POD_FIELDS, (pod.name, pod.namespace, node, scheduler), strict=True))
        return selects(pod_class.labels if pod_class else {}) and fields_match(choice.fields, fields)

    return replace(
        plan,
        moves=tuple(move for move in plan.moves if chosen(move.pod, move.from_node)),
        cleanups=tuple(cleanup for cleanup in plan.cleanups if chosen(cleanup.pod, cleanup.node)),
        kept=tuple(unmoved for unmoved in plan.kept if chosen(unmoved.pod, unmoved.node)),
    )


def chosen_nodes(nodes: tuple[NodeReport, ...], choice: Choice, snapshot: Snapshot) -> tuple[NodeReport, ...]:
    """The nodes of the choice."""
    selects = matcher(choice.labels or LabelSelector())

    def chosen(node: NodeReport) -> bool:
        row = snapshot.nodes.row.get(node.name)
        record = None if row is None else snapshot.nodes.records[row]
        cordoned = record is not None and bool(record.spec.unschedulable)
        fields = {"metadata.name": node.name, "spec.unschedulable": str(cordoned).lower()}
        return selects((record and record.metadata.labels) or {}) and fields_match(choice.fields, fields)

    return tuple(node for node in nodes if chosen(node))


def sorted_moves(plan: Plan, order: str) -> Plan:
    """The plan with its moves by ``gain`` or ``chance``, the highest first, or by the name of something."""
    if order == "wave":
        return plan
    return replace(plan, moves=tuple(sorted(plan.moves, key=_ORDERS[order])))


_ORDERS: Mapping[str, Callable[[Move], tuple[float | str, str]]] = {
    "gain": lambda move: (-max(move.gain.values(), default=0.0), move.pod.full_name),
    "chance": lambda move: (-move.likeliest.probability, move.pod.full_name),
    "pod": lambda move: (move.pod.full_name, ""),
    "from": lambda move: (move.from_node, move.pod.full_name),
    "to": lambda move: (move.likeliest.node, move.pod.full_name),
}
