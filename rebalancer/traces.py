"""Traces for an OpenTelemetry collector, if the OTEL_* variables name one, and nothing else.

    OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318            as for every program
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://…/v1/traces        traces alone
    OTEL_SDK_DISABLED=true, OTEL_TRACES_EXPORTER=none            nothing
    OTEL_EXPORTER_OTLP_PROTOCOL=grpc                             nothing: OTLP over HTTP alone is supported

OpenTelemetry's packages are the extra ``otel``, and are imported here only, when they are wanted.

A run is one trace: gather, plan, each wave, and in a wave its evictions. Where a replacement was ready is
seen afterwards: a span of its own, with a link to the eviction that it follows from. Metrics are scraped or
pushed, see ``rebalancer.reporting.metrics``.

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

import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rebalancer.telemetry import Span, listening

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span as Traced

LOGGER = logging.getLogger(__name__)
EXPORT_SECONDS = 10.0  # a collector that does not answer by then gets nothing
LEAVING_SECONDS = 2.0  # likewise, once a service was asked to stop
_PROTOCOL = "http/protobuf"
_HOW_TO_INSTALL = "pipx inject rebalancer opentelemetry-sdk opentelemetry-exporter-otlp-proto-http"
# The variable for traces goes before that for all signals.
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")


def is_wanted(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the variables name a collector for traces, and the packages for it are there.

    Logs a warning where one is named and cannot be used.
    """
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    if environment.get("OTEL_TRACES_EXPORTER", "otlp") != "otlp":
        return False
    if not any(environment.get(name) for name in _ENDPOINTS):
        return False
    for variable in _PROTOCOLS:
        protocol = environment.get(variable)
        if protocol == _PROTOCOL:
            break
        if protocol:
            LOGGER.warning(
                "no traces are sent: %s is %s, and only %s is supported; set it to that, with the endpoint "
                "of the collector's HTTP receiver, usually port 4318",
                variable,
                protocol,
                _PROTOCOL,
            )
            return False
    try:
        import opentelemetry.exporter.otlp.proto.http  # noqa: F401, PLC0415 - an extra
    except ImportError:
        LOGGER.warning("the OTEL_* variables ask for traces: %s", _HOW_TO_INSTALL)
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
            links=[trace.Link(begun.get_span_context()) for begun in linked if begun is not None],
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
    if not is_wanted():
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
