"""Prometheus as a load source: figures of nodes and pods, and every doubt about them in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import numpy as np

from rebalancer.cluster.arrays import BoolArray, FloatArray, IntArray
from rebalancer.cluster.columns.nodes import NodeTable
from rebalancer.cluster.columns.pods import PodTable
from rebalancer.errors import RebalancerError
from rebalancer.load.figures.metric_windows import PRESENT, Window
from rebalancer.load.figures.node_figures import RESOURCES, NodeFigures, PodFigures
from rebalancer.load.prometheus.http import Ask, Question
from rebalancer.load.prometheus.nodes import NodeReading
from rebalancer.load.prometheus.queries import queries_of
from rebalancer.load.prometheus.wire import Latest, Series, decode_answer, decode_latest, failure_words
from rebalancer.policy.prometheus import Prometheus, Signal

_TRAFFIC = frozenset({"networkReceive", "networkTransmit"})


@dataclass(frozen=True, slots=True, eq=False)
class PrometheusReader:
    """Reads one Prometheus: one request a metric, whatever the number of nodes and pods."""

    settings: Prometheus
    ask: Ask
    nodes: NodeTable
    pods: PodTable
    now: float
    window: Window = PRESENT
    resources: tuple[str, ...] = RESOURCES
    signals: Mapping[str, Signal] = field(default_factory=dict)
    asked_at: float | None = None  # by our clock, when the server told its own; None: not compared

    @property
    def name(self) -> str:
        """What reports call the source."""
        return f"prometheus {urlsplit(self.settings.address).netloc}"

    def node_figures(self) -> NodeFigures:
        """Figures of every resource that is asked for; RebalancerError when no query was answered."""
        return NodeReading(self).figures()

    def pod_figures(self) -> PodFigures | None:
        """Usage of the pods; None when the policy does not want it, or no query was answered."""
        queries = queries_of(self.settings)
        wanted = {name: query for name, query in queries.pods.items() if name in self.resources}
        wanted |= {name: item.pod_query for name, item in self.signals.items() if item.pod_query}
        if not self.settings.pods or not wanted:
            return None
        usage = np.full((len(self.pods), len(self.resources)), np.nan)
        measured_at = np.full(len(self.pods), self.now)
        warnings: list[str] = []
        answered = False
        for resource, query in wanted.items():
            try:
                latest = self._latest(Question(self.window.over(query)))
            except (RebalancerError, ValueError, RecursionError) as error:
                warnings.append(f"{self.name}: {resource} of pods: {failure_words(error)}")
                continue
            answered = True
            scale = 1000.0 if resource == "cpu" else 1.0
            column = self.resources.index(resource)
            usage[:, column], doubts = self._by_pod(latest, scale)
            if resource in _TRAFFIC:  # on the node's network a pod's traffic is the node's
                usage[self._on_host_network(), column] = np.nan
            warnings += [f"{self.name}: {resource} of pods: {doubt}" for doubt in doubts]
        if queries.pod_timestamp and answered:
            try:
                moments, _ = self._by_pod(self._latest(Question(queries.pod_timestamp)), 1.0)
                measured_at = np.where(np.isnan(moments), measured_at, moments)
            except (RebalancerError, ValueError, RecursionError) as error:
                warnings.append(f"{self.name}: the age of figures of pods: {failure_words(error)}")
        if not answered:
            usage[:] = np.nan
        return PodFigures(usage, measured_at, tuple(warnings), self.resources)

    def series(self, question: Question) -> Sequence[Series]:
        """The series of an answer; RebalancerError or ValueError when there is none."""
        return decode_answer(self.ask(question))

    def _latest(self, question: Question) -> Latest:
        """The last values of an answer, of which there are as many as pods; raises as ``series``."""
        return decode_latest(self.ask(question))

    def _on_host_network(self) -> BoolArray:
        """(pods,) uses the network of its node."""
        found = np.array([bool(pod.spec.host_network) for pod in self.pods.classes], np.bool_)
        return np.asarray(found[self.pods.pod_class], np.bool_)

    def _by_pod(self, latest: Latest, scale: float) -> tuple[FloatArray, list[str]]:
        """(pods,) the last value of each pod's series, and what was not used."""
        values = np.full(len(self.pods), np.nan)
        row_of, namespace, pod = self.pods.row, self.settings.namespace_label, self.settings.pod_label
        row: IntArray = np.array(
            [row_of.get((labels.get(namespace, ""), labels.get(pod, "")), -1) for labels in latest.labels],
            np.int64,
        )
        ours = row >= 0
        rows, first, count = np.unique(row[ours], return_index=True, return_counts=True)
        told = latest.values[ours][first] * scale
        with np.errstate(invalid="ignore"):
            broken = ~((told >= 0) & (told < np.inf))
        values[rows] = np.where(broken | (count > 1), np.nan, told)
        doubts = []
        for which, number, what in (
            (rows[count > 1], int((count - 1).sum()), "have two series"),
            (rows[broken], int(broken.sum()), "are negative or no number"),
        ):
            if len(which):
                example = self.pods.full_name(int(which[0]))
                doubts.append(f"{number} {what}, and were not used, e.g. {example}")
        return values, doubts
