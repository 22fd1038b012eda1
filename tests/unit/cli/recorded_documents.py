"""Objects and documents of a small recording."""

from __future__ import annotations

import json
from typing import Any

CONFIGURATION = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
POLICY = "apiVersion: rebalancer/v1alpha1\nkind: RebalancePolicy\n"
WATCHER = {
    "timestamp": 1795176000,
    "window": {"start": 1795175100, "end": 1795176000, "duration": "15m"},
    "data": {"NodeMetricsMap": {"node-1": {"metrics": [{"type": "CPU", "operator": "AVG", "value": 40}]}}},
}


def a_list(kind: str, api_version: str, *items: dict[str, Any]) -> bytes:
    head = {"apiVersion": api_version, "kind": f"{kind}List", "metadata": {"resourceVersion": "7"}}
    return json.dumps({**head, "items": items}).encode()


def a_node(name: str) -> dict[str, Any]:
    room = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    return {"metadata": {"name": name}, "status": {"allocatable": room, "capacity": room}}


def a_metric(node: str, moment: str) -> dict[str, Any]:
    return {
        "metadata": {"name": node},
        "timestamp": moment,
        "window": "30s",
        "usage": {"cpu": "1", "memory": "1Gi"},
    }
