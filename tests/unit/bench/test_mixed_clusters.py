"""Mixed clusters: what they hold, and that nothing of it stands where a scheduler would not have put it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import numpy as np
import pytest

from bench.mixed_clusters import FEWEST_NODES, MOST_NODES, MixedCluster, mixed_cluster, mixed_inputs
from bench.requested_clusters import limited_policy

SEEDS = range(4)


def _bytes(cluster: MixedCluster) -> bytes:
    return msgspec.json.encode((cluster.items, cluster.usage))


def _requests(pod: dict[str, Any]) -> tuple[int, int]:
    """Thousandths of a core and MiB."""
    requests = pod["spec"]["containers"][0].get("resources", {}).get("requests", {})
    cpu = requests.get("cpu", "0m").removesuffix("m")
    memory = requests.get("memory", "0Mi").removesuffix("Mi")
    return int(cpu), int(memory)


def _controller(pod: dict[str, Any]) -> str:
    return str(pod["metadata"]["ownerReferences"][0]["kind"])


def test_a_cluster_is_the_same_for_its_seed_and_another_for_each() -> None:
    assert _bytes(mixed_cluster(3, 0.65)) == _bytes(mixed_cluster(3, 0.65))
    assert len({_bytes(mixed_cluster(seed, 0.65)) for seed in SEEDS}) == len(SEEDS)


@pytest.mark.parametrize("mean_load", [0.55, 0.65, 0.75])
def test_a_cluster_uses_as_much_of_its_cpu_as_asked_and_no_node_more_than_it_has(mean_load: float) -> None:
    for seed in SEEDS:
        load = mixed_inputs(seed, mean_load, policy=limited_policy()).load
        assert FEWEST_NODES <= len(load.usage) <= MOST_NODES
        assert load.usage[:, 0].sum() / load.allocatable[:, 0].sum() == pytest.approx(mean_load)
        assert np.all(load.percent[:, 0] < 105.01)
        assert np.all(load.percent[:, 1] < 95.01)


def test_pods_stand_where_taints_affinity_room_and_siblings_let_them() -> None:
    for seed in SEEDS:
        cluster = mixed_cluster(seed, 0.65)
        pool_of = {node.name: node.pool for node in cluster.nodes}
        requested = {node.name: np.zeros(2) for node in cluster.nodes}
        of_stateful_set: Counter[tuple[str, str]] = Counter()
        for pod in cluster.items["pods"]:
            node = pod["spec"]["nodeName"]
            pool = pool_of[node]
            tolerations = pod["spec"].get("tolerations", [])
            tolerated = {toleration.get("key", pool.taint) for toleration in tolerations}
            assert not pool.taint or pool.taint in tolerated
            required = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
            terms = required.get("requiredDuringSchedulingIgnoredDuringExecution", {})
            for term in terms.get("nodeSelectorTerms", []):
                assert term["matchExpressions"][0]["values"] == [pool.name]
            requested[node] += _requests(pod)
            if _controller(pod) == "StatefulSet":
                of_stateful_set[node, pod["metadata"]["labels"]["app"]] += 1
        for node, amounts in requested.items():
            cpu_milli, memory_gib = pool_of[node].size
            assert np.all(amounts <= (cpu_milli, 1024 * memory_gib))
        assert set(of_stateful_set.values()) <= {1}


def test_only_agents_run_on_nodes_that_have_just_been_added() -> None:
    for seed in SEEDS:
        cluster = mixed_cluster(seed, 0.65)
        recent = {node.name for node in cluster.nodes if node.recent}
        pods = cluster.items["pods"]
        assert 1 <= len(recent) <= 3
        assert {_controller(pod) for pod in pods if pod["spec"]["nodeName"] in recent} == {"DaemonSet"}


def test_every_cluster_has_something_of_everything_and_some_pods_without_requests() -> None:
    without_requests = 0
    for seed in SEEDS:
        items = mixed_cluster(seed, 0.65).items
        pods = items["pods"]
        assert {_controller(pod) for pod in pods} == {"ReplicaSet", "StatefulSet", "DaemonSet"}
        without_requests += sum(_requests(pod) == (0, 0) for pod in pods)
        assert items["poddisruptionbudgets"]
        assert items["persistentvolumes"]
        assert any("taints" in node["spec"] for node in items["nodes"])
        specs = [controller["spec"]["template"]["spec"] for controller in items["replicasets"]]
        assert any("topologySpreadConstraints" in spec for spec in specs)
        assert any("podAntiAffinity" in spec.get("affinity", {}) for spec in specs)
        replicas = [controller["spec"]["replicas"] for controller in items["replicasets"]]
        assert min(replicas) == 1
        assert max(replicas) > 8
    assert without_requests > 0
