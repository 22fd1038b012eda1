from __future__ import annotations

from typing import Any

import pytest

from rebalancer.cluster.kinds import KINDS
from rebalancer.planning.assemble import system_workloads
from tests.builders import a_snapshot
from tests.rows import rows
from tests.unit.planning.builders import Workload, a_workload


def running(image: str, namespace: str = "tools", **changes: Any) -> Workload:
    workload = a_workload("it", ["n"], namespace=namespace, **changes)
    for pod in workload.pods:
        pod["spec"]["containers"][0]["image"] = image
    return workload


def found(
    workload: Workload,
    sources: set[tuple[str, str]] | None = None,
    namespaces: set[str] | None = None,
    **kinds: Any,
) -> frozenset[str]:
    everything: dict[str, Any] = (
        {kind.plural: [] for kind in KINDS} | {workload.plural: [workload.item]} | kinds
    )
    return system_workloads(
        a_snapshot(**(everything | {"pods": workload.pods})), sources or set(), namespaces or set()
    )


def a_service(name: str, **selector: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "tools"}, "spec": {"selector": selector}}


@rows(
    "image",
    [
        "registry.k8s.io/kube-scheduler:v1.35.4",
        "docker.io/rancher/metrics-server@sha256:0123",
        "localhost:5000/load-watcher",
        "quay.io/prometheus/prometheus:v3",
        "example/rebalancer:0.1.0",
    ],
)
def test_well_known_images_are_relied_on(image: str) -> None:
    assert found(running(image)) == {"tools/ReplicaSet/it"}


@pytest.mark.parametrize("image", ["example/app:v1", "kube-scheduler.example/app", "example/my-scheduler"])
def test_other_images_are_not(image: str) -> None:
    assert found(running(image)) == frozenset()


def test_any_scheduler_where_a_configuration_lives_is_relied_on() -> None:
    assert found(running("example/my-scheduler"), namespaces={"tools"}) == {"tools/ReplicaSet/it"}


def test_what_a_service_of_a_load_source_selects_is_relied_on() -> None:
    services = [a_service("watcher", app="it")]
    assert found(running("app"), {("tools", "watcher")}, services=services) == {"tools/ReplicaSet/it"}


@pytest.mark.parametrize(
    "service", [a_service("watcher", app="other"), a_service("watcher"), a_service("another", app="it")]
)
def test_what_it_does_not_select_is_not(service: dict[str, Any]) -> None:
    assert found(running("app"), {("tools", "watcher")}, services=[service]) == frozenset()


def test_a_service_selects_in_its_own_namespace_only() -> None:
    services = [a_service("watcher", app="it")]
    assert found(running("app", "shop"), {("tools", "watcher")}, services=services) == frozenset()
