"""A run's traces as an OpenTelemetry collector receives them, by the published protocol."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from rebalancer.cli.program import main
from tests import loopback
from tests.conftest import SUMMARY
from tests.e2e.test_manifests import RecordProperty
from tests.integration.serving.replicas import Cluster, a_hot_cluster


@dataclass
class Collector:
    """Keeps what it is sent."""

    url: str = ""
    spans: list[Any] = field(default_factory=list)
    services: set[str] = field(default_factory=set)

    def take(self, path: str, body: bytes) -> None:
        if path == "/v1/traces":
            for traced in ExportTraceServiceRequest.FromString(body).resource_spans:
                self._name(traced.resource)
                self.spans += [span for scope in traced.scope_spans for span in scope.spans]

    def _name(self, resource: Any) -> None:
        self.services |= {
            item.value.string_value for item in resource.attributes if item.key == "service.name"
        }

    def tree(self) -> str:
        """The spans as a tree, in the order in which they began, without requests."""
        by_parent: dict[bytes, list[Any]] = {}
        for span in sorted(self.spans, key=lambda item: item.start_time_unix_nano):
            by_parent.setdefault(span.parent_span_id, []).append(span)

        def lines(parent: bytes, depth: int) -> Iterator[str]:
            for span in by_parent.get(parent, ()):
                if span.name != "request":
                    milliseconds = (span.end_time_unix_nano - span.start_time_unix_nano) / 1e6
                    pod = attributes(span).get("rebalancer.pod", "")
                    yield f"{'  ' * depth}{span.name} {pod or '-'} {milliseconds:.0f} ms"
                    yield from lines(span.span_id, depth + 1)

        return "\n" + "\n".join(lines(b"", 0))


def attributes(span: Any) -> dict[str, str]:
    return {item.key: item.value.string_value or str(item.value.int_value) for item in span.attributes}


@pytest.fixture
def collector() -> Iterator[Collector]:
    found = Collector()

    def take(request: loopback.Request) -> loopback.Answer:
        packed = request.headers.get("Content-Encoding") == "gzip"
        found.take(request.path, gzip.decompress(request.body) if packed else request.body)
        return loopback.Answer()

    with loopback.answering(take) as found.url:
        yield found


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with a_hot_cluster(tmp_path) as found:
        yield found


def a_run(cluster: Cluster, folder: Path) -> None:
    kubeconfig = cluster.sandbox.write_kubeconfig(folder / "other")
    journal = folder / "journal.jsonl"
    options = [f"--policy={cluster.policy}", f"--kubeconfig={kubeconfig}", f"--journal={journal}"]
    result = CliRunner().invoke(main, ["run", "--yes", *options, "--state-config-map=rebalancer/state"])
    assert result.exit_code == 0, result.output


def test_a_run_is_one_trace_with_its_stages_waves_evictions_and_landings(
    cluster: Cluster,
    collector: Collector,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record_property: RecordProperty,
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    a_run(cluster, tmp_path)
    by_id = {span.span_id: span for span in collector.spans}
    named = {name: [span for span in collector.spans if span.name == name] for name in NAMES}
    pods = sorted(attributes(span)["rebalancer.pod"] for span in named["eviction"])

    assert len({span.trace_id for span in collector.spans}) == 1
    (run,) = named["run"]
    assert run.parent_span_id == b""
    assert named["gather"]
    assert named["plan"]
    assert named["request"]
    assert {by_id[span.parent_span_id].name for span in named["wave"]} == {"run"}
    assert {by_id[span.parent_span_id].name for span in named["eviction"]} == {"wave"}
    assert len(pods) == 4
    assert sorted(attributes(span)["rebalancer.pod"] for span in named["landing"]) == pods
    for landing in named["landing"]:
        (link,) = landing.links
        eviction = by_id[link.span_id]
        assert attributes(eviction)["rebalancer.pod"] == attributes(landing)["rebalancer.pod"]
        assert attributes(landing)["rebalancer.node"].startswith("node-")
    assert collector.services == {"rebalancer"}
    record_property(SUMMARY, f"a run as a collector receives it: {collector.tree()}")


NAMES = ("run", "gather", "plan", "wave", "eviction", "landing", "request")


def test_a_collector_that_does_not_answer_changes_nothing(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    a_run(cluster, tmp_path)
