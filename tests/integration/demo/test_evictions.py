"""The eviction subresource answers as the real API server does."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from kubernetes import client

from rebalancer_demo import Sandbox
from rebalancer_demo.objects import Object, condition_of, is_terminating
from tests.integration.demo.builders import (
    StillClock,
    a_budget,
    a_pod,
    client_of,
    connected,
    eviction_of,
    refusal,
)
from tests.rows import rows


def allowing(count: int, *, healthy: int = 3, desired: int = 3) -> Object:
    return {
        "disruptionsAllowed": count,
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": healthy,
    }


def still(*objects: Object) -> Sandbox:
    """A sandbox in which nothing happens by itself."""
    return Sandbox(objects, controllers=False, clock=StillClock())


def evict(core: Any, name: str = "web", **options: Any) -> Any:
    return core.create_namespaced_pod_eviction(name, "shop", eviction_of(name, **options))


def budget_status(sandbox: Sandbox) -> Object:
    budget = sandbox.store.get("poddisruptionbudgets", "shop", "web")
    assert budget is not None
    return dict(budget["status"])


def test_a_pod_without_a_budget_is_deleted_gracefully() -> None:
    with connected(still(a_pod("web", node="n1", grace=30))) as (sandbox, core):
        _, code, _ = core.create_namespaced_pod_eviction_with_http_info("web", "shop", eviction_of("web"))
        pod = sandbox.pod("shop", "web")
    assert code == 201
    assert pod is not None
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 30
    target = condition_of(pod, "DisruptionTarget")
    assert target is not None
    assert (target["status"], target["reason"]) == ("True", "EvictionByEvictionAPI")


def test_an_eviction_spends_the_budget_at_once_and_names_the_pod() -> None:
    with connected(still(a_pod("web", node="n1"), a_budget(minAvailable=2, status=allowing(1)))) as (
        sandbox,
        core,
    ):
        evict(core)
        status = budget_status(sandbox)
    assert status["disruptionsAllowed"] == 0
    assert list(status["disruptedPods"]) == ["web"]


def test_an_eviction_that_a_budget_refuses_is_429_with_its_cause() -> None:
    with connected(still(a_pod("web", node="n1"), a_budget(minAvailable=3, status=allowing(0)))) as (
        sandbox,
        core,
    ):
        code, status, headers = refusal(lambda: evict(core))
        pod = sandbox.pod("shop", "web")
    assert (code, status["reason"]) == (429, "TooManyRequests")
    assert status["message"] == "Cannot evict pod as it would violate the pod's disruption budget."
    assert status["details"]["causes"] == [
        {
            "reason": "DisruptionBudget",
            "message": "The disruption budget web needs 3 healthy pods and has 3 currently",
        }
    ]
    assert "Retry-After" not in headers
    assert pod is not None
    assert "deletionTimestamp" not in pod["metadata"]
    assert condition_of(pod, "DisruptionTarget") is None


def test_a_budget_whose_status_is_older_than_its_spec_is_429_with_retry_after() -> None:
    budget = a_budget(minAvailable=1, status=allowing(5))
    budget["metadata"]["generation"] = 2
    with connected(still(a_pod("web", node="n1"), budget)) as (_, core):
        code, status, headers = refusal(lambda: evict(core))
    assert (code, headers["Retry-After"], status["details"]["retryAfterSeconds"]) == (429, "10", 10)
    assert status["details"]["causes"][0]["message"] == (
        "The disruption budget web is still being processed by the server."
    )


def test_a_pod_with_two_budgets_is_500() -> None:
    budgets = [a_budget("web", status=allowing(5)), a_budget("other", status=allowing(5))]
    with connected(still(a_pod("web", node="n1"), *budgets)) as (sandbox, core):
        code, status, _ = refusal(lambda: evict(core))
        assert sandbox.pod("shop", "web") is not None
    assert code == 500
    assert status["message"] == (
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    )


def test_an_unknown_pod_is_404() -> None:
    with connected(still()) as (_, core):
        code, _, _ = refusal(lambda: evict(core))
    assert code == 404


def test_a_pod_with_another_uid_is_409_and_stays() -> None:
    with connected(still(a_pod("web", node="n1"))) as (sandbox, core):
        code, status, _ = refusal(lambda: evict(core, uid="of-its-predecessor"))
        pod = sandbox.pod("shop", "web")
        assert pod is not None
        assert "deletionTimestamp" not in pod["metadata"]
        evict(core, uid=pod["metadata"]["uid"])
        gone = sandbox.pod("shop", "web")
    assert (code, status["reason"]) == (409, "Conflict")
    assert gone is not None
    assert "deletionTimestamp" in gone["metadata"]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed", "Pending"])
def test_pods_that_do_not_run_do_not_cost_a_disruption(phase: str) -> None:
    pod = a_pod("web", node="n1", phase=phase)
    with connected(still(pod, a_budget(minAvailable=3, status=allowing(0)))) as (sandbox, core):
        evict(core)
        assert budget_status(sandbox)["disruptionsAllowed"] == 0
        left = sandbox.pod("shop", "web")
    assert left is None or "deletionTimestamp" in left["metadata"]


def test_a_terminating_pod_may_be_evicted_again_at_no_cost() -> None:
    with connected(still(a_pod("web", node="n1"), a_budget(minAvailable=1, status=allowing(1)))) as (
        sandbox,
        core,
    ):
        evict(core)
        evict(core)
        assert budget_status(sandbox)["disruptionsAllowed"] == 0


@rows(
    "policy, healthy, evicted",
    [
        ("AlwaysAllow", 1, True),
        ("IfHealthyBudget", 3, True),
        ("IfHealthyBudget", 2, False),
        (None, 3, True),
        (None, 2, False),
    ],
)
def test_an_unready_pod_goes_by_the_unhealthy_pod_eviction_policy(
    policy: str | None, healthy: int, evicted: bool
) -> None:
    more = {"unhealthyPodEvictionPolicy": policy} if policy else {}
    budget = a_budget(minAvailable=3, status=allowing(0, healthy=healthy), **more)
    with connected(still(a_pod("web", node="n1", ready=False), budget)) as (sandbox, core):
        if evicted:
            evict(core)
        else:
            assert refusal(lambda: evict(core))[0] == 429
        pod = sandbox.pod("shop", "web")
        assert budget_status(sandbox)["disruptionsAllowed"] == 0
    assert pod is not None
    assert ("deletionTimestamp" in pod["metadata"]) == evicted


def test_a_dry_run_shows_what_would_happen_and_costs_nothing() -> None:
    with connected(still(a_pod("web", node="n1"), a_budget(minAvailable=1, status=allowing(1)))) as (
        sandbox,
        core,
    ):
        version = sandbox.store.version
        evict(core, dry_run=True)
        assert sandbox.store.version == version
    with connected(still(a_pod("web", node="n1"), a_budget(minAvailable=1, status=allowing(0)))) as (_, core):
        assert refusal(lambda: evict(core, dry_run=True))[0] == 429


def test_evictions_at_the_same_time_never_spend_more_than_the_budget_allows() -> None:
    pods = [a_pod(f"web-{at}", node="n1") for at in range(20)]
    with Sandbox([*pods, a_budget(minAvailable=15, status=allowing(5))], controllers=False) as sandbox:

        def try_to_evict(at: int) -> int:
            with client_of(sandbox) as api:
                try:
                    evict(client.CoreV1Api(api), f"web-{at}")
                except client.ApiException as error:
                    return int(error.status)
            return 201

        with ThreadPoolExecutor(8) as pool:
            answers = sorted(pool.map(try_to_evict, range(20)))
        assert answers == [201] * 5 + [429] * 15
        assert budget_status(sandbox)["disruptionsAllowed"] == 0
        assert sum(is_terminating(pod) for pod in sandbox.pods("shop")) == 5


def test_an_eviction_may_shorten_the_grace_period() -> None:
    with connected(still(a_pod("web", node="n1", grace=300))) as (sandbox, core):
        evict(core, grace=5)
        pod = sandbox.pod("shop", "web")
    assert pod is not None
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 5
