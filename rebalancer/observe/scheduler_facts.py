"""Plugins that rebalancer does not bring along: those installed beside it, and those a policy mirrors.

Importing what is installed takes time, so it is imported only when a configuration names a plugin that is not
known.
"""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING

import numpy as np

from rebalancer.cluster.nodes import CPU
from rebalancer.cluster.pod_classes import PodClass
from rebalancer.cluster.records import Container
from rebalancer.cluster.records.pods import is_scheduler, stated_gates
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.errors import InputError
from rebalancer.planning.inputs import SchedulerStart
from rebalancer.policy.policy_file import LoadedPolicy
from rebalancer.policy.schedulers import Mirror, SchedulerSettings
from rebalancer.policy.schema import RebalancePolicy
from rebalancer.profiles.types import PluginDescription, PluginQuery, SchedulerConfiguration
from rebalancer.scheduling.framework.plugin import Normalization
from rebalancer.scheduling.plugins.prometheus_score import Definition, Direction, described_score
from rebalancer.scheduling.registry import ENTRY_POINT_GROUP, described
from rebalancer.scheduling.versions.release import FeatureGates, major_minor

if TYPE_CHECKING:
    from rebalancer.cluster.live import RawApi


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


# The schedulers whose pods can be seen, and whether one of them is the scheduler that is modelled.
#
# A second scheduler that runs as a Deployment tells nothing of the first, which managed control planes
# hide:
# the one behind default-scheduler is known by its static pod alone. One without that profile is a second
# one.


_FIRST_SCHEDULER = "default-scheduler"
_OWNER_OF_STATIC_PODS = "Node"


def scheduler_pods(snapshot: Snapshot) -> list[tuple[PodClass, Container]]:
    """The classes of pods that run a kube-scheduler, with the container that does."""
    return [
        (pod, container)
        for pod in snapshot.pods.classes
        for container in pod.spec.containers or ()
        if is_scheduler(container.image)
    ]


def is_seen(snapshot: Snapshot, configuration: SchedulerConfiguration) -> bool:
    """Whether the pods that are seen include the scheduler of this configuration."""
    found = scheduler_pods(snapshot)
    if _FIRST_SCHEDULER not in configuration.scheduler_names:
        return bool(found)
    return any(pod.owner.kind == _OWNER_OF_STATIC_PODS for pod, _ in found)


# The scheduler's version: from the policy, else from the image of its pod, else the API server's version.


def scheduler_version(
    loaded: LoadedPolicy, snapshot: Snapshot, configuration: SchedulerConfiguration, api: RawApi | None
) -> str:
    """``1.35``; empty when it is not known."""
    stated = loaded.policy.scheduler.version
    if stated:
        return major_minor(stated)
    running = versions_running(snapshot)
    if len(running) == 1 and (api is None or is_seen(snapshot, configuration)):
        return running[0]
    return major_minor(api.server_version()) if api is not None else ""


def versions_running(snapshot: Snapshot) -> tuple[str, ...]:
    """The versions in the images of the schedulers' pods.

    scheduler-plugins number theirs 0.MINOR, after the Kubernetes 1.MINOR they are built from.
    """
    found: set[str] = set()
    for _, container in scheduler_pods(snapshot):
        version = major_minor(container.image.partition("@")[0].rpartition(":")[2])
        if version:
            found.add(f"1.{version[2:]}" if version.startswith("0.") else version)
    return tuple(sorted(found))


# The scheduler's feature gates: those the policy states, else those on its own command line.
#
# Where the pod of the scheduler can be seen with its command line, a gate that is not on it is as the
# release
# has it. Where it cannot, as with managed control planes, the others are not known.


# These open many gates at once; which ones, only the release's source says.
_SWEEPING = frozenset({"AllAlpha", "AllBeta"})


def feature_gates(
    loaded: LoadedPolicy, snapshot: Snapshot, configuration: SchedulerConfiguration
) -> FeatureGates:
    """What is known of the gates; what the policy states goes before what is seen."""
    stated = loaded.policy.scheduler.feature_gates
    seen = gates_running(snapshot, configuration)
    if seen is None or _SWEEPING & {*seen, *stated}:
        return FeatureGates({**(seen or {}), **stated}, known=False)
    return FeatureGates({**seen, **stated}, known=True)


def gate_warnings(
    loaded: LoadedPolicy, snapshot: Snapshot, configuration: SchedulerConfiguration
) -> tuple[str, ...]:
    """A sentence for each gate that the policy states otherwise than the scheduler's command line."""
    seen = gates_running(snapshot, configuration) or {}
    stated = loaded.policy.scheduler.feature_gates
    return tuple(
        f"scheduler.featureGates says {name}: {_word(value)}, but the scheduler was started with {name}="
        f"{_word(seen[name])}; the policy is followed"
        for name, value in sorted(stated.items())
        if seen.get(name, value) != value
    )


def gates_running(snapshot: Snapshot, configuration: SchedulerConfiguration) -> dict[str, bool] | None:
    """The gates on the command lines of the schedulers' pods; None when not all are seen, or they differ."""
    if not is_seen(snapshot, configuration):
        return None
    found = [
        stated_gates(container.args or ()) if container.command else None
        for _, container in scheduler_pods(snapshot)
    ]
    return found[0] if found and all(item == found[0] for item in found) else None


def _word(value: bool) -> str:
    return "true" if value else "false"


# On how many processor cores the scheduler runs: as many of its workers can be ahead at once.


def scheduler_cores(settings: SchedulerSettings, snapshot: Snapshot) -> int | None:
    """What the policy states, else the most cores of a node with a scheduler's pod; None without one."""
    if settings.cores is not None:
        return settings.cores
    pods = snapshot.pods
    schedulers = [
        index
        for index, pod in enumerate(pods.classes)
        if any(is_scheduler(container.image) for container in pod.spec.containers or ())
    ]
    nodes = pods.node[np.isin(pods.pod_class, schedulers) & (pods.node >= 0)]
    most = int(snapshot.nodes.capacity[nodes, CPU].max(initial=0))
    return -(-most // 1000) or None


# Whether the scheduler has only just started, asked only where one of its plugins scores otherwise then.


def recent_start(
    settings: SchedulerSettings,
    configuration: SchedulerConfiguration,
    snapshot: Snapshot,
    api: RawApi | None,
    now: float,
) -> SchedulerStart | None:
    """When the scheduler started; None for a recording, and where no plugin cares."""
    names = [
        profile.scheduler_name
        for profile in configuration.profiles
        if any(
            name in configuration.plugins and configuration.plugins[name].counts_recent_pods
            for name in profile.plugin_names
        )
    ]
    if api is None or not names:
        return None
    from rebalancer.execution.scheduler_health import scheduler_start  # noqa: PLC0415 - imports kubernetes
    from rebalancer.observe.scheduler_location import locate  # noqa: PLC0415 - so does it

    return scheduler_start(api, locate(names, settings, configuration, snapshot), now)
