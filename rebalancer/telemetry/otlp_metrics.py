"""The metrics of a registry, sent once to an OpenTelemetry collector: for runs that nobody scrapes."""

from __future__ import annotations

import itertools
import logging
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.samples import Sample

from rebalancer.telemetry.otlp import EXPORT_SECONDS, is_wanted, resource

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import HistogramDataPoint, Metric

LOGGER = logging.getLogger(__name__)
_BEGAN = time.time_ns()


def export_metrics(registry: CollectorRegistry, version: str) -> None:
    """Send every metric to the collector that the OTEL_* variables name; a failure is a warning."""
    if not is_wanted("METRICS"):
        return
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter  # noqa: PLC0415
    from opentelemetry.sdk.metrics.export import (  # noqa: PLC0415
        MetricExportResult,
        MetricsData,
        ResourceMetrics,
        ScopeMetrics,
    )
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope  # noqa: PLC0415

    scope = InstrumentationScope("rebalancer", version)
    metrics = [_metric(family) for family in registry.collect()]
    data = MetricsData([ResourceMetrics(resource(version), [ScopeMetrics(scope, metrics, "")], "")])
    exporter = OTLPMetricExporter(timeout=EXPORT_SECONDS)
    try:
        if exporter.export(data, timeout_millis=EXPORT_SECONDS * 1000) is not MetricExportResult.SUCCESS:
            LOGGER.warning("the collector did not take the metrics")
    finally:
        exporter.shutdown()


def _metric(family: Family) -> Metric:
    from opentelemetry.sdk.metrics.export import (  # noqa: PLC0415
        AggregationTemporality,
        Gauge,
        Histogram,
        Metric,
        NumberDataPoint,
        Sum,
    )

    now, cumulative = time.time_ns(), AggregationTemporality.CUMULATIVE
    if family.type == "histogram":
        points = _histograms(family.samples, now)
        return Metric(family.name, family.documentation, None, Histogram(points, cumulative))
    numbers = [NumberDataPoint(sample.labels, _BEGAN, now, sample.value) for sample in family.samples]
    if family.type == "counter":
        return Metric(f"{family.name}_total", family.documentation, None, Sum(numbers, cumulative, True))
    return Metric(family.name, family.documentation, None, Gauge(numbers))


def _histograms(samples: Sequence[Sample], now: int) -> list[HistogramDataPoint]:
    from opentelemetry.sdk.metrics.export import HistogramDataPoint  # noqa: PLC0415

    buckets: defaultdict[tuple[tuple[str, str], ...], list[tuple[float, float]]] = defaultdict(list)
    sums: dict[tuple[tuple[str, str], ...], float] = {}
    for sample in samples:
        labels = tuple(sorted((key, value) for key, value in sample.labels.items() if key != "le"))
        if sample.name.endswith("_bucket"):
            buckets[labels].append((float(sample.labels["le"]), sample.value))
        elif sample.name.endswith("_sum"):
            sums[labels] = sample.value
    found = []
    for labels, counted in buckets.items():
        counted.sort()
        bounds = [bound for bound, _ in counted[:-1]]
        totals = [0.0, *(total for _, total in counted)]
        counts = [int(after - before) for before, after in itertools.pairwise(totals)]
        total = sums.get(labels, 0.0)
        # The extremes are not known of a Prometheus histogram; those of OTLP are optional, and so left at 0.
        point = HistogramDataPoint(dict(labels), _BEGAN, now, sum(counts), total, counts, bounds, 0.0, 0.0)
        found.append(point)
    return found
