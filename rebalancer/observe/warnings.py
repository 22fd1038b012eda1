"""What a reader of a plan must know about its inputs: what was not read, not used, or is not modelled."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from rebalancer.cluster import records
from rebalancer.cluster.kinds import NAMESPACES, NODES, STORAGE_CLASSES
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.documents import did_you_mean
from rebalancer.load.report import LoadReport
from rebalancer.policy.hotness import ScoreRule
from rebalancer.policy.load_sources import PrometheusSource
from rebalancer.policy.schema import RebalancePolicy
from rebalancer.profiles.types import SchedulerConfiguration
from rebalancer.scheduling.versions.verified import version_warnings

if TYPE_CHECKING:
    from rebalancer.cluster.live import RawApi


def _not_read(unread: Mapping[str, str]) -> list[str]:
    """One sentence for each reason: a dump made by hand lacks many kinds for the same one."""
    by_reason: dict[str, list[str]] = {}
    for plural, why in sorted(unread.items()):
        by_reason.setdefault(why, []).append(plural)
    return [f"not read: {', '.join(plurals)} ({why})" for why, plurals in by_reason.items()]


def input_warnings(
    snapshot: Snapshot,
    configuration: SchedulerConfiguration,
    load: LoadReport,
    missing: Mapping[str, str],
    version: str,
) -> tuple[str, ...]:
    """One sentence per warning, in the order of the way of data.

    ``missing`` has the reason for each address from which plugins get no figures.
    """
    found = list(configuration.warnings)
    found += version_warnings(version, configuration.api_version)
    found += [
        f"extender {extender.url_prefix} is not modelled: all pods of its scheduler are protected"
        for extender in configuration.extenders
    ]
    found += _not_read(snapshot.recording.unread)
    found += snapshot.recording.warnings
    found += [f"could not be read: {item}" for item in snapshot.malformed]
    found += [
        f"seen by plugins: {address or 'built-in load-watcher'}: {why}"
        for address, why in sorted(missing.items())
    ]
    found += load.warnings
    return tuple(found)


# Finds names in a policy that match nothing in the cluster.
#
# A misspelt name in a protection protects nothing, and one in a selection selects nothing: the run ends
# with
# "nothing to do" every time, without a word. So each is a warning, before all others.


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


# Says which connections are not protected: certificates that nobody checks, credentials sent unencrypted.
#
# Each of them was chosen in some file, often years ago and by somebody else. Whoever reads a plan should
# know
# that its figures, or the plan itself, may be forged by anybody on the network.


_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def insecure_connections(
    policy: RebalancePolicy, configuration: SchedulerConfiguration, api: RawApi | None
) -> tuple[str, ...]:
    """One warning that lists every connection without protection; none when all are protected."""
    found = [*_to_the_cluster(api), *_of_the_policy(policy), *_of_the_plugins(configuration)]
    return (f"connections without protection: {'; '.join(dict.fromkeys(found))}",) if found else ()


def _to_the_cluster(api: RawApi | None) -> Iterator[str]:
    if api is None:
        return
    if _sent_in_the_clear(api.host):
        yield (
            f"the API server {api.host} gets credentials over plain http "
            "(write https:// as server in the kubeconfig)"
        )
    elif not api.client.verifies_certificates and urlsplit(api.host).scheme == "https":
        yield (
            f"the certificate of the API server {api.host} is not verified "
            "(insecure-skip-tls-verify in the kubeconfig)"
        )


def _of_the_policy(policy: RebalancePolicy) -> Iterator[str]:
    for source in policy.load.sources:
        if not isinstance(source, PrometheusSource):
            continue
        settings = source.prometheus
        logs_in = settings.bearer_token_file is not None or settings.basic_auth is not None
        if logs_in and _sent_in_the_clear(settings.address):
            yield f"Prometheus {settings.address} gets credentials over plain http (write https://)"
        if settings.insecure_skip_verify and urlsplit(settings.address).scheme == "https":
            yield f"the certificate of Prometheus {settings.address} is not verified (insecureSkipVerify)"


def _of_the_plugins(configuration: SchedulerConfiguration) -> Iterator[str]:
    """Trimaran's own load-watcher skips verification unless configured otherwise; so do we."""
    for profile in configuration.profiles:
        for arguments in profile.arguments.values():
            provider = getattr(arguments, "metric_provider", None)
            if provider is None or provider.type != "Prometheus" or not provider.address:
                continue
            if getattr(arguments, "watcher_address", ""):
                continue
            address = provider.address if "://" in provider.address else f"http://{provider.address}"
            if provider.token and _sent_in_the_clear(address):
                yield f"metricProvider {address} gets its token over plain http (write https://)"
            if address.startswith("https://") and provider.insecure_skip_verify is not False:
                yield (
                    f"the certificate of metricProvider {address} is not verified "
                    "(insecureSkipVerify, which is true unless set to false)"
                )


def _sent_in_the_clear(address: str) -> bool:
    """Whether what is sent there can be read on the network; loopback never leaves the machine."""
    try:
        parts = urlsplit(address)
        return parts.scheme == "http" and parts.hostname not in _LOOPBACK
    except ValueError:
        return False
