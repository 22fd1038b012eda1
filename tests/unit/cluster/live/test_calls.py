"""Requests made by path are those that the official client's own methods would make."""

from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from kubernetes import client

from rebalancer.cluster.live.client import KubernetesClient
from tests.unit.execution.fake_api import Answer, Transport

_BODY = {"metadata": {"name": "web"}}
_DEPLOYMENT = ("apps", "v1", "shop", "deployments", "web")
_CONTENT_TYPES = {
    "POST": "application/json",
    "PUT": "application/json",
    "PATCH": "application/merge-patch+json",
}


class Noted(Transport):
    """Remembers what the server would see of each request."""

    def __init__(self) -> None:
        super().__init__(lambda _request: Answer())
        self.seen: list[tuple[Any, ...]] = []

    def request(self, method: str, url: str, headers: Any = None, body: Any = None, **options: Any) -> Any:
        body = json.loads(body) if isinstance(body, str) else body
        # The official client leaves out the type of a body in JSON, which is what a server takes it for.
        content_type = headers.get("Content-Type") or _CONTENT_TYPES.get(method)
        path, _, query = url.partition("?")
        asked = sorted(query.split("&"))
        self.seen.append(
            (method, path, asked, body, headers["Accept"], content_type, headers.get("authorization"))
        )
        return SimpleNamespace(status=200, response=None)  # as the official client expects it


@pytest.mark.parametrize(
    ("api", "name", "arguments", "options"),
    [
        ("core", "list_node", (), {"limit": 500}),
        ("core", "list_pod_for_all_namespaces", (), {"field_selector": "spec.nodeName=", "limit": 1}),
        ("core", "list_pod_for_all_namespaces", (), {"watch": True, "allow_watch_bookmarks": True}),
        ("core", "list_namespaced_pod", ("shop",), {"label_selector": "a in (b,c)", "_continue": "a+/="}),
        ("core", "read_namespaced_pod", ("web/../1", "shop"), {}),
        ("core", "create_namespaced_pod_eviction", ("web-1", "shop", _BODY), {"dry_run": "All"}),
        ("core", "read_namespaced_config_map", ("state", "shop"), {}),
        ("core", "create_namespaced_config_map", ("shop", _BODY), {}),
        ("core", "replace_namespaced_config_map", ("state", "shop", _BODY), {}),
        ("objects", "list_namespaced_custom_object", _DEPLOYMENT[:4], {"field_selector": "metadata.name=a"}),
        ("objects", "get_namespaced_custom_object", _DEPLOYMENT, {}),
        ("objects", "create_namespaced_custom_object", (*_DEPLOYMENT[:4], _BODY), {}),
        ("objects", "replace_namespaced_custom_object", (*_DEPLOYMENT, _BODY), {}),
        ("objects", "patch_namespaced_custom_object", (*_DEPLOYMENT, _BODY), {"field_manager": "us"}),
    ],
)
def test_a_request_is_the_one_that_the_official_client_makes(
    api: str, name: str, arguments: tuple[Any, ...], options: dict[str, Any]
) -> None:
    settings = client.Configuration(host="https://server/prefix")
    settings.api_key = {"BearerToken": "Bearer secret"}
    official = client.ApiClient(settings)
    noted = official.rest_client = Noted()
    ours = KubernetesClient(official)
    theirs = client.CoreV1Api(official) if api == "core" else client.CustomObjectsApi(official)

    getattr(theirs, name)(*arguments, _preload_content=False, **options)
    mine = ours.core if api == "core" else ours.custom_objects
    getattr(mine, name)(*arguments, _request_timeout=(1.0, 1.0), **options)

    assert noted.seen[0][-1] == "Bearer secret"
    assert noted.seen[0] == noted.seen[1]


def test_connecting_builds_no_models_of_the_kinds() -> None:
    """They cost a second of processor time before the first request."""
    script = (
        "import sys\n"
        "from kubernetes import client\n"
        "from rebalancer.cluster.live.client import KubernetesClient\n"
        "KubernetesClient(client.ApiClient(client.Configuration()))\n"
        "print([name for name in sys.modules if name.startswith('kubernetes.client.models.')])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
