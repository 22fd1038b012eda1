"""Traces and metrics for an OpenTelemetry collector, if the OTEL_* variables ask for them, and nothing else.

    OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318            traces and metrics
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://…/v1/traces        traces alone
    OTEL_SDK_DISABLED=true, OTEL_METRICS_EXPORTER=none           nothing, no metrics
    OTEL_EXPORTER_OTLP_PROTOCOL=grpc                             nothing: OTLP over HTTP alone is supported

The packages are an extra, ``rebalancer[otel]``, and are imported here only, when they are wanted.

A run is one trace: gather, plan, each wave, and in a wave its evictions. Where a replacement was ready is
seen afterwards: a span of its own, with a link to the eviction that it follows from. The metrics of a run
that nobody scrapes are sent once, when it is over, and those of a service after each of its runs.

Whatever is sent is sent on a thread of its own, which the program leaves behind at its end: a collector that
is silent holds up neither a run nor the loop of a service.

    run
    ├── gather
    ├── plan
    └── wave 1
        ├── eviction shop/web-1
        └── landing  shop/web-1 on node-5   ⟶ eviction shop/web-1
"""

from __future__ import annotations

import itertools
import logging
import os
import threading
import time
from collections import OrderedDict, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from rebalancer.telemetry import Span, listening

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import HistogramDataPoint, Metric
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span as Traced
    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric as Family
    from prometheus_client.samples import Sample


LOGGER = logging.getLogger(__name__)
EXPORT_SECONDS = 10.0  # a collector that does not answer by then gets nothing
LEAVING_SECONDS = 2.0  # likewise, once a service was asked to stop
_PROTOCOL = "http/protobuf"


def is_wanted(signal: Literal["TRACES", "METRICS"], environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the variables name a collector for this signal, and the packages for it are there.

    Logs a warning where one is named and cannot be used.
    """
    own = f"OTEL_EXPORTER_OTLP_{signal}"
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    if environment.get(f"OTEL_{signal}_EXPORTER", "otlp") != "otlp":
        return False
    if not (environment.get(f"{own}_ENDPOINT") or environment.get("OTEL_EXPORTER_OTLP_ENDPOINT")):
        return False
    variable = f"{own}_PROTOCOL" if environment.get(f"{own}_PROTOCOL") else "OTEL_EXPORTER_OTLP_PROTOCOL"
    protocol = environment.get(variable)
    if protocol and protocol != _PROTOCOL:
        LOGGER.warning(
            "no %s are sent: %s is %s, and only %s is supported; set it to that, with the endpoint of the "
            "collector's HTTP receiver, usually port 4318",
            *(signal.lower(), variable, protocol, _PROTOCOL),
        )
        return False
    try:
        import opentelemetry.exporter.otlp.proto.http  # noqa: F401, PLC0415 - an extra
    except ImportError:
        LOGGER.warning("the OTEL_* variables ask for %s: install rebalancer[otel]", signal.lower())
        return False
    return True


def resource(version: str, environment: Mapping[str, str] = os.environ) -> Resource:
    """Who sends this: what the variables say, and our name where they name no service."""
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - an extra

    attributes = {"service.version": version}
    named = "service.name=" in environment.get("OTEL_RESOURCE_ATTRIBUTES", "")
    if not named and not environment.get("OTEL_SERVICE_NAME"):
        attributes["service.name"] = "rebalancer"
    return Resource.create(attributes)


MAX_LINKED = 1000  # spans that are over and may still be linked to
_NANOSECONDS = 1e9


class Tracing:
    """A listener that makes a traced span of each span; a run begins a trace."""

    def __init__(self, provider: TracerProvider, version: str) -> None:
        self._tracer = provider.get_tracer("rebalancer", version)
        self._open: dict[int, Traced] = {}
        self._over: OrderedDict[int, Traced] = OrderedDict()

    def span_began(self, span: Span) -> None:
        """See Listener."""
        from opentelemetry import trace  # noqa: PLC0415 - an extra
        from opentelemetry.context import Context  # noqa: PLC0415

        parent = self._open.get(span.parent.number) if span.parent is not None else None
        if parent is None and span.name != "run":
            return  # a look at the lease between two runs, or a request on a thread of its own
        linked = (self._over.get(link.number) or self._open.get(link.number) for link in span.links)
        self._open[span.number] = self._tracer.start_span(
            span.name,
            context=trace.set_span_in_context(parent, Context()) if parent is not None else Context(),
            links=[trace.Link(found.get_span_context()) for found in linked if found is not None],
            start_time=int(span.began * _NANOSECONDS),
        )

    def span_ended(self, span: Span) -> None:
        """See Listener."""
        from opentelemetry.trace import Status, StatusCode  # noqa: PLC0415 - an extra

        traced = self._open.pop(span.number, None)
        if traced is None:
            return
        for name, value in span.fields.items():
            traced.set_attribute(f"rebalancer.{name}", value)
        if span.error:
            traced.set_status(Status(StatusCode.ERROR, span.error))
        traced.end(int((span.began + (span.seconds or 0.0)) * _NANOSECONDS))
        self._over[span.number] = traced
        while len(self._over) > MAX_LINKED:
            self._over.popitem(last=False)


@contextmanager
def exported_traces(version: str, leaving_seconds: float = EXPORT_SECONDS) -> Iterator[None]:
    """Send what happens within this block to the collector that the OTEL_* variables name, if they do.

    At its end what is left is sent for so many seconds.
    """
    if not is_wanted("TRACES"):
        yield
        return
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    provider = TracerProvider(resource=resource(version), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    try:
        with listening(Tracing(provider, version)):
            yield
    finally:
        # Neither keeps to a time of its own, and a signal may have left the provider locked.
        sending = threading.Thread(target=_send, args=(provider,), name="traces", daemon=True)
        sending.start()
        sending.join(leaving_seconds)


def _send(provider: TracerProvider) -> None:
    provider.force_flush(int(EXPORT_SECONDS * 1000))
    provider.shutdown()


_BEGAN = time.time_ns()


class MetricsExport:
    """Sends metrics to the collector that the OTEL_* variables name, if they do, on a thread of its own.

    While a collector is silent, what is newer takes the place of what still waits to be sent; at the end of
    the block it is waited for so many seconds.
    """

    def __init__(self, version: str, leaving_seconds: float = EXPORT_SECONDS) -> None:
        self._version = version
        self._leaving_seconds = leaving_seconds
        self._wanted: bool | None = None  # not known yet
        self._newest: Sequence[Family] | None = None
        self._thread: threading.Thread | None = None

    def send(self, registry: CollectorRegistry) -> None:
        """Send the metrics as they are now; a failure is a warning."""
        if self._wanted is None:
            self._wanted = is_wanted("METRICS")
        if not self._wanted:
            return
        self._newest = list(registry.collect())
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._work, name="metrics", daemon=True)
            self._thread.start()

    def __enter__(self) -> MetricsExport:
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread is not None:
            self._thread.join(self._leaving_seconds)

    def _work(self) -> None:
        while self._newest is not None:
            families, self._newest = self._newest, None
            _export(families, self._version)


def export_seconds(environment: Mapping[str, str] = os.environ) -> float:
    """How long a collector may take for metrics: the seconds of the variables, within our own bound."""
    own, general = "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"
    try:
        seconds = float(environment.get(own) or environment.get(general) or EXPORT_SECONDS)
    except ValueError:
        return EXPORT_SECONDS
    return seconds if 0 < seconds < EXPORT_SECONDS else EXPORT_SECONDS


def _export(families: Sequence[Family], version: str) -> None:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter  # noqa: PLC0415
    from opentelemetry.sdk.metrics.export import (  # noqa: PLC0415
        MetricExportResult,
        MetricsData,
        ResourceMetrics,
        ScopeMetrics,
    )
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope  # noqa: PLC0415

    scope = InstrumentationScope("rebalancer", version)
    metrics = [_metric(family) for family in families]
    data = MetricsData([ResourceMetrics(resource(version), [ScopeMetrics(scope, metrics, "")], "")])
    exporter = OTLPMetricExporter(timeout=export_seconds())
    try:
        if exporter.export(data) is not MetricExportResult.SUCCESS:
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

    by_labels: defaultdict[tuple[tuple[str, str], ...], list[Sample]] = defaultdict(list)
    for sample in samples:
        labels = tuple(sorted((key, value) for key, value in sample.labels.items() if key != "le"))
        by_labels[labels].append(sample)
    found = []
    for labels, of_one in by_labels.items():
        counted = sorted((float(item.labels["le"]), item.value) for item in of_one if "le" in item.labels)
        bounds, totals = [bound for bound, _ in counted[:-1]], [0.0, *(total for _, total in counted)]
        counts = [int(after - before) for before, after in itertools.pairwise(totals)]
        total = next((item.value for item in of_one if item.name.endswith("_sum")), 0.0)
        # The extremes are not known of a Prometheus histogram; those of OTLP are optional, and so left at 0.
        point = HistogramDataPoint(dict(labels), _BEGAN, now, sum(counts), total, counts, bounds, 0.0, 0.0)
        found.append(point)
    return found
