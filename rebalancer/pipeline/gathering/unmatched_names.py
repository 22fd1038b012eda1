"""Finds names in a policy that match nothing in the cluster.

A misspelt name in a protection protects nothing, and one in a selection selects nothing: the run ends with
"nothing to do" every time, without a word. So each is a warning, before all others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from rebalancer.cluster import records
from rebalancer.cluster.kinds import NAMESPACES, NODES, STORAGE_CLASSES
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.documents import did_you_mean
from rebalancer.policy.hotness import ScoreRule
from rebalancer.policy.schema import RebalancePolicy
from rebalancer.profiles.types import SchedulerConfiguration

_ALWAYS_EXCLUDED = "kube-system"  # by default, whether it is there or not


def unmatched_names(
    policy: RebalancePolicy,
    snapshot: Snapshot,
    configuration: SchedulerConfiguration,
    assume_neutral: Collection[str] = (),
) -> tuple[str, ...]:
    """One sentence for each setting of the policy, or option, that names what is not there."""
    return (
        *_scheduler(policy, configuration, assume_neutral),
        *_namespaces(policy, snapshot),
        *_nodes(policy, snapshot),
        *_pods(policy, snapshot),
    )


def _scheduler(
    policy: RebalancePolicy, configuration: SchedulerConfiguration, assume_neutral: Collection[str]
) -> Iterator[str]:
    where = f"the scheduler's configuration ({configuration.source})"
    names = configuration.scheduler_names
    for name in policy.scheduler.profiles:
        if name not in names:
            yield _sentence("scheduler.profiles", "profile", name, names, where)
    enabled = {plugin for profile in configuration.profiles for plugin in profile.plugin_names}
    for setting, plugins in (
        ("scheduler.assumeNeutral", policy.scheduler.assume_neutral),
        ("--assume-neutral", assume_neutral),
    ):
        for plugin in plugins:
            if plugin not in enabled:
                yield _sentence(setting, "plugin", plugin, enabled, where)
    for rule in policy.hot_nodes.every_rule:
        if isinstance(rule, ScoreRule):
            for plugin in rule.score.plugins or ():
                if plugin not in enabled:
                    yield _sentence("hotNodes score.plugins", "plugin", plugin, enabled, where)


def _namespaces(policy: RebalancePolicy, snapshot: Snapshot) -> Iterator[str]:
    known = set(snapshot.pods.namespaces)
    for item in snapshot.recording.records(NAMESPACES):
        if isinstance(item, records.Namespace):
            known.add(item.metadata.name)
    settings = policy.evictable.namespaces
    for setting, names in (("include", settings.include), ("exclude", settings.exclude)):
        for name in names:
            if name not in known and name != _ALWAYS_EXCLUDED:
                yield _sentence(f"evictable.namespaces.{setting}", "namespace", name, known, "the cluster")


def _nodes(policy: RebalancePolicy, snapshot: Snapshot) -> Iterator[str]:
    labels = [
        item.metadata.labels or {}
        for item in snapshot.recording.records(NODES)
        if isinstance(item, records.Node)
    ]
    selectors = [("hotNodes.nodeSelector", policy.hot_nodes.node_selector)]
    selectors += [
        (f"hotNodes.pools {pool.name}: nodeSelector", pool.node_selector) for pool in policy.hot_nodes.pools
    ]
    for setting, selector in selectors:
        if selector is not None and not any(map(selector.selects, labels)):
            yield f"{setting} selects no node: {selector}"


def _pods(policy: RebalancePolicy, snapshot: Snapshot) -> Iterator[str]:
    selector = policy.evictable.pod_selector
    if selector is not None and not any(selector.selects(item.labels) for item in snapshot.pods.classes):
        yield f"evictable.podSelector selects no pod: {selector}"
    if not snapshot.has(STORAGE_CLASSES):
        return
    known = [
        item.metadata.name
        for item in snapshot.recording.records(STORAGE_CLASSES)
        if isinstance(item, records.StorageClass)
    ]
    for name in policy.evictable.protect_storage_classes:
        if name not in known:
            yield _sentence("evictable.protectStorageClasses", "storage class", name, known, "the cluster")


def _sentence(setting: str, noun: str, name: str, known: Iterable[str], where: str) -> str:
    names = sorted(known)
    hint = did_you_mean(name, names) or (f"it has: {', '.join(names[:5])}" if names else "")
    return f"{setting} names the {noun} {name}, which {where} does not have" + (f" ({hint})" if hint else "")
