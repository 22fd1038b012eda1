"""Each brake says in a sentence why a run must stop; what cannot be told is reported, not fatal."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from rebalancer.cluster import times
from rebalancer.errors import RebalancerError
from rebalancer.execution.safeguards.brakes import engaged_brake, unknowns
from rebalancer.execution.safeguards.health import (
    ClusterHealth,
    SchedulerHealth,
    SchedulerLocation,
    read_health,
)
from rebalancer.policy.schema import Safety
from rebalancer.policy.units import Amount
from tests.unit.execution.builders import NOW
from tests.unit.execution.fake_api import Answer, Request, fake_api, refusal

LOCATION = SchedulerLocation("trimaran", pod_namespace="sched", pod_selector="app=trimaran")


def a_node(name: str, ready: str = "True") -> dict[str, Any]:
    return {"metadata": {"name": name}, "status": {"conditions": [{"type": "Ready", "status": ready}]}}


def a_waiting_pod(
    name: str, *, age: float = 60, reason: str = "Unschedulable", **metadata: Any
) -> dict[str, Any]:
    return {
        "metadata": {
            "namespace": "shop",
            "name": name,
            "uid": name,
            "creationTimestamp": times.render(NOW - age),
            **metadata,
        },
        "status": {
            "phase": "Pending",
            "conditions": [{"type": "PodScheduled", "status": "False", "reason": reason}],
        },
    }


def health(
    *,
    nodes: Any = (),
    pods: Any = (),
    lease: Any = (),
    scheduler_pods: Any = (),
    schedulers: tuple[SchedulerLocation, ...] = (),
) -> ClusterHealth:
    def handler(request: Request) -> Answer:
        bodies = {
            "/api/v1/nodes": nodes,
            "/api/v1/pods": pods,
            "/api/v1/namespaces/sched/pods": scheduler_pods,
            "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases": lease,
        }
        found = bodies[request.path]
        kind = {"nodes": "NodeList", "pods": "PodList", "leases": "LeaseList"}[request.path.rsplit("/")[-1]]
        return (
            found
            if isinstance(found, Answer)
            else Answer(200, {"kind": kind, "metadata": {}, "items": list(found)})
        )

    api, _ = fake_api(handler)
    return read_health(api, NOW, NOW, schedulers)


def a_lease(age: float) -> dict[str, Any]:
    return {"metadata": {"name": "kube-scheduler"}, "spec": {"renewTime": times.render(NOW - age)}}


def test_a_healthy_cluster_pulls_no_brake() -> None:
    found = health(nodes=[a_node("a")], lease=[a_lease(2)], schedulers=(LOCATION,))
    assert engaged_brake(Safety(), found) is None
    assert not unknowns(found)


def test_pause_is_a_brake() -> None:
    assert engaged_brake(Safety(pause=True), ClusterHealth()) == "the policy is paused (safety.pause)"


def test_nodes_that_are_not_ready_are_counted_against_the_share_of_all() -> None:
    safety = Safety(max_not_ready_nodes=Amount(50, percent=True))
    nodes = [a_node("a"), a_node("b", "False"), a_node("c", "Unknown"), {"metadata": {"name": "d"}}]
    assert (
        engaged_brake(safety, health(nodes=nodes)) == "3 of 4 nodes are not ready (b, c, d); the limit is 50%"
    )
    assert engaged_brake(safety, health(nodes=[a_node("a"), a_node("b", "False")])) is None


def test_a_node_that_cannot_be_read_is_not_ready() -> None:
    found = health(nodes=[a_node("a"), {"metadata": {"name": "b"}, "status": 7}])
    assert found.not_ready_nodes == ("b",)


def test_pods_that_wait_since_before_the_run_are_counted() -> None:
    pods = [a_waiting_pod(f"old-{index}") for index in range(3)]
    younger = a_waiting_pod("ours", age=-5, reason="")
    gated = a_waiting_pod("gated", reason="SchedulingGated")
    leaving = a_waiting_pod("leaving", deletionTimestamp=times.render(NOW))
    found = health(pods=[*pods, younger, gated, leaving])
    assert found.pending_pods == ("shop/old-0", "shop/old-1", "shop/old-2")
    assert engaged_brake(Safety(max_pending_pods=Amount(3)), found) is None
    reason = engaged_brake(Safety(max_pending_pods=Amount(2)), found)
    assert (
        reason
        == "3 pods are Pending (shop/old-0, shop/old-1, shop/old-2); the limit is 2 (safety.maxPendingPods)"
    )


@pytest.mark.parametrize(("pod_count", "stops"), [(200, True), (201, False), (0, True)])
def test_pods_that_wait_are_counted_against_the_share_of_all_pods(pod_count: int, stops: bool) -> None:
    """A cluster whose number of pods is not known is not taken for a large one."""
    found = dataclasses.replace(
        health(pods=[a_waiting_pod(f"old-{index}") for index in range(3)]), pod_count=pod_count
    )
    reason = engaged_brake(Safety(max_pending_pods=Amount(1, percent=True)), found)
    assert (reason is not None) is stops
    assert reason is None or reason.startswith(f"3 of {pod_count} pods are Pending (shop/old-0")


def test_a_pod_made_during_the_run_counts_once_the_scheduler_found_no_node_for_it() -> None:
    tried = a_waiting_pod("tried", age=-5)
    untried = a_waiting_pod("untried", age=-5, reason="")
    assert health(pods=[tried, untried]).pending_pods == ("shop/tried",)


@pytest.mark.parametrize(("age", "alive"), [(0, True), (60, True), (61, False), (-3600, True)])
def test_a_scheduler_is_alive_while_it_renews_its_lease(age: float, alive: bool) -> None:
    [scheduler] = health(lease=[a_lease(age)], schedulers=(LOCATION,)).schedulers
    assert scheduler.alive is alive


def test_a_scheduler_whose_lease_lapsed_is_a_brake() -> None:
    reason = engaged_brake(Safety(), health(lease=[a_lease(300)], schedulers=(LOCATION,)))
    assert reason == (
        "the scheduler trimaran is not alive: lease kube-system/kube-scheduler was renewed 300 s ago"
    )


def test_without_a_lease_a_ready_pod_shows_that_the_scheduler_lives() -> None:
    ready = {**a_waiting_pod("trimaran-0"), "spec": {"nodeName": "a"}}
    ready["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    assert health(scheduler_pods=[ready], schedulers=(LOCATION,)).schedulers[0].alive is True
    assert health(scheduler_pods=[], schedulers=(LOCATION,)).schedulers[0].alive is False


@pytest.mark.parametrize(
    "lease",
    [
        refusal(403, "forbidden"),
        [{"spec": {"renewTime": "soon"}}],
        [{}],
        [7],
        Answer(200, b"[]"),
        Answer(200, b"{"),
        Answer(200, {"items": 7}),
        Answer(200, b'{"items":' + b"[" * 9000),
    ],
)
def test_a_scheduler_of_which_nothing_can_be_told_is_reported_and_no_brake(lease: Any) -> None:
    found = health(lease=lease, schedulers=(LOCATION,))
    assert found.schedulers[0].alive is None
    assert engaged_brake(Safety(), found) is None
    assert len(unknowns(found)) == 1


def test_a_scheduler_whose_place_is_not_known_is_unknown() -> None:
    [scheduler] = health(schedulers=(SchedulerLocation("mine"),)).schedulers
    assert scheduler == SchedulerHealth("mine", None, "it has no lease, and where its pods run is not known")


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"items": {}}', b'{"items":' + b"[" * 9000])
def test_nodes_that_cannot_be_listed_are_an_error_not_an_empty_cluster(body: bytes) -> None:
    with pytest.raises(RebalancerError):
        health(nodes=Answer(200, body))
