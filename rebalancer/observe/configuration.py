"""The text of the scheduler's configuration, from an option, the policy or the cluster."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rebalancer.documents import read_text
from rebalancer.errors import InputError
from rebalancer.policy.hotness import ScoreRule
from rebalancer.policy.load_sources import PrometheusSource
from rebalancer.policy.policy_file import LoadedPolicy, scorable_resources
from rebalancer.policy.schema import RebalancePolicy
from rebalancer.profiles.types import ExtensionPoint, SchedulerConfiguration

if TYPE_CHECKING:
    from rebalancer.cluster.live import RawApi


# What the policy's score rules measure: a rule cools what its plugins score, so somebody must measure that.
#
# The policy alone cannot tell: which resource a plugin scores is known only once the scheduler's
# configuration
# has been read. So the check is here, where both are at hand, and not in the policy's own loading.


def scored_resources(policy: RebalancePolicy, configuration: SchedulerConfiguration) -> tuple[str, ...]:
    """The resources that the plugins of the policy's score rules score, in order of name."""
    plugins = configuration.plugins
    found = (plugins[name].scored_resources for name in _plugins(policy, configuration))
    return tuple(sorted(frozenset[str]().union(*found)))


def check_score_rules(loaded: LoadedPolicy, configuration: SchedulerConfiguration) -> None:
    """InputError for a score rule whose plugin scores what no load source measures."""
    policy, where = loaded.policy, f"{loaded.source} hotNodes"
    measured = scorable_resources(policy)
    for name in _plugins(policy, configuration):
        scored = configuration.plugins[name].scored_resources
        if not scored:
            raise InputError(
                f"a score rule goes by {name}, which declares no resource that its score follows",
                where=where,
                hint=_declaration(policy, name),
            )
        missing = sorted(scored - set(measured))
        if missing:
            raise InputError(
                f"a score rule goes by {name}, which scores {', '.join(missing)}: no load source measures it",
                where=where,
                hint=_source(policy, missing[0]),
            )


def _plugins(policy: RebalancePolicy, configuration: SchedulerConfiguration) -> Iterator[str]:
    """The enabled plugins that score rules go by, each once."""
    seen: dict[str, None] = {}
    names = policy.scheduler.profiles or configuration.scheduler_names
    profiles = [found for found in map(configuration.profile, names) if found is not None]
    for rule in policy.hot_nodes.every_rule:
        if not isinstance(rule, ScoreRule):
            continue
        for profile in profiles:
            enabled = profile.enabled(ExtensionPoint.SCORE)
            for name in rule.score.plugins or configuration.load_plugins(profile):
                if name in enabled and name in configuration.plugins:
                    seen.setdefault(name)
    yield from seen


def _declaration(policy: RebalancePolicy, plugin: str) -> str:
    if any(item.plugin == plugin for item in policy.scheduler.mirror):
        return "name it as prometheusScore.resource under scheduler.mirror"
    return "name a plugin that scores load or the number of pods; your own declares scored_resources"


def _source(policy: RebalancePolicy, resource: str) -> str:
    if any(isinstance(source, PrometheusSource) for source in policy.load.sources):
        return f"define {resource} under load.signals"
    return "add a prometheus source to load.sources"


@dataclass(frozen=True, slots=True)
class ConfigurationText:
    """A KubeSchedulerConfiguration as written, and where."""

    text: str
    source: str


def configuration_text(
    loaded: LoadedPolicy, override: Path | None = None, api: RawApi | None = None
) -> ConfigurationText | None:
    """The configuration of an option's file, else of the policy; None when neither names one.

    A file of the policy is looked for beside the policy. A ConfigMap needs ``api``. Raises InputError when
    what is named is not there.
    """
    if override is not None:
        return ConfigurationText(read_text(override), str(override))
    settings = loaded.policy.scheduler
    if settings.inline is not None:
        return ConfigurationText(settings.inline, f"{loaded.source} scheduler.inline")
    if settings.file is not None:
        path = Path(loaded.source).parent / settings.file
        return ConfigurationText(read_text(path), str(path))
    if settings.config_map is None or api is None:
        return None
    place = settings.config_map
    where = f"configmap {place.namespace}/{place.name}"
    data = api.config_map(place.namespace, place.name)
    if data is None:
        raise InputError(
            "not found",
            where=where,
            hint="scheduler.configMap of the policy names where the configuration is",
        )
    if place.key not in data:
        keys = ", ".join(sorted(data)) or "none"
        raise InputError(f"has no key {place.key}", where=where, hint=f"its keys: {keys[:200]}")
    return ConfigurationText(data[place.key], f"{where} {place.key}")


def check_configuration(loaded: LoadedPolicy) -> None:
    """Check the configuration a policy holds or names as a file; InputError when it cannot be used."""
    written = configuration_text(loaded)
    if written is not None:
        load_with_plugins(loaded, written)


def load_with_plugins(
    loaded: LoadedPolicy, written: ConfigurationText, neutral: Collection[str] = ()
) -> SchedulerConfiguration:
    """A configuration with the plugins that are installed and those of the policy; see load_configuration.

    ``neutral`` are plugins assumed neutral besides those of the policy.
    """
    from rebalancer.observe.scheduler_facts import installed_plugins, mirrored_plugins  # noqa: PLC0415
    from rebalancer.scheduling.registry import load_configuration  # noqa: PLC0415

    settings = loaded.policy.scheduler
    configuration = load_configuration(
        written.text,
        written.source,
        extra_plugins=mirrored_plugins(loaded.policy),
        installed_plugins=installed_plugins,
        assume_neutral=(*settings.assume_neutral, *neutral),
    )
    idle = [item.plugin for item in settings.mirror if item.plugin not in configuration.extra_plugins]
    if idle:
        warning = f"{loaded.source}: scheduler.mirror: no profile enables {', '.join(idle)}"
        configuration = replace(configuration, warnings=(*configuration.warnings, warning))
    check_score_rules(loaded, configuration)
    return configuration
