"""Plugins that rebalancer does not bring along: those installed beside it, and those a policy mirrors.

Importing what is installed takes time, so it is imported only when a configuration names a plugin that is not
known.
"""

from __future__ import annotations

from importlib import metadata

from rebalancer.errors import InputError
from rebalancer.policy import RebalancePolicy
from rebalancer.policy.schedulers import Mirror
from rebalancer.profiles.types import PluginDescription, PluginQuery
from rebalancer.scheduling import (
    ENTRY_POINT_GROUP,
    Definition,
    Direction,
    Normalization,
    described,
    described_score,
)


def mirrored_plugins(policy: RebalancePolicy) -> tuple[PluginDescription, ...]:
    """The plugins that the policy mirrors."""
    return tuple(_mirrored(item) for item in policy.scheduler.mirror)


def _mirrored(item: Mirror) -> PluginDescription:
    score = item.prometheus_score
    return described_score(
        Definition(
            plugin=item.plugin,
            query=PluginQuery(score.address, score.query, score.node_label),
            direction=Direction(score.direction),
            normalization=Normalization(score.normalization),
            scale=score.scale,
            missing_score=score.missing_score,
            resource=score.resource or "",
        )
    )


def installed_plugins() -> tuple[PluginDescription, ...]:
    """The plugins of the entry point group ``rebalancer.plugins``, by name.

    Raises InputError, naming the entry point, for one that cannot be used.
    """
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
