"""Scores of extenders, from the file that says what they are.

The file names plugins and never code: whoever may write it, or a ConfigMap that holds it, has nothing
imported that is not installed as a plugin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rebalancer.addresses import checked_address
from rebalancer.documents import Document, did_you_mean, validate
from rebalancer.policy.extenders import ExtenderScore, ExtenderScores, parse_scores
from rebalancer.policy.schedulers import PrometheusScore
from rebalancer.profiles.types import Arguments, PluginDescription, PluginQuery, RawArguments
from rebalancer.scheduling.extenders import Score, cannot_be_computed
from rebalancer.scheduling.framework.plugin import Normalization
from rebalancer.scheduling.plugins.prometheus_score import Definition, Direction, described_score
from rebalancer.scheduling.registry import CATALOGUE, ENTRY_POINT_GROUP


def read_scores(
    text: str, source: str, installed_plugins: Callable[[], Iterable[PluginDescription]] = tuple
) -> tuple[ExtenderScores, tuple[Score, ...]]:
    """What an extender computes; InputError with file and line for whatever it cannot.

    ``installed_plugins`` are asked for where a plugin is none of those that are shipped.
    """
    settings, document = parse_scores(text, source)
    scores: dict[str, Score] = {}
    for index, item in enumerate(settings.scores):
        score = _score(item, settings.max_score, document, ("scores", index), installed_plugins)
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


def _score(
    item: ExtenderScore,
    max_score: int,
    document: Document,
    path: tuple[str | int, ...],
    installed_plugins: Callable[[], Iterable[PluginDescription]],
) -> Score:
    if item.prometheus_score is not None:
        assert item.name is not None
        plugin, arguments = described_query(item.name, item.prometheus_score), None
    else:
        assert item.plugin is not None
        where, known = (*path, "plugin"), CATALOGUE
        if item.plugin not in known:
            known = {**CATALOGUE, **{found.name: found for found in installed_plugins()}}
        if item.plugin not in known:
            fallback = f"install a plugin of your own by an entry point of the group {ENTRY_POINT_GROUP}"
            hint = did_you_mean(item.plugin, known, fallback=fallback)
            raise document.error(where, f"{item.plugin} is unknown", hint=hint)
        plugin = known[item.plugin]
        if why := cannot_be_computed(plugin):
            raise document.error(where, f"an extender cannot compute {plugin.name}: {why}")
        arguments = _arguments(plugin, item.args, document, (*path, "args"))
    return Score(item.name or plugin.name, plugin, arguments, item.weight, max_score, item.reject_above)


def _arguments(
    plugin: PluginDescription, args: Mapping[str, Any], document: Document, path: tuple[str | int, ...]
) -> Arguments | None:
    if plugin.arguments is RawArguments:
        return RawArguments(values=args)
    if plugin.arguments is None:
        if args:
            raise document.error(path, f"{plugin.name} takes no arguments")
        return None
    found = validate(plugin.arguments, document, path=path[:-1] if not args else path, value=dict(args))
    address = getattr(found, "watcher_address", "")
    try:
        if address and not checked_address(address).startswith(("http://", "https://")):
            raise ValueError("the address of load-watcher begins with http:// or https://")
    except ValueError as error:
        raise document.error(path, str(error)) from None
    return found
