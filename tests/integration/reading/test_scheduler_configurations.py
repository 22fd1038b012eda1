"""A first policy names the scheduler's configuration found in the cluster, and reads little for it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rebalancer.observe.configuration import configurations_in
from rebalancer.observe.plan_options import PlanOptions
from rebalancer.policy.policy_file import parse_policy
from rebalancer.run.first_policy import suggest_policy
from rebalancer_demo import User, allow
from tests.docs.outputs import page_cluster
from tests.integration.reading.servers import a_sandbox, answering, api_of, cluster_objects
from tests.rows import rows

CONFIGURATION = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def a_config_map(name: str, data: Mapping[str, str], namespace: str = "kube-system") -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(data)}


def test_keys_that_hold_a_configuration_are_found_by_the_name_of_their_config_map() -> None:
    maps = [
        a_config_map("scheduler-config", {"a.yaml": CONFIGURATION, "readme": "kind: other"}),
        a_config_map("my-sched", {"b.yaml": CONFIGURATION}),
        a_config_map("settings", {"c.yaml": CONFIGURATION}),
    ]
    with a_sandbox(objects=[*cluster_objects(), *maps]) as sandbox, api_of(sandbox.url) as api:
        found = configurations_in(api)

    assert {(place.namespace, place.name, place.key) for place in found} == {
        ("kube-system", "scheduler-config", "a.yaml"),
        ("kube-system", "my-sched", "b.yaml"),
    }


def test_many_keys_and_config_maps_of_others_neither_hide_the_clusters_own_nor_are_all_tried() -> None:
    keys = {f"{number}.yaml": CONFIGURATION for number in range(1000)}
    maps = [a_config_map(f"sched-{number}", keys, "attacker") for number in range(12)]
    maps.append(a_config_map("scheduler-config", {"own.yaml": CONFIGURATION}))
    with a_sandbox(objects=[*cluster_objects(), *maps]) as sandbox, api_of(sandbox.url) as api:
        found = configurations_in(api)

    assert found[0].key == "own.yaml"
    assert len(found) == 10


def test_nothing_is_found_and_nothing_fails_without_the_right_to_list_config_maps() -> None:
    user = User("reader", (allow("get list", "nodes pods"),))
    maps = [a_config_map("scheduler-config", {"a.yaml": CONFIGURATION})]
    sandbox = a_sandbox(objects=[*cluster_objects(), *maps], users={"t": user})

    with sandbox, api_of(sandbox.url, "t") as api:
        assert configurations_in(api) == ()


@rows("body", [b"[]", b"{", b'{"items": 3}', b'{"items": [{"metadata": {"name": 5}}]}', b"\xff"])
def test_an_answer_that_is_no_list_is_nothing_found(body: bytes) -> None:
    with answering(lambda _path: (200, body, "application/json")) as url, api_of(url) as api:
        assert configurations_in(api) == ()


def test_a_server_that_goes_on_for_ever_is_asked_for_twenty_pages(tmp_path: Path) -> None:
    asked: list[str] = []

    def more(path: str) -> tuple[int, bytes, str]:
        asked.append(path)
        return 200, b'{"metadata": {"continue": "x"}, "items": []}', "application/json"

    with answering(more) as url, api_of(url) as api:
        assert configurations_in(api) == ()
    assert len(asked) == 20


def test_a_suggested_policy_names_the_configuration_with_a_profile_for_most_pods(tmp_path: Path) -> None:
    with page_cluster() as cluster:
        kubeconfig = cluster.write_kubeconfig(tmp_path / "kubeconfig")
        suggested = suggest_policy(PlanOptions(kubeconfig=kubeconfig))

    place = parse_policy(suggested.text, "test").policy.schedulers[0].config_map
    assert place is not None
    assert (place.namespace, place.name) == ("scheduler-plugins", "scheduler-config")
    assert suggested.moves > 0


def test_a_configuration_that_cannot_be_used_and_a_copy_that_nobody_mounts_are_said_and_not_named(
    tmp_path: Path,
) -> None:
    """Both stand in kube-system, which comes first."""
    with page_cluster() as cluster, api_of(cluster.url) as api:
        own = api.config_map("scheduler-plugins", "scheduler-config")
        assert own is not None
        unknown = f"{CONFIGURATION}profiles: [{{plugins: {{score: {{enabled: [{{name: Unheard}}]}}}}}}]\n"
        for name, data in (("scheduler-config", own), ("sched-of-somebody", {"a.yaml": unknown})):
            cluster.store.create("configmaps", a_config_map(name, data))
        node = cluster.store.all("nodes")[0]["metadata"]["name"]
        volumes = [{"name": "config", "configMap": {"name": "scheduler-config"}}]
        containers = [{"name": "c", "image": "registry.example/kube-scheduler:v0.26.7"}]
        spec = {"nodeName": node, "containers": containers, "volumes": volumes}
        pod = {"metadata": {"namespace": "scheduler-plugins", "name": "mine"}, "spec": spec}
        cluster.store.create("pods", {"apiVersion": "v1", "kind": "Pod", **pod})
        kubeconfig = cluster.write_kubeconfig(tmp_path / "kubeconfig")
        suggested = suggest_policy(PlanOptions(kubeconfig=kubeconfig))

    place = parse_policy(suggested.text, "test").policy.schedulers[0].config_map
    assert place is not None
    assert (place.namespace, place.name) == ("scheduler-plugins", "scheduler-config")
    words = " ".join(suggested.text.replace("#", "").split())
    assert "Not named: configmap kube-system/scheduler-config scheduler-config.yaml serves " in words
    assert "Not named: configmap kube-system/sched-of-somebody a.yaml:3:" in words
