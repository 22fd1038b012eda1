"""Raw scores of plugins over the feasible nodes, and how they add up to the total that decides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import msgspec
import numpy as np

from rebalancer.cluster.arrays import IntArray
from rebalancer.scheduling.framework.plugin import (
    EXCLUDED,
    MAX_SCORE,
    NO_OTHER_SCORES,
    Alike,
    Normalization,
    OtherScores,
    Plugin,
)


class Scoring(msgspec.Struct, frozen=True, eq=False):
    """A score plugin as a profile has it."""

    plugin: Plugin
    weight: int
    has_others: bool  # the scheduler may have other raw scores

    @classmethod
    def of(cls, plugin: Plugin, weight: int) -> Scoring:
        """A plugin with its weight."""
        return cls(plugin, weight, type(plugin).other_raw_scores is not Plugin.other_raw_scores)


class RawScores:
    """One plugin's raw scores over some nodes, and how they become part of the total."""

    def __init__(
        self, plugin: Plugin, weight: int, raw: IntArray | Alike, others: OtherScores = NO_OTHER_SCORES
    ) -> None:
        """``raw`` is by node; ``others`` are those that the scheduler may have instead."""
        self.plugin = plugin
        self.weight = weight
        self.others = others
        self._given = raw

    @property
    def raw(self) -> IntArray:
        """(nodes,) the raw scores."""
        given = self._given
        return given.scores.raw.take(given.kind) if isinstance(given, Alike) else given

    @cached_property
    def extremes(self) -> tuple[int, int]:
        """Smallest and largest raw score of the nodes that take part."""
        given = self._given
        if isinstance(given, Alike):
            return given.scores.extremes
        smallest = int(np.minimum.reduce(given))
        largest = int(np.maximum.reduce(given))
        if smallest == EXCLUDED and largest != EXCLUDED:
            smallest = int(given[given != EXCLUDED].min())
        return smallest, largest

    @cached_property
    def weighted(self) -> IntArray:
        """(nodes,) the plugin's part of the total."""
        given = self._given
        if isinstance(given, Alike):
            return (self.weight * given.scores.normalized).take(given.kind)
        if self.plugin.normalization is Normalization.NONE:
            return self.weight * given
        return self.weight * self.plugin.normalize(given, *self.extremes)

    @property
    def is_out_of_range(self) -> bool:
        """Whether a score is outside 0..100."""
        return int(self.weighted.min()) < 0 or int(self.weighted.max()) > MAX_SCORE * self.weight

    def of(self, feasible: IntArray) -> RawScores:
        """The scores of some of the rows that these are of, given in ascending order without repetition."""
        raw = self.raw
        if len(feasible) == len(raw):
            return self
        return RawScores(self.plugin, self.weight, raw.take(feasible), self.others)


def total_of(scores: Iterable[RawScores], nodes: int) -> IntArray:
    """(nodes,) the sum of the weighted scores."""
    total = np.zeros(nodes, np.int64)
    for plugin_scores in scores:
        total += plugin_scores.weighted
    return total


class StaticScores(msgspec.Struct, frozen=True, eq=False):
    """The scores of a class that no other pod has a part in."""

    order: Sequence[str]  # the plugins that score, as their profile has them
    # (nodes,) of each of those that score the class: those in ``added`` and those of ``compared``
    scores: Sequence[RawScores]
    added: IntArray | int  # (nodes,) the sum of those that are the same whichever nodes are compared
    compared: Sequence[RawScores]  # the other ones of ``scores``
    may_be_others: bool  # the scheduler may have other raw scores for one of ``scores``

    @classmethod
    def of(cls, scores: Iterable[RawScores], order: Sequence[str]) -> StaticScores:
        """The static ``scores``, which are all within 0..100 or are looked at in every placement."""
        static = tuple(scores)
        compared = tuple(plugin_scores for plugin_scores in static if not _is_settled(plugin_scores))
        settled = [plugin_scores for plugin_scores in static if plugin_scores not in compared]
        added = total_of(settled, len(settled[0].raw)) if settled else 0
        may_be_others = any(plugin_scores.others is not NO_OTHER_SCORES for plugin_scores in static)
        return cls(order, static, added, compared, may_be_others)

    def with_more(self, plugin: str, more: IntArray) -> StaticScores:
        """The same where one plugin, if it scores the class, has (nodes,) so ``more`` raw score."""
        before = next(
            (plugin_scores for plugin_scores in self.scores if plugin_scores.plugin.name == plugin), None
        )
        if before is None:
            return self
        after = RawScores(before.plugin, before.weight, before.raw + more, before.others)
        scores = [after if plugin_scores is before else plugin_scores for plugin_scores in self.scores]
        compared = [plugin_scores for plugin_scores in self.compared if plugin_scores is not before]
        added = self.added if len(compared) < len(self.compared) else self.added - before.weighted
        return StaticScores(self.order, scores, added, (*compared, after), self.may_be_others)


def _is_settled(scores: RawScores) -> bool:
    """Whether the part of the total is the same, and allowed, whichever nodes are compared."""
    if not len(scores.raw) or scores.is_out_of_range:
        return False
    smallest, largest = scores.extremes
    return smallest == largest or not scores.plugin.normalization.compares_nodes


class ClassScores(Mapping[str, IntArray]):
    """(feasible,) weighted scores by plugin, all feasible nodes compared."""

    def __init__(self, static: StaticScores, changing: Sequence[RawScores], feasible: IntArray) -> None:
        """``changing`` are by feasible node."""
        self._static = static
        self._changing = changing
        self._feasible = feasible
        self._compared = [scores.of(feasible) for scores in static.compared] if static.compared else ()
        total: IntArray
        if isinstance(static.added, int):
            total = np.full(len(feasible), static.added)
        else:
            total = static.added.take(feasible)
        for items in (self._compared, changing):
            for scores in items:
                total += scores.weighted
        self.total = total  # (feasible,) the sum of all; read it only

    @cached_property
    def by_plugin(self) -> dict[str, RawScores]:
        """(feasible,) raw scores of each plugin that scores the class, in the order of the profile."""
        by_name = {scores.plugin.name: scores.of(self._feasible) for scores in self._static.scores}
        by_name |= {scores.plugin.name: scores for scores in self._changing}
        return {name: by_name[name] for name in self._static.order if name in by_name}

    def __getitem__(self, plugin: str) -> IntArray:
        return self.by_plugin[plugin].weighted

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_plugin)

    def __len__(self) -> int:
        return len(self.by_plugin)

    @property
    def out_of_range(self) -> str:
        """Why the pod's cycle fails: a plugin's score outside 0..100; empty when there is none."""
        for items in (self._compared, self._changing):
            for scores in items:
                plugin = scores.plugin
                if not (plugin.is_in_range or plugin.of_extender) and scores.is_out_of_range:
                    return f"{plugin.name}: a score outside 0..{MAX_SCORE}"
        return ""

    @property
    def may_be_others(self) -> bool:
        """Whether the scheduler may have other raw scores, by facts that it alone knows."""
        if self._static.may_be_others:
            return True
        return any(scores.others is not NO_OTHER_SCORES for scores in self._changing)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the scores should know, a plugin at a time."""
        notes: list[str] = []
        for scores in (*self._static.scores, *self._changing):
            text = scores.plugin.note(scores.of(self._feasible).raw)
            if text:
                notes.append(f"{scores.plugin.name}: {text}")
        return tuple(notes)

    def beside(self, plugin: str, here: IntArray, there: IntArray) -> IntArray:
        """(here, there) by raw scores: 1 where a plugin prefers the node there, −1 the one here, or 0."""
        scores = self.by_plugin[plugin]
        smallest, largest = scores.extremes
        low, high = scores.plugin.normalize(np.array([smallest, largest]), smallest, largest).tolist()
        sign = np.sign(scores.raw[there] - scores.raw[here][:, None])
        return np.asarray(sign if high > low else -sign, np.int64)
