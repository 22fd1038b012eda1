"""Who may do what: 401, 403 and the question beforehand."""

from __future__ import annotations

from kubernetes import client

from rebalancer_demo import Sandbox, User, allow
from tests.integration.demo.builders import a_pod, client_of, eviction_of, refusal

USERS = {
    "reader": User("reader", (allow("get list watch", "pods nodes"),)),
    "evictor": User("evictor", (allow("create", "pods/eviction", "shop"),)),
}


def sandbox() -> Sandbox:
    return Sandbox([a_pod("web", node="n1")], controllers=False, users=USERS)


def test_a_token_nobody_has_is_401() -> None:
    with sandbox() as cluster:
        for token in ("", "unknown"):
            with client_of(cluster, token=token) as api:
                code, status, _ = refusal(client.CoreV1Api(api).list_node)
            assert (code, status["reason"]) == (401, "Unauthorized")


def test_what_no_rule_allows_is_403_in_the_words_of_the_real_server() -> None:
    with sandbox() as cluster, client_of(cluster, token="evictor") as api:
        core = client.CoreV1Api(api)
        code, status, _ = refusal(core.list_pod_for_all_namespaces)
        budgets = client.PolicyV1Api(api)
        _, other, _ = refusal(lambda: budgets.list_namespaced_pod_disruption_budget("shop"))
    assert (code, status["reason"]) == (403, "Forbidden")
    assert status["message"] == (
        'pods is forbidden: User "evictor" cannot list resource "pods" in API group "" at the cluster scope'
    )
    assert other["message"] == (
        'poddisruptionbudgets.policy is forbidden: User "evictor" cannot list resource '
        '"poddisruptionbudgets" in API group "policy" in the namespace "shop"'
    )


def test_a_reader_cannot_evict_and_an_evictor_can() -> None:
    with sandbox() as cluster:
        with client_of(cluster, token="reader") as api:
            core = client.CoreV1Api(api)
            assert core.list_namespaced_pod("shop").items
            code, status, _ = refusal(
                lambda: core.create_namespaced_pod_eviction("web", "shop", eviction_of("web"))
            )
            assert code == 403
            assert 'cannot create resource "pods/eviction"' in status["message"]
        with client_of(cluster, token="evictor") as api:
            client.CoreV1Api(api).create_namespaced_pod_eviction("web", "shop", eviction_of("web"))


def test_a_client_can_ask_beforehand() -> None:
    def may(token: str, **wanted: str) -> bool:
        review = {"spec": {"resourceAttributes": wanted}}
        with client_of(cluster, token=token) as api:
            answer = client.AuthorizationV1Api(api).create_self_subject_access_review(review)
            return bool(answer.status.allowed)

    with sandbox() as cluster:
        assert may("reader", verb="list", resource="pods")
        assert not may("reader", verb="create", resource="pods", subresource="eviction", namespace="shop")
        assert may("evictor", verb="create", resource="pods", subresource="eviction", namespace="shop")
        assert not may("evictor", verb="create", resource="pods", subresource="eviction", namespace="prod")
