"""Why the model cannot place pods: what takes part that is not modelled, and what it would need to know."""

from __future__ import annotations

from collections.abc import Mapping

from rebalancer.cluster import times
from rebalancer.cluster.pod_classes import PodClass
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.load.view import SchedulerView
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.profiles.types import (
    ExtensionPoint,
    Input,
    PluginDescription,
    PluginQuery,
    Profile,
    SchedulerConfiguration,
)
from rebalancer.scheduling import (
    RECENT_AFTER_START_SECONDS,
    BindingLabelReaders,
    ObjectsRead,
    Release,
    UnreadInputs,
    queries_of,
    unpredictable_rule,
)

_BINDING_LABELS_ARE_READ = (
    "a selector asks for a zone or region among the labels of pods, which they only get when they are bound"
)


def find_unpredictable(inputs: PlanningInputs) -> Mapping[int, str]:
    """Why pods of a class cannot be placed by the model, by class; predictable classes are absent."""
    configuration, snapshot = inputs.configuration, inputs.snapshot
    by_profile = {
        profile.scheduler_name: _profile_reason(profile, configuration, inputs.view, snapshot)
        or _start_reason(profile, inputs)
        for profile in configuration.profiles
    }
    objects = ObjectsRead(snapshot)
    unread = {profile.scheduler_name: UnreadInputs(profile, objects) for profile in configuration.profiles}
    readers = BindingLabelReaders(snapshot, inputs.release)
    found: dict[int, str] = {}
    for index, pod in enumerate(snapshot.pods.classes):
        unpredictable_reason = _class_reason(pod, inputs.release) or by_profile.get(pod.scheduler_name, "")
        if not unpredictable_reason and pod.scheduler_name in unread:
            unpredictable_reason = _unread_reason(unread[pod.scheduler_name].of(pod))
        if not unpredictable_reason and readers.concerns(pod):
            unpredictable_reason = _BINDING_LABELS_ARE_READ
        if unpredictable_reason:
            found[index] = unpredictable_reason
    return found


def _profile_reason(
    profile: Profile, configuration: SchedulerConfiguration, view: SchedulerView, snapshot: Snapshot
) -> str:
    """Why no pod of a profile can be placed by the model."""
    permitting = profile.enabled(ExtensionPoint.PERMIT)
    if permitting:
        return f"plugin {permitting[0]} may hold it back (permit)"
    if configuration.extenders:
        return f"extender {configuration.extenders[0].url_prefix} takes part in placing it"
    for name in sorted(profile.plugin_names):
        description = configuration.plugins.get(name)
        if description is None:
            continue
        unpredictable_reason = _watcher_reason(description, profile, view)
        for query in queries_of(configuration, profile, name):
            unpredictable_reason = unpredictable_reason or _query_reason(query, description, view, snapshot)
        if unpredictable_reason:
            return f"what {name} sees is unknown: {unpredictable_reason}"
    return ""


def _start_reason(profile: Profile, inputs: PlanningInputs) -> str:
    """Why no pod of a profile can be placed while its scheduler has only just started.

    It lists the running pods then, and plugins that add pods which the figures do not show yet take all of
    them to be such, until the window of the figures ends a minute later. The scheduler's own figures may be
    older than ours.
    """
    start = inputs.scheduler_start
    if start is None:
        return ""
    for name in sorted(profile.plugin_names):
        description = inputs.configuration.plugins.get(name)
        if description is None or not description.counts_recent_pods:
            continue
        counts = f"{name} counts every running pod as just bound"
        if start.at is None:
            return (
                f"{counts} for some time after its scheduler starts, and when that was is not known: "
                f"{start.because} (scheduler.lease of the policy can name its lease)"
            )
        watcher = inputs.view.watchers.get(getattr(profile.argument(name), "watcher_address", ""))
        if watcher is None:
            continue
        left = start.at + RECENT_AFTER_START_SECONDS - watcher.window_end
        if left > 0:
            return f"{counts} until about {times.render(inputs.now + left)}: {start.because}"
    return ""


def _watcher_reason(description: PluginDescription, profile: Profile, view: SchedulerView) -> str:
    if Input.WATCHER not in description.inputs:
        return ""
    address = getattr(profile.argument(description.name), "watcher_address", "")
    return "" if address in view.watchers else view.missing.get(address, "its figures were not read")


def _query_reason(
    query: PluginQuery, description: PluginDescription, view: SchedulerView, snapshot: Snapshot
) -> str:
    """Why the values of a query are not known, or not those of every node that could be compared."""
    answers = [values for (address, _), values in view.queries.items() if address == query.address]
    if not answers:
        return view.missing.get(query.address, "its query was not asked")
    values = view.queries.get((query.address, query.query), answers[0])
    if not values:
        return f"Prometheus {query.address} knows no node by {query.node_label}"
    if not description.every_node:
        return ""
    nodes = snapshot.nodes
    lacking = [name for row, name in enumerate(nodes.names) if nodes.ready[row] and name not in values]
    others = f" and {len(lacking) - 1} others" if len(lacking) > 1 else ""
    return f"Prometheus {query.address} has no value of node {lacking[0]}{others}" if lacking else ""


def _unread_reason(unread: tuple[str, ...]) -> str:
    """Why a class cannot be placed when these inputs, which its verdict needs, were not read."""
    return f"where it would land depends on what was not read: {', '.join(unread)}" if unread else ""


def _class_reason(pod: PodClass, release: Release) -> str:
    """Why pods of a class cannot be placed by the model, whatever their profile."""
    if pod.spec.resource_claims:
        return f"it uses resource claim {pod.spec.resource_claims[0].name}, which is not modelled"
    if pod.spec.scheduling_gates:
        return f"scheduling gate {pod.spec.scheduling_gates[0].name} would hold its replacement back"
    if pod.spec.scheduling_group or pod.spec.workload_ref:
        return "it belongs to a pod group, whose pods are placed together, which is not modelled"
    return unpredictable_rule(release, pod)
