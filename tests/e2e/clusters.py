"""Builders of what a cluster holds: nodes, workloads, budgets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.e2e import assets

Object = dict[str, Any]


def node(
    name: str,
    *,
    cpu: str = "4",
    memory: str = "16Gi",
    pods: str = "110",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    taints: list[Object] | None = None,
    images: list[Object] | None = None,
) -> Object:
    """A node, as its kubelet would register it."""
    room = {"cpu": cpu, "memory": memory, "pods": pods, "ephemeral-storage": "100Gi"}
    info = dict.fromkeys(
        (
            "bootID",
            "containerRuntimeVersion",
            "kernelVersion",
            "kubeProxyVersion",
            "machineID",
            "osImage",
            "systemUUID",
        ),
        "",
    )
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **(labels or {})},
            "annotations": dict(annotations or {}),
        },
        "spec": {"taints": taints or []},
        "status": {
            "capacity": room,
            "allocatable": room,
            "images": images or [],
            "nodeInfo": {
                **info,
                "architecture": "amd64",
                "operatingSystem": "linux",
                "kubeletVersion": f"v{assets.kubernetes_version()}",
            },
        },
    }


def deployment(
    name: str,
    replicas: int,
    *,
    namespace: str = "default",
    cpu: str = "100m",
    memory: str = "64Mi",
    image: str = "registry.example/app:1",
    scheduler: str = "default-scheduler",
    annotations: Mapping[str, str] | None = None,
    grace_seconds: int = 1,
    pod: Mapping[str, Any] | None = None,
) -> Object:
    """A Deployment of one-container pods labelled app=NAME; ``pod`` is merged into the pods' spec."""
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels, "annotations": dict(annotations or {})},
                "spec": {
                    "schedulerName": scheduler,
                    "terminationGracePeriodSeconds": grace_seconds,
                    "containers": [
                        {
                            "name": "app",
                            "image": image,
                            "resources": {"requests": {"cpu": cpu, "memory": memory}},
                        }
                    ],
                    **(pod or {}),
                },
            },
        },
    }


def budget(name: str, *, app: str, namespace: str = "default", **bound: int | str) -> Object:
    """A PodDisruptionBudget over the pods of an app; ``bound`` is minAvailable or maxUnavailable."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"matchLabels": {"app": app}}, **bound},
    }


def namespace(name: str) -> Object:
    """A namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
