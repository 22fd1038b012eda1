"""A central Prometheus: several clusters in one server are told apart, or the server is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rebalancer.errors import InputError
from rebalancer.load.prometheus.client import LivePrometheus
from rebalancer.load.prometheus.clusters import refuse_doubled_nodes
from rebalancer.load.prometheus.reader import connection_of
from rebalancer.policy.load_sources import Prometheus as Settings
from rebalancer.retries import Retries
from tests.integration.prometheus.clusters import GIB, NOW, a_cluster, a_reader, node_exporter
from tests.integration.prometheus.servers import Prometheus, Samples, answering, running

PRESETS = ("nodeExporter", "cadvisor", "kubePrometheus")
CPU_RULE = "node_namespace_pod_container:container_cpu_usage_seconds_total:sum_rate5m"
MEMORY_RULE = "node_namespace_pod_container:container_memory_working_set_bytes"


def a_cluster_in_it(samples: Samples, subnet: int, cores: float, **labels: str) -> None:
    """Series of all presets of a cluster of three nodes, with a pod default/web-0 on the first."""
    for number in (1, 2, 3):
        address = f"10.0.{subnet}.{number}"
        node_exporter(samples, f"{address}:9100", cores=cores, memory=2 * GIB, end=NOW, **labels)
        for rule in ("instance:node_cpu_utilisation:rate5m", "instance:node_memory_utilisation:ratio"):
            samples.steady(rule, {"instance": f"{address}:9100", **labels}, cores / 4, NOW, 1800)
        kubelet = {"instance": f"{address}:10250", "job": "kubelet", **labels}
        samples.counter("container_cpu_usage_seconds_total", {**kubelet, "id": "/"}, cores, NOW, 1800)
        samples.steady("container_memory_working_set_bytes", {**kubelet, "id": "/"}, 2 * GIB, NOW, 1800)
        if number == 1:
            rules = {**kubelet, "namespace": "default", "pod": "web-0", "container": "web"}
            pod = {**rules, "id": "/kubepods/web"}
            samples.counter("container_cpu_usage_seconds_total", pod, cores / 2, NOW, 1800)
            samples.steady("container_memory_working_set_bytes", pod, GIB, NOW, 1800)
            samples.steady(CPU_RULE, rules, cores / 2, NOW, 1800)
            samples.steady(MEMORY_RULE, rules, GIB, NOW, 1800)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """North is ours; south has our nodes' addresses, east a pod of one name; replicas tell all twice."""
    samples = Samples()
    a_cluster_in_it(samples, 0, 1.0, cluster="north", k8s="ours", replica="a")
    a_cluster_in_it(samples, 0, 3.0, cluster="south", k8s="ours", replica="a")
    a_cluster_in_it(samples, 7, 2.0, cluster="east", k8s="far", replica="a")
    a_cluster_in_it(samples, 0, 1.0, cluster="north", k8s="ours", replica="b")
    with running(tmp_path_factory.mktemp("prometheus"), samples) as found:
        yield found


def refusal(server: Prometheus, preset: str, labels: Mapping[str, str]) -> str:
    reader = a_reader(server.address, a_cluster(), preset=preset, labels=labels)
    with pytest.raises(InputError) as caught:
        reader.node_figures()
    return str(caught.value)


@pytest.mark.parametrize("preset", PRESETS)
def test_with_its_labels_a_clusters_figures_are_its_own(server: Prometheus, preset: str) -> None:
    labels = {"cluster": "north", "replica": "a"}
    reader = a_reader(server.address, a_cluster(), preset=preset, labels=labels)
    figures = reader.node_figures()
    of_pods = reader.pod_figures()

    assert figures.usage[:, 0].tolist() == pytest.approx([1000.0] * 3)
    assert of_pods is not None
    assert of_pods.usage[0].tolist() == pytest.approx([500.0, GIB])
    assert (figures.warnings, of_pods.warnings) == ((), ())


@pytest.mark.parametrize("preset", ["nodeExporter", "kubePrometheus"])
def test_clusters_whose_nodes_share_addresses_are_refused_with_the_line_to_add(
    server: Prometheus, preset: str
) -> None:
    said = refusal(server, preset, {"replica": "a"})

    assert "series of node n0 carry several values of cluster" in said
    assert 'add labels: {cluster: "' in said


@pytest.mark.parametrize("preset", ["nodeExporter", "kubePrometheus"])
def test_replicas_that_tell_everything_twice_are_refused(server: Prometheus, preset: str) -> None:
    assert 'add labels: {replica: "a"}' in refusal(server, preset, {"cluster": "north"})


@pytest.mark.parametrize("preset", PRESETS)
def test_pods_of_clusters_whose_nodes_have_other_addresses_are_refused(
    server: Prometheus, preset: str
) -> None:
    reader = a_reader(server.address, a_cluster(), preset=preset, labels={"replica": "a"})
    with pytest.raises(InputError) as caught:
        reader.pod_figures()

    assert 'add labels: {k8s: "ours"}' in str(caught.value)


def test_a_tenant_goes_with_every_request_and_stands_in_no_message() -> None:
    seen: list[str] = []

    def answer(_: str, headers: Mapping[str, str]) -> tuple[int, bytes]:
        seen.append(headers.get("X-Scope-OrgID", ""))
        return 500, b""

    with answering(answer) as host:
        settings = Settings(address=f"http://{host}", headers={"X-Scope-OrgID": "tenant-7"})
        connection = connection_of(settings)
        reader = msgspec.structs.replace(
            a_reader(f"http://{host}", a_cluster(), headers={"X-Scope-OrgID": "tenant-7"}),
            ask=LivePrometheus(connection, None, NOW, retries=Retries(pause=lambda _: None)),
        )
        with pytest.raises(Exception, match="HTTP 500") as caught:
            reader.node_figures()

    assert set(seen) == {"tenant-7"}
    assert "tenant-7" not in str(caught.value) + repr(connection)


LABELS = st.dictionaries(st.sampled_from(["instance", "cluster", "replica"]), st.sampled_from(["", "a", "b"]))
MOMENTS = st.sampled_from([NOW - 3600, NOW - 30, NOW])


@given(st.lists(st.tuples(st.sampled_from(["n0", "n1"]), LABELS, MOMENTS), max_size=6))
@example([("n0", {"instance": "a"}, NOW), ("n0", {"instance": "a"}, NOW)])
def test_series_of_a_node_at_one_time_are_refused_whatever_tells_them_apart(
    series: list[tuple[str, dict[str, str], float]],
) -> None:
    newest = {name: max(moment for node, _, moment in series if node == name) for name, _, _ in series}
    current = Counter(name for name, _, moment in series if moment >= newest[name] - 60.0)
    if max(current.values(), default=0) > 1:
        with pytest.raises(InputError, match="would be added up"):
            refuse_doubled_nodes("prometheus", series)
    else:
        refuse_doubled_nodes("prometheus", series)
