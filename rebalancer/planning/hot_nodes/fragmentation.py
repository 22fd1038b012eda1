"""How much moving a pod mends the shape of its node: hot in one resource, idle in another.

A node that is full in cpu and empty in memory strands its memory: nothing fits there any more. Of two pods
that relieve it alike, the one that leaves the node more evenly used is the better choice. For example, a node
uses 90 % cpu and 30 % memory, so 60 points of memory are stranded:

    web     10 points cpu, 1 point memory     80 % and 29 %, 51 points: mends 9
    cache   10 points cpu, 20 points memory   80 % and 10 %, 70 points: makes it worse by 10

The shape is one aspect of a pod's price, ``planning.weights.fragmentation``: it decides among pods with which
equally few moves relieve the node.

Only cpu and memory are compared, since every pod needs both; the number of pods is no amount of anything.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rebalancer.cluster.arrays import FloatArray, NodeRow, PodRow
from rebalancer.load.report import LoadReport
from rebalancer.load.usage import RESOURCES
from rebalancer.planning.hot_nodes.levels import Hotness


def shape_cost(
    load: LoadReport, hotness: Hotness, usage: FloatArray, node: NodeRow, pods: Sequence[PodRow]
) -> FloatArray:
    """(pods,) by how many hundred points each pod mends its node's shape less than the best of them does.

    All zero unless the node is hot in one of cpu and memory alone: a node that is short of both has no shape
    to mend.
    """
    hot = [bool(hotness.resources[node, hotness.names.index(name)]) for name in RESOURCES]
    if not pods or hot.count(True) != 1:
        return np.zeros(len(pods))
    mended = fragmentation_relief(load, usage, node, pods)
    return np.asarray((mended.max() - mended) / 100.0, np.float64)


def fragmentation_relief(
    load: LoadReport, usage: FloatArray, node: NodeRow, pods: Sequence[PodRow]
) -> FloatArray:
    """(pods,) points by which each pod's leaving narrows the gap between cpu and memory of a node.

    ``usage`` is (nodes, resources), what is expected of the nodes. Negative where the gap widens; 0 where
    anything that it takes to know is unknown, so that an unknown pod is never preferred.
    """
    columns = [load.percent_resources.index(name) for name in RESOURCES]
    room = load.allocatable[node, columns]
    whole = np.where(room > 0, room, np.nan)
    before = 100.0 * usage[node, : len(RESOURCES)] / whole
    rows = np.array(pods, np.int64)
    after = before - 100.0 * load.pod_usage[rows, : len(RESOURCES)] / whole
    narrowed = np.abs(before[0] - before[1]) - np.abs(after[:, 0] - after[:, 1])
    return np.asarray(np.nan_to_num(narrowed, nan=0.0), np.float64)
