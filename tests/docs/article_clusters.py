"""The clusters of the pages about second schedulers, embedded: their objects are those that the pages show.

Their scheduler is the model itself, so that where pods land proves nothing about a real one: tests/e2e does.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import yaml

from rebalancer.cluster import times
from rebalancer.load.scheduler_view import decode_watcher
from rebalancer.scheduling.registry import load_configuration
from rebalancer_demo import ClusterView, Sandbox, Surface
from rebalancer_demo.model_decider import ModelDecider
from rebalancer_demo.objects import Object
from tests.docs.blocks import ROOT, blocks
from tests.waiting import present

_AGE_SECONDS = 14 * 24 * 3600.0


def pods_per_node() -> Sandbox:
    """Three nodes of which one is full, and the scheduler of docs/pods-per-node.md."""
    configuration = _shown_config_map("pods-per-node.md")
    objects = [configuration, _namespace("rebalancer")]
    objects += [_node(name, cpu="16", version="v1.20.15") for name in ("node1", "node2", "node3")]
    objects += _deployment(
        "scheduler-plugins-scheduler",
        {"node1": 1},
        namespace="scheduler-plugins",
        image="registry.example/kube-scheduler:v0.20.10",
        config_map="scheduler-config",
    )
    objects += _deployment("agent", {"node1": 8, "node2": 5, "node3": 4})
    for name in ("cart", "mail", "search", "web"):
        nodes = {"node1": 3, "node2": 3, "node3": 14}
        objects += _deployment(name, nodes, scheduler="scheduler-plugins-scheduler")
    text = configuration["data"]["scheduler-config.yaml"]
    return _sandbox(objects, text, Surface(20))


def k3s_trimaran() -> Sandbox:
    """A strong node that got everything, a weak one, a new one, and the stack of docs/k3s-trimaran.md."""
    configuration = _shown_config_map("k3s-trimaran.md")
    version = "v1.26.15+k3s1"
    objects = [
        configuration,
        _namespace("rebalancer"),
        _node("strong", cpu="16", version=version),
        _node("weak", cpu="4", version=version),
        _node("new", cpu="8", version=version),
        _service("load-watcher", "loadwatcher", 2020),
    ]
    objects += _deployment(
        "scheduler-plugins-scheduler",
        {"strong": 1},
        namespace="scheduler-plugins",
        image="registry.k8s.io/scheduler-plugins/kube-scheduler:v0.26.7",
        config_map="scheduler-config",
    )
    objects += _deployment("load-watcher-deployment", {"strong": 1}, namespace="loadwatcher")
    for name in ("cart", "mail", "search", "shop", "web"):
        objects += _deployment(
            name, {"strong": 3}, scheduler="trimaran", cpu="500m", used={"cpu": "900m", "memory": "500Mi"}
        )
    objects += _deployment("agent", {"strong": 2, "weak": 1}, used={"cpu": "150m", "memory": "100Mi"})
    text = configuration["data"]["scheduler-config.yaml"]
    return _sandbox(objects, text, Surface(26), watcher=("loadwatcher", "load-watcher", 2020))


def network_traffic() -> Sandbox:
    """Two nodes, one with all pods of nginx, and the scheduler and Prometheus of docs/network-traffic.md."""
    configuration = _shown_config_map("network-traffic.md")
    version = "v1.20.15"
    objects = [
        configuration,
        _namespace("rebalancer"),
        _node("master", cpu="4", version=version),
        _node("node01", cpu="4", version=version),
        _service("prometheus", "monitoring", 9090),
    ]
    objects += _deployment(
        "custom-scheduler",
        {"master": 1},
        namespace="kube-system",
        image="registry.example/custom-scheduler:v0.0.1",
        labels={"component": "custom-scheduler"},
    )
    objects += _deployment("nginx", {"node01": 10}, scheduler="custom-scheduler", cpu="")

    def node_with_least_traffic(view: ClusterView, pod: Object) -> str:
        return min(_RECEIVED, key=_RECEIVED.__getitem__)

    sandbox = Sandbox(
        objects,
        decide=node_with_least_traffic,
        scheduler_names=["custom-scheduler"],
        ready_after=0.1,
        terminates_after=0.1,
        surface=Surface(20),
    )

    def answer(query: Mapping[str, str] | None = None) -> Object:
        return _answer(sandbox, query or {})

    sandbox.serve("monitoring", "prometheus", 9090, "api/v1/query", answer)
    return sandbox


# Bytes a second, as the mean of some minutes, which no move changes at once.
_RECEIVED = {"master": 2.5e6, "node01": 50e6}


def _answer(sandbox: Sandbox, query: Mapping[str, str]) -> Object:
    """What a Prometheus that scrapes node_exporter answers."""
    now = sandbox.clock()
    text = query.get("query", "")
    if text == "time()":
        return _vector(now, {"": now})
    if text.startswith("timestamp("):
        return _vector(now, dict.fromkeys(_RECEIVED, now))
    if "node_network_speed_bytes" in text:
        return _vector(now, dict.fromkeys(_RECEIVED, 125_000_000.0))
    if "sum_over_time(node_network_receive_bytes_total" in text:  # a counter, added up over its samples
        return _vector(now, {node: rate * 1e6 for node, rate in _RECEIVED.items()})
    if "node_network_receive_bytes_total" in text:
        return _vector(now, _RECEIVED)
    return _vector(now, {})


def _vector(now: float, values: Mapping[str, float]) -> Object:
    """An answer of Prometheus: a value of each node, by its name."""
    result = [
        {"metric": {"nodename": node} if node else {}, "value": [now, repr(value)]}
        for node, value in values.items()
    ]
    return {"status": "success", "data": {"resultType": "vector", "result": result}}


# By the names of the pages.
ARTICLE_CLUSTERS = {
    "pods-per-node.md": pods_per_node,
    "network-traffic.md": network_traffic,
    "k3s-trimaran.md": k3s_trimaran,
}


def _sandbox(
    objects: list[Object],
    configuration: str,
    surface: Surface,
    *,
    watcher: tuple[str, str, int] | None = None,
) -> Sandbox:
    def watched() -> bytes:
        return msgspec.json.encode(answer({}))

    loaded = load_configuration(configuration, "the page")
    decide = ModelDecider(loaded, (lambda: decode_watcher(watched())) if watcher else None)
    names = [profile.scheduler_name for profile in loaded.profiles]
    sandbox = Sandbox(
        objects,
        decide=decide,
        scheduler_names=names,
        ready_after=0.1,
        terminates_after=0.1,
        surface=surface,
    )
    answer = sandbox.watcher(lag_seconds=0.0)
    if watcher is not None:
        sandbox.serve(*watcher, "watcher", answer)
    return sandbox


def _shown_config_map(page: str) -> Object:
    """The ConfigMap that a page shows."""
    documents = [
        yaml.safe_load(block.text) for block in blocks(ROOT / "docs" / page) if block.language == "yaml"
    ]
    (config_map,) = (document for document in documents if document.get("kind") == "ConfigMap")
    return _named(config_map)


def _named(document: Object) -> Object:
    """The object, with what an API server would have given it two weeks ago."""
    metadata = document["metadata"]
    uid = "-".join((document["kind"].lower(), metadata.get("namespace", ""), metadata["name"]))
    then = times.render(present() - _AGE_SECONDS)
    return {**document, "metadata": {**metadata, "uid": uid, "creationTimestamp": then}}


def _namespace(name: str) -> Object:
    return _named({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


def _node(name: str, *, cpu: str, version: str) -> Object:
    room = {"cpu": cpu, "memory": "64Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    then = times.render(present() - _AGE_SECONDS)
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": then, "lastTransitionTime": then}
    return _named(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"},
            },
            "spec": {},
            "status": {
                "capacity": room,
                "allocatable": room,
                "conditions": [ready],
                "nodeInfo": {
                    "kubeletVersion": version,
                    "operatingSystem": "linux",
                    "architecture": "amd64",
                    "osImage": "simulated",
                    "containerRuntimeVersion": "simulated://1",
                },
            },
        }
    )


def _service(name: str, namespace: str, port: int) -> Object:
    return _named(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"type": "ClusterIP", "ports": [{"name": "http", "port": port, "protocol": "TCP"}]},
        }
    )


def _deployment(
    name: str,
    nodes: Mapping[str, int],
    *,
    namespace: str = "default",
    scheduler: str = "default-scheduler",
    image: str = "registry.example/app:v1",
    cpu: str = "100m",
    used: Mapping[str, str] | None = None,
    config_map: str = "",
    labels: Mapping[str, str] | None = None,
) -> list[Object]:
    """A Deployment, its ReplicaSet, and its pods where they run; ``used`` is what each of them uses."""
    labels = labels or {"app": name}
    annotations = {f"sandbox.rebalancer/{resource}": amount for resource, amount in (used or {}).items()}
    container: Object = {"name": "app", "image": image}
    if cpu:
        container["resources"] = {"requests": {"cpu": cpu, "memory": "64Mi"}}
    spec: Object = {"schedulerName": scheduler, "terminationGracePeriodSeconds": 1, "containers": [container]}
    if config_map:
        container["volumeMounts"] = [{"name": config_map, "mountPath": "/etc/kubernetes", "readOnly": True}]
        spec["volumes"] = [{"name": config_map, "configMap": {"name": config_map}}]
    template = {
        "metadata": {"labels": {**labels, "pod-template-hash": "7d9f"}, "annotations": annotations},
        "spec": spec,
    }
    replicas = sum(nodes.values())
    wanted = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    deployment = _named(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "namespace": namespace},
            "spec": wanted,
        }
    )
    replica_set = _named(
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": f"{name}-7d9f",
                "namespace": namespace,
                "ownerReferences": [_owner(deployment)],
            },
            "spec": wanted,
            "status": {"replicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas},
        }
    )
    places = [node for node, count in nodes.items() for _ in range(count)]
    pods = [_pod(f"{name}-7d9f-{number:02}", node, replica_set) for number, node in enumerate(places, 1)]
    return [deployment, replica_set, *pods]


def _pod(name: str, node: str, replica_set: Object) -> Object:
    template = replica_set["spec"]["template"]
    metadata = {
        **template["metadata"],
        "name": name,
        "namespace": replica_set["metadata"]["namespace"],
        "ownerReferences": [_owner(replica_set)],
    }
    then = times.render(present() - _AGE_SECONDS)
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": then} for kind in ("PodScheduled", "Ready")
    ]
    return _named(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": {**template["spec"], "nodeName": node, "priority": 0},
            "status": {"phase": "Running", "startTime": then, "conditions": conditions},
        }
    )


def _owner(controller: Object) -> Object:
    return {
        "apiVersion": controller["apiVersion"],
        "kind": controller["kind"],
        "name": controller["metadata"]["name"],
        "uid": controller["metadata"]["uid"],
        "controller": True,
    }
