"""Scores of an extender: plugins whose scores reach the scheduler as a few whole numbers over HTTP.

The scheduler multiplies what an extender answers for a node by the extender's weight and by ten, and adds it
to the plugins' total. It checks neither that an answer is at most ten, nor that each node has one.

    PodCapacityOfNode scores    84      80      77
    answered with maxScore 10    8       8       7      added 80, 80, 70: the first two are equal
    answered with maxScore 100  84      80      77      added 840, 800, 770

Each score of an extender is rounded down by itself and then weighted, so that in the model it is one plugin
more. Of nodes without a figure it says 0, or missingScore; without any figure it says nothing.

What an extender of others would do nobody can compute: the pods that it is asked about are unpredictable.

Source: kubernetes v1.34.4 pkg/scheduler/schedule_one.go:854; the same in v1.31.14 to v1.37.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from rebalancer.cluster.arrays import IntArray
from rebalancer.profiles.types import (
    Arguments,
    Extender,
    ExtensionPoint,
    Input,
    PluginDescription,
    Profile,
    SchedulerConfiguration,
)
from rebalancer.scheduling.framework.plugin import EXCLUDED, MAX_SCORE, Normalization, Plugin, PluginInputs
from rebalancer.scheduling.framework.scores import RawScores
from rebalancer.scheduling.plugins.prometheus_score import QueriedScore
from rebalancer.scheduling.registry import CATALOGUE, MODELLED
from rebalancer.scheduling.state.cluster_state import ClusterState

FILTER = "filter"
PRIORITIZE = "prioritize"
MAX_EXTENDER_SCORE = 10
_READ = frozenset((Input.NODES, Input.PODS, Input.WATCHER, Input.PROMETHEUS))


class Score(msgspec.Struct, frozen=True):
    """One score of an extender, as its file has it."""

    name: str
    plugin: PluginDescription
    arguments: Arguments | None = None
    weight: int = 1
    max_score: int = MAX_EXTENDER_SCORE
    reject_above: float | None = None


def cannot_be_computed(plugin: PluginDescription) -> str:
    """Why an extender cannot compute what a plugin does; empty where it can."""
    modelled = MODELLED.get(plugin.name)
    if plugin.make is None or not plugin.points & {ExtensionPoint.FILTER, ExtensionPoint.SCORE}:
        return "it is not modelled"
    if modelled is not None and modelled.other_raw_scores is not Plugin.other_raw_scores:
        return "it scores by what the scheduler alone knows"
    if modelled is not None and (modelled.needs_pre_filter or modelled.needs_pre_score):
        return "it prepares its scores where an extender is not asked"
    if unread := sorted(plugin.inputs - _READ):
        return f"it reads {', '.join(unread)}"
    return ""


class ExtenderScore(Plugin):
    """What an extender answers for one of its scores, brought to 0..100."""

    of_extender = True
    normalization = Normalization.EACH

    def __init__(self, name: str, score: Score, inner: Plugin, extender: Extender) -> None:
        """``inner`` is the plugin of the score."""
        self.name = name
        self._inner = inner
        self._extender = extender
        self._reject_above = score.reject_above
        self._missing = inner.missing_score if isinstance(inner, QueriedScore) else None
        self._step = MAX_SCORE // score.max_score
        self._filters = ExtensionPoint.FILTER in score.plugin.points
        self.rejects = self._filters or score.reject_above is not None
        compares = inner.normalization.compares_nodes
        self.normalization = inner.normalization if compares else Normalization.EACH

    def filter(self, state: ClusterState, pod_class: int) -> IntArray:
        """(nodes,) the code of the plugin's own filter, or 1 where the value is too large."""
        if not self._extender.is_interested(state.classes[pod_class]):
            return np.zeros(len(state.nodes), np.int64)
        if self._reject_above is not None and isinstance(self._inner, QueriedScore):
            return np.asarray(self._inner.values_of_nodes(state) > self._reject_above, np.int64)
        return self._inner.filter(state, pod_class) if self._filters else super().filter(state, pod_class)

    def reason(self, state: ClusterState, pod_class: int, code: int) -> str:
        if self._reject_above is not None:
            return f"its value is above {self._reject_above:g}"
        return self._inner.reason(state, pod_class, code)

    def raw_scores(self, state: ClusterState, pod_class: int, feasible: IntArray) -> IntArray | None:
        """(feasible,) the plugin's; None where no node has a figure, or the extender is not asked."""
        if not self._extender.is_interested(state.classes[pod_class]):
            return None
        raw = self._inner.raw_scores(state, pod_class, feasible)
        if raw is None:
            return None
        if self._missing is not None or self._inner.fails(state, pod_class, feasible):
            has_figures = self._inner.has_figures(state, pod_class)
            if has_figures is None or not has_figures[feasible].any():
                return None
            return np.where(has_figures[feasible], raw, EXCLUDED)
        return np.asarray(raw, np.int64)

    def has_figures(self, state: ClusterState, pod_class: int) -> Any:
        return self._inner.has_figures(state, pod_class)

    def normalize(self, raw: IntArray, smallest: int, largest: int) -> IntArray:
        """The plugin's score rounded down to a step of the extender; without a figure missingScore, or 0."""
        has_figure = raw != EXCLUDED
        scores = self._inner.normalize(np.where(has_figure, raw, 0), smallest, largest)
        scores = np.clip(np.where(has_figure, scores, self._missing or 0), 0, MAX_SCORE)
        return np.asarray(scores // self._step * self._step, np.int64)

    def answer(self, state: ClusterState, pod_class: int, rows: IntArray, weight: int) -> IntArray | None:
        """(rows,) what this adds to the extender's answer for nodes, ascending; None: nothing."""
        raw = self.raw_scores(state, pod_class, rows)
        return None if raw is None else RawScores(self, weight, raw).weighted // self._step


def not_ours(extender: Extender) -> str:
    """Why an extender cannot be a ``rebalancer extender`` as a configuration has it; empty where it can."""
    if extender.filter_verb not in ("", FILTER) or extender.prioritize_verb not in ("", PRIORITIZE):
        return f"the verbs of a rebalancer extender are {FILTER} and {PRIORITIZE}"
    if extender.bind_verb or extender.preempt_verb:
        return "a rebalancer extender neither binds nor preempts"
    return "" if extender.node_cache_capable else "a rebalancer extender needs nodeCacheCapable: true"


def with_extenders(
    configuration: SchedulerConfiguration, scores: Mapping[str, Iterable[Score]]
) -> SchedulerConfiguration:
    """The configuration in which what extenders compute is among the plugins of each profile.

    ``scores`` are by the address of the extender.
    """
    profiles = list(configuration.profiles)
    plugins = dict(configuration.plugins)
    added: dict[str, PluginDescription] = {}
    computed: set[str] = set()
    for number, extender in enumerate(configuration.extenders):
        for score in scores.get(extender.url, ()) if not not_ours(extender) else ():
            computed.add(extender.url)
            name = f"extender/{score.name}"
            name = f"{name} {number + 1}" if name in plugins or name in added else name
            added[name] = _described(name, score, extender)
            profiles = [_with_score(profile, added[name], score, extender) for profile in profiles]
    return replace(
        configuration,
        profiles=tuple(profiles),
        plugins={**plugins, **added},
        extra_plugins={**configuration.extra_plugins, **added},
        computed=frozenset(computed),
    )


def _described(name: str, score: Score, extender: Extender) -> PluginDescription:
    inner = score.plugin
    modelled = MODELLED.get(inner.name) if inner is CATALOGUE.get(inner.name) else None

    def make(arguments: Arguments | None, inputs: PluginInputs) -> Plugin:
        assert inner.make is not None
        return ExtenderScore(name, score, inner.make(arguments, inputs), extender)

    return replace(
        inner,
        name=name,
        make=make,
        queries=inner.queries if modelled is None else modelled.queries(score.arguments),
        every_node=False,
        process_wide_arguments=(),
        of_extender=True,
    )


def _with_score(profile: Profile, plugin: PluginDescription, score: Score, extender: Extender) -> Profile:
    """A profile with one score more, and with its filter, as the extender's verbs have it."""
    plugins = dict(profile.plugins)
    weights = dict(profile.weights)
    rejects = score.reject_above is not None or ExtensionPoint.FILTER in score.plugin.points
    if extender.filter_verb and rejects:
        plugins[ExtensionPoint.FILTER] = (*profile.enabled(ExtensionPoint.FILTER), plugin.name)
    if extender.prioritize_verb and ExtensionPoint.SCORE in score.plugin.points:
        plugins[ExtensionPoint.SCORE] = (*profile.enabled(ExtensionPoint.SCORE), plugin.name)
        weights[plugin.name] = extender.weight * score.weight * (score.max_score // MAX_EXTENDER_SCORE)
    arguments = dict(profile.arguments)
    if score.arguments is not None:
        arguments[plugin.name] = score.arguments
    return replace(profile, plugins=plugins, weights=weights, arguments=arguments)
