"""LIST: pages of one version, selectors, compression."""

from __future__ import annotations

import gzip
import json
from typing import Any

from kubernetes import client

from rebalancer_demo import Sandbox
from rebalancer_demo.objects import Object
from tests.integration.demo.builders import (
    StillClock,
    a_config_map,
    a_node,
    a_pod,
    client_of,
    connected,
    refusal,
)
from tests.rows import rows


def maps(count: int) -> list[Object]:
    return [a_config_map(f"map-{number:03}") for number in range(count)]


def listed(body: Any) -> list[str]:
    return [item["metadata"]["name"] for item in json.loads(body.data)["items"]]


def test_pages_show_one_version_whatever_happens_between_them() -> None:
    with connected(Sandbox(maps(25), controllers=False)) as (_sandbox, core):
        first = core.list_namespaced_config_map("shop", limit=10)
        core.delete_namespaced_config_map("map-015", "shop")
        core.create_namespaced_config_map("shop", a_config_map("map-999"))
        second = core.list_namespaced_config_map("shop", limit=10, _continue=first.metadata._continue)
        third = core.list_namespaced_config_map("shop", limit=10, _continue=second.metadata._continue)
    seen = [item.metadata.name for page in (first, second, third) for item in page.items]
    assert seen == [f"map-{number:03}" for number in range(25)]
    assert {page.metadata.resource_version for page in (second, third)} == {first.metadata.resource_version}
    assert (first.metadata.remaining_item_count, third.metadata._continue) == (15, None)


def test_a_continue_token_of_a_forgotten_version_is_410_expired() -> None:
    clock = StillClock()
    sandbox = Sandbox(maps(5), controllers=False, clock=clock, continue_seconds=300)
    with connected(sandbox) as (_, core):
        token = core.list_namespaced_config_map("shop", limit=2).metadata._continue
        clock.advance(301)
        code, status, _ = refusal(lambda: core.list_namespaced_config_map("shop", limit=2, _continue=token))
    assert (code, status["reason"]) == (410, "Expired")
    assert "continue parameter is too old" in status["message"]


def test_a_continue_token_that_is_none_of_ours_is_400() -> None:
    with connected(Sandbox(maps(5), controllers=False)) as (_, core):
        code, _, _ = refusal(lambda: core.list_namespaced_config_map("shop", limit=2, _continue="nonsense"))
    assert code == 400


def test_resource_version_0_ignores_the_limit_as_the_watch_cache_does() -> None:
    with connected(Sandbox(maps(5), controllers=False)) as (_, core):
        assert len(core.list_namespaced_config_map("shop", limit=2, resource_version="0").items) == 5


@rows(
    "selector, expected",
    [
        ("tier=front", ["a"]),
        ("tier==front", ["a"]),
        ("tier!=front", ["b", "c"]),
        ("tier in (front, back)", ["a", "b"]),
        ("tier notin (front)", ["b", "c"]),
        ("tier", ["a", "b"]),
        ("!tier", ["c"]),
        ("tier,tier!=back", ["a"]),
        ("zone in (x,y),tier=back", ["b"]),
    ],
)
def test_label_selectors_select_what_they_say(selector: str, expected: list[str]) -> None:
    objects = [
        a_config_map("a", labels={"tier": "front", "zone": "x"}),
        a_config_map("b", labels={"tier": "back", "zone": "y"}),
        a_config_map("c", labels={"zone": "x"}),
    ]
    with connected(Sandbox(objects, controllers=False)) as (_, core):
        found = core.list_namespaced_config_map("shop", label_selector=selector).items
    assert [item.metadata.name for item in found] == expected


@rows(
    "selector, expected",
    [
        ("spec.nodeName=n1", ["on-1"]),
        ("spec.nodeName=", ["waiting"]),
        ("spec.nodeName!=n1,status.phase!=Pending", ["on-2"]),
        ("status.phase=Pending", ["waiting"]),
        ("metadata.name=on-2", ["on-2"]),
        ("metadata.namespace=shop,spec.schedulerName=trimaran", ["waiting"]),
    ],
)
def test_field_selectors_select_what_they_say(selector: str, expected: list[str]) -> None:
    pods = [a_pod("on-1", node="n1"), a_pod("on-2", node="n2"), a_pod("waiting", schedulerName="trimaran")]
    with connected(Sandbox(pods, controllers=False)) as (_, core):
        found = core.list_pod_for_all_namespaces(field_selector=selector).items
    assert [item.metadata.name for item in found] == expected


def test_a_field_that_is_not_indexed_is_400() -> None:
    with connected(Sandbox(controllers=False)) as (_, core):
        code, status, _ = refusal(
            lambda: core.list_pod_for_all_namespaces(field_selector="spec.hostIPC=true")
        )
    assert code == 400
    assert "field label not supported" in status["message"]


def test_large_bodies_are_gzipped_when_the_client_accepts_it_and_small_ones_never() -> None:
    with Sandbox(maps(2000), controllers=False) as sandbox, client_of(sandbox, gzip=True) as api:
        core = client.CoreV1Api(api)
        large = core.list_namespaced_config_map("shop", _preload_content=False)
        small = core.list_namespace(_preload_content=False)
        packed = large.headers["Content-Encoding"], small.headers.get("Content-Encoding")
        assert len(listed(large)) == 2000
    assert packed == ("gzip", None)
    with Sandbox(maps(2000), controllers=False) as sandbox, client_of(sandbox) as api:
        plain = client.CoreV1Api(api).list_namespaced_config_map("shop", _preload_content=False)
        assert "Content-Encoding" not in plain.headers
        assert len(gzip.compress(plain.data, 1)) < len(plain.data)


def test_items_of_a_list_come_without_kind_as_from_a_real_server() -> None:
    with connected(Sandbox([a_node("n1")], controllers=False)) as (_, core):
        document = json.loads(core.list_node(_preload_content=False).data)
        node = json.loads(core.read_node("n1", _preload_content=False).data)
    assert (document["kind"], document["apiVersion"]) == ("NodeList", "v1")
    assert "kind" not in document["items"][0]
    assert (node["kind"], node["apiVersion"]) == ("Node", "v1")


def test_what_is_not_there_is_404() -> None:
    with connected(Sandbox(controllers=False)) as (_, core):
        code, status, _ = refusal(lambda: core.read_namespaced_pod("gone", "shop"))
    assert (code, status["reason"], status["message"]) == (404, "NotFound", 'pods "gone" not found')
