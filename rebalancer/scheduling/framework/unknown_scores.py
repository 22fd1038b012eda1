"""Chances of landing where some scores are not known, but all those that they may be.

Some scores depend on what the scheduler alone knows. ImageLocality counts one size of an image on all nodes,
that of the node which registered it first. Where nodes report several sizes of one name, the raw scores by
each of them are computed, and the nodes that any of them leads to are possible landings. Where there are too
many ways to try, bounds of the scores tell which nodes can be chosen at all.

Others depend on how many nodes are compared: PodTopologySpread weighs pods on a node by ln(nodes + 2). That
number is known, unless an extender rejects some of the nodes that a search found. Then searches are divided
by it, where the raw scores change:

    a search finds 100 of 130 nodes, an extender rejects 4 of the 130
    96 to 100 are left, 2 pods on a node    rnd(2·ln 98) = rnd(2·ln 102) = 9: nothing to divide
    11 pods on a node                       50 of 96 nodes, 51 of 97 and more: two kinds of searches
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from rebalancer.cluster.arrays import FloatArray, IntArray
from rebalancer.scheduling.framework.plugin import NO_OTHER_SCORES, Plugin
from rebalancer.scheduling.framework.sampling import AnySearch
from rebalancer.scheduling.framework.scores import RawScores
from rebalancer.scheduling.framework.start_index import TieBreak
from rebalancer.scheduling.state.cluster_state import ClusterState

MAX_KINDS = 12  # of searches, by how many nodes are left
Kind = tuple[float, AnySearch, Sequence[RawScores]]
"""The chance of such a search, the search, and what it scores."""


def outcome_by_size(
    state: ClusterState, pod_class: int, kinds: Sequence[Kind]
) -> tuple[FloatArray, TieBreak | None]:
    """(feasible,) the chances, and what decides among equal totals where nothing is drawn."""
    if len(kinds) == 1:
        return outcome(state, pod_class, *kinds[0][1:])
    chances = [share * outcome(state, pod_class, search, raw)[0] for share, search, raw in kinds]
    return np.asarray(np.sum(chances, axis=0), np.float64), None


def by_size(state: ClusterState, pod_class: int, search: AnySearch, raw: Sequence[RawScores]) -> list[Kind]:
    """The kinds of searches by their raw scores, ``raw`` those of the largest; none: there are too many."""
    sizes = search.sizes
    changing = [item for item in raw if _is_of_sample(item.plugin)] if len(sizes) > 1 else []

    def scored(size: int) -> list[IntArray]:
        by_plugin = (
            item.plugin.raw_scores_of_sample(state, pod_class, search.feasible, size) for item in changing
        )
        return [values for values in by_plugin if values is not None]

    def are_equal(left: Sequence[IntArray], right: Sequence[IntArray]) -> bool:
        return all(map(np.array_equal, left, right))

    latest = [item.raw for item in changing]
    if are_equal(scored(sizes[0]), latest):  # they never fall as nodes are added
        return [(1.0, search, raw)]
    kinds: list[Kind] = []
    most = sizes[-1]
    for size in reversed(range(sizes[0] - 1, sizes[-1])):
        values = scored(size) if size in sizes else []
        if values and are_equal(values, latest):
            continue
        share, part = search.of_sizes(size + 1, most)
        if part is not None:
            of_kind = dict(zip((item.plugin for item in changing), latest, strict=True))
            kinds.append(
                (
                    share,
                    part,
                    [RawScores(x.plugin, x.weight, of_kind.get(x.plugin, x.raw)) for x in raw],
                )
            )
        latest, most = values, size
        if len(kinds) > MAX_KINDS:
            return []
    return kinds


def _is_of_sample(plugin: Plugin) -> bool:
    return type(plugin).raw_scores_of_sample is not Plugin.raw_scores_of_sample


def outcome(
    state: ClusterState, pod_class: int, search: AnySearch, raw: Sequence[RawScores]
) -> tuple[FloatArray, TieBreak | None]:
    """(feasible,) the chances, and what decides among equal totals where nothing is drawn."""
    chance, tie = search.outcome(raw)
    uncertain = _with_other_scores(state, pod_class, search, raw) if len(search.feasible) > 1 else None
    return (chance, tie) if uncertain is None else (uncertain, None)


def _with_other_scores(
    state: ClusterState, pod_class: int, search: AnySearch, raw: Sequence[RawScores]
) -> FloatArray | None:
    """(feasible,) the chances, where some scores may be others than ``raw``; None where none may be.

    A node that only the bounds allow was missed by every draw, so it has the chance of one draw more.
    """
    others = {item.plugin.name: item.plugin.other_raw_scores(state, pod_class) for item in raw}
    if all(other is NO_OTHER_SCORES for other in others.values()):
        return None

    def choices(item: RawScores) -> Iterator[RawScores]:
        yield item
        for other in others[item.plugin.name].listed:
            yield RawScores(item.plugin, item.weight, other[search.feasible])

    chances = [search.chances(chosen) for chosen in product(*map(choices, raw))]
    chance = np.asarray(np.mean(chances, axis=0), np.float64)
    below, above = np.zeros((2, len(chance)), np.int64)
    exact: list[RawScores] = []
    for item in raw:
        bounds = others[item.plugin.name].bounds
        if bounds is None:
            exact.append(item)
        else:
            below += item.weight * bounds[0][search.feasible]
            above += item.weight * bounds[1][search.feasible]
    if len(exact) == len(raw):
        return chance
    possible = np.zeros(len(chance), np.bool_)
    for chosen in product(*map(choices, exact)):
        possible |= search.possible(chosen, below, above)
    missed = possible & (chance == 0.0)
    if missed.any():
        chance = (len(chances) * chance + missed / np.count_nonzero(missed)) / (len(chances) + 1)
    return chance
