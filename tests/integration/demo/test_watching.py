"""WATCH: what is sent, in which order, and how it ends."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import closing
from itertools import takewhile
from typing import Any

from kubernetes import client, watch

from rebalancer_demo import Fault, Sandbox
from tests.integration.demo.builders import a_config_map, connected
from tests.waiting import HANG_SECONDS

LAST = "zz-last"


def add_last(core: client.CoreV1Api, **options: Any) -> None:
    """Add what comes after all that a watch is to show."""
    core.create_namespaced_config_map("shop", a_config_map(LAST, **options))


def events_of(core: client.CoreV1Api, **options: Any) -> Generator[dict[str, Any]]:
    """The raw events of a watch on config maps."""
    options |= {"timeout_seconds": int(HANG_SECONDS)}
    answer = core.list_namespaced_config_map("shop", watch=True, _preload_content=False, **options)
    try:
        for line in answer:
            yield json.loads(line)
    finally:
        answer.close()


def lines(core: client.CoreV1Api, **options: Any) -> list[dict[str, Any]]:
    """The raw events of a watch on config maps, until it ends or shows the last there is."""
    with closing(events_of(core, **options)) as events:
        return list(takewhile(lambda event: event["object"].get("metadata", {}).get("name") != LAST, events))


def test_a_watch_sends_every_change_after_its_version_in_order() -> None:
    with connected(Sandbox([a_config_map("old")], controllers=False)) as (_, core):
        version = core.list_namespaced_config_map("shop").metadata.resource_version
        core.create_namespaced_config_map("shop", a_config_map("new"))
        core.patch_namespaced_config_map("new", "shop", {"data": {"key": "changed"}})
        core.delete_namespaced_config_map("new", "shop")
        add_last(core)
        events = lines(core, resource_version=version)
    assert [(event["type"], event["object"]["metadata"]["name"]) for event in events] == [
        ("ADDED", "new"),
        ("MODIFIED", "new"),
        ("DELETED", "new"),
    ]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert versions == sorted(set(versions))
    assert events[1]["object"]["kind"] == "ConfigMap"


def test_a_watch_without_a_version_begins_with_what_there_is() -> None:
    with connected(Sandbox([a_config_map("old")], controllers=False)) as (_, core):
        add_last(core)
        events = lines(core)
    assert [(event["type"], event["object"]["metadata"]["name"]) for event in events] == [("ADDED", "old")]


def test_an_object_that_leaves_the_selection_is_deleted_for_the_watcher() -> None:
    with connected(Sandbox([a_config_map("map", labels={"tier": "front"})], controllers=False)) as (_, core):
        version = core.list_namespaced_config_map("shop").metadata.resource_version
        core.patch_namespaced_config_map("map", "shop", {"metadata": {"labels": {"tier": "back"}}})
        core.patch_namespaced_config_map("map", "shop", {"metadata": {"labels": {"tier": "front"}}})
        add_last(core, labels={"tier": "front"})
        events = lines(core, resource_version=version, label_selector="tier=front")
    assert [event["type"] for event in events] == ["DELETED", "ADDED"]


def test_bookmarks_carry_a_version_from_which_a_watch_can_go_on() -> None:
    sandbox = Sandbox([a_config_map("old")], controllers=False, bookmark_seconds=0.2)
    with connected(sandbox) as (_, core):
        version = core.list_namespaced_config_map("shop").metadata.resource_version
        core.create_namespace(
            {"metadata": {"name": "elsewhere"}}
        )  # not for this watch, yet it moves the version
        with closing(events_of(core, resource_version=version, allow_watch_bookmarks=True)) as events:
            for event in events:
                assert event["type"] == "BOOKMARK"
                last = event["object"]["metadata"]["resourceVersion"]
                if int(last) > int(version):
                    break
        add_last(core)
        assert lines(core, resource_version=last) == []


def test_a_version_older_than_the_log_ends_in_a_410_error_event() -> None:
    with connected(Sandbox([a_config_map("old")], controllers=False, log_capacity=5)) as (_, core):
        version = core.list_namespaced_config_map("shop").metadata.resource_version
        for number in range(10):
            core.create_namespaced_config_map("shop", a_config_map(f"map-{number}"))
        events = lines(core, resource_version=version)
    assert [event["type"] for event in events] == ["ERROR"]
    assert (events[0]["object"]["code"], events[0]["object"]["reason"]) == (410, "Expired")


def test_the_clients_own_watch_follows_changes_as_they_happen() -> None:
    with connected(Sandbox([a_config_map("old")], controllers=False)) as (sandbox, core):
        seen: list[str] = []
        follower = watch.Watch()
        for event in follower.stream(core.list_namespaced_config_map, "shop", timeout_seconds=60):
            seen.append(event["object"].metadata.name)
            if seen[-1] == "new":
                follower.stop()
            else:
                sandbox.registry.create("configmaps", {"metadata": {"name": "new", "namespace": "shop"}})
    assert seen == ["old", "new"]


def test_a_cut_watch_ends_early_and_can_be_taken_up_again() -> None:
    with connected(Sandbox([a_config_map("old")], controllers=False)) as (sandbox, core):
        sandbox.faults.add(Fault("cut-watch", path="configmaps", seconds=0.0))
        version = core.list_namespaced_config_map("shop").metadata.resource_version
        assert lines(core, resource_version=version) == []
        core.create_namespaced_config_map("shop", a_config_map("new"))
        add_last(core)
        assert [event["type"] for event in lines(core, resource_version=version)] == ["ADDED"]
