"""Figures of nodes and pods from a real Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from rebalancer.load.usage import NodeUsage
from rebalancer.load.windows import MetricWindow, with_summed_peaks
from rebalancer.policy.load_sources import Signal
from tests.integration.prometheus.clusters import GIB, NAMES, NOW, a_cluster, a_reader, node_exporter
from tests.integration.prometheus.servers import Prometheus, Samples, moments, running

KUBELET = {"job": "kubelet", "metrics_path": "/metrics/cadvisor"}


def the_past() -> Samples:
    samples = Samples()
    # node_exporter: the first two by address and port, the last one by name.
    for instance, cores in (("10.0.0.1:9100", 3.0), ("10.0.0.2:9100", 1.0), ("n2", 0.5)):
        node_exporter(samples, instance, cores=cores)
        network = {"instance": instance, "device": "eth0"}
        samples.counter("node_network_receive_bytes_total", network, 10e6 * cores, NOW, 1800)
        samples.counter("node_network_receive_bytes_total", {**network, "device": "veth1"}, 9e9, NOW, 1800)
        samples.counter("node_network_transmit_bytes_total", network, 5e6, NOW, 1800)
        samples.steady("node_network_speed_bytes", network, 125e6, NOW, 1800)
        filled = {"instance": instance, "mountpoint": "/"}
        samples.steady("node_filesystem_size_bytes", filled, 100 * GIB, NOW, 1800)
        samples.steady("node_filesystem_avail_bytes", filled, 100 * GIB - 20 * GIB * cores, NOW, 1800)
    # cAdvisor: `node` is the name, `instance` the kubelet's address and port.
    for number, cores in enumerate((2.0, 1.0, 0.25), start=1):
        of = {**KUBELET, "instance": f"10.0.0.{number}:10250", "node": f"n{number - 1}", "id": "/"}
        samples.counter("container_cpu_usage_seconds_total", of, cores, NOW, 1800)
        samples.steady("container_memory_working_set_bytes", of, number * GIB, NOW, 1800)
    pod = {**KUBELET, "namespace": "default", "pod": "web-0", "instance": "10.0.0.1:10250", "node": "n0"}
    for container, cores in (("web", 0.75), ("sidecar", 0.25)):
        of = {**pod, "container": container, "id": f"/kubepods/{container}"}
        samples.counter("container_cpu_usage_seconds_total", of, cores, NOW, 1800)
        samples.steady("container_memory_working_set_bytes", of, GIB / 2, NOW, 1800)
    # The pod's own cgroup and its pause container tell the same again.
    for container in ("", "POD"):
        of = {**pod, "container": container, "id": f"/kubepods/{container or 'pod'}"}
        samples.counter("container_cpu_usage_seconds_total", of, 1.0, NOW, 1800)
        samples.steady("container_memory_working_set_bytes", of, GIB, NOW, 1800)
    samples.counter("container_network_receive_bytes_total", {**pod, "interface": "eth0"}, 3e6, NOW, 1800)
    # kube-prometheus' recording rules: ratios, `instance` is the name of the node.
    for name, ratio in (("n0", 0.9), ("n1", 0.25), ("n2", 0.125)):
        for rule in ("instance:node_cpu_utilisation:rate5m", "instance:node_memory_utilisation:ratio"):
            samples.steady(rule, {"instance": name}, ratio, NOW, 1800)
    # A spike of one minute on n0, and a node that is steadily busy.
    spike = [(moment, 3.9 if NOW - moment <= 60 else 0.4) for moment in moments(NOW, 1800)]
    samples.add("cores", {"instance": "n0"}, spike)
    samples.steady("cores", {"instance": "n1"}, 3.4, NOW, 1800)
    samples.steady("cores", {"instance": "n2"}, 1.0, NOW, 1800)
    return samples


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    with running(tmp_path_factory.mktemp("prometheus"), the_past()) as found:
        yield found


def cores(figures: NodeUsage) -> list[float]:
    return [round(value / 1000, 2) for value in figures.usage[:, 0].tolist()]


def test_nodes_are_found_by_address_and_port_as_well_as_by_name(server: Prometheus) -> None:
    figures = a_reader(server.address, a_cluster()).node_figures()

    assert cores(figures) == [3.0, 1.0, 0.5]
    assert figures.usage[:, 1].tolist() == [2 * GIB] * 3
    assert figures.measured_at.tolist() == [[NOW, NOW]] * 3
    assert figures.window_seconds.tolist() == [[300.0, 0.0]] * 3  # a rate looks back, a gauge does not
    assert figures.warnings == ()


def test_the_kubelet_is_read_by_its_node_label(server: Prometheus) -> None:
    figures = a_reader(server.address, a_cluster(), preset="cadvisor").node_figures()

    assert cores(figures) == [2.0, 1.0, 0.25]
    assert figures.usage[:, 1].tolist() == [GIB, 2 * GIB, 3 * GIB]


def test_recording_rules_are_ratios_of_capacity(server: Prometheus) -> None:
    figures = a_reader(server.address, a_cluster(), preset="kubePrometheus").node_figures()

    assert cores(figures) == [3.6, 1.0, 0.5]
    assert figures.usage[:, 1].tolist() == pytest.approx([7.2 * GIB, 2 * GIB, GIB])
    assert figures.window_seconds[0].tolist() == [300.0, 0.0]


def test_pods_are_the_sum_of_their_containers_and_of_nothing_else(server: Prometheus) -> None:
    reader = a_reader(server.address, a_cluster(), resources=("cpu", "memory", "networkReceive"))
    figures = reader.pod_figures()

    assert figures is not None
    assert figures.usage[0].tolist() == pytest.approx([1000.0, GIB, 3e6])
    assert np.isnan(figures.usage[1]).all()
    assert figures.measured_at[0] == NOW
    assert figures.warnings == ()


def test_traffic_is_a_rate_of_real_links_in_percent_of_their_speed(server: Prometheus) -> None:
    resources = ("cpu", "memory", "networkReceive", "networkTransmit")
    figures = a_reader(server.address, a_cluster(), resources=resources).node_figures()

    assert figures.usage[:, 2].tolist() == pytest.approx([30e6, 10e6, 5e6])
    assert figures.usage[:, 3].tolist() == pytest.approx([5e6] * 3)
    assert figures.capacity["networkReceive"].tolist() == [125e6] * 3


def test_traffic_is_that_of_the_interface_and_of_the_capacity_that_the_policy_names(
    server: Prometheus,
) -> None:
    reader = a_reader(
        server.address,
        a_cluster(),
        resources=("cpu", "memory", "networkReceive"),
        network={"device": "eth0", "range": 60, "capacity": "250M"},
    )
    figures = reader.node_figures()

    assert figures.usage[:, 2].tolist() == pytest.approx([30e6, 10e6, 5e6])
    assert figures.warnings == ()
    assert figures.capacity["networkReceive"].tolist() == [250e6] * 3


def test_a_signal_is_any_query_and_its_capacity_a_quantity_or_another_query(server: Prometheus) -> None:
    used = 'node_filesystem_size_bytes{mountpoint="/"} - node_filesystem_avail_bytes{mountpoint="/"}'
    signals = {
        "disk": Signal(query=used, capacity='node_filesystem_size_bytes{mountpoint="/"}'),
        "load": Signal(query="cores", capacity="4"),
    }
    reader = a_reader(
        server.address, a_cluster(), resources=("cpu", "memory", "disk", "load"), signals=signals
    )
    figures = reader.node_figures()

    assert figures.usage[:, 2].tolist() == pytest.approx([60 * GIB, 20 * GIB, 10 * GIB])
    assert figures.capacity["disk"].tolist() == [100 * GIB] * 3
    assert figures.capacity["load"].tolist() == [4.0] * 3


@pytest.mark.parametrize(
    ("statistic", "expected"),
    [
        ("mean", [0.74, 3.4, 1.0]),
        ("p50", [0.4, 3.4, 1.0]),
        ("p99", [3.9, 3.4, 1.0]),
        ("max", [3.9, 3.4, 1.0]),
        ("meanPlusDeviation", [1.77, 3.4, 1.0]),
    ],
)
def test_a_spike_is_not_a_hot_node_over_a_window(
    server: Prometheus, statistic: str, expected: list[float]
) -> None:
    window = MetricWindow(900.0, statistic)
    reader = a_reader(server.address, a_cluster(), window=window, queries={"cpu": "cores"})
    figures = reader.node_figures()

    assert cores(a_reader(server.address, a_cluster(), queries={"cpu": "cores"}).node_figures())[0] == 3.9
    assert cores(figures) == pytest.approx(expected, abs=0.02)
    assert figures.statistic == statistic
    assert figures.deviation is not None
    assert figures.deviation[:, 0].tolist() == pytest.approx([1028, 0, 0], abs=10)
    assert figures.window_seconds[:, 0].tolist() == [900.0] * 3


POD_CORES = (
    'label_replace(label_replace(cores{instance="n0"}, "pod", "web-0", "", ""), '
    '"namespace", "default", "", "")'
)


def test_each_resource_has_the_statistic_that_the_policy_names_for_it(server: Prometheus) -> None:
    window = MetricWindow.of_policy(900.0, {"cpu": "p50"})
    queries = {"cpu": "cores", "memory": "cores * 1024"}
    figures = a_reader(server.address, a_cluster(), window=window, queries=queries).node_figures()

    assert cores(figures) == pytest.approx([0.4, 3.4, 1.0], abs=0.02)
    assert (figures.usage[:, 1] / 1024).tolist() == pytest.approx([0.74, 3.4, 1.0], abs=0.02)  # the mean


@pytest.mark.parametrize(
    ("pod_cores", "first"),
    [
        (f"0.25 * {POD_CORES}", 3.84),  # the mean of 0.74 and three deviations of 1.03
        (f"4 + 0 * {POD_CORES}", 4.0),  # the pod brought more than the node's past shows
    ],
)
def test_a_predicted_peak_is_the_higher_of_two_predictions(
    server: Prometheus, pod_cores: str, first: float
) -> None:
    snapshot, window = a_cluster(), MetricWindow(900.0, "predictedPeak")
    queries = {"cpu": "cores", "pod_cpu": pod_cores}
    reader = a_reader(server.address, snapshot, window=window, queries=queries)
    pods = reader.pod_figures()
    assert pods is not None

    figures = with_summed_peaks(reader.node_figures(), pods, snapshot.pods, window)
    assert cores(figures) == pytest.approx([first, 3.4, 1.0], abs=0.02)


def test_pods_have_the_same_window_as_their_nodes(server: Prometheus) -> None:
    window = MetricWindow(900.0)
    reader = a_reader(
        server.address,
        a_cluster(),
        window=window,
        queries={
            "pod_cpu": 'label_replace(label_replace(cores{instance="n0"}, "pod", "web-0", "", ""), '
            '"namespace", "default", "", "")'
        },
    )
    figures = reader.pod_figures()

    assert figures is not None
    assert figures.usage[0, 0] == pytest.approx(740, abs=250)


def test_a_metric_that_prometheus_still_answers_with_is_as_old_as_its_sample(server: Prometheus) -> None:
    later = NOW + 200  # samples end at NOW; Prometheus looks back five minutes
    figures = a_reader(server.address, a_cluster(), now=later).node_figures()

    assert figures.measured_at.tolist() == [[NOW, NOW]] * 3


def test_a_policy_can_name_the_label_that_holds_the_node(server: Prometheus) -> None:
    query = 'label_replace(cores, "host", "$1", "instance", "(.*)")'
    figures = a_reader(
        server.address, a_cluster(), node_label="host", queries={"cpu": query, "memory": f"1e9 * ({query})"}
    ).node_figures()

    assert cores(figures) == [3.9, 3.4, 1.0]


@pytest.mark.parametrize("count", [10, 1000])
def test_the_number_of_queries_does_not_grow_with_the_number_of_nodes(server: Prometheus, count: int) -> None:
    snapshot = a_cluster(*NAMES, *(f"x{number}" for number in range(count - len(NAMES))))
    before = server.requests()
    reader = a_reader(server.address, snapshot, resources=("cpu", "memory", "networkReceive"))
    figures = reader.node_figures()
    reader.pod_figures()

    assert cores(figures)[:3] == [3.0, 1.0, 0.5]
    # The clock, three metrics, their age, the links' speed; of pods three, their age, and whose they are.
    assert server.requests() - before == 11
