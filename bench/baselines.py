"""What others would evict: at random, or by the rules of the descheduler's LowNodeUtilization."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rebalancer.cluster.arrays import FloatArray, PodRow
from rebalancer.load.report import percent_of_allocatable
from rebalancer.planning.landing.scenarios import NOWHERE, LandingDraws
from rebalancer.planning.prepared import PreparedInputs
from rebalancer_lab.timeline.descheduler import LowNodeUtilization, evictable


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
    """By the rules of LowNodeUtilization, with the policy's thresholds as targets."""
    return list(LowNodeUtilization(by_requests=by_requests).evictions(prepared))


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
