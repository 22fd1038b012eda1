"""Reads which scores an extender computes: the file or the part of a policy that names its plugins.

The text names plugins and never code. Whoever may write it, or the ConfigMap that it is in, can make
rebalancer import nothing but what somebody installed as a plugin.

    scores:
    - plugin: TargetLoadPacking
      weight: 2
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rebalancer.addresses import checked_address
from rebalancer.documents import Document
from rebalancer.documents.models import did_you_mean, validate
from rebalancer.policy.schedulers import ExtenderScore, ExtenderScores, PrometheusScore, parse_scores
from rebalancer.profiles.types import Arguments, PluginDescription, PluginQuery, RawArguments
from rebalancer.scheduling.extenders import Score, cannot_be_computed
from rebalancer.scheduling.framework.plugin import Normalization
from rebalancer.scheduling.plugins.prometheus_score import Definition, Direction, described_score
from rebalancer.scheduling.registry import CATALOGUE, ENTRY_POINT_GROUP

_Path = tuple[str | int, ...]


def read_scores(
    text: str, source: str, installed_plugins: Callable[[], Iterable[PluginDescription]] = tuple
) -> tuple[ExtenderScores, tuple[Score, ...]]:
    """The settings of an extender and its scores; InputError with file and line for what it cannot compute.

    rebalancer asks for ``installed_plugins`` only where a name is none of the plugins that it ships.
    """
    settings, document = parse_scores(text, source)
    scores: dict[str, Score] = {}
    for index, declared in enumerate(settings.scores):
        score = _score(declared, settings.max_score, document, ("scores", index), installed_plugins)
        if score.name in scores:
            raise document.error(("scores", index), f"{score.name} is there twice", hint="give it a name")
        scores[score.name] = score
    return settings, tuple(scores.values())


def described_query(name: str, score: PrometheusScore) -> PluginDescription:
    """The plugin of this name that scores nodes by a query to Prometheus."""
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
    declared: ExtenderScore,
    max_score: int,
    document: Document,
    path: _Path,
    installed_plugins: Callable[[], Iterable[PluginDescription]],
) -> Score:
    """One score of an extender; ``path`` is where ``declared`` stands in the document."""
    if declared.prometheus_score is not None:
        assert declared.name is not None
        plugin = described_query(declared.name, declared.prometheus_score)
        arguments = None
    else:
        assert declared.plugin is not None
        plugin = _plugin(declared.plugin, document, (*path, "plugin"), installed_plugins)
        arguments = _arguments(plugin, declared.args, document, (*path, "args"))
    return Score(
        declared.name or plugin.name, plugin, arguments, declared.weight, max_score, declared.reject_above
    )


def _plugin(
    name: str,
    document: Document,
    path: _Path,
    installed_plugins: Callable[[], Iterable[PluginDescription]],
) -> PluginDescription:
    """The shipped or installed plugin of this name; InputError where an extender cannot compute it."""
    plugins = CATALOGUE
    if name not in plugins:
        plugins = {**CATALOGUE, **{plugin.name: plugin for plugin in installed_plugins()}}
    if name not in plugins:
        fallback = f"install a plugin of your own by an entry point of the group {ENTRY_POINT_GROUP}"
        raise document.error(path, f"{name} is unknown", hint=did_you_mean(name, plugins, fallback=fallback))
    plugin = plugins[name]
    why_not = cannot_be_computed(plugin)
    if why_not:
        raise document.error(path, f"an extender cannot compute {plugin.name}: {why_not}")
    return plugin


def _arguments(
    plugin: PluginDescription, args: Mapping[str, Any], document: Document, path: _Path
) -> Arguments | None:
    """The arguments of a plugin; InputError where it has no such arguments."""
    if plugin.arguments is RawArguments:
        return RawArguments(values=args)
    if plugin.arguments is None:
        if args:
            raise document.error(path, f"{plugin.name} takes no arguments")
        return None
    # Without ``args`` an error can only name the score that lacks them.
    place = path if args else path[:-1]
    arguments = validate(plugin.arguments, document, path=place, value=dict(args))
    address = getattr(arguments, "watcher_address", "")
    try:
        if address and not checked_address(address).startswith(("http://", "https://")):
            raise ValueError("the address of load-watcher begins with http:// or https://")
    except ValueError as error:
        raise document.error(path, str(error)) from None
    return arguments
