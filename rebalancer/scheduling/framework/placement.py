"""The placement of one pod: feasible nodes, scores, and the nodes it may land on with their chances."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rebalancer.cluster.arrays import FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """What one scheduling cycle would do with a pod; rows are those of the node table."""

    feasible: IntArray  # (feasible,) node rows, ascending
    scores: Mapping[str, IntArray]  # (feasible,) weighted scores by plugin, all feasible nodes compared
    chance: FloatArray  # (feasible,) of being chosen
    total_without_scores: int = 0  # 1 when the profile has no score plugin
    rejected: str = ""  # "Plugin: message" when no node was looked at, or the cycle fails
    score_failure: str = (
        ""  # "Plugin: message" when the nodes could not be scored, even if one needs no score
    )
    notes: tuple[str, ...] = ()  # "Plugin: message", remarks on how to read the scores

    @property
    def totals(self) -> IntArray:
        """(feasible,) the sum of the scores."""
        total = np.full(len(self.feasible), self.total_without_scores, np.int64)
        for values in self.scores.values():
            total += values
        return total


@dataclass(frozen=True, slots=True, eq=False)
class Rejections:
    """Why each node was rejected: ``Plugin: reason`` by node row; feasible nodes are absent."""

    reasons: Mapping[int, str]
