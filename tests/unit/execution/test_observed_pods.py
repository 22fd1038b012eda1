"""Pods are read page by page, whole or not at all."""

from __future__ import annotations

from typing import Any

import pytest

from rebalancer.cluster.live.client import PAGE_SIZE
from rebalancer.errors import UnreachableError
from rebalancer.execution import observed_pods
from rebalancer.execution.observed_pods import Scope, read_pods, why_not_replaced
from tests.rows import rows
from tests.unit.execution.builders import a_move, a_pod_document
from tests.unit.execution.fake_api import Answer, Request, Script, fake_api, refusal


def a_page(*names: str, token: str = "") -> Answer:
    items = [a_pod_document(name) for name in names]
    return Answer(200, {"kind": "PodList", "metadata": {"continue": token}, "items": items})


def names(*answers: Answer) -> list[str]:
    api, _ = fake_api(Script(*answers))
    return [pod.metadata.name for pod in read_pods(api, [Scope("shop")])]


def test_all_pages_are_read() -> None:
    tokens: list[str | None] = []

    def handler(request: Request) -> Answer:
        tokens.append(request.query.get("continue"))
        return a_page("b") if tokens[-1] else a_page("a", token="more")

    api, _ = fake_api(handler)
    assert [pod.metadata.name for pod in read_pods(api, [Scope("shop"), Scope("shop")])] == ["a", "b"]
    assert tokens == [None, "more"]


def test_only_what_a_selector_selects_is_read_and_each_pod_once() -> None:
    api, transport = fake_api(Script(a_page("a", "b")))
    scopes = [Scope("shop", "app=web"), Scope("shop", "tier=front"), Scope("ops", "app=web"), Scope("ops")]
    found = read_pods(api, scopes)
    asked = [(request.path, request.query.get("labelSelector")) for request in transport.requests]
    assert [pod.metadata.name for pod in found] == ["a", "b"]
    assert asked == [
        ("/api/v1/namespaces/ops/pods", None),  # the whole namespace holds what its selectors select
        ("/api/v1/namespaces/shop/pods", "app=web"),
        ("/api/v1/namespaces/shop/pods", "tier=front"),
    ]


def test_a_list_that_expires_between_two_pages_is_read_again_from_its_beginning() -> None:
    assert names(a_page("a", token="more"), refusal(410, "expired"), a_page("b", "c")) == ["b", "c"]


def test_a_list_that_keeps_expiring_is_an_error() -> None:
    with pytest.raises(UnreachableError, match="expired"):
        names(refusal(410, "expired"))


def test_pages_without_end_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    assert observed_pods.MAX_PAGES * PAGE_SIZE >= 1_000_000  # of one namespace: more than any cluster has
    monkeypatch.setattr(observed_pods, "MAX_PAGES", 50)
    api, transport = fake_api(lambda request: a_page(token=f"{request.query.get('continue', '')}+"))

    with pytest.raises(UnreachableError, match="does not end after 50 pages"):
        read_pods(api, [Scope("shop")])
    assert len(transport.requests) == 50


def test_a_page_that_leads_back_to_itself_is_an_error() -> None:
    with pytest.raises(UnreachableError, match="the same page is offered again"):
        names(a_page(token="more"))


@rows(
    "body",
    [
        b"",
        b"7",
        b'{"items": []}',
        b'{"kind": "Status", "items": []}',
        b'{"kind": "PodList"}',
        b'{"kind": "PodList", "items": 7}',
        b'{"kind": "PodList", "items":' + b"[" * 9000,
    ],
)
def test_what_is_no_list_is_an_error_not_an_empty_namespace(body: bytes) -> None:
    with pytest.raises(UnreachableError, match="the answer is not a list"):
        names(Answer(200, body))


def test_a_pod_that_cannot_be_read_does_not_hide_the_others() -> None:
    odd = {"metadata": {"namespace": "shop", "name": "odd"}, "status": 7}
    page = {"kind": "PodList", "items": [odd, a_pod_document("good")]}
    assert names(Answer(200, page)) == ["good"]


def a_controller(replicas: int | None, has: int = 0, *, uid: str = "rs-uid", **more: Any) -> dict[str, Any]:
    metadata = {"name": "web", "namespace": "shop", "uid": uid, **more.pop("metadata", {})}
    spec = {"replicas": replicas, **more.pop("spec", {})}
    return {"metadata": metadata, "spec": spec, "status": {"replicas": has, **more}}


def failing(kind: str, message: str, status: str = "True") -> dict[str, Any]:
    return {"conditions": [{"type": kind, "status": status, "message": message}]}


QUOTA = 'pods "web-x" is forbidden: exceeded quota'


@rows(
    "kind, controllers, why",
    [
        ("ReplicaSet", [a_controller(2, 2)], "ReplicaSet web wants 2 pods and has them"),
        ("ReplicaSet", [a_controller(1, 2)], "ReplicaSet web wants 1 pod and has them"),
        ("ReplicaSet", [a_controller(0, 0)], "ReplicaSet web wants no pods"),
        ("ReplicaSet", [a_controller(3, 2)], ""),
        (
            "ReplicaSet",
            [a_controller(3, 2, **failing("ReplicaFailure", QUOTA))],
            f"ReplicaSet web cannot make one: {QUOTA}",
        ),
        ("ReplicaSet", [a_controller(3, 2, **failing("ReplicaFailure", QUOTA, "False"))], ""),
        ("ReplicaSet", [], "ReplicaSet web is gone"),
        ("ReplicaSet", [a_controller(2, 2, uid="another")], "ReplicaSet web is gone"),
        ("ReplicaSet", [{"metadata": {"name": "web", "namespace": "shop"}, "spec": 7}], ""),
        (
            "ReplicaSet",
            [a_controller(3, 2, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})],
            "ReplicaSet web is being deleted",
        ),
        ("StatefulSet", [a_controller(1, 1)], "StatefulSet web wants 1 pod and has them"),
        ("StatefulSet", [a_controller(2, 2)], ""),
        ("StatefulSet", [a_controller(1, 1, spec={"ordinals": {"start": 1}})], ""),
        (
            "Job",
            [a_controller(None, **failing("Failed", "backoff limit"))],
            "Job web cannot make one: backoff limit",
        ),
        ("CloneSet", [a_controller(0)], ""),
    ],
)
def test_a_controller_says_why_it_has_made_no_replacement(
    kind: str, controllers: list[dict[str, Any]], why: str
) -> None:
    api, transport = fake_api(Script(Answer(200, {"kind": f"{kind}List", "items": controllers})))
    assert why_not_replaced(api, a_move("web-1", kind=kind).pod) == why
    for request in transport.requests:
        assert request.query["fieldSelector"] == "metadata.name=web"


def test_a_controller_that_may_not_be_read_is_not_known() -> None:
    for answer in (refusal(403, "no"), refusal(404, "no"), Answer(200, b"<html>")):
        assert why_not_replaced(fake_api(Script(answer))[0], a_move().pod) == ""
