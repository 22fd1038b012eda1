"""The requests that rebalancer makes, as methods with the names that the official client gives them.

The client's own methods belong to classes that build a model of every kind of object when they are first
used: one second of processor time before the first request of every command. What is sent is a path, a few
options and JSON, so the client is only asked for what it is good at: addresses, credentials and transport.

    core.list_namespaced_pod("shop", label_selector="app=web", _continue="abc")
    GET /api/v1/namespaces/shop/pods?labelSelector=app%3Dweb&continue=abc
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

_JSON = "application/json"
_MERGE_PATCH = "application/merge-patch+json"

Send = Callable[..., Any]
"""Sends ``method, path, query, headers, body, timeout``; returns the response, its body not yet read."""


class Calls:
    """Makes requests by ``send``; what is not named by a parameter is an option of the query."""

    def __init__(self, send: Send) -> None:
        self._send = send

    def get(self, path: str, **options: Any) -> Any:
        """GET a path exactly as it is written."""
        return self._request("GET", path, None, options)

    def _request(self, method: str, path: str, body: Any, options: dict[str, Any]) -> Any:
        timeout = options.pop("_request_timeout")
        headers: Mapping[str, str] = options.pop("_headers", {})
        content_type = {} if body is None else {"Content-Type": _MERGE_PATCH if method == "PATCH" else _JSON}
        query = [(_query_name(name), value) for name, value in options.items() if value is not None]
        return self._send(method, path, query, {"Accept": _JSON, **content_type, **headers}, body, timeout)


class CoreCalls(Calls):
    """Nodes, pods and ConfigMaps."""

    def list_node(self, **options: Any) -> Any:
        """All nodes."""
        return self.get("/api/v1/nodes", **options)

    def list_pod_for_all_namespaces(self, **options: Any) -> Any:
        """All pods."""
        return self.get("/api/v1/pods", **options)

    def list_namespaced_pod(self, namespace: str, **options: Any) -> Any:
        """The pods of a namespace."""
        return self.get(_in_core(namespace, "pods"), **options)

    def read_namespaced_pod(self, name: str, namespace: str, **options: Any) -> Any:
        """One pod."""
        return self.get(_in_core(namespace, "pods", name), **options)

    def create_namespaced_pod_eviction(self, name: str, namespace: str, body: Any, **options: Any) -> Any:
        """Ask for the eviction of a pod."""
        return self._request("POST", _in_core(namespace, "pods", name, "eviction"), body, options)

    def read_namespaced_config_map(self, name: str, namespace: str, **options: Any) -> Any:
        """One ConfigMap."""
        return self.get(_in_core(namespace, "configmaps", name), **options)

    def create_namespaced_config_map(self, namespace: str, body: Any, **options: Any) -> Any:
        """Create a ConfigMap."""
        return self._request("POST", _in_core(namespace, "configmaps"), body, options)

    def replace_namespaced_config_map(self, name: str, namespace: str, body: Any, **options: Any) -> Any:
        """Replace a ConfigMap."""
        return self._request("PUT", _in_core(namespace, "configmaps", name), body, options)


class ObjectCalls(Calls):
    """Objects of any API group."""

    def list_namespaced_custom_object(
        self, group: str, version: str, namespace: str, plural: str, **options: Any
    ) -> Any:
        """The objects of a namespace."""
        return self.get(_in_group(group, version, namespace, plural), **options)

    def get_namespaced_custom_object(
        self, group: str, version: str, namespace: str, plural: str, name: str, **options: Any
    ) -> Any:
        """One object."""
        return self.get(_in_group(group, version, namespace, plural, name), **options)

    def create_namespaced_custom_object(
        self, group: str, version: str, namespace: str, plural: str, body: Any, **options: Any
    ) -> Any:
        """Create an object."""
        return self._request("POST", _in_group(group, version, namespace, plural), body, options)

    def replace_namespaced_custom_object(
        self, group: str, version: str, namespace: str, plural: str, name: str, body: Any, **options: Any
    ) -> Any:
        """Replace an object."""
        return self._request("PUT", _in_group(group, version, namespace, plural, name), body, options)

    def patch_namespaced_custom_object(
        self, group: str, version: str, namespace: str, plural: str, name: str, body: Any, **options: Any
    ) -> Any:
        """Change an object by a merge patch."""
        return self._request("PATCH", _in_group(group, version, namespace, plural, name), body, options)


def _in_core(namespace: str, *parts: str) -> str:
    return f"/api/v1/namespaces/{_written(namespace, *parts)}"


def _in_group(group: str, version: str, namespace: str, *parts: str) -> str:
    return f"/apis/{group}/{version}/namespaces/{_written(namespace, *parts)}"


def _written(*parts: str) -> str:
    """Parts of a path; a name may come from an object that anybody wrote."""
    return "/".join(quote(part, safe="") for part in parts)


def _query_name(option: str) -> str:
    """``field_selector`` as ``fieldSelector``; ``_continue`` avoids a keyword of Python."""
    return re.sub("_([a-z])", lambda found: found[1].upper(), option.removeprefix("_"))
