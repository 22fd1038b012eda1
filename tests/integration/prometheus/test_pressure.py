"""Pressure of nodes from a real Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from msgspec.structs import replace

from rebalancer.load.usage import NodeUsage
from tests.integration.prometheus.clusters import NOW, a_cluster, a_reader, node_exporter
from tests.integration.prometheus.servers import Prometheus, Samples, moments, running

KINDS = [("cpu", "waiting"), *((name, kind) for name in ("memory", "io") for kind in ("waiting", "stalled"))]


def the_past() -> Samples:
    samples = Samples()
    # n0 waits for cpu a quarter of the time, n1 publishes zeros since it booted, n2 has no pressure at all.
    for instance in ("10.0.0.1:9100", "10.0.0.2:9100", "n2"):
        node_exporter(samples, instance, cores=1.0)
    for name, kind in KINDS:
        counter = f"{name}_{kind}_seconds_total"
        rate = {"cpu": 0.25, "memory": 0.06}.get(name, 0.0)
        for prefix, waits, zeros in (
            ("node_pressure", {"instance": "10.0.0.1:9100"}, {"instance": "10.0.0.2:9100"}),
            (
                "container_pressure",
                {"instance": "10.0.0.1:10250", "node": "n0", "id": "/"},
                {"instance": "10.0.0.2:10250", "node": "n1", "id": "/"},
            ),
        ):
            points = [(moment, 500 + rate * (moment - NOW)) for moment in moments(NOW, 1800)]
            samples.add(f"{prefix}_{counter}", waits, points)
            samples.steady(f"{prefix}_{counter}", zeros, 0.0, NOW, 1800)
    for number in (1, 2, 3):
        of = {"instance": f"10.0.0.{number}:10250", "node": f"n{number - 1}", "id": "/"}
        samples.counter("container_cpu_usage_seconds_total", of, 1.0, NOW, 1800)
        samples.steady("container_memory_working_set_bytes", of, 1e9, NOW, 1800)
    return samples


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    with running(tmp_path_factory.mktemp("prometheus"), the_past()) as found:
        yield found


def figures(server: Prometheus, preset: str, now: float = NOW) -> NodeUsage:
    reader = a_reader(server.address, a_cluster(), preset=preset, now=now)
    return replace(reader, pressure=("cpu", "memory", "io")).node_figures()


@pytest.mark.parametrize("preset", ["nodeExporter", "cadvisor"])
def test_pressure_is_percent_of_the_time_and_unknown_where_it_was_zero_since_boot(
    server: Prometheus, preset: str
) -> None:
    found = figures(server, preset)
    pressure = found.pressure
    assert pressure is not None
    assert {name: np.round(values, 3).tolist()[0] for name, values in pressure.percent.items()} == {
        "cpu": 25.0,
        "memory": 6.0,
        "io": 0.0,
    }
    for values in pressure.percent.values():
        assert np.isnan(values[1:]).all()
    assert pressure.measured_at[0] == NOW
    name = a_reader(server.address, a_cluster()).name
    assert f"{name}: pressure is zero since boot, so not measured, on node n1" in found.warnings
    assert f"{name}: no pressure of cpu for node n2" in found.warnings


def test_the_age_of_pressure_is_that_of_its_sample(server: Prometheus) -> None:
    pressure = figures(server, "nodeExporter", NOW + 120).pressure
    assert pressure is not None
    assert pressure.measured_at[0] == NOW


def test_pressure_that_no_rule_names_is_not_asked_for(server: Prometheus) -> None:
    assert a_reader(server.address, a_cluster()).node_figures().pressure is None
