"""Spans as OpenTelemetry traces, sent to a collector.

A run is one trace: gather, plan, each wave, and in a wave its evictions. Where a replacement was ready, seen
afterwards, is a span of its own with a link to the eviction that it follows from:

    run
    ├── gather
    ├── plan
    └── wave 1
        ├── eviction shop/web-1
        └── landing  shop/web-1 on node-5   ⟶ eviction shop/web-1
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rebalancer.telemetry.otlp import EXPORT_SECONDS, is_wanted, resource
from rebalancer.telemetry.spans import Span, listening

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span as Traced

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
def exported_traces(version: str) -> Iterator[None]:
    """Send what happens within this block to the collector that the OTEL_* variables name, if they do."""
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
        sending.join(EXPORT_SECONDS)


def _send(provider: TracerProvider) -> None:
    provider.force_flush(int(EXPORT_SECONDS * 1000))
    provider.shutdown()
