"""What a plugin is: a small class that answers for one pod class over all nodes at once.

A filter answers with a code a node, 0 where the node passes; a score with an integer a feasible node.
Third parties subclass ``Plugin`` the same way (entry point group ``rebalancer.plugins``).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

import numpy as np

from rebalancer.cluster.arrays import BoolArray, IntArray
from rebalancer.profiles.types import ExtensionPoint
from rebalancer.scheduling.state.cluster_state import ClusterState

MAX_SCORE = 100
# The raw score of a feasible node that takes no part in the extremes.
EXCLUDED = int(np.iinfo(np.int64).min)


@dataclass(frozen=True, slots=True)
class PreFilter:
    """What a plugin says before any node is looked at."""

    skip: bool = False  # this plugin's filter is not run for this pod
    rejected: str = ""  # no node at all, with the reason
    restricted_to: BoolArray | None = None  # (nodes,) only these are looked at


PASS = PreFilter()
SKIP = PreFilter(skip=True)


class Normalization(Enum):
    """How a plugin's raw scores depend on the other feasible nodes."""

    NONE = "none"  # the raw score is the score
    MAXIMUM = "maximum"  # on the largest raw score
    RANGE = "range"  # on the smallest and the largest raw score


class Plugin:
    """The base of all plugins. Subclasses say what they implement; the cycle calls only that."""

    name: str
    points: ClassVar[frozenset[ExtensionPoint]]
    normalization: Normalization = Normalization.NONE
    static: ClassVar[bool] = False  # all it says depends on class and static node facts alone
    static_pre_filter: ClassVar[bool] = False  # so does what pre_filter says

    def pre_filter(self, state: ClusterState, class_index: int) -> PreFilter:
        """What there is to say before looking at nodes."""
        return PASS

    def filter(self, state: ClusterState, class_index: int) -> IntArray:
        """(nodes,) a code a node, 0 where it passes; ``reason`` puts a code into words."""
        return np.zeros(len(state.nodes), np.int64)

    def reason(self, state: ClusterState, class_index: int, code: int) -> str:
        """A filter's code in the scheduler's own words."""
        return str(code)

    def fails(self, state: ClusterState, feasible: IntArray) -> str:
        """Why scoring these nodes fails the pod's whole cycle; empty when it does not."""
        return ""

    def note(self, raw: IntArray) -> str:
        """What a reader of the scores should know; empty when there is nothing."""
        return ""

    def raw_scores(self, state: ClusterState, class_index: int, feasible: IntArray) -> IntArray | None:
        """(feasible,) raw scores of the rows in ``feasible``; None skips the plugin for this pod."""
        return None

    def raw_scores_of_sample(
        self, state: ClusterState, class_index: int, feasible: IntArray, found: int
    ) -> IntArray | None:
        """As ``raw_scores``, when the scheduler compares only ``found`` of them, not known which."""
        return self.raw_scores(state, class_index, feasible)

    def normalize(self, raw: IntArray, smallest: int, largest: int) -> IntArray:
        """Scores in 0..100 from raw ones, given the extremes of the raw scores among the nodes compared.

        The extremes are arguments because the scheduler of a large cluster compares only a sample.
        """
        return raw


def normalize_by_maximum(raw: IntArray, largest: int, *, reverse: bool = False) -> IntArray:
    """The scheduler's default normalisation (plugins/helper/normalize_score.go:28)."""
    if largest <= 0:
        return np.full_like(raw, MAX_SCORE if reverse else 0)
    scores = MAX_SCORE * raw // largest
    return MAX_SCORE - scores if reverse else scores
