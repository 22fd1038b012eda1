"""Corrects figures that still show the time before our last moves.

A figure averaged over a window that began before a pod left (or came) holds part of the old load. The share
of the window before the move times the pod's load is what to take away (or add). Where the pod's load or
its whereabouts are not known, the node is settling: nothing leaves it, nothing is counted on to land there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from rebalancer.cluster.arrays import BoolArray, FloatArray
from rebalancer.cluster.nodes import NodeTable
from rebalancer.load.report import LoadReport
from rebalancer.state import PastMove

# Results after which the pod is where it was: nothing changed.
_UNTOUCHED = frozenset({"Refused", "Skipped", "Gone"})
# Results after which it is known where the load went.
_ARRIVED = frozenset(
    {"Landed", "LandedElsewhere", "Restarted", "RestartedElsewhere", "Unexpected", "NotReady"}
)
_WITHOUT_REPLACEMENT = frozenset({"Pending", "NotReplaced"})


@dataclass(frozen=True, slots=True, eq=False)
class Corrected:
    """The report as if every window had begun after our last moves, as far as it can be corrected."""

    load: LoadReport
    settling: dict[int, str]  # node row -> why its figures cannot be corrected


def _share_before(load: LoadReport, row: int, moment: float) -> FloatArray:
    """(resources,) the share of each figure's window that lies before a moment; 1 for an older figure."""
    measured, window = load.measured_at[row], load.window_seconds[row]
    began = measured - window
    with np.errstate(invalid="ignore", divide="ignore"):
        inside = np.where(window > 0, (moment - began) / np.where(window > 0, window, 1.0), 0.0)
        share = np.where(moment >= measured, 1.0, np.clip(inside, 0.0, 1.0))
    return np.nan_to_num(share, nan=0.0)


def correct(load: LoadReport, nodes: NodeTable, moves: Iterable[PastMove]) -> Corrected:
    """Apply our past moves to figures whose windows began before them."""
    usage = load.usage.copy()
    settling: dict[int, str] = {}
    for move in moves:
        if move.result in _UNTOUCHED:
            continue
        _apply(load, nodes, usage, settling, move, move.from_node, move.evicted_at, -1.0)
        if move.result not in _WITHOUT_REPLACEMENT and (move.to_node or move.result not in _ARRIVED):
            _apply(load, nodes, usage, settling, move, move.to_node, move.landed_at or move.evicted_at, 1.0)
    return Corrected(dataclasses.replace(load, usage=np.maximum(usage, 0.0)), settling)


def _apply(
    load: LoadReport,
    nodes: NodeTable,
    usage: FloatArray,
    settling: dict[int, str],
    move: PastMove,
    node: str,
    moment: float,
    sign: float,
) -> None:
    row = nodes.row.get(node)
    if row is None:
        return
    share = _share_before(load, row, moment)
    if not share.any():
        return
    amounts = np.array([move.load.get(resource, np.nan) for resource in load.resources])
    needed = (share > 0) & np.isin(load.resources, load.required)
    reason = f"its figures include the time before {move.namespace}/{move.name} moved"
    if np.isnan(amounts[needed]).any() or move.result not in _ARRIVED | _WITHOUT_REPLACEMENT:
        settling[row] = f"{reason}, whose load is unknown"
    elif not _linear(load, row)[needed].all():
        settling[row] = f"{reason}; a percentile or peak of them cannot be corrected"
    else:
        usage[row] += sign * share * np.nan_to_num(amounts, nan=0.0)


def _linear(load: LoadReport, row: int) -> BoolArray:
    """(resources,) whether a figure is a mean, so that a part of its window weighs as long as it lasted."""
    return np.array(
        [load.statistic(row, column) == "mean" for column in range(len(load.resources))], np.bool_
    )
