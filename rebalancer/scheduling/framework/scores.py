"""Raw scores of a plugin over the feasible nodes, and how they become part of the total."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from rebalancer.cluster.arrays import IntArray
from rebalancer.scheduling.framework.plugin import EXCLUDED, MAX_SCORE, Normalization, Plugin

_MAX_TABLE_VALUES = 1 << 12  # values of a plugin


class RawScores:
    """One plugin's raw scores over the feasible nodes, and how they become part of the total."""

    __slots__ = (
        "_extremes",
        "_has_excluded",
        "_is_out_of_range",
        "_lowest",
        "_tables",
        "_weighted",
        "plugin",
        "raw",
        "weight",
    )

    def __init__(self, plugin: Plugin, weight: int, raw: IntArray) -> None:
        """``raw`` is by feasible node."""
        self.plugin = plugin
        self.weight = weight
        self.raw = raw
        self._weighted: IntArray | None = None
        self._is_out_of_range: bool | None = None
        self._tables: dict[tuple[int, int], IntArray] = {}
        self._lowest, largest = int(np.minimum.reduce(raw)), int(np.maximum.reduce(raw))
        smallest = self._lowest
        self._has_excluded = smallest == EXCLUDED
        if self._has_excluded:
            smallest = -int(self.negated(raw).max())
        self._extremes = smallest, largest

    def weighted(self, smallest: int, largest: int, values: IntArray | None = None) -> IntArray:
        """(values,) the plugin's part of the total, of all its raw scores or of some."""
        values = self.raw if values is None else values
        if self.plugin.normalization is Normalization.NONE:
            return values if self.weight == 1 else self.weight * values
        table = self._table(smallest, largest)
        if table is None:
            return self.weight * self.plugin.normalize(values, smallest, largest)
        return table.take(values - self._lowest)

    def _table(self, smallest: int, largest: int) -> IntArray | None:
        """The plugin's part of the total by raw score, from the lowest on; None when there are too many."""
        table = self._tables.get((smallest, largest))
        if table is not None:
            return table
        lowest, highest = self._lowest, self._extremes[1]
        if highest - lowest >= min(_MAX_TABLE_VALUES, len(self.raw)):
            return None
        table = self.weight * self.plugin.normalize(np.arange(lowest, highest + 1), smallest, largest)
        self._tables[smallest, largest] = table
        return table

    @property
    def weighted_by_all(self) -> IntArray:
        """(feasible,) the plugin's part of the total when all feasible nodes are compared."""
        if self._weighted is None:
            self._weighted = self.weighted(*self._extremes)
        return self._weighted

    def extremes(self) -> tuple[int, int]:
        """Smallest and largest raw score of the feasible nodes that take part."""
        return self._extremes

    @property
    def is_constant(self) -> bool:
        """Whether all raw scores are the same, so that every sample has the same extremes."""
        return self._lowest == self._extremes[1]

    def negated(self, values: IntArray) -> IntArray:
        """(values,) raw scores negated, so that their maximum is the negated smallest raw score.

        Excluded nodes have the lowest integer as raw score. Negated it would overflow, and it must not become
        the maximum either, so it is replaced by the lowest value that has a counterpart.
        """
        return (
            np.where(values == EXCLUDED, -np.iinfo(np.int64).max, -values) if self._has_excluded else -values
        )

    @property
    def is_out_of_range(self) -> bool:
        """Whether a score, all feasible nodes compared, is outside 0..100."""
        if self._is_out_of_range is None:
            self._is_out_of_range = self._leaves_range()
        return self._is_out_of_range

    def _leaves_range(self) -> bool:
        if self.plugin.normalization is Normalization.NONE:
            smallest, largest = self._extremes
            return smallest < 0 or largest > MAX_SCORE
        table = self._table(*self._extremes)
        return not (self._in_range(table) or self._in_range(self.weighted_by_all))

    def _in_range(self, scores: IntArray | None) -> bool:
        return scores is not None and int(scores.min()) >= 0 and int(scores.max()) <= MAX_SCORE * self.weight

    def of(self, feasible: IntArray) -> RawScores:
        """The scores of some of the rows that these are of, given in ascending order without repetition."""
        if len(feasible) == len(self.raw):
            return self
        if self.is_constant:
            subset = object.__new__(RawScores)
            subset.plugin, subset.weight, subset.raw = self.plugin, self.weight, self.raw[: len(feasible)]
            subset._lowest, subset._has_excluded, subset._extremes = (
                self._lowest,
                self._has_excluded,
                self._extremes,
            )
            subset._tables, subset._weighted = self._tables, None
            subset._is_out_of_range = self.is_out_of_range
            return subset
        return RawScores(self.plugin, self.weight, self.raw.take(feasible))


class WeightedScores(Mapping[str, IntArray]):
    """(feasible,) weighted scores by plugin, all feasible nodes compared; computed on first use."""

    def __init__(self, raw: Sequence[RawScores]) -> None:
        self._raw = {item.plugin.name: item for item in raw}

    def __getitem__(self, plugin: str) -> IntArray:
        return self._raw[plugin].weighted_by_all

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
        smallest, largest = item.extremes()
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
