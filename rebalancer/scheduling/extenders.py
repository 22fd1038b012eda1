"""Scores of an extender: plugins whose scores reach the scheduler as a few whole numbers over HTTP.

The scheduler multiplies what an extender answers for a node by the extender's weight and by ten, and adds it
to the plugins' total. It checks neither that an answer is at most ten, nor that each node has one.

    PodCapacityOfNode scores    84      80      77
    answered with maxScore 10    8       8       7      added 80, 80, 70: the first two are equal
    answered with maxScore 100  84      80      77      added 840, 800, 770

Each score of an extender is rounded down by itself and then weighted, so that in the model it is one plugin
more. Of nodes without a figure it says 0, or missingScore; without any figure it says nothing.

What an extender of others would do nobody can compute. Where a policy says so it is asked when the cluster is
read, as the scheduler asks it, and what it answered stands for what it will answer: the nodes it rejects, and
its scores as they are, however large. About a node or a class that it was not asked about nothing is known.

Source: kubernetes v1.34.4 pkg/scheduler/schedule_one.go:854; the same in v1.31.14 to v1.37.2.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec
import numpy as np
from msgspec.structs import replace

from rebalancer.cluster.arrays import IntArray
from rebalancer.cluster.pod_classes import PodClass, key_of
from rebalancer.profiles.types import (
    Arguments,
    Extender,
    ExtenderAnswer,
    ExtenderAnswers,
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
from rebalancer.scheduling.state.cluster_state import ClusterState, once_a_class

FILTER, PRIORITIZE = "filter", "prioritize"
MAX_EXTENDER_SCORE = 10
NO_ANSWERS: Mapping[str, ExtenderAnswers] = {}
_STEP = MAX_SCORE // MAX_EXTENDER_SCORE
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
            known = self._inner.has_figures(state, pod_class)
            if known is None or not known[feasible].any():
                return None
            return np.where(known[feasible], raw, EXCLUDED)
        return np.asarray(raw, np.int64)

    @property
    def recent_pods(self) -> Iterable[int]:
        return self._inner.recent_pods

    def has_figures(self, state: ClusterState, pod_class: int) -> Any:
        return self._inner.has_figures(state, pod_class)

    def normalize(self, raw: IntArray, smallest: int, largest: int) -> IntArray:
        """The plugin's score rounded down to a step of the extender; without a figure missingScore, or 0."""
        known = raw != EXCLUDED
        scores = self._inner.normalize(np.where(known, raw, 0), smallest, largest)
        scores = np.clip(np.where(known, scores, self._missing or 0), 0, MAX_SCORE)
        return np.asarray(scores // self._step * self._step, np.int64)

    def answer(self, state: ClusterState, pod_class: int, rows: IntArray, weight: int) -> IntArray | None:
        """(rows,) what this adds to the extender's answer for nodes, ascending; None: nothing."""
        raw = self.raw_scores(state, pod_class, rows)
        return None if raw is None else RawScores(self, weight, raw).weighted_by_all // self._step


def digest_of_class(pod: PodClass) -> str:
    """What a class of pods is called among an extender's answers: the same live and recorded."""
    return hashlib.sha256(key_of(pod)).hexdigest()[:32]


def answer_about(answers: ExtenderAnswers, pod: PodClass) -> ExtenderAnswer:
    """What was answered about a class; it may be unusable."""
    return answers.by_class.get(digest_of_class(pod)) or ExtenderAnswer(unusable=answers.unasked)


class AskedExtender(Plugin):
    """What another's extender answered, for as long as it would answer the same."""

    of_extender = True

    def __init__(self, name: str, extender: Extender, answers: ExtenderAnswers) -> None:
        self.name = name
        self._extender = extender
        self._answers = answers

    @once_a_class
    def _answer(self, state: ClusterState, pod_class: int) -> ExtenderAnswer | None:
        """The answer about a class; None where the extender is not asked about its pods."""
        pod = state.classes[pod_class]
        return answer_about(self._answers, pod) if self._extender.is_interested(pod) else None

    @once_a_class
    def filter(self, state: ClusterState, pod_class: int) -> IntArray:
        """(nodes,) 0 where it passes, else the number of the reason."""
        answer = self._answer(state, pod_class)
        rejected = {} if answer is None else answer.rejected
        number = {reason: at for at, reason in enumerate(_reasons(answer), 1)}
        return np.array([number.get(rejected.get(name, ""), 0) for name in state.nodes.names], np.int64)

    def reason(self, state: ClusterState, pod_class: int, code: int) -> str:
        return _reasons(self._answer(state, pod_class))[code - 1]

    def fails(self, state: ClusterState, pod_class: int, feasible: IntArray) -> str:
        """Why it is not known what it does with a pod on these nodes."""
        answer = self._answer(state, pod_class)
        if answer is None or answer.unusable:
            return "" if answer is None else answer.unusable
        asked = next(iter(self._answers.nodes[answer.nodes :]), ())  # a recording may have fewer
        known = state.classes.cached(
            pod_class, self, "asked", lambda: np.isin(np.array(state.nodes.names), np.array(asked))
        )
        unknown = feasible[~known[feasible]]
        return f"it was not asked about {state.nodes.names[unknown[0]]}" if len(unknown) else ""

    def raw_scores(self, state: ClusterState, pod_class: int, feasible: IntArray) -> IntArray | None:
        """(feasible,) as it answered; None where it scores nothing."""
        answer = self._answer(state, pod_class)
        if answer is None or not answer.scores:
            return None
        scores = state.classes.cached(
            pod_class,
            self,
            "scores",
            lambda: np.array([answer.scores.get(name, 0) for name in state.nodes.names], np.int64),
        )
        return np.asarray(scores[feasible], np.int64)


def _reasons(answer: ExtenderAnswer | None) -> list[str]:
    return [] if answer is None else sorted(set(answer.rejected.values()))


def not_ours(extender: Extender) -> str:
    """Why an extender cannot be a ``rebalancer extender`` as a configuration has it; empty where it can."""
    if extender.filter_verb not in ("", FILTER) or extender.prioritize_verb not in ("", PRIORITIZE):
        return f"the verbs of a rebalancer extender are {FILTER} and {PRIORITIZE}"
    if extender.bind_verb or extender.preempt_verb:
        return "a rebalancer extender neither binds nor preempts"
    return "" if extender.node_cache_capable else "a rebalancer extender needs nodeCacheCapable: true"


def with_extenders(
    configuration: SchedulerConfiguration,
    scores: Mapping[str, Iterable[Score]],
    answers: Mapping[str, ExtenderAnswers] = NO_ANSWERS,
) -> SchedulerConfiguration:
    """The configuration in which what extenders compute is among the plugins of each profile.

    ``scores`` are by the address of the extender, and so are the answers of those that are asked.
    """
    profiles, plugins = list(configuration.profiles), dict(configuration.plugins)
    added: dict[str, PluginDescription] = {}
    computed: set[str] = set()
    for number, extender in enumerate(configuration.extenders):
        for score in scores.get(extender.url, ()) if not not_ours(extender) else ():
            computed.add(extender.url)
            name = f"extender/{score.name}"
            name = f"{name} {number + 1}" if name in plugins or name in added else name
            added[name] = _described(name, score, extender)
            profiles = [_with_score(profile, added[name], score, extender) for profile in profiles]
        if extender.url in answers and extender.url not in computed:
            name = f"extender/{urlsplit(extender.url).netloc.rpartition('@')[2]}"
            name = f"{name} {number + 1}" if name in plugins or name in added else name
            added[name] = _asked(name, extender, answers[extender.url])
            profiles = [_with_answers(profile, name, extender) for profile in profiles]
    return replace(
        configuration,
        profiles=tuple(profiles),
        plugins={**plugins, **added},
        extra_plugins={**configuration.extra_plugins, **added},
        computed=frozenset(computed),
        answers={url: answers[url] for url in sorted(answers.keys() - computed)},
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


def _asked(name: str, extender: Extender, answers: ExtenderAnswers) -> PluginDescription:
    def make(_arguments: Arguments | None, _inputs: PluginInputs) -> Plugin:
        return AskedExtender(name, extender, answers)

    points = frozenset((ExtensionPoint.FILTER, ExtensionPoint.SCORE))
    return PluginDescription(name, points, make=make, every_node=False, of_extender=True)


def _with_answers(profile: Profile, name: str, extender: Extender) -> Profile:
    """A profile with the verdicts and scores of an extender that was asked."""
    plugins = dict(profile.plugins)
    for point in (ExtensionPoint.FILTER, ExtensionPoint.SCORE):
        if point is ExtensionPoint.SCORE or extender.filter_verb:
            plugins[point] = (*profile.enabled(point), name)
    return replace(profile, plugins=plugins, weights={**profile.weights, name: extender.weight * _STEP})


def _with_score(profile: Profile, plugin: PluginDescription, score: Score, extender: Extender) -> Profile:
    """A profile with one score more, and with its filter, as the extender's verbs have it."""
    plugins, weights = dict(profile.plugins), dict(profile.weights)
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
