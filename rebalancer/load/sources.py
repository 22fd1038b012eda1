"""Reads the policy's load sources in their order and joins their figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rebalancer.cluster import records
from rebalancer.cluster.arrays import FloatArray
from rebalancer.cluster.kinds import NODE_METRICS, POD_METRICS
from rebalancer.cluster.metrics import PackedPodMetrics
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.errors import InputError, RebalancerError, RightsError, UnreachableError
from rebalancer.load.prometheus.reader import PrometheusAccess, PrometheusReader, connection_of
from rebalancer.load.report import LoadReport, build_report
from rebalancer.load.scheduler_view import WatcherMetrics
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
from rebalancer.policy.load_sources import LoadSource, LoadWatcherSource, PrometheusSource, RequestsSource
from rebalancer.policy.policy_file import measured_resources, pressure_resources, required_resources
from rebalancer.policy.schema import RebalancePolicy
from rebalancer.state.samples import LoadSamples


class Reader(Protocol):
    """A load source: figures of nodes and pods, or a RebalancerError of one line."""

    def node_figures(self) -> NodeUsage:
        """Usage of the nodes."""

    def pod_figures(self) -> PodUsage | None:
        """Usage of the pods; None when the source has none."""


@dataclass(frozen=True, slots=True, eq=False)
class LoadInputs:
    """What the sources read from."""

    snapshot: Snapshot
    policy: RebalancePolicy
    requests: FloatArray  # (pods, 2) what each pod requests: thousandths of a core, bytes
    watchers: Mapping[str, WatcherMetrics]  # by address
    missing: Mapping[str, str]  # address of a load-watcher -> why there is no answer
    prometheus: PrometheusAccess
    samples: LoadSamples | None  # of earlier runs; None when there is no state
    now: float
    live: bool  # the cluster is a live one, not a recorded one
    scored: tuple[str, ...] = ()  # resources that the plugins of score rules score

    @property
    def window(self) -> MetricWindow:
        """How far back figures look."""
        return MetricWindow.of_policy(self.policy.load.window, self.policy.load.statistic)


@dataclass(frozen=True, slots=True, eq=False)
class LoadReading:
    """The report, and what the next run should know of it."""

    report: LoadReport
    present: Mapping[
        str, Mapping[str, float]
    ]  # percent by resource and node, where only the present is known


def read_load(inputs: LoadInputs) -> LoadReading:
    """Ask every source and join them; raises RebalancerError when none of them answered."""
    figures: list[NodeUsage] = []
    pod_figures: list[PodUsage] = []
    failures: list[RebalancerError] = []
    present: dict[str, dict[str, float]] = {}
    for source in inputs.policy.load.sources:
        try:
            reader = _reader(source, inputs)
            found = reader.node_figures()
        except RebalancerError as error:
            failures.append(error)
            continue
        if knows_only_the_present(found, inputs.window):
            for resource, percent in present_percent(inputs.snapshot.nodes, found).items():
                present[resource] = percent | present.get(resource, {})
            found = over_earlier_runs(found, inputs.snapshot.nodes, inputs.samples, inputs.window, inputs.now)
        of_pods = reader.pod_figures()
        if of_pods is not None:
            pod_figures.append(of_pods)
            found = with_summed_peaks(found, of_pods, inputs.snapshot.pods, inputs.window)
        figures.append(found)
    if not figures:
        raise _no_source_answered(inputs, failures)
    if inputs.snapshot.has(POD_METRICS):
        metrics = inputs.snapshot.recording.records(POD_METRICS)
        assert isinstance(metrics, PackedPodMetrics)
        pod_figures.append(pod_usage_of_metrics(metrics, inputs.snapshot.pods))
    report = build_report(
        inputs.snapshot.nodes,
        inputs.snapshot.pods,
        figures,
        pod_figures,
        inputs.requests,
        now=inputs.now,
        max_age_seconds=inputs.policy.load.max_age,
        resources=measured_resources(inputs.policy, inputs.scored),
        required=required_resources(inputs.policy, inputs.scored),
        failures=[f"load source not used: {failure}" for failure in failures],
    )
    return LoadReading(report, present)


def _no_source_answered(inputs: LoadInputs, failures: list[RebalancerError]) -> RebalancerError:
    tried, where = "; ".join(map(str, failures)), inputs.snapshot.source
    if any(isinstance(failure, RightsError) for failure in failures):
        return RightsError(
            f"no load source may be read: {tried}", where=where, hint="grant it as in k8s/base"
        )
    if inputs.live:
        hint = "see load.sources of the policy"
        return UnreachableError(f"no load source answered: {tried}", where=where, hint=hint)
    hint = "add nodemetrics.json: kubectl get --raw /apis/metrics.k8s.io/v1beta1/nodes"
    return InputError(f"no load figures: {tried}", where=where, hint=hint)


def _reader(source: LoadSource, inputs: LoadInputs) -> Reader:
    if isinstance(source, LoadWatcherSource):
        return _LoadWatcher(source.load_watcher.address, inputs)
    if isinstance(source, PrometheusSource):
        settings = source.prometheus
        return PrometheusReader(
            settings,
            inputs.prometheus.asking(connection_of(settings)),
            inputs.snapshot.nodes,
            inputs.snapshot.pods,
            inputs.now,
            inputs.window,
            measured_resources(inputs.policy, inputs.scored),
            inputs.policy.load.signals,
            pressure_resources(inputs.policy),
            inputs.prometheus.book.time,
        )
    if isinstance(source, RequestsSource):
        return _Requests(inputs)
    return _MetricsServer(inputs)


@dataclass(frozen=True, slots=True, eq=False)
class _LoadWatcher:
    address: str
    inputs: LoadInputs

    def node_figures(self) -> NodeUsage:
        metrics = self.inputs.watchers.get(self.address)
        if metrics is None:
            raise UnreachableError(f"load-watcher: {self.inputs.missing.get(self.address, 'not read')}")
        return node_usage_of_watcher(metrics, self.inputs.snapshot.nodes)

    def pod_figures(self) -> None:
        return None


@dataclass(frozen=True, slots=True, eq=False)
class _MetricsServer:
    inputs: LoadInputs

    def node_figures(self) -> NodeUsage:
        snapshot = self.inputs.snapshot
        if not snapshot.has(NODE_METRICS):
            why = snapshot.recording.unread.get(NODE_METRICS.plural, "not read")
            refused = NODE_METRICS.plural in snapshot.recording.refused
            error = RightsError if refused else UnreachableError
            raise error(f"metrics-server: {NODE_METRICS.plural} {why}")
        items = snapshot.recording.records(NODE_METRICS)
        metrics = [item for item in items if isinstance(item, records.NodeMetrics)]
        return node_usage_of_metrics(metrics, snapshot.nodes)

    def pod_figures(self) -> None:
        return None  # read with the cluster, and joined last whatever the sources


@dataclass(frozen=True, slots=True, eq=False)
class _Requests:
    inputs: LoadInputs

    def node_figures(self) -> NodeUsage:
        snapshot, requests = self.inputs.snapshot, self.inputs.requests
        total = np.zeros((len(snapshot.nodes), 2))
        bound = snapshot.pods.node >= 0
        np.add.at(total, snapshot.pods.node[bound], requests[bound])
        return node_usage_of_requests(total, self.inputs.now)

    def pod_figures(self) -> None:
        return None
