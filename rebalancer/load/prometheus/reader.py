"""Prometheus as a load source: figures of nodes and pods, and a warning for everything that was not used."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rebalancer.cluster.arrays import BoolArray, FloatArray, IntArray
from rebalancer.errors import RebalancerError
from rebalancer.load.figures.node_figures import NodeFigures, PodFigures
from rebalancer.load.prometheus.inputs import PrometheusInputs
from rebalancer.load.prometheus.nodes import NodeReading
from rebalancer.load.prometheus.pressure import read_pressure
from rebalancer.load.prometheus.queries import queries_of
from rebalancer.load.prometheus.questions import Question
from rebalancer.load.prometheus.wire import Latest, failure_words

_TRAFFIC = frozenset({"networkReceive", "networkTransmit"})


class PrometheusReader(PrometheusInputs):
    """Reads one Prometheus: one request per metric, whatever the number of nodes and pods."""

    __slots__ = ()

    def node_figures(self) -> NodeFigures:
        """Figures of every resource that is asked for; RebalancerError when no query was answered."""
        reading = NodeReading(self)
        figures = reading.figures()
        if not self.pressure:
            return figures
        pressure = read_pressure(reading)
        return replace(figures, pressure=pressure, warnings=tuple(reading.warnings))

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
                latest = self.latest(Question(self.window.of_resource(resource).over(query)))
            except (RebalancerError, ValueError, RecursionError) as error:
                warnings.append(f"{self.name}: {resource} of pods: {failure_words(error)}")
                continue
            answered = True
            scale = 1000.0 if resource == "cpu" else 1.0
            column = self.resources.index(resource)
            usage[:, column], unused = self._by_pod(latest, scale)
            if resource in _TRAFFIC:  # on the node's network a pod's traffic is the node's
                usage[self._on_host_network(), column] = np.nan
            warnings += [f"{self.name}: {resource} of pods: {warning}" for warning in unused]
        if queries.pod_timestamp and answered:
            try:
                moments, _ = self._by_pod(self.latest(Question(queries.pod_timestamp)), 1.0)
                measured_at = np.where(np.isnan(moments), measured_at, moments)
            except (RebalancerError, ValueError, RecursionError) as error:
                warnings.append(f"{self.name}: the age of figures of pods: {failure_words(error)}")
        if not answered:
            usage[:] = np.nan
        return PodFigures(usage, measured_at, tuple(warnings), self.resources)

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
        amounts = latest.values[ours][first] * scale
        with np.errstate(invalid="ignore"):
            broken = ~((amounts >= 0) & (amounts < np.inf))
        values[rows] = np.where(broken | (count > 1), np.nan, amounts)
        unused = []
        for which, number, what in (
            (rows[count > 1], int((count - 1).sum()), "have two series"),
            (rows[broken], int(broken.sum()), "are negative or not a number"),
        ):
            if len(which):
                example = self.pods.full_name(int(which[0]))
                unused.append(f"{number} {what} and are not used, e.g. {example}")
        return values, unused
