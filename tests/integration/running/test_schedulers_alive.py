"""A run evicts only while the scheduler that places the plan's pods is alive, not some other one."""

from __future__ import annotations

from typing import Any

from rebalancer.cluster import times
from rebalancer_demo.hot_cluster import CONFIGURATION, CONFIGURATION_NAME, CONFIGURATION_NAMESPACE
from rebalancer_demo.objects import Object
from tests.integration.running.hot_clusters import LANDED, HotCluster, cluster, results
from tests.waiting import present

__all__ = ["cluster"]


def configure(cluster: HotCluster, election: str) -> None:
    """Let the scheduler's configuration say this of its leader election."""

    def change(item: Object) -> None:
        item["data"] = dict.fromkeys(item["data"], f"{CONFIGURATION}leaderElection: {election}\n")

    found = cluster.sandbox.store.mutate("configmaps", CONFIGURATION_NAMESPACE, CONFIGURATION_NAME, change)
    assert found is not None


def lease(cluster: HotCluster, name: str, renewed: str) -> None:
    """A Lease that was acquired an hour ago, renewed then, and is not renewed again."""
    spec = {
        "holderIdentity": "node-1_abc",
        "leaseDurationSeconds": 2,
        "acquireTime": times.render_micro(present() - 3600),
        "renewTime": renewed,
    }
    item = {"metadata": {"namespace": "kube-system", "name": name}, "spec": spec}
    cluster.sandbox.registry.create("leases", item)


def stopped(cluster: HotCluster) -> str:
    """Why a run evicts nothing."""
    result, outcomes = cluster.run()
    assert (result.exit_code, cluster.evicted()) == (3, 0), result.stderr
    assert outcomes["stop"] == "Brake"
    text: Any = outcomes["stopped"]
    return str(text)


def test_a_scheduler_that_is_down_stops_a_run_though_another_one_lives(cluster: HotCluster) -> None:
    configure(cluster, "{resourceName: trimaran}")
    lease(cluster, "trimaran", times.render_micro(present() - 300))
    said = stopped(cluster)
    assert said.startswith(
        "the scheduler default-scheduler, trimaran is not alive: lease kube-system/trimaran of node-1_abc"
    )
    assert cluster.sandbox.store.get("leases", "kube-system", "kube-scheduler") is not None


def test_a_scheduler_of_which_nothing_is_seen_stops_a_run_unless_the_policy_accepts_that(
    cluster: HotCluster,
) -> None:
    configure(cluster, "{resourceName: trimaran}")
    lease(cluster, "trimaran", "soon")
    said = stopped(cluster)
    assert said.startswith(
        "whether the scheduler default-scheduler, trimaran is alive is not known: lease kube-system/trimaran"
    )
    assert "safety.unknownScheduler: proceed" in said
    cluster.policy += "safety: {unknownScheduler: proceed}\n"
    result, outcomes = cluster.run()
    assert result.exit_code == 0, result.stderr
    assert outcomes["outcomes"]
    assert set(results(outcomes)) <= LANDED


def test_the_lease_that_the_policy_names_is_the_one_that_counts(cluster: HotCluster) -> None:
    configure(cluster, "{leaderElect: false}")
    cluster.policy = cluster.policy.replace("scheduler:\n", "scheduler:\n  lease: {name: kube-scheduler}\n")
    result, outcomes = cluster.run()
    assert result.exit_code == 0, result.stderr
    assert set(results(outcomes)) <= LANDED
