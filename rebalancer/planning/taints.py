"""The taints that this program gives nodes: a soft one while a wave is made, a hard one on emptied nodes.

Taints that a run left behind count as gone: the next run takes them away before it evicts anything.

The strategy consolidation closes the nodes that it empties, where the policy says so. That taint outlives the
run: until the time in its value somebody may remove the empty node.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec.structs import replace

from rebalancer.cluster import times
from rebalancer.cluster.records import Node, Taint
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.scheduling.state.cluster_state import SOFT_TAINT

TAINT_KEY = "rebalancer/hot"
HOT = Taint(key=TAINT_KEY, effect=SOFT_TAINT)
# cluster-autoscaler leaves taints with this prefix out of what it expects of new nodes, and does not take
# a node that has one for unready (utils/taints/taints.go, StatusTaintPrefix).
EMPTIED = Taint(key="status-taint.cluster-autoscaler.kubernetes.io/rebalancer-emptied", effect="NoSchedule")
# Karpenter reckons with soft taints as with hard ones when it looks for room for a Pending pod, so it may add
# a node: its nodes get none. cluster-autoscaler does not look at soft taints.
KARPENTER_LABEL = "karpenter.sh/nodepool"


def is_ours(taint: Taint) -> bool:
    """Whether a taint is one that this program sets, of this run or another."""
    return taint.key == TAINT_KEY and taint.effect == SOFT_TAINT


def left_behind(snapshot: Snapshot) -> tuple[str, ...]:
    """The names of the nodes that have the soft taint of this program."""
    return tuple(
        node.metadata.name for node in snapshot.nodes.records if any(map(is_ours, node.spec.taints or ()))
    )


def taint_ends(value: str) -> float:
    """Until when a taint of this program may stay, in Unix seconds, by its value ``lease.run.until``.

    Anybody may write one. What this program cannot have written is over: 0.
    """
    *names, until = value.split(".")
    ends = float(until) if len(names) == 2 and until.isdecimal() else 0.0
    return ends if ends <= times.LATEST else 0.0


def closed_until(node: Node) -> float | None:
    """Until when a node is closed by the taint of emptied nodes, in Unix seconds; None where it is not."""
    ours = (
        taint
        for taint in node.spec.taints or ()
        if (taint.key, taint.effect) == (EMPTIED.key, EMPTIED.effect)
    )
    return max((taint_ends(taint.value) for taint in ours), default=None)


def reopened(snapshot: Snapshot, now: float) -> tuple[str, ...]:
    """The names of the nodes that were emptied, and that nobody removed while they were closed."""
    ends = {node.metadata.name: closed_until(node) for node in snapshot.nodes.records}
    return tuple(name for name, end in ends.items() if end is not None and end <= now)


def is_karpenters(labels: Mapping[str, str]) -> bool:
    """Whether the labels of a node say that Karpenter made it."""
    return KARPENTER_LABEL in labels


def as_a_run_has_them(snapshot: Snapshot, emptied: Collection[str] = (), now: float = 0.0) -> Snapshot:
    """The same cluster without the soft taint, and with the nodes closed that are emptied.

    Those that are closed since an earlier run stay so until their time is over.
    """
    closed = frozenset(emptied)
    table = snapshot.nodes
    over = frozenset(reopened(snapshot, now)) - closed
    if not (closed or over or left_behind(snapshot)):
        return snapshot
    changed: list[Node] = []
    for node in table.records:
        name = node.metadata.name
        taints = [taint for taint in node.spec.taints or () if not is_ours(taint)]
        if name in over:
            taints = [taint for taint in taints if taint.key != EMPTIED.key]
        if name in closed and closed_until(node) is None:
            taints.append(EMPTIED)
        changed.append(replace(node, spec=replace(node.spec, taints=taints or None)))
    return replace(snapshot, nodes=replace(table, records=tuple(changed)))
