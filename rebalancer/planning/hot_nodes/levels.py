"""The level of each resource above which a node is hot, the level it is to cool to, and why it is hot.

Several rules may set a level for the same node and resource; the lowest one counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from rebalancer.cluster.arrays import BoolArray, FloatArray, IntArray
from rebalancer.load.report import PERCENT_RESOURCES


@dataclass(frozen=True, slots=True, eq=False)
class Hotness:
    """Which nodes are hot, why, and how far they must cool; percent of allocatable by resource."""

    hot: BoolArray  # (nodes,)
    resources: BoolArray  # (nodes, resources) in what a node is hot
    hot_above: FloatArray  # (nodes, resources) the level above which a node is hot, inf without a rule
    cool_to: FloatArray  # (nodes, resources) the level at which no further eviction is worth it
    because: Mapping[int, tuple[str, ...]]  # by node row
    names: tuple[str, ...] = PERCENT_RESOURCES  # of the resources, by column
    waiting: Mapping[int, str] = field(default_factory=dict)  # nodes that are not hot, yet pods wait there

    def is_cool(self, row: int, percent: FloatArray) -> bool:
        """Whether no (resources,) percent is above its level to cool to; an unknown one is not above."""
        return not np.any(percent > self.cool_to[row])

    def excess(self, row: int, percent: FloatArray) -> FloatArray:
        """(resources,) points above coolTo, in the resources in which a node is hot; 0 in all others."""
        above = np.nan_to_num(percent - self.cool_to[row], nan=0.0, neginf=0.0)
        return np.where(self.resources[row], np.maximum(above, 0.0), 0.0)

    def hot_at(self, rows: IntArray, percent: FloatArray) -> BoolArray:
        """(rows,) whether nodes with (rows, resources) percent would be hot; an unknown percentage is not."""
        return np.asarray(np.any(percent > self.hot_above[rows], axis=1), np.bool_)

    def most(self, rows: IntArray) -> FloatArray:
        """(rows, resources) up to which a landing may fill each node; a node that was hot, to its coolTo."""
        return np.where(self.hot[rows, None], self.cool_to[rows], self.hot_above[rows])


def short_level(percent: float) -> str:
    """``80`` or ``62.5``."""
    return f"{percent:.1f}".removesuffix(".0")


class LevelBuilder:
    """Collects the levels that rules set."""

    def __init__(self, percent: FloatArray, eligible: BoolArray, names: tuple[str, ...]) -> None:
        self.names = names
        self.percent = percent
        self.eligible = eligible  # (nodes,) may be hot at all: known
        shape = percent.shape
        self.hot_above = np.full(shape, np.inf)
        self.cool_to = np.full(shape, np.inf)
        self.resources = np.zeros(shape, np.bool_)
        self.because: dict[int, list[str]] = {}

    def apply(
        self,
        resource: str,
        above: FloatArray,
        cool_to: FloatArray,
        words: str,
        waits: Mapping[int, str] | None = None,
    ) -> None:
        """One rule on one resource: levels are (nodes,), ``words`` describes the threshold.

        ``waits`` are, by row and with what they wait for, the only nodes that may be hot; None: all may.
        Landings are held to the threshold on every node: whether pods will wait there cannot be predicted.
        """
        column = self.names.index(resource)
        hot = self.eligible & (self.percent[:, column] > above)
        if waits is not None:
            hot &= np.isin(np.arange(len(hot)), list(waits))
        self.hot_above[:, column] = np.minimum(self.hot_above[:, column], above)
        self.cool_to[:, column] = np.minimum(self.cool_to[:, column], cool_to)
        self.resources[:, column] |= hot
        for row in np.flatnonzero(hot).tolist():
            sentence = f"{resource} {self.percent[row, column]:.1f} %: {words}"
            sentence += f"; {waits[row]}" if waits else ""
            self.because.setdefault(row, []).append(
                sentence.format(above=short_level(above[row]), cool_to=short_level(cool_to[row]))
            )
