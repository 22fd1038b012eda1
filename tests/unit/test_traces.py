"""OpenTelemetry is wanted by its variables alone, and holds up nobody."""

from __future__ import annotations

import logging
import threading

import pytest

from rebalancer import traces
from rebalancer.telemetry import span
from rebalancer.traces import is_wanted, resource
from tests import loopback
from tests.rows import rows
from tests.waiting import NEVER_SECONDS, ended, no_hang

COLLECTOR = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}


@rows(
    "environment, wanted",
    [
        ({}, False),
        (COLLECTOR, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c/v1/traces"}, True),
        (COLLECTOR | {"OTEL_SDK_DISABLED": "true"}, False),
        (COLLECTOR | {"OTEL_TRACES_EXPORTER": "none"}, False),
        (COLLECTOR | {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, False),
        (
            COLLECTOR
            | {
                "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
                "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
            },
            True,
        ),
        ({"OTEL_SERVICE_NAME": "mine"}, False),
    ],
)
def test_only_the_variables_say_what_is_sent(environment: dict[str, str], wanted: bool) -> None:
    assert is_wanted(environment) is wanted


def test_without_the_extra_it_is_named_and_nothing_is_sent(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http", None)
    with caplog.at_level(logging.WARNING):
        assert not is_wanted(COLLECTOR)
    assert "pipx inject rebalancer opentelemetry-sdk" in caplog.text


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
        assert not is_wanted(COLLECTOR | {variable: protocol})
    (message,) = caplog.messages
    assert message.startswith(f"no traces are sent: {variable} is {protocol}, and only http/protobuf")
    assert "4318" in message


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
