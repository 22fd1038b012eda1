"""When controllers replace pods, and what their status says."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from kubernetes import client

from rebalancer_demo import Sandbox
from rebalancer_demo.objects import Object, is_ready, is_terminating
from tests.integration.demo.builders import (
    START,
    StillClock,
    a_budget,
    a_deployment_with_its_replica_set,
    a_node,
    a_pod,
    a_replica_set,
    a_stateful_set,
    connected,
    eviction_of,
    names,
)


def status_of(sandbox: Sandbox, plural: str, name: str) -> Object:
    item = sandbox.store.get(plural, "shop", name)
    assert item is not None
    return dict(item.get("status") or {})


def test_a_replica_set_replaces_a_pod_while_it_still_terminates() -> None:
    clock = StillClock()
    owner = a_replica_set(replicas=1)
    objects = [owner, a_pod("web-old", node="n1", owner=owner), a_node("n1"), a_node("n2")]
    with connected(Sandbox(objects, clock=clock, ready_after=1, terminates_after=20)) as (sandbox, core):
        core.create_namespaced_pod_eviction("web-old", "shop", eviction_of("web-old"))
        assert sandbox.wait_until(lambda: len(sandbox.pods("shop", phase="Running")) == 2)
        old = sandbox.pod("shop", "web-old")
        assert old is not None
        assert is_terminating(old)
        new = next(pod for pod in sandbox.pods("shop") if pod is not old)
        assert new["metadata"]["name"].startswith("web-")
        assert len(new["metadata"]["name"]) == len("web-xxxxx")
        assert new["metadata"]["generateName"] == "web-"
        assert new["metadata"]["ownerReferences"][0]["uid"] == "rs-web"
        assert new["spec"]["nodeName"] == "n2"  # n1 is still taken by the old pod
        clock.advance(21)
        assert sandbox.wait_until(lambda: names(sandbox.pods("shop")) == [new["metadata"]["name"]])


def test_a_stateful_set_replaces_a_pod_only_once_it_is_gone() -> None:
    clock = StillClock()
    owner = a_stateful_set(replicas=2)
    objects = [owner, *(a_pod(f"db-{at}", node="n1", owner=owner, app="db") for at in range(2)), a_node("n1")]
    with connected(Sandbox(objects, clock=clock, ready_after=1, terminates_after=20)) as (sandbox, core):
        before = sandbox.pod("shop", "db-1")
        assert before is not None
        core.create_namespaced_pod_eviction("db-1", "shop", eviction_of("db-1"))
        clock.advance(19)
        assert sandbox.wait_until(lambda: status_of(sandbox, "statefulsets", "db").get("replicas") == 1)
        still = sandbox.pod("shop", "db-1")
        assert still is not None
        assert still["metadata"]["uid"] == before["metadata"]["uid"]
        clock.advance(2)
        assert sandbox.wait_until(
            lambda: (
                (pod := sandbox.pod("shop", "db-1")) is not None
                and pod["metadata"]["uid"] != before["metadata"]["uid"]
            )
        )
        assert sandbox.wait_until(lambda: len(sandbox.pods("shop", phase="Running")) == 2)
        clock.advance(2)
        assert sandbox.wait_until(lambda: status_of(sandbox, "statefulsets", "db")["readyReplicas"] == 2)


def test_an_ordered_stateful_set_starts_a_pod_when_the_one_before_is_ready() -> None:
    clock = StillClock()
    with Sandbox([a_stateful_set(replicas=3), a_node("n1")], clock=clock, ready_after=10) as sandbox:
        for ready in range(3):
            assert sandbox.wait_until(lambda: len(sandbox.pods("shop")) == ready + 1)  # noqa: B023
            assert sandbox.wait_until(lambda: len(sandbox.pods("shop", phase="Running")) == ready + 1)  # noqa: B023
            assert names(sandbox.pods("shop")) == [f"db-{at}" for at in range(ready + 1)]
            clock.advance(11)
        assert sandbox.wait_until(lambda: all(is_ready(pod) for pod in sandbox.pods("shop")))


def test_a_grace_period_shorter_than_the_kubelets_default_counts() -> None:
    clock = StillClock()
    objects = [a_node("n1"), a_pod("quick", node="n1", grace=2), a_pod("slow", node="n1", grace=60)]
    with connected(Sandbox(objects, clock=clock, terminates_after=10)) as (sandbox, core):
        for name in ("quick", "slow"):
            core.create_namespaced_pod_eviction(name, "shop", eviction_of(name))
        sandbox.settle()  # the kubelets have seen both
        clock.advance(3)
        assert sandbox.wait_until(lambda: names(sandbox.pods("shop")) == ["slow"])
        clock.advance(8)
        assert sandbox.wait_until(lambda: sandbox.pods("shop") == [])


def test_a_surplus_that_a_dump_shows_is_left_alone_and_a_new_one_is_not() -> None:
    owner = a_replica_set(replicas=2)
    pods = [a_pod(f"web-{at}", node="n1", owner=owner) for at in range(3)]
    with connected(Sandbox([owner, *pods, a_node("n1")])) as (sandbox, _core):
        assert sandbox.wait_until(lambda: status_of(sandbox, "replicasets", "web")["replicas"] == 3)
        assert len(sandbox.pods("shop")) == 3
        sandbox.registry.set_scale(
            "replicasets", "shop", "web", lambda scale: {**scale, "spec": {"replicas": 1}}
        )
        assert sandbox.wait_until(lambda: len(sandbox.pods("shop")) == 1)


def test_the_status_of_a_deployment_follows_its_replica_set() -> None:
    deployment, owner = a_deployment_with_its_replica_set(generation=3)
    with connected(Sandbox([deployment, owner, a_node("n1")], ready_after=0)) as (sandbox, _core):
        done = {
            "replicas": 2,
            "readyReplicas": 2,
            "availableReplicas": 2,
            "updatedReplicas": 2,
            "unavailableReplicas": 0,
            "observedGeneration": 3,
        }
        assert sandbox.wait_until(lambda: status_of(sandbox, "deployments", "web") == done)
        sandbox.registry.set_scale(
            "deployments", "shop", "web", lambda scale: {**scale, "spec": {"replicas": 4}}
        )
        assert sandbox.wait_until(lambda: status_of(sandbox, "deployments", "web")["readyReplicas"] == 4)


def test_an_annotation_decides_when_a_pod_is_ready() -> None:
    clock = StillClock()
    never = a_replica_set("never", replicas=1, annotations={"sandbox.rebalancer/ready-after": "never"})
    late = a_replica_set("late", replicas=1, annotations={"sandbox.rebalancer/ready-after": "50"})
    with Sandbox([never, late, a_node("n1")], clock=clock, ready_after=0) as sandbox:
        assert sandbox.wait_until(lambda: len(sandbox.pods("shop", phase="Running")) == 2)
        clock.advance(49)
        sandbox.settle()
        assert not any(is_ready(pod) for pod in sandbox.pods("shop"))
        clock.advance(2)
        assert sandbox.wait_until(lambda: [is_ready(pod) for pod in sandbox.pods("shop")] == [True, False])


def test_a_failed_node_is_not_ready_keeps_its_terminating_pods_and_recovers() -> None:
    owner = a_replica_set(replicas=1)
    objects = [owner, a_pod("web-old", node="n1", owner=owner), a_node("n1"), a_node("n2")]
    with connected(Sandbox(objects, terminates_after=0)) as (sandbox, core):
        sandbox.fail_node("n1")
        assert core.read_node("n1").status.conditions[0].status == "Unknown"
        core.create_namespaced_pod_eviction("web-old", "shop", eviction_of("web-old"))
        assert sandbox.wait_until(lambda: any(is_ready(pod) for pod in sandbox.pods(node="n2")))
        assert sandbox.pod("shop", "web-old") is not None
        sandbox.recover_node("n1")
        assert sandbox.wait_until(lambda: sandbox.pod("shop", "web-old") is None)
        assert core.read_node("n1").status.conditions[0].status == "True"


@pytest.mark.parametrize("writes", [0, 1])
def test_a_pod_whose_node_fails_just_before_it_starts_or_gets_ready_does_neither(
    monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    """The kubelets have a thread of their own, so that the node may fail between what they read and write."""
    pod = a_pod("web", node="n1", phase="Pending", ready=False)
    del pod["status"]["startTime"]
    with Sandbox([pod, a_node("n1")], controllers=False, clock=StillClock(), ready_after=0) as sandbox:
        mutate, count = sandbox.store.mutate, itertools.count()

        def written(resource: str, *arguments: Any) -> Object | None:
            if resource == "pods" and next(count) == writes:
                sandbox.fail_node("n1")
            return mutate(resource, *arguments)

        monkeypatch.setattr(sandbox.store, "mutate", written)
        sandbox.kubelets.reconcile(("shop", "web"), START)
        (found,) = sandbox.pods("shop")
        assert (found["status"]["phase"], is_ready(found)) == (("Pending", "Running")[writes], False)
        sandbox.recover_node("n1")
        sandbox.kubelets.reconcile(("shop", "web"), START)
        (found,) = sandbox.pods("shop")
        assert (found["status"]["phase"], is_ready(found)) == ("Running", True)


def test_nodes_send_heartbeats() -> None:
    clock = StillClock()
    with Sandbox([a_node("n1")], clock=clock, heartbeat_seconds=10) as sandbox:

        def beat() -> str:
            node = sandbox.store.get("nodes", "", "n1")
            assert node is not None
            return str(node["status"]["conditions"][0].get("lastHeartbeatTime"))

        assert sandbox.wait_until(lambda: beat() == "2027-01-15T08:00:00Z"), beat()
        clock.advance(11)
        assert sandbox.wait_until(lambda: beat() == "2027-01-15T08:00:11Z"), beat()


def test_a_job_replaces_an_evicted_pod_and_stops_when_enough_have_succeeded() -> None:
    job = a_replica_set("batch")
    job.update(kind="Job", apiVersion="batch/v1")
    job["spec"].update(parallelism=2, completions=3)
    with connected(Sandbox([job, a_node("n1")], terminates_after=0, ready_after=0)) as (sandbox, core):

        def at_work() -> list[Object]:
            return [pod for pod in sandbox.pods("shop", phase="Running") if not is_terminating(pod)]

        assert sandbox.wait_until(lambda: len(at_work()) == 2)
        name = names(at_work())[0]
        core.create_namespaced_pod_eviction(name, "shop", eviction_of(name))
        assert sandbox.wait_until(lambda: len(at_work()) == 2 and name not in names(sandbox.pods("shop")))
        for name in names(at_work()):
            core.patch_namespaced_pod_status(name, "shop", {"status": {"phase": "Succeeded"}})
        assert sandbox.wait_until(lambda: len(at_work()) == 1)
        assert len(sandbox.pods("shop")) == 3


def test_everything_the_controllers_write_fits_the_clients_own_models() -> None:
    job = {**a_replica_set("batch", replicas=1), "kind": "Job", "apiVersion": "batch/v1"}
    objects = [a_node("n1"), a_replica_set(), a_stateful_set(), job, a_budget(minAvailable=1)]
    with connected(Sandbox(objects, ready_after=0)) as (sandbox, core):
        assert sandbox.wait_until(lambda: sum(map(is_ready, sandbox.pods("shop"))) == 6)
        assert sandbox.wait_until(lambda: sandbox.store.count("events") == 6)
        apps, policy = client.AppsV1Api(core.api_client), client.PolicyV1Api(core.api_client)
        read = [
            core.list_pod_for_all_namespaces(),
            core.list_node(),
            core.list_namespaced_event("shop"),
            client.EventsV1Api(core.api_client).list_namespaced_event("shop"),
            apps.list_namespaced_replica_set("shop"),
            apps.list_namespaced_stateful_set("shop"),
            client.BatchV1Api(core.api_client).list_namespaced_job("shop"),
            policy.list_namespaced_pod_disruption_budget("shop"),
            client.CoordinationV1Api(core.api_client).list_namespaced_lease("kube-system"),
        ]
    assert [len(answer.items) for answer in read] == [6, 1, 6, 6, 1, 1, 1, 1, 1]
