"""Explains whatever a subject names: the same rules, model and plan as a run."""

from __future__ import annotations

from rebalancer.cluster.arrays import NodeRow, PodRow
from rebalancer.planning.explanation.nodes import explain_node
from rebalancer.planning.explanation.pods import PodExplainer
from rebalancer.planning.explanation.subjects import Subject
from rebalancer.planning.explanation.values import Explanation
from rebalancer.planning.explanation.workloads import explain_workload
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.prepared import prepare


def explain(inputs: PlanningInputs, subject: Subject) -> Explanation:
    """The full explanation of a pod, a node or a workload; SafetyError when too little is known to plan."""
    prepared = prepare(inputs)
    if subject.kind == "node":
        return explain_node(prepared, NodeRow(subject.row))
    if subject.kind == "pod":
        return PodExplainer(prepared, PodRow(subject.row)).explanation()
    return explain_workload(prepared, subject.kind, subject.namespace, subject.name)
