"""A client of the real API server for what tests do: JSON in and out, watches, nothing retried."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import urllib3
import yaml

Object = dict[str, Any]

_PLURALS = {
    "CSIStorageCapacity": "csistoragecapacities",
    "Endpoints": "endpoints",
    "Ingress": "ingresses",
    "NetworkPolicy": "networkpolicies",
    "NodeMetrics": "nodes",
    "PodMetrics": "pods",
    "PriorityClass": "priorityclasses",
    "StorageClass": "storageclasses",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
}
_CLUSTER_SCOPED = {
    "APIService",
    "CSIDriver",
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "MutatingWebhookConfiguration",
    "Namespace",
    "Node",
    "NodeMetrics",
    "PersistentVolume",
    "PriorityClass",
    "StorageClass",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
}


class ApiRefusedError(Exception):
    """An answer that is no success."""

    def __init__(self, status: int, message: str, body: Object) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status
        self.body = body


@dataclass(frozen=True)
class Api:
    """One user's view of an API server."""

    url: str
    token: str
    certificate: Path
    pool: urllib3.PoolManager = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        context = ssl.create_default_context(cafile=str(self.certificate))
        pool = urllib3.PoolManager(num_pools=2, maxsize=16, ssl_context=context, retries=False)
        object.__setattr__(self, "pool", pool)

    def request(
        self, method: str, path: str, body: object = None, *, content_type: str = "application/json"
    ) -> Object:
        """One request; its answer. Raises ApiRefusedError, urllib3's errors."""
        answer = self.pool.request(
            method,
            self.url + path,
            body=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": content_type},
            timeout=urllib3.Timeout(60.0),
        )
        try:
            decoded = json.loads(answer.data) if answer.data else {}
        except ValueError:
            decoded = {"message": answer.data[:300].decode(errors="replace")}
        if answer.status >= 300:
            raise ApiRefusedError(answer.status, f"{method} {path}: {decoded.get('message', '')}", decoded)
        return decoded if isinstance(decoded, dict) else {"items": decoded}

    def get(self, path: str) -> Object:
        """The object at this path."""
        return self.request("GET", path)

    def list(self, path: str, **parameters: str) -> list[Object]:
        """The items of the collection at this path."""
        query = f"?{urlencode(parameters)}" if parameters else ""
        items: list[Object] = self.get(path + query)["items"]
        return items

    def create(self, manifest: Object) -> Object:
        """Create the object of a manifest."""
        return self.request("POST", collection_of(manifest), manifest)

    def apply(self, manifest: Object) -> Object:
        """Create the object of a manifest, or make it as the manifest says."""
        path = f"{path_of(manifest)}?fieldManager=e2e&force=true"
        return self.request("PATCH", path, manifest, content_type="application/apply-patch+yaml")

    def patch(self, path: str, change: Object) -> Object:
        """Merge a change into the object at this path."""
        return self.request("PATCH", path, change, content_type="application/merge-patch+json")

    def delete(self, path: str, **options: object) -> None:
        """Delete the object at this path, if it is there."""
        try:
            self.request("DELETE", path, options or None)
        except ApiRefusedError as error:
            if error.status != 404:
                raise

    def evict(self, namespace: str, name: str) -> None:
        """Evict a pod as anybody may. Raises ApiRefusedError: 429 when a budget says no."""
        metadata = {"namespace": namespace, "name": name}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
        self.request("POST", f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", body)

    def watch(self, path: str, *, resource_version: str, seconds: int = 600) -> Iterator[Object]:
        """The events of the collection at this path since that version, until the server ends the watch."""
        query = urlencode({"watch": 1, "resourceVersion": resource_version, "timeoutSeconds": seconds})
        answer = self.pool.request(
            "GET",
            f"{self.url}{path}?{query}",
            headers={"Authorization": f"Bearer {self.token}"},
            preload_content=False,
            timeout=urllib3.Timeout(connect=10.0, read=seconds + 30.0),
        )
        rest = b""
        try:
            for chunk in answer.stream(65536):
                *lines, rest = (rest + chunk).split(b"\n")
                yield from map(json.loads, filter(None, lines))
        finally:
            answer.close()


def documents(text: str) -> list[Object]:
    """The objects of a YAML text."""
    return [document for document in yaml.safe_load_all(text) if document]


def collection_of(manifest: Object) -> str:
    """The path of the collection that an object of this manifest belongs to."""
    version, kind = manifest["apiVersion"], manifest["kind"]
    plural = _PLURALS.get(kind, kind.lower() + "s")
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    if kind in _CLUSTER_SCOPED:
        return f"{root}/{plural}"
    return f"{root}/namespaces/{manifest['metadata'].get('namespace', 'default')}/{plural}"


def path_of(manifest: Object) -> str:
    """The path of the object of this manifest."""
    return f"{collection_of(manifest)}/{manifest['metadata']['name']}"
