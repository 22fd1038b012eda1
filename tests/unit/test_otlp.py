"""OpenTelemetry is wanted by its variables alone, and holds up nobody."""

from __future__ import annotations

import logging
import threading

import pytest

from rebalancer import otlp as traces
from rebalancer.otlp import is_wanted, resource
from rebalancer.reporting.metrics import RunMetrics
from rebalancer.telemetry import span
from tests import loopback
from tests.waiting import NEVER_SECONDS, ended, no_hang

COLLECTOR = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}


@pytest.mark.parametrize(
    ("environment", "traces", "metrics"),
    [
        ({}, False, False),
        (COLLECTOR, True, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c/v1/traces"}, True, False),
        (COLLECTOR | {"OTEL_SDK_DISABLED": "true"}, False, False),
        (COLLECTOR | {"OTEL_TRACES_EXPORTER": "none"}, False, True),
        (COLLECTOR | {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, False, False),
        (COLLECTOR | {"OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "http/protobuf"}, True, True),
        ({"OTEL_SERVICE_NAME": "mine"}, False, False),
    ],
)
def test_only_the_variables_say_what_is_sent(
    environment: dict[str, str], traces: bool, metrics: bool
) -> None:
    assert is_wanted("TRACES", environment) is traces
    assert is_wanted("METRICS", environment) is metrics


def test_without_the_extra_it_is_named_and_nothing_is_sent(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http", None)
    with caplog.at_level(logging.WARNING):
        assert not is_wanted("TRACES", COLLECTOR)
    assert "install rebalancer[otel]" in caplog.text


def test_a_service_name_of_the_variables_counts() -> None:
    assert resource("1.0", {}).attributes["service.name"] == "rebalancer"
    assert "service.name" not in {
        key
        for key, value in resource("1.0", {"OTEL_SERVICE_NAME": "mine"}).attributes.items()
        if value == "rebalancer"
    }


@pytest.mark.parametrize("variable", ["OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"])
@pytest.mark.parametrize("protocol", ["grpc", "http/json"])
def test_another_protocol_is_refused_with_the_variable_to_set(
    variable: str, protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert not is_wanted("TRACES", COLLECTOR | {variable: protocol})
    (message,) = caplog.messages
    assert message.startswith(f"no traces are sent: {variable} is {protocol}, and only http/protobuf")
    assert "4318" in message


@pytest.mark.parametrize(
    ("metrics", "general", "seconds"),
    [("", "", 10), ("", "2", 2), ("0.5", "2", 0.5), ("", "10000", 10), ("", "soon", 10), ("nan", "", 10)],
)
def test_metrics_wait_for_a_collector_as_long_as_the_variables_say_within_a_bound(
    metrics: str, general: str, seconds: float
) -> None:
    variables = {"OTEL_EXPORTER_OTLP_METRICS_TIMEOUT": metrics, "OTEL_EXPORTER_OTLP_TIMEOUT": general}
    assert traces.export_seconds(variables) == seconds


def test_metrics_are_sent_with_that_time(monkeypatch: pytest.MonkeyPatch) -> None:
    module = pytest.importorskip("opentelemetry.exporter.otlp.proto.http.metric_exporter")
    made: list[float] = []

    class Exporter(module.OTLPMetricExporter):  # type: ignore[name-defined, misc]
        def __init__(self, timeout: float) -> None:
            made.append(timeout)
            super().__init__(timeout=timeout)

    monkeypatch.setattr(module, "OTLPMetricExporter", Exporter)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "3")
    with loopback.answering(lambda _: loopback.Answer()) as url:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        traces._export([], "1.0")
    assert made == [3.0]


# Traces hold up nobody.


pytest.importorskip("opentelemetry.exporter.otlp.proto.http")


def test_a_collector_that_does_not_answer_holds_up_the_end_for_so_long_at_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(traces, "EXPORT_SECONDS", 0.2)
    over = threading.Event()

    def late(_: loopback.Request) -> loopback.Answer:
        over.wait(NEVER_SECONDS)
        return loopback.Answer()

    with loopback.answering(late) as url:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", str(NEVER_SECONDS))
        with no_hang("the end does not wait for the collector"), traces.exported_traces("1.0"), span("run"):
            pass
        over.set()
        for thread in [thread for thread in threading.enumerate() if thread.name == "traces"]:
            ended(thread, awaited="nothing is sent any more once the collector has answered")


def test_a_collector_that_does_not_answer_holds_up_no_run_and_gets_the_newest_metrics_at_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers, sent = threading.Event(), threading.Event()
    received: list[int] = []

    def late(request: loopback.Request) -> loopback.Answer:
        received.append(len(request.body))
        sent.set()
        answers.wait(NEVER_SECONDS)
        return loopback.Answer()

    metrics = RunMetrics()
    with loopback.answering(late) as url:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        export = traces.MetricsExport("1.0", leaving_seconds=0.0)
        with no_hang("a run does not wait for the collector"), export:
            for code in range(5):
                metrics.ended(code, 1.8e9)
                export.send(metrics.registry)
                assert sent.wait(NEVER_SECONDS)
        answers.set()
        for thread in [thread for thread in threading.enumerate() if thread.name == "metrics"]:
            ended(thread, awaited="what waited is sent once the collector has answered")
    assert len(received) == 2, "the first, and of the others the newest"
