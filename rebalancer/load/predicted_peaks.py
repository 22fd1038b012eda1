"""The predicted peak of a node: the higher of two predictions, each of which misses what the other sees.

One is made from the node's own past, its mean plus a few standard deviations. It knows how the pods of today
rose and fell together, but nothing of a pod that came a minute ago. The other sums a high percentile of each
pod's past. It counts every pod that is here now, but takes all of them for busy at the same time:

    n1 in the last 15 minutes: mean 2.0 cores, deviation 0.3; 2.0 + 3 x 0.3 = 2.9
    its pods, 95th percentiles 1.2, 0.9 and 1.4 cores; the last one came from another node: 3.5
    predicted peak: 3.5 cores

A pod without a figure adds nothing to the sum, so the node's own past still counts for it.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from rebalancer.cluster.pods import PodTable
from rebalancer.load.figures.metric_windows import PREDICTED_PEAK, MetricWindow
from rebalancer.load.figures.node_figures import NodeFigures, PodFigures


def with_summed_peaks(
    nodes: NodeFigures, pods: PodFigures, table: PodTable, window: MetricWindow
) -> NodeFigures:
    """The figures, raised to the sum of their pods' where the statistic is a predicted peak.

    A node without a figure of its own stays unknown: what runs beside its pods is not in their sum.
    """
    usage = nodes.usage.copy()
    bound = np.flatnonzero(table.node >= 0)
    for column, resource in enumerate(nodes.resources):
        if window.of_resource(resource).statistic != PREDICTED_PEAK or resource not in pods.resources:
            continue
        amounts = np.nan_to_num(pods.usage[bound, pods.resources.index(resource)], nan=0.0)
        summed = np.bincount(table.node[bound], weights=amounts, minlength=len(usage))
        usage[:, column] = np.maximum(usage[:, column], summed)
    return dataclasses.replace(nodes, usage=usage)
