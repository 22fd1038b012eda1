"""Nodes that somebody is about to remove: the one table of the taints that say so.

Autoscalers, cloud providers and termination handlers mark a node before they take it away. Its pods are going
to be evicted by them, so moving one first only spends its disruption budget, and a pod that lands there moves
twice. Every stage that asks whether a node stays reads this table.
"""

from __future__ import annotations

from collections.abc import Iterable

from rebalancer.cluster.records import Node, Taint

# Keys, or beginnings of keys that end in /*, of taints of a node that is being removed.
LEAVING_TAINTS = (
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
    "karpenter.sh/disrupted",
    "node.cloudprovider.kubernetes.io/shutdown",
    "aws-node-termination-handler/*",
    "cloud.google.com/impending-node-termination",
    "node.kubernetes.io/out-of-service",
)
# Taints that Kubernetes sets for a node's condition, such as a cordon or memory pressure; the node stays.
CONDITION_TAINTS = ("node.kubernetes.io/*",)
CORDON_TAINT = "node.kubernetes.io/unschedulable"


def matches_taint(taint: Taint, patterns: Iterable[str]) -> bool:
    """Whether a taint is one of the patterns: ``key``, ``key=value``, or ``prefix/*``."""
    return any(_matches(taint, pattern) for pattern in patterns)


def _matches(taint: Taint, pattern: str) -> bool:
    key, separator, value = pattern.partition("=")
    if separator and taint.value != value:
        return False
    return taint.key.startswith(key[:-1]) if key.endswith("/*") else taint.key == key


def why_leaving(node: Node) -> str:
    """How we know that a node is about to be removed; empty when nothing says so."""
    if node.metadata.deletion_timestamp is not None:
        return "is being deleted"
    taint = next(
        (
            taint_of_node
            for taint_of_node in node.spec.taints or ()
            if matches_taint(taint_of_node, LEAVING_TAINTS)
        ),
        None,
    )
    return f"is about to be removed ({taint.key})" if taint else ""
