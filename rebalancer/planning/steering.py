"""Steering: a soft taint on nodes while a run lasts, so that the scheduler prefers other nodes.

Most pods that stay on a hot node stay because the scheduler would put their replacements back on a hot node.
A ``PreferNoSchedule`` taint keeps no pod away and evicts none; it costs a node points of the TaintToleration
plugin, which the model knows as the scheduler does. A plan of a policy with ``execution.steer: softTaint`` is
made as if the nodes that are hot had the taint already:

    n1 90 %, hot     the taint is set before the first eviction, and taken away when the run ends
    n2 60 %          its score is what it was, so ties and near ties with n1 go to n2

With ``steerNodes: aboveCoolTo`` nodes that are not hot, but not known to be cool either, get the taint too:
what leaves the hot ones would go to those of them that have the least requested, and they soon take no more.
Between two nodes that both have it the scores decide as they do without:

    n3 70 %, above its coolTo of 65 %    the taint too
    n4 load unknown                      the taint too: a plan counts on no landing there

Taints of this program that a run left behind count as gone: the next run takes them away before it evicts
anything. A later plan of a run gives the taint to further nodes, those that are hot or, with ``aboveCoolTo``,
not cool by then: the first plan has filled them. None loses it before the run ends.

The strategy consolidation closes the nodes that it empties with a taint of its own, where the policy says so.
That is a hard one, and it outlives the run: until the time in its value somebody may remove the empty node.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

import numpy as np
from msgspec.structs import replace

from rebalancer.cluster import times
from rebalancer.cluster.arrays import BoolArray
from rebalancer.cluster.records import Node, Taint
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.counting import counted
from rebalancer.planning.plan import Plan
from rebalancer.policy.schema import Execution

TAINT_KEY = "rebalancer/hot"
SOFT = "PreferNoSchedule"
HOT = Taint(key=TAINT_KEY, effect=SOFT)
# cluster-autoscaler leaves taints with this prefix out of what it expects of new nodes, and does not take
# a node that has one for unready (utils/taints/taints.go, StatusTaintPrefix).
EMPTIED = Taint(key="status-taint.cluster-autoscaler.kubernetes.io/rebalancer-emptied", effect="NoSchedule")
# Karpenter reckons with soft taints as with hard ones when it looks for room for a Pending pod, so it may add
# a node: its nodes get none. cluster-autoscaler does not look at soft taints.
KARPENTER_LABEL = "karpenter.sh/nodepool"
# Who says to which pool a node belongs: the managed services, Karpenter, kops and Cluster API.
_POOL_LABELS = (
    "eks.amazonaws.com/nodegroup",
    "cloud.google.com/gke-nodepool",
    "kubernetes.azure.com/agentpool",
    KARPENTER_LABEL,
    "kops.k8s.io/instancegroup",
    "cluster.x-k8s.io/deployment-name",
)


def is_ours(taint: Taint) -> bool:
    """Whether a taint is one that this program sets, of this run or another."""
    return taint.key == TAINT_KEY and taint.effect == SOFT


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
        item for item in node.spec.taints or () if (item.key, item.effect) == (EMPTIED.key, EMPTIED.effect)
    )
    return max((taint_ends(item.value) for item in ours), default=None)


def reopened(snapshot: Snapshot, now: float) -> tuple[str, ...]:
    """The names of the nodes that were emptied, and that nobody removed while they were closed."""
    ends = {node.metadata.name: closed_until(node) for node in snapshot.nodes.records}
    return tuple(name for name, end in ends.items() if end is not None and end <= now)


def nodes_to_steer(
    snapshot: Snapshot,
    hot: BoolArray,
    warm: BoolArray,
    execution: Execution,
    before: Collection[str] = (),
) -> tuple[str, ...]:
    """The names of the nodes that have the taint; ``hot`` and ``warm`` are (nodes,).

    Those that have got it ``before``, for an earlier plan of the run, keep it.

    A taint on every node of a pool would change nothing for the pods that can only run there, and turn all
    others away: where no node of a pool is cool, its hot ones alone get it. A node that is not ready or
    cordoned takes no pods anyway. Where no node is hot, none has to be avoided for what leaves it.
    """
    if execution.steer == "none" or not hot.any():
        return tuple(before)
    table = snapshot.nodes
    pools = defaultdict[object, list[int]](list)
    for row, node in enumerate(table.records):
        if table.ready[row] and not node.spec.unschedulable:
            pools[_pool(node)].append(row)
    steered_before = frozenset(before)
    known = np.array([name in steered_before for name in table.names], np.bool_)
    wider = (hot | warm | known,) if execution.steer_nodes == "aboveCoolTo" else ()
    masks = (*wider, hot | known)  # the first that leaves a node of a pool without a taint counts

    steered = list(before)
    for rows in pools.values():
        chosen = next((mask for mask in masks if not mask[rows].all()), known)
        steered += [
            table.names[row] for row in rows if chosen[row] and not is_karpenters(_labels(table.records[row]))
        ]
    return tuple(dict.fromkeys(steered))


def is_karpenters(labels: Mapping[str, str]) -> bool:
    """Whether the labels of a node say that Karpenter made it."""
    return KARPENTER_LABEL in labels


def steered(
    snapshot: Snapshot, hot: Collection[str], emptied: Collection[str] = (), now: float = 0.0
) -> Snapshot:
    """The same cluster with the soft taint on the hot nodes alone, and with the emptied ones closed.

    Those that are closed since an earlier run stay so until their time is over.
    """
    soft = frozenset(hot)
    closed = frozenset(emptied)
    table = snapshot.nodes
    over = frozenset(reopened(snapshot, now)) - closed
    if not (soft or closed or over or left_behind(snapshot)):
        return snapshot
    found = []
    for node in table.records:
        name = node.metadata.name
        old = node.spec.taints or []
        taints = [
            item for item in old if not is_ours(item) and not (item.key == EMPTIED.key and name in over)
        ]
        taints += [HOT] * (name in soft)
        taints += [EMPTIED] * (name in closed and closed_until(node) is None)
        found.append(replace(node, spec=replace(node.spec, taints=taints or None)))
    return replace(snapshot, nodes=replace(table, records=tuple(found)))


def advice(without: Plan, with_taints: Plan, with_more: Plan) -> tuple[str, ...]:
    """What is said of a plan that does not steer, one that does, and one with ``steerNodes: aboveCoolTo``.

    The first sentence compares two; one follows on the third where it has other taints, and one for each
    node whose taint lets more pods leave it.
    """
    counts = {len(plan.moves) for plan in (without, with_taints, with_more)}
    if len(counts) == 1 and not (with_taints.tainted or with_more.tainted):
        return ("execution.steer: softTaint would change nothing: no pod that stays would move with it",)
    before = _moves_by_node(without)
    more = {node: count - before.get(node, 0) for node, count in _moves_by_node(with_taints).items()}
    others = [f"with execution.steerNodes: aboveCoolTo as well, {_summary(with_more)}"]
    return (
        f"with execution.steer: softTaint {_summary(with_taints)}; without it {_summary(without)}",
        *(others if with_more.tainted != with_taints.tainted else ()),
        *(
            f"the taint on {node} lets {counted(count, 'pod')} more leave it"
            for node, count in sorted(more.items(), key=lambda item: (-item[1], item[0]))
            if count > 0
        ),
    )


def _summary(plan: Plan) -> str:
    """``43 pods would move, 2 of 9 hot nodes stay hot, 332 of 914 points are left``."""
    if plan.benefit is None:
        return "no pod moves"
    nodes = plan.benefit.hot_nodes
    excess = plan.benefit.excess
    return (
        f"{counted(plan.benefit.pods_moved, 'pod')} would move, "
        f"{nodes.after:.0f} of {counted(round(nodes.before), 'hot node stays', 'hot nodes stay')} hot, "
        f"{excess.after:.0f} of {excess.before:.0f} points are left"
    )


def _moves_by_node(plan: Plan) -> Mapping[str, int]:
    found: dict[str, int] = defaultdict(int)
    for move in plan.moves:
        found[move.from_node] += 1
    return found


def _pool(node: Node) -> object:
    """What tells the pools of nodes apart: the label of a pool, and the taints that keep pods out."""
    labels = _labels(node)
    name = next((labels[key] for key in _POOL_LABELS if key in labels), "")
    hard = frozenset((item.key, item.value) for item in node.spec.taints or () if item.effect != SOFT)
    return name, hard


def _labels(node: Node) -> Mapping[str, str]:
    return node.metadata.labels or {}
