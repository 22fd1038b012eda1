"""The disruption controller's arithmetic, before an eviction, after it, and when the replacement is ready."""

from __future__ import annotations

from typing import Any

from rebalancer_demo import Sandbox
from rebalancer_demo.objects import Object
from tests.integration.demo.builders import (
    StillClock,
    a_budget,
    a_node,
    a_pod,
    a_replica_set,
    connected,
    eviction_of,
    names,
    refusal,
)
from tests.rows import rows


def budget_of(sandbox: Sandbox) -> Object:
    budget = sandbox.store.get("poddisruptionbudgets", "shop", "web")
    assert budget is not None
    return dict(budget["status"])


def allowed(sandbox: Sandbox) -> tuple[int, int, int, int]:
    """Allowed, healthy, desired, expected."""
    status = budget_of(sandbox)
    return (
        status["disruptionsAllowed"],
        status["currentHealthy"],
        status["desiredHealthy"],
        status["expectedPods"],
    )


def seven(**options: Any) -> list[Object]:
    owner = a_replica_set(replicas=7)
    return [
        owner,
        *(a_pod(f"web-{at}", node="n1", owner=owner, **options) for at in range(7)),
        a_node("n1", cpu="64"),
    ]


@rows(
    "rule, expected",
    [
        ({"minAvailable": 5}, (2, 7, 5, 7)),
        ({"minAvailable": "50%"}, (3, 7, 4, 7)),
        ({"maxUnavailable": 2}, (2, 7, 5, 7)),
        ({"maxUnavailable": "30%"}, (3, 7, 4, 7)),
        ({"maxUnavailable": 0}, (0, 7, 7, 7)),
        ({"minAvailable": "100%"}, (0, 7, 7, 7)),
        ({"minAvailable": 9}, (0, 7, 9, 7)),
    ],
)
def test_percentages_round_up_and_count_against_the_scale(
    rule: Object, expected: tuple[int, int, int, int]
) -> None:
    with Sandbox([*seven(), a_budget(**rule)]) as sandbox:
        assert sandbox.wait_until(lambda: allowed(sandbox) == expected), allowed(sandbox)


def test_pods_that_are_not_ready_do_not_count_as_healthy() -> None:
    objects = [*seven(), a_budget(minAvailable=5)]
    objects[1]["status"]["conditions"][0]["status"] = "False"
    with Sandbox(objects) as sandbox:
        assert sandbox.wait_until(lambda: allowed(sandbox) == (1, 6, 5, 7)), allowed(sandbox)


def test_a_percentage_over_pods_whose_controller_has_no_scale_allows_nothing() -> None:
    stray = a_replica_set("gone")
    objects = [a_pod("web", node="n1", owner=stray), a_node("n1"), a_budget(maxUnavailable="50%")]
    with Sandbox(objects) as sandbox:
        assert sandbox.wait_until(lambda: "conditions" in budget_of(sandbox))
        status = budget_of(sandbox)
    assert (status["disruptionsAllowed"], status["conditions"][0]["reason"]) == (0, "SyncFailed")


def test_a_budget_recovers_only_when_the_replacement_is_ready() -> None:
    clock = StillClock()
    sandbox = Sandbox([*seven(), a_budget(minAvailable=6)], clock=clock, ready_after=10, terminates_after=3)
    with connected(sandbox) as (_, core):
        assert sandbox.wait_until(lambda: allowed(sandbox) == (1, 7, 6, 7))
        core.create_namespaced_pod_eviction("web-0", "shop", eviction_of("web-0"))
        code, _, _ = refusal(
            lambda: core.create_namespaced_pod_eviction("web-1", "shop", eviction_of("web-1"))
        )
        assert code == 429
        assert sandbox.wait_until(lambda: len(sandbox.pods("shop", phase="Running")) == 8)
        clock.advance(5)
        assert sandbox.wait_until(lambda: "web-0" not in names(sandbox.pods("shop")))
        assert allowed(sandbox) == (0, 6, 6, 7)
        clock.advance(6)
        assert sandbox.wait_until(lambda: allowed(sandbox) == (1, 7, 6, 7)), allowed(sandbox)
        assert "disruptedPods" not in budget_of(sandbox)
        core.create_namespaced_pod_eviction("web-1", "shop", eviction_of("web-1"))


def test_a_disruption_that_never_happened_is_forgotten_after_two_minutes() -> None:
    clock = StillClock()
    with connected(Sandbox([*seven(), a_budget(minAvailable=6)], clock=clock)) as (sandbox, core):
        assert sandbox.wait_until(lambda: allowed(sandbox) == (1, 7, 6, 7))
        # the budget is spent before the precondition is found not to hold, as in the real server
        wrong = eviction_of("web-0", uid="of-its-predecessor")
        code, _, _ = refusal(lambda: core.create_namespaced_pod_eviction("web-0", "shop", wrong))
        assert code == 409
        assert sandbox.wait_until(lambda: allowed(sandbox) == (0, 6, 6, 7)), allowed(sandbox)
        clock.advance(121)
        assert sandbox.wait_until(lambda: allowed(sandbox) == (1, 7, 6, 7)), allowed(sandbox)


def test_a_changed_budget_is_recomputed_for_its_new_generation() -> None:
    with connected(Sandbox([*seven(), a_budget(minAvailable=5)])) as (sandbox, core):
        assert sandbox.wait_until(lambda: allowed(sandbox) == (2, 7, 5, 7))
        core.api_client.call_api(
            *core.api_client.param_serialize(
                "PATCH",
                "/apis/policy/v1/namespaces/shop/poddisruptionbudgets/web",
                header_params={"Content-Type": "application/merge-patch+json"},
                body={"spec": {"minAvailable": 7}},
                auth_settings=[],
            )
        ).read()
        assert sandbox.wait_until(lambda: allowed(sandbox) == (0, 7, 7, 7))
        assert budget_of(sandbox)["observedGeneration"] == 2
