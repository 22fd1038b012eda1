"""What belongs to a deleted object goes with it, unless the deletion says that it is to be left."""

from __future__ import annotations

import pytest
from kubernetes import client

from rebalancer_demo import Sandbox
from rebalancer_demo.objects import Object, is_ready
from tests.integration.demo.builders import a_deployment_with_its_replica_set, a_node, a_pod, connected, names


def a_deployment_beside_a_pod() -> list[Object]:
    return [*a_deployment_with_its_replica_set(), a_pod("alone", node="n1"), a_node("n1"), a_node("n2")]


def ready_pods(sandbox: Sandbox) -> int:
    return sum(map(is_ready, sandbox.pods("shop")))


def test_a_deleted_deployment_takes_its_replica_sets_and_pods_along() -> None:
    objects = a_deployment_beside_a_pod()
    with connected(Sandbox(objects, ready_after=0, terminates_after=0)) as (sandbox, core):
        assert sandbox.wait_until(lambda: ready_pods(sandbox) == 3)
        apps = client.AppsV1Api(core.api_client)
        apps.delete_namespaced_deployment("web", "shop", propagation_policy="Background")

        assert sandbox.wait_until(lambda: names(sandbox.pods("shop")) == ["alone"])
        assert sandbox.wait_until(lambda: not sandbox.store.all("replicasets", "shop"))


@pytest.mark.parametrize("in_body", [True, False])
def test_what_a_deletion_orphans_stays_and_belongs_to_nobody(in_body: bool) -> None:
    objects = a_deployment_beside_a_pod()
    with connected(Sandbox(objects, ready_after=0, terminates_after=0)) as (sandbox, core):
        assert sandbox.wait_until(lambda: ready_pods(sandbox) == 3)
        apps = client.AppsV1Api(core.api_client)
        options = {"body": {"propagationPolicy": "Orphan"}} if in_body else {"propagation_policy": "Orphan"}
        apps.delete_namespaced_deployment("web", "shop", **options)

        (left,) = sandbox.store.all("replicasets", "shop")
        assert left["metadata"]["ownerReferences"] == []
        core.delete_namespaced_pod("alone", "shop", grace_period_seconds=0)
        assert sandbox.wait_until(lambda: len(sandbox.pods("shop")) == 2)
        assert ready_pods(sandbox) == 2
