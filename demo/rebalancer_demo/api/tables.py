"""Answers as ``meta.k8s.io/v1`` Tables, which kubectl prints as they are.

The columns of a kind are those of the API server's own printers (pkg/printers/internalversion).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from rebalancer.cluster import times
from rebalancer_demo.api.requests import Request, Response, Target
from rebalancer_demo.objects import Object, condition_of, name_of, spec_of, status_of

Cell = Callable[[Object], Any]


@dataclass(frozen=True, slots=True)
class _Column:
    """A column; those of a priority above 0 are for ``-o wide``."""

    name: str
    cell: Cell
    priority: int = 0


def wants_table(request: Request) -> bool:
    """Whether the client would rather have a Table than objects."""
    first = request.headers.get("accept", "").partition(",")[0]
    return request.method == "GET" and "as=Table" in first and not request.flag("watch")


def as_table(response: Response, request: Request, target: Target) -> Response:
    """An object or a list as a Table; any other answer as it is."""
    if response.code != 200 or response.stream is not None:
        return response
    document = msgspec.json.decode(response.body)
    items = document.get("items", [document])
    columns = (_NAME, *_COLUMNS.get(target.resource.plural, ()))
    if not any(column.name in ("Age", "Last Seen") for column in columns):
        columns = (*columns, _AGE)
    if target.resource.plural == "events":
        columns = columns[1:]
    with_metadata = request.query.get("includeObject", "Metadata") != "None"
    rows = [_row(manifest, columns, with_metadata=with_metadata) for manifest in items]
    metadata = document.get("metadata", {}) if "items" in document else {}
    return Response.json(
        {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": {
                key: metadata[key]
                for key in ("resourceVersion", "continue", "remainingItemCount")
                if key in metadata
            },
            "columnDefinitions": [_definition(column) for column in columns],
            "rows": rows,
        }
    )


def _row(manifest: Object, columns: Sequence[_Column], *, with_metadata: bool) -> Object:
    partial = {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": manifest["metadata"],
    }
    row: Object = {"cells": [column.cell(manifest) for column in columns]}
    return {**row, "object": partial} if with_metadata else row


def _definition(column: _Column) -> Object:
    form = "name" if column is _NAME else ""
    return {
        "name": column.name,
        "type": "string",
        "format": form,
        "description": "",
        "priority": column.priority,
    }


def _ago(moment: str | None) -> str:
    """``45s``, ``12m``, ``5h``, ``14d``, as kubectl shortens an age."""
    if not moment:
        return "<unknown>"
    seconds = max(time.time() - times.parse(moment), 0.0)
    for unit, length, limit in (("s", 1, 120), ("m", 60, 180), ("h", 3600, 48)):
        if seconds < length * limit:
            return f"{int(seconds // length)}{unit}"
    return f"{int(seconds // 86400)}d"


def _pod_status(pod: Object) -> str:
    if pod["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return str(status_of(pod).get("reason") or status_of(pod).get("phase") or "Unknown")


def _containers_ready(pod: Object) -> str:
    count = len(spec_of(pod).get("containers") or ())
    ready = condition_of(pod, "Ready")
    return f"{count if ready and ready.get('status') == 'True' else 0}/{count}"


def _node_status(node: Object) -> str:
    ready = condition_of(node, "Ready")
    status = "Ready" if ready and ready.get("status") == "True" else "NotReady"
    return f"{status},SchedulingDisabled" if spec_of(node).get("unschedulable") else status


def _roles(node: Object) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = node["metadata"].get("labels") or {}
    return ",".join(sorted(name[len(prefix) :] for name in labels if name.startswith(prefix))) or "<none>"


def _spec(path: str, missing: Any = "<none>") -> Cell:
    return lambda manifest: spec_of(manifest).get(path, missing)


def _status(path: str, missing: Any = 0) -> Cell:
    return lambda manifest: status_of(manifest).get(path, missing)


def _node_info(field: str) -> Cell:
    return lambda node: (status_of(node).get("nodeInfo") or {}).get(field, "<unknown>")


def _target(autoscaler: Object) -> str:
    about = spec_of(autoscaler).get("scaleTargetRef") or {}
    return f"{about.get('kind', '')}/{about.get('name', '')}"


def _hard(quota: Object) -> str:
    hard = spec_of(quota).get("hard") or {}
    return ", ".join(f"{name}: {hard[name]}" for name in sorted(hard))


def _service_ports(service: Object) -> str:
    ports = spec_of(service).get("ports") or ()
    return ",".join(f"{port.get('port')}/{port.get('protocol', 'TCP')}" for port in ports) or "<none>"


def _completions(job: Object) -> str:
    return f"{status_of(job).get('succeeded', 0)}/{spec_of(job).get('completions', 1)}"


def _replicas_ready(workload: Object) -> str:
    return f"{status_of(workload).get('readyReplicas', 0)}/{spec_of(workload).get('replicas', 1)}"


def _involved(event: Object) -> str:
    about = event.get("involvedObject") or event.get("regarding") or {}
    return f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"


def _last_seen(event: Object) -> str:
    return _ago(
        event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp")
    )


_NAME = _Column("Name", name_of)
_AGE = _Column("Age", lambda manifest: _ago(manifest["metadata"].get("creationTimestamp")))
_COLUMNS: Mapping[str, tuple[_Column, ...]] = {
    "pods": (
        _Column("Ready", _containers_ready),
        _Column("Status", _pod_status),
        _Column("Restarts", lambda _pod: "0"),
        _AGE,
        _Column("IP", _status("podIP", "<none>"), 1),
        _Column("Node", _spec("nodeName"), 1),
        _Column("Nominated Node", _status("nominatedNodeName", "<none>"), 1),
    ),
    "nodes": (
        _Column("Status", _node_status),
        _Column("Roles", _roles),
        _AGE,
        _Column("Version", _node_info("kubeletVersion")),
        _Column("OS-Image", _node_info("osImage"), 1),
        _Column("Container-Runtime", _node_info("containerRuntimeVersion"), 1),
    ),
    "deployments": (
        _Column("Ready", _replicas_ready),
        _Column("Up-to-date", _status("updatedReplicas")),
        _Column("Available", _status("availableReplicas")),
    ),
    "replicasets": (
        _Column("Desired", _spec("replicas", 1)),
        _Column("Current", _status("replicas")),
        _Column("Ready", _status("readyReplicas")),
    ),
    "statefulsets": (_Column("Ready", _replicas_ready),),
    "daemonsets": (
        _Column("Desired", _status("desiredNumberScheduled")),
        _Column("Ready", _status("numberReady")),
    ),
    "jobs": (_Column("Completions", _completions),),
    "poddisruptionbudgets": (
        _Column("Min Available", _spec("minAvailable", "N/A")),
        _Column("Max Unavailable", _spec("maxUnavailable", "N/A")),
        _Column("Allowed Disruptions", _status("disruptionsAllowed")),
    ),
    "horizontalpodautoscalers": (
        _Column("Reference", _target),
        _Column("MinPods", _spec("minReplicas", 1)),
        _Column("MaxPods", _spec("maxReplicas")),
        _Column("Replicas", _status("currentReplicas")),
    ),
    "resourcequotas": (_Column("Limit", _hard),),
    "services": (
        _Column("Type", _spec("type", "ClusterIP")),
        _Column("Cluster-IP", _spec("clusterIP")),
        _Column("Port(s)", _service_ports),
    ),
    "priorityclasses": (_Column("Value", lambda priority_class: priority_class.get("value", 0)),),
    "namespaces": (_Column("Status", _status("phase", "Active")),),
    "configmaps": (_Column("Data", lambda config_map: len(config_map.get("data") or {})),),
    "leases": (_Column("Holder", _spec("holderIdentity")),),
    "events": (
        _Column("Last Seen", _last_seen),
        _Column("Type", lambda event: event.get("type", "")),
        _Column("Reason", lambda event: event.get("reason", "")),
        _Column("Object", _involved),
        _Column("Message", lambda event: event.get("message") or event.get("note") or ""),
    ),
}
