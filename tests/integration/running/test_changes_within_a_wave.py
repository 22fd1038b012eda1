"""What changes while a wave is carried out counts for the pods it has not evicted yet."""

from __future__ import annotations

from typing import Any

from rebalancer_demo.objects import Object
from tests.integration.running.hot_clusters import HotCluster, cluster, results

__all__ = ["cluster"]

SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"


def at_the_first_eviction(cluster: HotCluster, happens: Any) -> None:
    """Let something happen as soon as the first eviction is requested."""
    pick, seen = cluster.sandbox.faults.pick, []

    def picked(method: str, path: str) -> Any:
        if method == "POST" and path.split("?", maxsplit=1)[0].endswith("/eviction"):
            seen.append(path)
            if len(seen) == 1:
                happens(path.split("/")[-2])
        return pick(method, path)

    cluster.sandbox.faults.pick = picked  # type: ignore[method-assign, assignment]


def test_a_pod_that_is_protected_after_its_wave_was_checked_is_not_evicted(cluster: HotCluster) -> None:
    cluster.policy = cluster.policy.replace("firstWave: 1", "firstWave: 3")

    def protect(item: Object) -> None:
        item["metadata"].setdefault("annotations", {})[SAFE_TO_EVICT] = "false"

    def protect_the_others(evicted: str) -> None:
        for pod in cluster.sandbox.pods("shop"):
            if pod["metadata"]["name"] != evicted:
                cluster.sandbox.store.mutate("pods", "shop", pod["metadata"]["name"], protect)

    at_the_first_eviction(cluster, protect_the_others)
    _, outcomes = cluster.run()
    assert cluster.evicted() == 1
    first, *others = outcomes["outcomes"]
    assert first["result"] == "Landed"
    assert others
    assert all(SAFE_TO_EVICT in item["because"] for item in others if item["result"] == "Skipped")
    assert {item["result"] for item in others} == {"Skipped"}


def test_a_change_that_protects_nothing_keeps_no_pod(cluster: HotCluster) -> None:
    cluster.policy = cluster.policy.replace("firstWave: 1", "firstWave: 3")

    def touch(item: Object) -> None:
        item["metadata"].setdefault("annotations", {})["example.com/note"] = "seen"

    def touch_all(_evicted: str) -> None:
        for pod in cluster.sandbox.pods("shop"):
            cluster.sandbox.store.mutate("pods", "shop", pod["metadata"]["name"], touch)

    at_the_first_eviction(cluster, touch_all)
    _, outcomes = cluster.run()
    assert set(results(outcomes)) <= {"Landed", "LandedElsewhere"}
    assert len(outcomes["outcomes"]) == cluster.evicted() > 1
