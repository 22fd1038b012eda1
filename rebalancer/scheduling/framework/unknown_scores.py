"""Landing chances where a score has several possible values.

Some scores depend on what the scheduler alone knows. ImageLocality counts one size of an image on all nodes,
that of the node which registered it first. Where nodes report several sizes of one name, the raw scores by
each of them are computed, and the nodes that any of them leads to are possible landings. Where there are too
many ways to try, bounds of the scores tell which nodes can be chosen at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from rebalancer.cluster.arrays import FloatArray
from rebalancer.scheduling.framework.sampling import Search
from rebalancer.scheduling.framework.scores import RawScores, total_of


def chances_of_all_scores(search: Search, raw: Sequence[RawScores]) -> FloatArray:
    """(feasible,) the chances, where some scores may be others than ``raw``.

    A node that only the bounds allow was missed by every choice, so it has the chance of one choice more.
    """
    choices = [list(_choices(scores, search)) for scores in raw]
    chances = [search.chances(total_of(chosen, len(search.feasible))) for chosen in product(*choices)]
    chance = np.asarray(np.mean(chances, axis=0), np.float64)
    lowest = np.zeros(len(chance), np.int64)
    highest = np.zeros(len(chance), np.int64)
    exact: list[list[RawScores]] = []
    for scores, possible_scores in zip(raw, choices, strict=True):
        bounds = scores.others.bounds
        if bounds is None:
            exact.append(possible_scores)
            continue
        lowest += scores.weight * bounds[0][search.feasible]
        highest += scores.weight * bounds[1][search.feasible]
    if len(exact) == len(raw):
        return chance
    possible = np.zeros(len(chance), np.bool_)
    for chosen in product(*exact):
        total = total_of(chosen, len(chance))
        possible |= search.may_be_taken(total + lowest, total + highest)
    missed = possible & (chance == 0.0)
    if missed.any():
        chance = (len(chances) * chance + missed / np.count_nonzero(missed)) / (len(chances) + 1)
    return chance


def _choices(scores: RawScores, search: Search) -> Iterator[RawScores]:
    """The scores that a plugin may have."""
    yield scores
    for other in scores.others.listed:
        yield RawScores(scores.plugin, scores.weight, other[search.feasible])
