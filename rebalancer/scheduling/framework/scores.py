"""Raw scores of a plugin over the feasible nodes, and how they become part of the total."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np

from rebalancer.cluster.arrays import IntArray
from rebalancer.scheduling.framework.plugin import EXCLUDED, MAX_SCORE, Normalization, Plugin


class RawScores:
    """One plugin's raw scores over the feasible nodes, and how they become part of the total."""

    def __init__(self, plugin: Plugin, weight: int, raw: IntArray) -> None:
        """``raw`` is by feasible node."""
        self.plugin = plugin
        self.weight = weight
        self.raw = raw

    @cached_property
    def extremes(self) -> tuple[int, int]:
        """Smallest and largest raw score of the feasible nodes that take part."""
        smallest = int(self.raw.min())
        largest = int(self.raw.max())
        if smallest == EXCLUDED and largest != EXCLUDED:
            smallest = int(self.raw[self.raw != EXCLUDED].min())
        return smallest, largest

    @cached_property
    def weighted(self) -> IntArray:
        """(feasible,) the plugin's part of the total."""
        if self.plugin.normalization is Normalization.NONE:
            return self.weight * self.raw
        return self.weight * self.plugin.normalize(self.raw, *self.extremes)

    @property
    def is_out_of_range(self) -> bool:
        """Whether a score is outside 0..100."""
        return int(self.weighted.min()) < 0 or int(self.weighted.max()) > MAX_SCORE * self.weight

    def of(self, feasible: IntArray) -> RawScores:
        """The scores of some of the rows that these are of, given in ascending order without repetition."""
        if len(feasible) == len(self.raw):
            return self
        return RawScores(self.plugin, self.weight, self.raw.take(feasible))


def total_of(scores: Iterable[RawScores], nodes: int) -> IntArray:
    """(nodes,) the sum of the weighted scores."""
    total = np.zeros(nodes, np.int64)
    for plugin_scores in scores:
        total += plugin_scores.weighted
    return total


class WeightedScores(Mapping[str, IntArray]):
    """(feasible,) weighted scores by plugin, all feasible nodes compared; computed on first use."""

    def __init__(self, raw: Sequence[RawScores]) -> None:
        self._raw = {item.plugin.name: item for item in raw}

    def __getitem__(self, plugin: str) -> IntArray:
        return self._raw[plugin].weighted

    def __iter__(self) -> Iterator[str]:
        return iter(self._raw)

    def __len__(self) -> int:
        return len(self._raw)

    def raw(self, plugin: str) -> IntArray:
        """(feasible,) raw scores of a plugin."""
        return self._raw[plugin].raw

    def beside(self, plugin: str, here: IntArray, there: IntArray) -> IntArray:
        """(here, there) by raw scores: 1 where a plugin prefers the node there, −1 the one here, or 0."""
        item = self._raw[plugin]
        smallest, largest = item.extremes
        low, high = item.plugin.normalize(np.array([smallest, largest]), smallest, largest).tolist()
        sign = np.sign(item.raw[there] - item.raw[here][:, None])
        return np.asarray(sign if high > low else -sign, np.int64)


def notes(raw: Sequence[RawScores]) -> Iterator[str]:
    """What a reader of the scores should know, a plugin at a time."""
    for item in raw:
        if message := item.plugin.note(item.raw):
            yield f"{item.plugin.name}: {message}"


def out_of_range(raw: Sequence[RawScores]) -> str:
    """Why the pod's cycle fails: a plugin's score outside 0..100; empty when there is none."""
    for item in raw:
        if not item.plugin.of_extender and item.is_out_of_range:
            return f"{item.plugin.name}: a score outside 0..{MAX_SCORE}"
    return ""
