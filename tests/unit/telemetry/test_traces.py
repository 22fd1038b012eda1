"""Traces hold up nobody."""

from __future__ import annotations

import socket

import pytest

from rebalancer import otlp as traces
from rebalancer.telemetry import span
from tests.waiting import NEVER_SECONDS, no_hang

pytest.importorskip("opentelemetry.exporter.otlp.proto.http")


def test_a_collector_that_does_not_answer_holds_up_the_end_for_so_long_at_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(traces, "EXPORT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", str(NEVER_SECONDS))
        with no_hang("the end does not wait for the collector"), traces.exported_traces("1.0"), span("run"):
            pass
