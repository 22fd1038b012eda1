"""metrics-server over kwok's kubelets, behind the API server's aggregation; load-watcher over it."""

from __future__ import annotations

import contextlib
import json
import math
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import urllib3

from rebalancer.cluster import times
from tests import loopback
from tests.e2e import assets
from tests.e2e.api import Api, ApiRefusedError
from tests.e2e.controlplane import ControlPlane
from tests.e2e.loads import CPU_MILLI
from tests.e2e.processes import Program, wait_until
from tests.ports import free_port

# TargetLoadPacking adds the load of pods that were bound less than 60 s before the end of the window it
# knows, and it knows one that is up to 30 s old. Pods older than both are seen alike by everybody.
MEASURED_AFTER_SECONDS = 95.0
USAGE = Path(__file__).parent / "usage.yaml"
_GROUP, _VERSION = "metrics.k8s.io", "v1beta1"
_FRONT_PROXY = "front-proxy"


def scraped(node: dict[str, Any]) -> dict[str, Any]:
    """The node, telling metrics-server where its kubelet's figures are: kwok serves those of all nodes."""
    metadata = node["metadata"]
    path = f"/metrics/nodes/{metadata['name']}/metrics/resource"
    annotations = {**metadata["annotations"], "metrics.k8s.io/resource-metrics-path": path}
    return {**node, "metadata": {**metadata, "annotations": annotations}}


def front_proxy_flags(folder: Path) -> list[str]:
    """What lets the API server tell an aggregated API who asks, with a certificate made in ``folder``."""
    key, certificate = folder / "front-proxy.key", folder / "front-proxy.crt"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
    ]
    options = ["-subj", f"/CN={_FRONT_PROXY}", "-addext", "extendedKeyUsage=clientAuth", "-days", "2"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command, *options, *files], check=True, capture_output=True)
    return [
        f"--proxy-client-cert-file={certificate}",
        f"--proxy-client-key-file={key}",
        f"--requestheader-client-ca-file={certificate}",
        f"--requestheader-allowed-names={_FRONT_PROXY}",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
    ]


def start_metrics_server(control_plane: ControlPlane) -> None:
    """Start metrics-server and register it with the API server, which has ``front_proxy_flags``."""
    port, kubeconfig = free_port(), control_plane.kubeconfig()
    program = Program.start(
        [
            str(assets.find("metrics-server")),
            f"--kubeconfig={kubeconfig}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={control_plane.folder / 'metrics-server'}",
            "--deprecated-kubelet-completely-insecure",  # kwok serves plain HTTP
            "--kubelet-use-node-status-port",
            "--kubelet-preferred-address-types=InternalIP",
            "--kubelet-request-timeout=5s",
            "--metric-resolution=10s",
        ],
        control_plane.folder / "metrics-server.log",
    )
    control_plane.programs["metrics-server"] = program
    for manifest in _registration(port):
        control_plane.api.create(manifest)
    program.wait_until(lambda: _is_available(control_plane.api))


def _registration(port: int) -> list[dict[str, Any]]:
    service = {"name": "metrics-server", "namespace": "kube-system"}
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": service,
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        },
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": f"{_VERSION}.{_GROUP}"},
            "spec": {
                "group": _GROUP,
                "version": _VERSION,
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "insecureSkipTLSVerify": True,
                "service": {**service, "port": port},
            },
        },
    ]


def exact_metrics(
    control_plane: ControlPlane,
    clock: Callable[[], float] = time.time,
    cpu_milli: Callable[[dict[str, Any]], int] = lambda pod: int(
        pod["metadata"].get("annotations", {}).get(CPU_MILLI, 0)
    ),
) -> contextlib.AbstractContextManager[None]:
    """The metrics API without noise: what pods use, by default by their annotations, behind the aggregation.

    What a machine with few cores has to do for a real one, it cannot do evenly: rates of it swing by a tenth.
    """
    api = control_plane.api
    return served_metrics(control_plane, lambda kind: exact_figures(api, kind, clock(), cpu_milli))


@contextlib.contextmanager
def served_metrics(control_plane: ControlPlane, figures: Callable[[str], dict[str, Any]]) -> Iterator[None]:
    """The metrics API behind the aggregation; ``figures`` is the list of nodes or of pods, as asked."""

    def answer(request: loopback.Request) -> loopback.Answer:
        kind = request.path.partition("?")[0].rpartition("/")[2]
        document = figures(kind) if kind in ("nodes", "pods") else _RESOURCES
        return loopback.Answer(json.dumps(document).encode(), headers={"Content-Type": "application/json"})

    api = control_plane.api
    certificate = loopback.a_certificate(control_plane.folder)
    with loopback.answering(answer, certificate) as url:
        for manifest in _registration(int(url.rpartition(":")[2])):
            api.create(manifest)
        wait_until(lambda: _is_available(api), "the metrics API answers")
        yield


_RESOURCES = {
    "kind": "APIResourceList",
    "apiVersion": "v1",
    "groupVersion": f"{_GROUP}/{_VERSION}",
    "resources": [
        {"name": "nodes", "kind": "NodeMetrics", "namespaced": False, "verbs": ["get", "list"]},
        {"name": "pods", "kind": "PodMetrics", "namespaced": True, "verbs": ["get", "list"]},
    ],
}


def exact_figures(
    api: Api, kind: str, now: float, cpu_milli: Callable[[dict[str, Any]], int]
) -> dict[str, Any]:
    """What pods or nodes use at this moment, as metrics-server answers.

    Its times are whole seconds. The one before would say of a pod that was bound in between that the figures
    do not show it yet, so it would be counted twice; they carry the one after.
    """
    moment = {"timestamp": times.render(math.ceil(now)), "window": "0s"}
    items: list[dict[str, Any]] = []
    used: Counter[str] = Counter()
    for pod in api.list("/api/v1/pods"):
        uses = cpu_milli(pod)
        used[pod["spec"].get("nodeName", "")] += uses
        metadata = {key: pod["metadata"][key] for key in ("name", "namespace")}
        containers = [{"name": "app", "usage": {"cpu": f"{uses}m", "memory": "16Mi"}}]
        items.append({"metadata": metadata, "containers": containers, **moment})
    if kind == "nodes":
        names = [node["metadata"]["name"] for node in api.list("/api/v1/nodes")]
        items = [
            {"metadata": {"name": name}, "usage": {"cpu": f"{used[name]}m", "memory": "1Gi"}, **moment}
            for name in names
        ]
    name = "NodeMetricsList" if kind == "nodes" else "PodMetricsList"
    return {"kind": name, "apiVersion": f"{_GROUP}/{_VERSION}", "metadata": {}, "items": items}


def _is_available(api: Api) -> bool:
    service = api.get(f"/apis/apiregistration.k8s.io/v1/apiservices/{_VERSION}.{_GROUP}")
    conditions = service.get("status", {}).get("conditions", [])
    return any(item["type"] == "Available" and item["status"] == "True" for item in conditions)


def measured_cores(api: Api) -> dict[str, float]:
    """The cores that metrics-server says each node uses; a node it knows nothing of is left out."""
    try:
        items = api.list(f"/apis/{_GROUP}/{_VERSION}/nodes")
    except ApiRefusedError as error:
        if error.status in (403, 503):  # its own caches fill, or the API server has just learned of it
            return {}
        raise
    return {item["metadata"]["name"]: _cores(item["usage"]["cpu"]) for item in items}


def start_load_watcher(control_plane: ControlPlane) -> str:
    """Start load-watcher, once metrics-server knows all nodes; its address."""
    port = free_port()
    program = Program.start(
        [str(assets.find("load-watcher"))],
        control_plane.folder / "load-watcher.log",
        {
            "METRICS_PROVIDER_NAME": "KubernetesMetricsServer",
            "KUBE_CONFIG": str(control_plane.kubeconfig()),
            "LISTEN_ADDRESS": f"127.0.0.1:{port}",
        },
    )
    control_plane.programs["load-watcher"] = program
    address = f"http://127.0.0.1:{port}"
    program.wait_until(lambda: bool(watched_cpu(address)))
    return address


def watched_cpu(address: str) -> dict[str, float]:
    """What load-watcher says of the CPU of each node, in percent of its capacity."""
    with urllib3.PoolManager(retries=False) as pool:
        try:
            answer = pool.request("GET", f"{address}/watcher", timeout=10.0)
        except urllib3.exceptions.HTTPError:
            return {}
    if answer.status != 200:
        return {}
    nodes = answer.json()["data"]["NodeMetricsMap"]
    return {
        name: metric["value"]
        for name, figures in nodes.items()
        for metric in figures["metrics"]
        if metric["type"] == "CPU"
    }


def _cores(quantity: str) -> float:
    units = {"n": 1e-9, "u": 1e-6, "m": 1e-3}
    return float(quantity[:-1]) * units[quantity[-1]] if quantity[-1] in units else float(quantity)
