"""Small objects to fill a sandbox with, a clock that stands still, and clients that leave nothing open."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kubernetes import client

from rebalancer_demo import Sandbox
from rebalancer_demo.objects import Object

START = 1_800_000_000.0


class StillClock:
    """A clock that a test moves."""

    def __init__(self, now: float = START) -> None:
        self._now = now
        self._lock = threading.Lock()

    def __call__(self) -> float:
        with self._lock:
            return self._now

    def advance(self, seconds: float) -> None:
        with self._lock:
            self._now += seconds


def a_node(name: str, *, cpu: str = "4", memory: str = "16Gi", pods: str = "110") -> Object:
    room = {"cpu": cpu, "memory": memory, "pods": pods}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {
            "capacity": room,
            "allocatable": room,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def a_pod_spec(*, cpu: str = "500m", grace: int = 30, **more: Any) -> Object:
    container = {
        "name": "main",
        "image": "app:v1",
        "resources": {"requests": {"cpu": cpu, "memory": "256Mi"}},
    }
    return {"containers": [container], "terminationGracePeriodSeconds": grace, **more}


def a_pod(
    name: str,
    *,
    namespace: str = "shop",
    node: str = "",
    app: str = "web",
    ready: bool = True,
    phase: str = "Running",
    owner: Object | None = None,
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> Object:
    """A pod; bound to a node it is Running and Ready as in a dump, else Pending."""
    pod: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": app}},
        "spec": a_pod_spec(**spec),
    }
    if annotations:
        pod["metadata"]["annotations"] = annotations
    if owner:
        pod["metadata"]["ownerReferences"] = [
            {
                "apiVersion": owner["apiVersion"],
                "kind": owner["kind"],
                "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"],
                "controller": True,
            }
        ]
    if node:
        pod["spec"]["nodeName"] = node
        conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
        pod["status"] = {"phase": phase, "startTime": "2027-01-01T00:00:00Z", "conditions": conditions}
    return pod


def a_replica_set(
    name: str = "web", *, replicas: int = 3, annotations: dict[str, str] | None = None, **spec: Any
) -> Object:
    labels = {"app": name}
    template: Object = {"metadata": {"labels": labels}, "spec": a_pod_spec(**spec)}
    if annotations:
        template["metadata"]["annotations"] = annotations
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name, "namespace": "shop", "uid": f"rs-{name}"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


def a_deployment_with_its_replica_set(
    *, replicas: int = 2, generation: int | None = None, **spec: Any
) -> tuple[Object, Object]:
    """The Deployment web, and web-1 that it owns."""
    deployment = a_replica_set("web", replicas=replicas)
    deployment["kind"] = "Deployment"
    deployment["metadata"]["uid"] = "deploy-web"
    if generation is not None:
        deployment["metadata"]["generation"] = generation
    deployment["spec"] |= spec
    owned = a_replica_set("web-1", replicas=replicas)
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "deploy-web"}
    owned["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    return deployment, owned


def a_stateful_set(name: str = "db", *, replicas: int = 2) -> Object:
    item = a_replica_set(name, replicas=replicas)
    item["kind"] = "StatefulSet"
    item["metadata"]["uid"] = f"sts-{name}"
    return item


def a_budget(name: str = "web", *, app: str = "web", status: Object | None = None, **spec: Any) -> Object:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "shop", "generation": 1},
        "spec": {"selector": {"matchLabels": {"app": app}}, **spec},
        "status": {"observedGeneration": 1, **(status or {})},
    }


def a_config_map(name: str, *, namespace: str = "shop", labels: dict[str, str] | None = None) -> Object:
    metadata: Object = {"name": name, "namespace": namespace}
    if labels is not None:
        metadata["labels"] = labels
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"key": name}}


@contextmanager
def client_of(sandbox: Sandbox, *, token: str = "", gzip: bool = False) -> Iterator[client.ApiClient]:
    configuration = client.Configuration(host=sandbox.url)
    configuration.retries = False
    if token:
        configuration.api_key = {"authorization": f"Bearer {token}"}
    with client.ApiClient(configuration) as api:
        if gzip:
            api.set_default_header("Accept-Encoding", "gzip")
        try:
            yield api
        finally:
            api.rest_client.pool_manager.clear()


@contextmanager
def connected(sandbox: Sandbox) -> Iterator[tuple[Sandbox, client.CoreV1Api]]:
    """A running sandbox and a client of its core API."""
    with sandbox, client_of(sandbox) as api:
        yield sandbox, client.CoreV1Api(api)


def refusal(call: Callable[[], object]) -> tuple[int, Object, dict[str, str]]:
    """The code, Status and headers of the refusal that a call must meet."""
    try:
        call()
    except client.ApiException as error:
        body: Object = json.loads(error.body)
        return error.status, body, dict(error.headers)
    raise AssertionError("the API server did not refuse")


def eviction_of(name: str, *, uid: str = "", dry_run: bool = False, grace: int | None = None) -> Any:
    preconditions = client.V1Preconditions(uid=uid) if uid else None
    options = client.V1DeleteOptions(
        preconditions=preconditions, dry_run=["All"] if dry_run else None, grace_period_seconds=grace
    )
    metadata = client.V1ObjectMeta(name=name, namespace="shop")
    return client.V1Eviction(metadata=metadata, delete_options=options)


def names(items: list[Object]) -> list[str]:
    return [str(item["metadata"]["name"]) for item in items]
