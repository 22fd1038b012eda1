"""What the policy's score rules measure: a rule cools what its plugins score, so somebody must measure that.

The policy alone cannot tell: which resource a plugin scores is known only once the scheduler's configuration
has been read. So the check is here, where both are at hand, and not in the policy's own loading.
"""

from __future__ import annotations

from collections.abc import Iterator

from rebalancer.errors import InputError
from rebalancer.policy.hotness import ScoreRule
from rebalancer.policy.load_sources import PrometheusSource
from rebalancer.policy.policy_file import LoadedPolicy, scorable_resources
from rebalancer.policy.schema import RebalancePolicy
from rebalancer.profiles.types import ExtensionPoint, SchedulerConfiguration


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
