"""A client learns from the server alone what it can ask for."""

from __future__ import annotations

import json
from typing import Any

import pytest
from kubernetes import client

from rebalancer_demo import Sandbox
from tests.integration.demo.builders import client_of
from tests.rows import rows


def get(api: client.ApiClient, path: str) -> tuple[int, Any]:
    answer = api.call_api(*api.param_serialize("GET", path, auth_settings=[]))
    raw = answer.read()
    return answer.status, json.loads(raw) if raw.startswith(b"{") else raw.decode()


def test_every_group_named_in_discovery_lists_its_resources() -> None:
    with Sandbox(controllers=False) as sandbox, client_of(sandbox) as api:
        _, groups = get(api, "/apis")
        versions = [version["groupVersion"] for group in groups["groups"] for version in group["versions"]]
        assert {"apps/v1", "policy/v1", "metrics.k8s.io/v1beta1", "coordination.k8s.io/v1"} <= set(versions)
        for version in versions:
            code, resources = get(api, f"/apis/{version}")
            assert (code, resources["kind"], resources["groupVersion"]) == (200, "APIResourceList", version)
            assert resources["resources"]


def test_every_resource_that_can_be_listed_is_listed() -> None:
    with Sandbox(controllers=False) as sandbox, client_of(sandbox) as api:
        paths = ["/api/v1"]
        paths += [
            f"/apis/{group['preferredVersion']['groupVersion']}" for group in get(api, "/apis")[1]["groups"]
        ]
        listed = 0
        for path in paths:
            for resource in get(api, path)[1]["resources"]:
                if "list" in resource["verbs"]:
                    code, document = get(api, f"{path}/{resource['name']}")
                    assert (code, document["kind"]) == (200, f"{resource['kind']}List")
                    listed += 1
    assert listed >= 25


def test_the_eviction_subresource_is_announced_as_drain_looks_for_it() -> None:
    with Sandbox(controllers=False) as sandbox, client_of(sandbox) as api:
        rows = {row["name"]: row for row in get(api, "/api/v1")[1]["resources"]}
    eviction = rows["pods/eviction"]
    assert (eviction["group"], eviction["version"], eviction["kind"]) == ("policy", "v1", "Eviction")
    assert rows["pods"]["shortNames"] == ["po"]


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/livez"])
def test_the_server_says_that_it_is_well(path: str) -> None:
    with Sandbox(controllers=False) as sandbox, client_of(sandbox) as api:
        assert get(api, path) == (200, "ok")
        assert get(api, "/version")[1]["gitVersion"] == "v1.35.4"


@rows("path", ["/apis/nothing.example/v1", "/apis/apps/v1/unheardof", "/nowhere", "/api/v2"])
def test_what_is_not_served_is_404(path: str) -> None:
    with Sandbox(controllers=False) as sandbox, client_of(sandbox) as api:
        code, status = get(api, path)
    assert (code, status["reason"]) == (404, "NotFound")
