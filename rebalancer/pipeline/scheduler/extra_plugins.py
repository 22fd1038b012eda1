"""Plugins that rebalancer does not bring along: those installed beside it, and those a policy mirrors.

A plugin is code of the model, which takes longer to import than a policy takes to check: it is imported when
a configuration names one that is installed, and made when a profile is built.
"""

from __future__ import annotations

from importlib import metadata
from typing import Any

from rebalancer.errors import InputError
from rebalancer.policy import RebalancePolicy
from rebalancer.policy.mirror import Mirror
from rebalancer.profiles.arguments import Arguments, RawArguments
from rebalancer.profiles.types import ExtensionPoint, Input, PluginDescription, PluginQuery


def mirrored_plugins(policy: RebalancePolicy) -> tuple[PluginDescription, ...]:
    """The plugins that the policy mirrors."""
    return tuple(_mirrored(item) for item in policy.scheduler.mirror)


def _mirrored(item: Mirror) -> PluginDescription:
    """As ``described_score``, without the model."""
    score = item.prometheus_score
    query = PluginQuery(score.address, score.query, score.node_label)

    def make(arguments: Arguments | None, inputs: Any) -> Any:
        from rebalancer.scheduling.framework.plugin import Normalization  # noqa: PLC0415 - imports numpy
        from rebalancer.scheduling.plugins.prometheus_score import (  # noqa: PLC0415
            Definition,
            Direction,
            described_score,
        )

        definition = Definition(
            plugin=item.plugin,
            query=query,
            direction=Direction(score.direction),
            normalization=Normalization(score.normalization),
            scale=score.scale,
            missing_score=score.missing_score,
        )
        described = described_score(definition)
        assert described.make is not None
        return described.make(arguments, inputs)

    return PluginDescription(
        name=item.plugin,
        points=frozenset({ExtensionPoint.PRE_SCORE, ExtensionPoint.SCORE}),
        arguments=RawArguments,
        inputs=frozenset((Input.NODES, Input.PODS, Input.PROMETHEUS)),
        make=make,
        queries=(query,),
        every_node=score.missing_score is None,
    )


def installed_plugins() -> tuple[PluginDescription, ...]:
    """The plugins of the entry point group ``rebalancer.plugins``, by name.

    Raises InputError, naming the entry point, for one that cannot be used.
    """
    from rebalancer.scheduling.plugins.external import ENTRY_POINT_GROUP, described  # noqa: PLC0415 - imports numpy

    found: dict[str, tuple[PluginDescription, str]] = {}
    for entry in sorted(metadata.entry_points(group=ENTRY_POINT_GROUP), key=lambda item: item.name):
        where = _named(entry)
        description = described(_loaded(entry, where), where)
        if description.name in found:
            other = found[description.name][1]
            raise InputError(
                f"plugin {description.name} is described twice", where=where, hint=f"as well as by {other}"
            )
        found[description.name] = description, where
    return tuple(description for _, (description, _) in sorted(found.items()))


def _named(entry: metadata.EntryPoint) -> str:
    package = f" of {entry.dist.name} {entry.dist.version}" if entry.dist else ""
    return f"entry point {entry.name} = {entry.value}{package}"


def _loaded(entry: metadata.EntryPoint, where: str) -> object:
    try:
        return entry.load()
    except Exception as error:
        raise InputError(
            f"cannot be loaded: {type(error).__name__}: {error!s:.200}",
            where=where,
            hint="repair or uninstall its package",
        ) from error
