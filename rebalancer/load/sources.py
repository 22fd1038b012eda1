"""Reads the policy's load sources in their order and joins their figures.

A policy that names no address of a Prometheus means the one among the Services of the cluster. It is known by
the labels that the charts and operators in use give it, so that nothing is asked of what merely looks like
one. Where two could be meant nobody is asked: which of them knows the nodes is for the policy to say.

    monitoring/kube-prometheus-stack-prometheus   app=kube-prometheus-stack-prometheus   port http-web 9090
    monitoring/prometheus-operated                no label of the list: it is headless
    -> http://kube-prometheus-stack-prometheus.monitoring:9090
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import assert_never

import msgspec
import numpy as np
from msgspec.structs import asdict, replace

from rebalancer.cluster.arrays import FloatArray
from rebalancer.cluster.dumps.listing import PackedPodMetrics
from rebalancer.cluster.kinds import NODE_METRICS, POD_METRICS, SERVICES
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.errors import InputError, RebalancerError, RightsError, UnreachableError
from rebalancer.load.prometheus.reader import PrometheusQuestions, PrometheusReader, connection_of
from rebalancer.load.prometheus.responses import RecordedResponses
from rebalancer.load.raw_figures import RawFigures
from rebalancer.load.report import LoadReport, build_report, usable_of_pods
from rebalancer.load.scheduler_view import SchedulerView
from rebalancer.load.usage import (
    NodeUsage,
    PodUsage,
    node_usage_of_metrics,
    node_usage_of_requests,
    node_usage_of_watcher,
    pod_usage_of_metrics,
)
from rebalancer.load.windows import (
    MetricWindow,
    knows_only_the_present,
    over_earlier_runs,
    present_percent,
    with_summed_peaks,
)
from rebalancer.policy.load_sources import (
    LoadWatcherSource,
    MetricsServerSource,
    PrometheusSource,
    RecordedSource,
    RequestsSource,
)
from rebalancer.policy.policy_file import (
    LoadedPolicy,
    measured_resources,
    pressure_resources,
    required_resources,
)
from rebalancer.policy.schema import RebalancePolicy
from rebalancer.state.run_state import LoadSamples


class LoadReading(msgspec.Struct, frozen=True, eq=False):
    """The report, and what the next run should know of it."""

    report: LoadReport
    # Percent by resource and node, where only the present is known.
    present: Mapping[str, Mapping[str, float]]


def read_load(
    snapshot: Snapshot,
    raw: RawFigures,
    policy: RebalancePolicy,
    view: SchedulerView,
    requests: FloatArray,
    samples: LoadSamples | None,
    scored: tuple[str, ...],
    *,
    now: float,
    live: bool,
    extended: Mapping[str, FloatArray] = {},
) -> LoadReading:
    """Read what every source answered and join it; raises RebalancerError when none of them answered.

    ``requests`` is (pods, 2), thousandths of a core and bytes; ``samples`` are of earlier runs, None without
    a state; ``scored`` are the resources that the plugins of score rules score; ``extended`` is (pods,) what
    each requests of the extended resources that the policy names.
    """
    window = MetricWindow.of_policy(policy.load.window, policy.load.statistic)
    figures: list[NodeUsage] = []
    pod_figures: list[PodUsage] = []
    failures: list[RebalancerError] = []
    present: dict[str, dict[str, float]] = {}
    for source in policy.load.sources:
        of_pods: PodUsage | None = None
        try:
            if isinstance(source, PrometheusSource):
                if source.prometheus.address is None:
                    prometheus_address(snapshot)  # says why none was found
                reader = prometheus_reader(source, snapshot, raw.prometheus, policy, scored, now)
                usage_of_nodes = reader.node_figures()
                of_pods = reader.pod_figures()
            else:
                usage_of_nodes = _of_nodes(source, snapshot, view, requests, now)
        except RebalancerError as error:
            failures.append(error)
            continue
        if knows_only_the_present(usage_of_nodes, window):
            for resource, percent in present_percent(snapshot.nodes, usage_of_nodes).items():
                present[resource] = percent | present.get(resource, {})
            usage_of_nodes = over_earlier_runs(usage_of_nodes, snapshot.nodes, samples, window, now)
        if of_pods is not None:
            pod_figures.append(of_pods)
            usable = usable_of_pods(
                of_pods, snapshot.pods, snapshot.nodes, now=now, max_age_seconds=policy.load.max_age
            )
            usage_of_nodes = with_summed_peaks(usage_of_nodes, usable, snapshot.pods, window)
        figures.append(usage_of_nodes)
    if not figures:
        raise _no_source_answered(snapshot.source, failures, live=live)
    if snapshot.has(POD_METRICS):
        metrics = snapshot.recording.records(POD_METRICS)
        assert isinstance(metrics, PackedPodMetrics)
        pod_figures.append(pod_usage_of_metrics(metrics, snapshot.pods))
    report = build_report(
        snapshot.nodes,
        snapshot.pods,
        figures,
        pod_figures,
        requests,
        now=now,
        max_age_seconds=policy.load.max_age,
        extended=extended,
        resources=measured_resources(policy, scored),
        required=required_resources(policy, scored),
        failures=[f"load source not used: {failure}" for failure in failures],
    )
    return LoadReading(report, present)


def _no_source_answered(where: str, failures: list[RebalancerError], *, live: bool) -> RebalancerError:
    tried = "; ".join(map(str, failures))
    if any(isinstance(failure, RightsError) for failure in failures):
        return RightsError(
            f"no load source may be read: {tried}", where=where, hint="grant it as in k8s/base"
        )
    if live and "does not serve" in tried:
        return UnreachableError(
            "metrics-server is not installed: the Metrics API is not served, and no other source answered",
            where=where,
            hint="install it (https://github.com/kubernetes-sigs/metrics-server), name a Prometheus in "
            "load.sources, or try with load.sources: [{requests: {}}]",
        )
    if live and all(isinstance(failure, InputError) for failure in failures):  # to ask again would not help
        return InputError(f"no load source can be used: {tried}", where=where)
    if live:
        hint = "see load.sources of the policy, or try with load.sources: [{requests: {}}]"
        return UnreachableError(f"no load source answered: {tried}", where=where, hint=hint)
    # What another source lacks, it says itself.
    add = "add nodemetrics.json: kubectl get --raw /apis/metrics.k8s.io/v1beta1/nodes"
    hint = add if NODE_METRICS.plural in tried else ""
    return InputError(f"no load figures: {tried}", where=where, hint=hint)


def prometheus_reader(
    source: PrometheusSource,
    snapshot: Snapshot,
    responses: RecordedResponses,
    policy: RebalancePolicy,
    scored: tuple[str, ...],
    now: float,
) -> PrometheusReader:
    """Reads what a Prometheus of the policy answered."""
    return PrometheusReader(
        **asdict(prometheus_questions(source, policy, scored)),
        ask=responses.asking(connection_of(source.prometheus).address, snapshot.source),
        nodes=snapshot.nodes,
        pods=snapshot.pods,
        now=now,
        asked_at=responses.time,
    )


def prometheus_questions(
    source: PrometheusSource, policy: RebalancePolicy, scored: tuple[str, ...]
) -> PrometheusQuestions:
    """What a Prometheus of the policy is asked, which nothing in the cluster decides."""
    return PrometheusQuestions(
        settings=source.prometheus,
        window=MetricWindow.of_policy(policy.load.window, policy.load.statistic),
        resources=measured_resources(policy, scored),
        signals=policy.load.signals,
        pressure=pressure_resources(policy),
    )


def _of_nodes(
    source: LoadWatcherSource | MetricsServerSource | RequestsSource | RecordedSource,
    snapshot: Snapshot,
    view: SchedulerView,
    requests: FloatArray,
    now: float,
) -> NodeUsage:
    """What a source beside Prometheus says of the nodes."""
    if isinstance(source, LoadWatcherSource):
        return _watched(source.load_watcher.address, snapshot, view)
    if isinstance(source, RequestsSource):
        total = np.zeros((len(snapshot.nodes), 2))
        bound = snapshot.pods.node >= 0
        np.add.at(total, snapshot.pods.node[bound], requests[bound])
        return node_usage_of_requests(total, now)
    if isinstance(source, MetricsServerSource | RecordedSource):
        return _measured(snapshot)
    assert_never(source)


def _watched(address: str, snapshot: Snapshot, view: SchedulerView) -> NodeUsage:
    metrics = view.watchers.get(address)
    if metrics is None:
        raise UnreachableError(f"load-watcher: {view.missing.get(address, 'not read')}")
    return node_usage_of_watcher(metrics, snapshot.nodes)


def _measured(snapshot: Snapshot) -> NodeUsage:
    """What metrics-server measured, which is read with the cluster."""
    if not snapshot.has(NODE_METRICS):
        why = snapshot.recording.unread.get(NODE_METRICS.plural, "not read")
        refused = NODE_METRICS.plural in snapshot.recording.refused
        error = RightsError if refused else UnreachableError
        raise error(f"metrics-server: {NODE_METRICS.plural} {why}")
    return node_usage_of_metrics(snapshot.recording.records(NODE_METRICS), snapshot.nodes)


_NAME = "app.kubernetes.io/name"
_COMPONENT = "app.kubernetes.io/component"
# Whose Service it is, by its labels; only servers that answer /api/v1 at their root.
_LABELS: tuple[Mapping[str, str], ...] = (
    {"app": "kube-prometheus-stack-prometheus"},
    {"app": "prometheus-operator-prometheus"},
    {"app": "rancher-monitoring-prometheus"},
    {"app": "prometheus", "component": "server"},
    {_NAME: "prometheus", _COMPONENT: "server"},
    {_NAME: "prometheus", _COMPONENT: "prometheus"},
    {_NAME: "thanos", _COMPONENT: "query"},
    {_NAME: "thanos-query"},
    {_NAME: "vmsingle"},
    {_NAME: "victoria-metrics-single"},
)
_PORTS = ("http-web", "web", "http", "http-query")
_MAX_NAMED = 5


def prometheus_address(snapshot: Snapshot) -> str:
    """The address of the one Prometheus among the Services; an error where there is none, or several are."""
    if not snapshot.has(SERVICES):
        why = snapshot.recording.unread.get(SERVICES.plural, "not read")
        raise UnreachableError(f"prometheus has no address, and services are not known: {why}")
    addresses = sorted(_addresses(snapshot))
    if len(addresses) == 1:
        return addresses[0]
    if not addresses:
        raise InputError(
            "prometheus has no address, and no Service has the labels of one", hint="name its address"
        )
    named = ", ".join(addresses[:_MAX_NAMED]) + (" …" if len(addresses) > _MAX_NAMED else "")
    raise InputError(f"prometheus has no address, and {len(addresses)} were found: {named}", hint="name one")


def _addresses(snapshot: Snapshot) -> Iterator[str]:
    for service in snapshot.recording.records(SERVICES):
        labels = service.metadata.labels or {}
        ports = service.spec.ports or ()
        if not any(expected_labels.items() <= labels.items() for expected_labels in _LABELS):
            continue
        port = ports[0] if len(ports) == 1 else next((each for each in ports if each.name in _PORTS), None)
        if port is not None:
            yield f"http://{service.metadata.name}.{service.metadata.namespace}:{port.port}"


def with_addresses(loaded: LoadedPolicy, snapshot: Snapshot) -> LoadedPolicy:
    """The policy with the address of each Prometheus that it does not name, where exactly one was found."""
    sources = []
    policy = loaded.policy
    for source in policy.load.sources:
        if isinstance(source, PrometheusSource) and source.prometheus.address is None:
            try:
                update = {"address": prometheus_address(snapshot)}
            except (InputError, UnreachableError):
                return loaded  # reading the source says why
            source = PrometheusSource(prometheus=source.prometheus.model_copy(update=update))  # noqa: PLW2901
        sources.append(source)
    if tuple(sources) == policy.load.sources:
        return loaded
    load = policy.load.model_copy(update={"sources": tuple(sources)})
    return replace(loaded, policy=policy.model_copy(update={"load": load}))
