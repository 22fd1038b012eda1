"""What others would evict: at random, or by the rules of the descheduler's LowNodeUtilization."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rebalancer.cluster.arrays import FloatArray, PodRow
from rebalancer.cluster.pod_classes import PodClass
from rebalancer.load.report import percent_of_allocatable
from rebalancer.planning.eviction import why_protected
from rebalancer.planning.prepared import PreparedInputs
from rebalancer.simulation.cycles import NOWHERE, LandingDraws

_LOW_PERCENT = 50.0  # a node below this in all resources may take pods, by LowNodeUtilization


@dataclass(frozen=True, slots=True)
class Result:
    """A cluster once pods were evicted and their replacements landed."""

    evictions: int
    hot: int
    newly_hot: int
    pending: int
    straight_back: int  # landed on the node they left
    peak: float  # percent cpu
    deviation: float  # points of cpu


def evictable(prepared: PreparedInputs, node: int) -> list[int]:
    """Rows of the pods on a node that nothing protects."""
    rows = prepared.pods.by_node.get(node, np.zeros(0, np.int64)).tolist()
    return [row for row in rows if why_protected(prepared.eviction, PodRow(row)) is None]


def at_random(prepared: PreparedInputs, random: np.random.Generator) -> list[int]:
    """Pods of hot nodes in any order, until each is cool by what left it."""
    chosen: list[int] = []
    for node in np.flatnonzero(prepared.hotness.hot).tolist():
        percent = prepared.inputs.load.percent[node].copy()
        for row in random.permutation(evictable(prepared, node)).tolist():
            if prepared.hotness.is_cool(node, percent):
                break
            percent = percent - _share(prepared, row, node)
            chosen.append(row)
    return chosen


def _share(prepared: PreparedInputs, row: int, node: int) -> FloatArray:
    amounts = np.append(prepared.inputs.load.pod_usage[row][:2], 1.0)
    return np.asarray(100.0 * amounts / np.maximum(prepared.inputs.load.allocatable[node][:3], 1e-9))


def low_node_utilization(prepared: PreparedInputs, *, by_requests: bool) -> list[int]:
    """Lowest priority first, then BestEffort before Burstable before Guaranteed, while headroom is left.

    Usage is what pods request, or what they were measured to use. Headroom is shared: the sum of what the
    low nodes lack to the threshold. A pod must fit on any other node.
    """
    state = prepared.schedulers.state
    classes = state.classes
    measured = prepared.inputs.load
    requested = state.requested[:, :2].astype(np.float64)
    usage = requested if by_requests else measured.usage[:, :2]
    pods = np.array([classes.present(kind)[:2] for kind in prepared.pods.pod_class.tolist()], np.float64)
    amounts = pods if by_requests else measured.pod_usage[:, :2]
    percent = 100.0 * usage / np.maximum(measured.allocatable[:, :2], 1e-9)
    target = np.minimum(prepared.hotness.hot_above[:, :2], 100.0)
    unschedulable = classes.nodes.unschedulable
    low = (percent < _LOW_PERCENT).all(axis=1) & ~unschedulable
    headroom = np.sum((target - percent)[low] / 100.0 * measured.allocatable[low][:, :2], axis=0)
    high = np.flatnonzero((percent > target).any(axis=1)).tolist()
    chosen: list[int] = []
    for node in sorted(high, key=lambda node: -float(percent[node].sum())):
        rows = sorted(evictable(prepared, node), key=lambda row: _order(prepared, row))
        level = usage[node].copy()
        for row in rows:
            over = 100.0 * level / np.maximum(measured.allocatable[node][:2], 1e-9) > target[node]
            if not over.any() or (headroom <= 0).any():
                break
            kind = state.pod_class[row]
            fits = prepared.schedulers.scheduler(kind).feasible(state, kind)
            fits[node] = False
            if not fits.any():
                continue
            level -= amounts[row]
            headroom = headroom - amounts[row]
            chosen.append(row)
    return chosen


def _order(prepared: PreparedInputs, row: int) -> tuple[int, int, str]:
    pod = prepared.pods.class_of(row)
    return pod.priority, _quality_of_service(pod), prepared.pods.full_name(row)


def _quality_of_service(pod: PodClass) -> int:
    """0 BestEffort, 1 Burstable, 2 Guaranteed."""
    pairs = [
        ((item.resources.requests or {}), (item.resources.limits or {})) if item.resources else ({}, {})
        for item in pod.spec.containers or ()
    ]
    if not any(requests or limits for requests, limits in pairs):
        return 0
    guaranteed = all(
        limits.get(name) and requests.get(name, limits[name]) == limits[name]
        for requests, limits in pairs
        for name in ("cpu", "memory")
    )
    return 2 if guaranteed else 1


def landed(prepared: PreparedInputs, rows: list[int], random: np.random.Generator) -> Result:
    """All of them evicted at once, and their replacements placed one by one as the model draws them."""
    state = prepared.schedulers.state.copy()
    load = prepared.inputs.load
    usage = load.usage[:, :2].copy()
    back, pending, draws = 0, 0, LandingDraws(random)
    for row in rows:
        state.evict(row)
    for row in rows:
        kind = prepared.eviction.replacement(PodRow(row)).pod_class
        source = int(prepared.pods.node[row])
        target = draws.node(prepared.schedulers.scheduler(kind).place(state, kind))
        usage[source] -= load.pod_usage[row][:2]
        if target == NOWHERE:
            pending += 1
            continue
        state.bind(state.add(kind), target)
        usage[target] += load.pod_usage[row][:2]
        back += target == source
    for row in rows:
        state.remove(row)
    percent = percent_of_allocatable(usage, state.pod_count, load.allocatable)
    return result(prepared, percent, len(rows), pending, back)


def result(prepared: PreparedInputs, percent: FloatArray, evictions: int, pending: int, back: int) -> Result:
    """What a (nodes, 3) load means by the policy."""
    known = prepared.inputs.load.known
    hot = prepared.hotness.hot_at(np.arange(len(percent)), percent) & known
    cpu = percent[known, 0]
    newly = int(np.count_nonzero(hot & ~prepared.hotness.hot))
    return Result(evictions, int(hot.sum()), newly, pending, back, float(cpu.max()), float(cpu.std()))
