"""Scores of extenders, from the file that says what they are."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from rebalancer.documents import Document, did_you_mean, validate
from rebalancer.policy.extenders import ExtenderScore, ExtenderScores, parse_scores
from rebalancer.policy.schedulers import PrometheusScore
from rebalancer.profiles.types import Arguments, PluginDescription, PluginQuery, RawArguments
from rebalancer.scheduling.extenders import Score, cannot_be_computed
from rebalancer.scheduling.framework.plugin import Normalization
from rebalancer.scheduling.plugins.prometheus_score import Definition, Direction, described_score
from rebalancer.scheduling.registry import CATALOGUE, described


def read_scores(text: str, source: str) -> tuple[ExtenderScores, tuple[Score, ...]]:
    """What an extender computes; InputError with file and line for whatever it cannot."""
    settings, document = parse_scores(text, source)
    scores: dict[str, Score] = {}
    for index, item in enumerate(settings.scores):
        score = _score(item, settings.max_score, document, ("scores", index))
        if score.name in scores:
            raise document.error(("scores", index), f"{score.name} is there twice", hint="give it a name")
        scores[score.name] = score
    return settings, tuple(scores.values())


def described_query(name: str, score: PrometheusScore) -> PluginDescription:
    """The plugin that scores by a query."""
    return described_score(
        Definition(
            plugin=name,
            query=PluginQuery(score.address, score.query, score.node_label),
            direction=Direction(score.direction),
            normalization=Normalization(score.normalization),
            scale=score.scale,
            missing_score=score.missing_score,
            resource=score.resource or "",
        )
    )


def _score(item: ExtenderScore, max_score: int, document: Document, path: tuple[str | int, ...]) -> Score:
    if item.prometheus_score is not None:
        assert item.name is not None
        plugin, arguments = described_query(item.name, item.prometheus_score), None
    else:
        where = (*path, "plugin" if item.plugin is not None else "class")
        if item.plugin is not None:
            if item.plugin not in CATALOGUE:
                raise document.error(
                    where, f"{item.plugin} is unknown", hint=did_you_mean(item.plugin, CATALOGUE)
                )
            plugin = CATALOGUE[item.plugin]
        else:
            assert item.python_class is not None
            plugin = _imported(item.python_class, document, where)
        if why := cannot_be_computed(plugin):
            raise document.error(where, f"an extender cannot compute {plugin.name}: {why}")
        arguments = _arguments(plugin, item.args, document, (*path, "args"))
    return Score(item.name or plugin.name, plugin, arguments, item.weight, max_score, item.reject_above)


def _imported(named: str, document: Document, path: tuple[str | int, ...]) -> PluginDescription:
    module, _, name = named.partition(":")
    try:
        found = getattr(import_module(module), name)
    except Exception as error:
        hint = "is its folder on PYTHONPATH?"
        raise document.error(
            path, f"cannot be loaded: {type(error).__name__}: {error!s:.200}", hint=hint
        ) from error
    try:
        return described(found, document.position(path))
    except TypeError as error:
        raise document.error(path, str(error)) from error


def _arguments(
    plugin: PluginDescription, args: Mapping[str, Any], document: Document, path: tuple[str | int, ...]
) -> Arguments | None:
    if plugin.arguments is RawArguments:
        return RawArguments(values=args)
    if plugin.arguments is None:
        if args:
            raise document.error(path, f"{plugin.name} takes no arguments")
        return None
    return validate(plugin.arguments, document, path=path[:-1] if not args else path, value=dict(args))
