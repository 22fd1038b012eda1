"""An observation, judged by a policy: the inputs of a plan. A function of its arguments, without I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import numpy as np
from msgspec.structs import replace

from rebalancer.cluster.arrays import FloatArray, PodRow
from rebalancer.cluster.kinds import SERVICES
from rebalancer.cluster.pod_classes import PodClass
from rebalancer.cluster.records.pods import image_name
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.load.plugin_sources import read_view, watcher_addresses
from rebalancer.load.scheduler_view import SchedulerView
from rebalancer.load.services import service_of
from rebalancer.load.sources import read_load, with_addresses
from rebalancer.load.usage import RESOURCES
from rebalancer.planning.inputs import Observation, PlanningInputs, SchedulerFacts, digest_of
from rebalancer.planning.plan import ListedNode, NodeReport
from rebalancer.planning.scheduler_facts import scheduler_facts, scored_resources
from rebalancer.planning.warnings import of_agreement, of_inputs
from rebalancer.planning.workloads.lookup import Workloads
from rebalancer.policy.load_sources import LoadWatcherSource, PrometheusSource
from rebalancer.policy.model import is_extended
from rebalancer.policy.policy_file import LoadedPolicy, measured_resources
from rebalancer.policy.schema import RebalancePolicy
from rebalancer.profiles.types import SchedulerConfiguration
from rebalancer.scheduling.registry import plugin_queries
from rebalancer.scheduling.resources import pod_amounts, pod_requests, requested_amounts
from rebalancer.state.run_state import RunState

# Image names, without registry and tag, of what schedules pods or measures load.
_IMAGES = frozenset({"kube-scheduler", "load-watcher", "metrics-server", "prometheus", "rebalancer"})


def system_workloads(
    snapshot: Snapshot,
    services: Collection[tuple[str, str]],
    namespaces: Collection[str],
    classes: Collection[int] = (),
) -> frozenset[str]:
    """``namespace/Kind/name`` of the workloads behind these (namespace, name) services, of well-known images,
    of these classes, and of schedulers in these namespaces (where a scheduler's configuration lives).
    """
    selectors = [
        (service.metadata.namespace, service.spec.selector)
        for service in snapshot.recording.records(SERVICES)
        if (service.metadata.namespace, service.metadata.name) in services and service.spec.selector
    ]
    workloads = Workloads(snapshot)

    def is_selected(pod: PodClass) -> bool:
        return any(
            namespace == pod.namespace and selector.items() <= pod.labels.items()
            for namespace, selector in selectors
        )

    def is_of_system(pod: PodClass) -> bool:
        images = [image_name(container.image) for container in pod.spec.containers or ()]
        if any(image in _IMAGES for image in images):
            return True
        if pod.namespace in namespaces and any("scheduler" in image for image in images):
            return True
        return is_selected(pod)

    matching = [
        index for index, pod in enumerate(snapshot.pods.classes) if index in classes or is_of_system(pod)
    ]
    rows = np.flatnonzero(np.isin(snapshot.pods.pod_class, matching)).tolist()
    return frozenset(workloads.of(row).key for row in map(PodRow, rows))


def assemble(
    observation: Observation,
    loaded: LoadedPolicy,
    state: RunState | None,
    configured: Sequence[SchedulerFacts] = (),
) -> PlanningInputs:
    """What a plan is made from by this policy: the same three values, the same inputs and the same digest.

    What the policy needs and nobody observed is unknown. ``configured`` are its schedulers as the observed
    configurations say, for whoever has put these together already: they follow from the three values. Raises
    RebalancerError when the scheduler's configuration cannot be used, or no load source answered.
    """
    digest = digest_of(observation, loaded, state)
    snapshot = observation.snapshot
    loaded = with_addresses(loaded, snapshot)
    policy = loaded.policy
    schedulers = tuple(
        replace(scheduler, view=_view(observation, scheduler.configuration))
        for scheduler in scheduler_facts(observation, loaded, configured)
    )
    watchers = dict.fromkeys(policy_watchers(policy))
    watched = read_view(snapshot, observation.figures, watchers, (), observation.now)
    reading = read_load(
        snapshot,
        observation.figures,
        policy,
        watched,
        requests_by_pod(snapshot),
        state.samples if state else None,
        scored_resources(policy, schedulers),
        now=observation.now,
        live=observation.live,
        extended=_extended_requests(snapshot, policy),
    )
    return PlanningInputs(
        snapshot=snapshot,
        load=reading.report,
        schedulers=schedulers,
        policy=policy,
        state=state,
        now=observation.now,
        digest=digest,
        own_pod=observation.own_pod,
        system_workloads=relied_on_workloads(snapshot, policy, schedulers),
        warnings=(
            *of_agreement(policy, state, observation.now),
            *of_inputs(observation, policy, schedulers, watched, reading.report),
        ),
        present_load=reading.present,
        live=observation.live,
    )


def _view(observation: Observation, configuration: SchedulerConfiguration) -> SchedulerView:
    """The figures that the plugins of a scheduler see."""
    addresses = watcher_addresses(configuration)
    queries = plugin_queries(configuration)
    return read_view(observation.snapshot, observation.figures, addresses, queries, observation.now)


def _largest_amounts(pod: PodClass) -> FloatArray:
    """What a pod of a class may use at most: thousandths of a core, bytes."""
    amounts = pod_amounts(pod.spec, limits=True)
    return np.array([float(amounts.get(name, 0)) for name in RESOURCES]) * (1000.0, 1.0)


def requests_by_pod(snapshot: Snapshot, *, limits: bool = False) -> FloatArray:
    """(pods, 2) what each pod requests, or may use at most: thousandths of a core, bytes."""
    if limits:
        rows = [_largest_amounts(pod) for pod in snapshot.pods.classes]
    else:
        rows = [requested_amounts(pod_requests(pod).present, RESOURCES) for pod in snapshot.pods.classes]
    table = np.array(rows, np.float64).reshape(len(rows), len(RESOURCES))
    return np.asarray(table[snapshot.pods.pod_class], np.float64)


def _extended_requests(snapshot: Snapshot, policy: RebalancePolicy) -> dict[str, FloatArray]:
    """(pods,) what each pod requests of the extended resources that the policy names, by resource."""
    names = [name for name in measured_resources(policy) if is_extended(name)]
    if not names:
        return {}
    rows = [requested_amounts(pod_requests(pod).present, names) for pod in snapshot.pods.classes]
    table = np.array(rows, np.float64).reshape(len(rows), len(names))
    return {name: table[snapshot.pods.pod_class, column] for column, name in enumerate(names)}


def listed_nodes(
    nodes: Iterable[NodeReport], snapshot: Snapshot, labels: Sequence[str] = ()
) -> tuple[ListedNode, ...]:
    """The nodes with their room, what their pods take of it, and those of these labels that they have."""
    table = snapshot.nodes
    pods = snapshot.pods
    bound = pods.node >= 0
    taken = []
    for limits in (False, True):
        sums = np.zeros((len(table), 3))
        np.add.at(sums[:, :2], pods.node[bound], requests_by_pod(snapshot, limits=limits)[bound])
        sums[:, 2] = np.bincount(pods.node[bound], minlength=len(table))
        taken.append(sums)
    names = (*RESOURCES, "pods")
    room = np.zeros((len(table), 3))
    for column, name in enumerate(names):
        if name in table.resources:
            room[:, column] = table.allocatable[:, table.resources.index(name)]
    listed = []
    for node in nodes:
        row = table.row[node.name]
        own = table.records[row].metadata.labels or {}
        allocatable, requests, limits_of_pods = (
            dict(zip(names, (array[row] / (1000.0, 1.0, 1.0)).tolist(), strict=True))
            for array in (room, *taken)
        )
        del limits_of_pods["pods"]
        listed.append(
            ListedNode(
                **{name: getattr(node, name) for name in NodeReport.__struct_fields__},
                allocatable=allocatable,
                requests=requests,
                limits=limits_of_pods,
                labels={key: own[key] for key in labels if key in own},
            )
        )
    return tuple(listed)


def policy_watchers(policy: RebalancePolicy) -> list[str]:
    """The addresses of the load-watchers that the policy's own sources read."""
    return [
        source.load_watcher.address for source in policy.load.sources if isinstance(source, LoadWatcherSource)
    ]


def relied_on_workloads(
    snapshot: Snapshot, policy: RebalancePolicy, schedulers: Iterable[SchedulerFacts]
) -> frozenset[str]:
    """The workloads, as namespace/Kind/name, that measure load or schedule the pods: never evicted."""
    addresses = policy_watchers(policy)
    classes: set[int] = set()
    for scheduler in schedulers:
        addresses += watcher_addresses(scheduler.configuration)
        addresses += [query.address for query in plugin_queries(scheduler.configuration)]
        classes.update(scheduler_pod.index for scheduler_pod in scheduler.pods)
    addresses += [
        source.prometheus.address or ""
        for source in policy.load.sources
        if isinstance(source, PrometheusSource)
    ]
    services = {
        (service.namespace, service.name) for service in map(service_of, addresses) if service is not None
    }
    places = [settings.config_map for settings in policy.schedulers]
    return system_workloads(snapshot, services, {place.namespace for place in places if place}, classes)
