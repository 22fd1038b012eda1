"""Scores that depend on what the scheduler alone knows: each possibility is computed.

ImageLocality counts one size of an image on all nodes, that of the node which registered it first. Where
nodes report several sizes of one name, the raw scores by each of them are possible, and the nodes that any of
them leads to are possible landings.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from rebalancer.cluster.arrays import IntArray
from rebalancer.scheduling.framework.scores import RawScores
from rebalancer.scheduling.state.cluster_state import ClusterState


def other_scores(
    state: ClusterState, class_index: int, feasible: IntArray, raw: Sequence[RawScores]
) -> tuple[Sequence[list[RawScores]], str]:
    """What the scheduler may have instead of ``raw``, and why that is not known where it is not."""
    choices: list[Sequence[RawScores]] = []
    for item in raw:
        others: Sequence[IntArray] | None = ()
        if item.plugin.is_uncertain:
            others = item.plugin.other_raw_scores(state, class_index)
        if others is None:
            return (), f"{item.plugin.name}: it may score the nodes in more ways than can be tried"
        choices.append((item, *(RawScores(item.plugin, item.weight, other[feasible]) for other in others)))
    if all(len(choice) == 1 for choice in choices):
        return (), ""
    return [list(choice) for choice in product(*choices)][1:], ""
