"""What goes over the wire is what the official client's own methods would send."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from kubernetes import client

from rebalancer.cluster.kinds import NODES, PODS
from rebalancer.cluster.live import RawApi, object_path
from rebalancer.cluster.live.client import KubernetesClient
from rebalancer.cluster.live.login import official_login
from tests.unit.execution.fake_api import Answer, Transport

_BODY = {"metadata": {"name": "web"}}
_DEPLOYMENT = ("apps", "v1", "shop", "deployments", "web")
_OBJECTS, _OBJECT = "/apis/apps/v1/namespaces/shop/deployments", object_path("apps/v1", *_DEPLOYMENT[2:])
_CONTENT_TYPES = {
    "POST": "application/json",
    "PUT": "application/json",
    "PATCH": "application/merge-patch+json",
}


class Noted(Transport):
    """Remembers what the server would see of each request."""

    def __init__(self) -> None:
        super().__init__(lambda _request: Answer())
        self.pool_manager = self  # where the official client looks for it
        self.seen: list[tuple[Any, ...]] = []

    def request(self, method: str, url: str, headers: Any = None, body: Any = None, **options: Any) -> Any:
        document = json.loads(body) if isinstance(body, str) else body
        # The official client leaves out the type of a body in JSON, which is what a server takes it for.
        content_type = headers.get("Content-Type") or _CONTENT_TYPES.get(method)
        path, _, query = url.partition("?")
        asked = sorted(query.split("&"))
        login = headers.get("authorization")
        self.seen.append((method, path, asked, document, headers["Accept"], content_type, login))
        # The official client hands back what it calls the response of the response.
        answer = super().request(method, url, headers, None)
        answer.response = None
        return answer


@pytest.mark.parametrize(
    ("name", "arguments", "options", "request_"),
    [
        ("list_node", (), {"limit": 500}, ("GET", NODES.path, {"limit": 500})),
        (
            "list_pod_for_all_namespaces",
            (),
            {"field_selector": "spec.nodeName=", "limit": 1},
            ("GET", PODS.path, {"fieldSelector": "spec.nodeName=", "limit": 1, "continue": None}),
        ),
        (
            "list_pod_for_all_namespaces",
            (),
            {"watch": True, "allow_watch_bookmarks": True},
            ("GET", PODS.path, {"watch": True, "allowWatchBookmarks": True}),
        ),
        (
            "list_namespaced_pod",
            ("shop",),
            {"label_selector": "a in (b,c)", "_continue": "a+/="},
            (
                "GET",
                object_path("v1", "shop", "pods"),
                {"labelSelector": "a in (b,c)", "continue": "a+/="},
            ),
        ),
        (
            "read_namespaced_pod",
            ("web/../1", "shop"),
            {},
            ("GET", object_path("v1", "shop", "pods", "web/../1")),
        ),
        (
            "create_namespaced_pod_eviction",
            ("web-1", "shop", _BODY),
            {"dry_run": "All"},
            ("POST", object_path("v1", "shop", "pods", "web-1", "eviction"), {"dryRun": "All"}),
        ),
        (
            "create_namespaced_config_map",
            ("shop", _BODY),
            {},
            ("POST", object_path("v1", "shop", "configmaps")),
        ),
        (
            "replace_namespaced_config_map",
            ("state", "shop", _BODY),
            {},
            ("PUT", object_path("v1", "shop", "configmaps", "state")),
        ),
        (
            "list_namespaced_custom_object",
            _DEPLOYMENT[:4],
            {"field_selector": "metadata.name=a"},
            ("GET", _OBJECTS, {"fieldSelector": "metadata.name=a"}),
        ),
        ("get_namespaced_custom_object", _DEPLOYMENT, {}, ("GET", _OBJECT)),
        ("create_namespaced_custom_object", (*_DEPLOYMENT[:4], _BODY), {}, ("POST", _OBJECTS)),
        ("replace_namespaced_custom_object", (*_DEPLOYMENT, _BODY), {}, ("PUT", _OBJECT)),
        (
            "patch_namespaced_custom_object",
            (*_DEPLOYMENT, _BODY),
            {"field_manager": "us"},
            ("PATCH", _OBJECT, {"fieldManager": "us"}),
        ),
    ],
)
def test_a_request_is_the_one_that_the_official_client_makes(
    name: str, arguments: tuple[Any, ...], options: dict[str, Any], request_: tuple[Any, ...]
) -> None:
    settings = client.Configuration(host="https://server/prefix")
    settings.api_key = {"BearerToken": "Bearer secret"}
    official = client.ApiClient(settings)
    noted = official.rest_client = Noted()
    theirs: Any = client.CustomObjectsApi(official) if "custom" in name else client.CoreV1Api(official)

    with_body: dict[str, Any] = {"body": _BODY} if request_[0] != "GET" else {}
    KubernetesClient(official_login(official)).send(*request_, **with_body, max_bytes=1000)
    getattr(theirs, name)(*arguments, _preload_content=False, **options)

    assert noted.seen[0][-1] == "Bearer secret"
    assert noted.seen[0] == noted.seen[1]


def test_a_list_asks_for_what_its_caller_accepts() -> None:
    settings = client.Configuration(host="https://server")
    official = client.ApiClient(settings)
    noted = official.rest_client = Noted()
    api = RawApi(KubernetesClient(official_login(official)))
    api.list_page(PODS, {"limit": 5}, {"Accept": "application/vnd.kubernetes.protobuf"})
    assert noted.seen[0][:3] == ("GET", "https://server/api/v1/pods", ["limit=5"])
    assert noted.seen[0][4:] == ("application/vnd.kubernetes.protobuf", None, None)


def test_connecting_by_the_official_client_builds_no_models_of_the_kinds() -> None:
    """They cost a second of processor time before the first request."""
    script = (
        "import sys\n"
        "from kubernetes import client\n"
        "from rebalancer.cluster.live.client import KubernetesClient\n"
        "from rebalancer.cluster.live.login import official_login\n"
        "KubernetesClient(official_login(client.ApiClient(client.Configuration())))\n"
        "print([name for name in sys.modules if name.startswith('kubernetes.client.models.')])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
