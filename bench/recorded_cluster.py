"""A recorded cluster on a real control plane: its objects as they were, and loads that follow its pods.

The folder is a dump (``kubectl get -o json``, gzipped, a file a kind) with metrics of nodes and pods, and
beside it ``scheduler-config.yaml`` and what load-watcher answered.

A replacement uses what the pod used that it replaces. metrics-server's figures are those of the moment.
load-watcher's are averages over 15 minutes: what it answered when the cluster was recorded, and little by
little what was moved since.
"""

from __future__ import annotations

import gzip
import json
import math
import threading
import time
import uuid
from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import urllib3
import yaml

from bench.loading import Etcd, Loader, Server
from rebalancer.cluster import times
from rebalancer.cluster.quantities import parse
from tests.e2e.api import Api
from tests.e2e.controlplane import ControlPlane
from tests.e2e.loads import Load

Object = dict[str, Any]

# Objects of these are not made: their pods stay where they are, and their controllers would make others.
_WITHOUT = (
    "deployment-controller",
    "daemonset-controller",
    "job-controller",
    "garbage-collector-controller",
)
_LOADED = ("namespaces", "nodes", "deployments", "replicasets", "poddisruptionbudgets")
_TOPOLOGY = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
_PODS = "/api/v1/pods"
_FOLLOWED_SECONDS = 0.3  # until what others have seen of a pod is seen here as well
_WINDOW_SECONDS = 900.0
RENEWAL_SECONDS = 60.0  # load-watcher asks its source once a minute
_NANO = 10**9


class Use(NamedTuple):
    """What a pod or a node uses."""

    cpu: int  # billionths of a core
    memory: int  # bytes

    def plus(self, other: Use) -> Use:
        """The sum of both."""
        return Use(self.cpu + other.cpu, self.memory + other.memory)

    def minus(self, other: Use) -> Use:
        """What is left of it without the other."""
        return Use(self.cpu - other.cpu, self.memory - other.memory)

    def document(self) -> dict[str, str]:
        """As the metrics API writes it."""
        return {"cpu": f"{self.cpu}n", "memory": f"{self.memory // 1024}Ki"}


NOTHING = Use(0, 0)


def items_of(folder: Path, plural: str) -> list[Object]:
    """The recorded objects of a kind."""
    document = json.loads(gzip.decompress((folder / f"{plural}.json.gz").read_bytes()))
    items: list[Object] = document["items"]
    return items


def start_recorded(control_plane: ControlPlane, folder: Path) -> None:
    """Start a control plane with the recorded objects, and all of it but the scheduler."""
    control_plane.start(controllers=False, scheduler=False, kwok=False)
    for manifest in items_of(folder, "priorityclasses"):
        if not manifest["metadata"]["name"].startswith("system-"):
            control_plane.api.create(manifest)
    server = Server(control_plane.kubeconfig())
    loader = Loader(server)
    loader.load({plural: items_of(folder, plural) for plural in _LOADED})
    _load_pods(server, Etcd(control_plane.etcd), folder, loader.uids)
    control_plane.start_controllers(without=_WITHOUT)
    control_plane.start_kwok()


def _load_pods(server: Server, etcd: Etcd, folder: Path, uids: Mapping[str, str]) -> None:
    """Create one pod of each kind, which the server fills in; store all others like that one."""
    classes = {item["value"]: item["metadata"]["name"] for item in items_of(folder, "priorityclasses")}
    labels_of_nodes = {
        node["metadata"]["name"]: node["metadata"]["labels"] for node in items_of(folder, "nodes")
    }
    samples: dict[str, Object] = {}
    for number, pod in enumerate(items_of(folder, "pods")):
        metadata, spec = pod["metadata"], dict(pod["spec"])
        own = {name: metadata[name] for name in ("name", "creationTimestamp")}
        shared = {name: metadata[name] for name in ("namespace", "labels", "annotations") if name in metadata}
        shared["ownerReferences"] = [
            {**owner, "uid": uids.get(owner["uid"], owner["uid"])} for owner in metadata["ownerReferences"]
        ]
        node = spec.pop("nodeName")
        priority = spec.pop("priority")
        if priority in classes:
            spec["priorityClassName"] = classes[priority]
        key = json.dumps([shared, spec], sort_keys=True)
        if key not in samples:
            created = {**pod, "metadata": {**shared, "name": own["name"]}, "spec": {**spec, "nodeName": node}}
            path = f"/api/v1/namespaces/{metadata['namespace']}/pods"
            samples[key] = server.send("POST", path, created)
        sample = samples[key]
        stored = {**sample["metadata"], **own, "uid": str(uuid.uuid4())}
        stored.pop("resourceVersion", None)  # etcd's own
        # From 1.35 on the server labels a pod with the zone and the region of its node.
        topology = {
            key: labels_of_nodes[node][key] for key in _TOPOLOGY if key in sample["metadata"]["labels"]
        }
        stored["labels"] = {**sample["metadata"]["labels"], **topology}
        address = f"10.{1 + number // 65536}.{number // 256 % 256}.{number % 256}"
        status = {**sample["status"], **pod["status"], "podIP": address, "podIPs": [{"ip": address}]}
        etcd.put(
            {
                **sample,
                "metadata": stored,
                "spec": {**sample["spec"], "nodeName": node},
                "status": status,
            }
        )
    etcd.flush()


@dataclass
class _Pod:
    namespace: str
    name: str
    container: str
    owner: str
    use: Use
    node: str = ""
    is_going: bool = False


class RecordedUse:
    """What the pods and the nodes of the cluster use at each moment; safe for threads."""

    def __init__(self, api: Api, folder: Path) -> None:
        self._api = api
        self._lock = threading.Lock()
        self._recorded: dict[tuple[str, str], Use] = {}
        for item in items_of(folder, "podmetrics"):
            metadata = item["metadata"]
            total = NOTHING
            for container in item["containers"]:
                total = total.plus(_use_of(container["usage"]))
            self._recorded[metadata["namespace"], metadata["name"]] = total
        by_node: dict[str, Use] = defaultdict(lambda: NOTHING)
        for pod in items_of(folder, "pods"):
            metadata = pod["metadata"]
            node = pod["spec"]["nodeName"]
            by_node[node] = by_node[node].plus(self._recorded[metadata["namespace"], metadata["name"]])
        self._system: dict[str, Use] = {}  # what of a node no pod uses
        for item in items_of(folder, "nodemetrics"):
            name = item["metadata"]["name"]
            system = _use_of(item["usage"]).minus(by_node[name])
            self._system[name] = Use(max(system.cpu, 0), max(system.memory, 0))
        self._allocatable: dict[str, Use] = {}
        self._capacity: dict[str, Use] = {}
        for node in items_of(folder, "nodes"):
            name = node["metadata"]["name"]
            self._allocatable[name] = _use_of(node["status"]["allocatable"])
            self._capacity[name] = _use_of(node["status"]["capacity"])
        self._pods: dict[str, _Pod] = {}  # by uid
        self._left: dict[str, deque[Use]] = defaultdict(deque)  # by owner, what pods used that went
        listed = api.get(_PODS)
        for pod in listed["items"]:
            self._note("ADDED", pod)
        version = listed["metadata"]["resourceVersion"]
        threading.Thread(target=self._follow, args=(version,), daemon=True).start()

    def figures(self, kind: str) -> Object:
        """What the metrics API answers when it is asked for nodes or pods."""
        time.sleep(_FOLLOWED_SECONDS)
        # Its times are whole seconds: the one after, which shows all pods that are bound by now.
        moment = {"timestamp": times.render(math.ceil(time.time())), "window": "0s"}
        items: list[Object] = []
        if kind == "nodes":
            for name, use in self.of_nodes().items():
                items.append({"metadata": {"name": name}, "usage": use.document(), **moment})
        else:
            with self._lock:
                pods = [pod for pod in self._pods.values() if pod.node]
            for pod in pods:
                metadata = {"name": pod.name, "namespace": pod.namespace}
                containers = [{"name": pod.container, "usage": pod.use.document()}]
                items.append({"metadata": metadata, "containers": containers, **moment})
        list_kind = "NodeMetricsList" if kind == "nodes" else "PodMetricsList"
        return {"kind": list_kind, "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {}, "items": items}

    def of_nodes(self) -> dict[str, Use]:
        """What each node uses now."""
        found = dict(self._system)
        with self._lock:
            for pod in self._pods.values():
                if pod.node:
                    found[pod.node] = found[pod.node].plus(pod.use)
        # Where pods would use more than there is, as on some recorded nodes, the node uses all of it.
        for name, use in found.items():
            capacity = self._capacity[name]
            found[name] = Use(min(use.cpu, capacity.cpu), min(use.memory, capacity.memory))
        return found

    def hot(self, cpu: float, memory: float) -> set[str]:
        """The nodes that use more than so many percent of what pods may use of them."""
        found: set[str] = set()
        for name, use in self.of_nodes().items():
            allocatable = self._allocatable[name]
            if 100 * use.cpu > cpu * allocatable.cpu or 100 * use.memory > memory * allocatable.memory:
                found.add(name)
        return found

    def loads(self) -> dict[str, Load]:
        """The load of each node now, in percent of its capacity."""
        found: dict[str, Load] = {}
        for name, use in self.of_nodes().items():
            capacity = self._capacity[name]
            found[name] = Load(100 * use.cpu / capacity.cpu, 100 * use.memory / capacity.memory)
        return found

    def _follow(self, version: str) -> None:
        while True:
            try:
                for event in self._api.watch(_PODS, resource_version=version):
                    version = event["object"]["metadata"]["resourceVersion"]
                    self._note(event["type"], event["object"])
            except (OSError, urllib3.exceptions.HTTPError):
                return  # the server has ended

    def _note(self, event: str, pod: Object) -> None:
        """Follow a pod; a new one uses what one of its owner used that went."""
        metadata = pod["metadata"]
        uid = metadata["uid"]
        with self._lock:
            if uid not in self._pods:
                if event == "DELETED":
                    return
                owner = metadata.get("ownerReferences", [{"uid": ""}])[0]["uid"]
                use = self._recorded.get((metadata["namespace"], metadata["name"]))
                if use is None:
                    use = self._left[owner].popleft() if self._left[owner] else NOTHING
                container = pod["spec"]["containers"][0]["name"]
                self._pods[uid] = _Pod(metadata["namespace"], metadata["name"], container, owner, use)
            known = self._pods[uid]
            known.node = pod["spec"].get("nodeName", "")
            if not known.is_going and (event == "DELETED" or "deletionTimestamp" in metadata):
                known.is_going = True
                self._left[known.owner].append(known.use)
            if event == "DELETED":
                del self._pods[uid]


class WatchedLoads:
    """What load-watcher answers: averages over 15 minutes, renewed once a minute."""

    def __init__(self, use: RecordedUse, folder: Path) -> None:
        self._use = use
        self._lock = threading.Lock()
        self._loads = _watched(folder)
        self._first = self._last = use.loads()
        self._at = time.monotonic()
        self.measured_at = time.time()

    def __call__(self) -> Mapping[str, Load]:
        with self._lock:
            elapsed = time.monotonic() - self._at
            if elapsed >= RENEWAL_SECONDS:
                share = min(elapsed / _WINDOW_SECONDS, 1.0)
                current = self._use.loads()
                for name, load in self._loads.items():
                    cpu = load.cpu + share * (self._last[name].cpu - self._first[name].cpu)
                    memory = load.memory + share * (self._last[name].memory - self._first[name].memory)
                    self._loads[name] = Load(cpu, memory, load.cpu_deviation, load.memory_deviation)
                self._last = current
                self._at = time.monotonic()
                self.measured_at = time.time()
            return dict(self._loads)


def scheduler_configuration(folder: Path, watcher: str) -> str:
    """The recorded configuration, whose plugins ask the load-watcher at this address."""
    document = yaml.safe_load((folder / "scheduler-config.yaml").read_text())
    for profile in document["profiles"]:
        for plugin in profile.get("pluginConfig", ()):
            if "watcherAddress" in plugin["args"]:
                plugin["args"]["watcherAddress"] = watcher
    return json.dumps(document)


def _watched(folder: Path) -> dict[str, Load]:
    document = json.loads(gzip.decompress((folder / "watcher.json.gz").read_bytes()))
    found: dict[str, Load] = {}
    for name, node in document["data"]["NodeMetricsMap"].items():
        values = {(metric["type"], metric["operator"]): metric["value"] for metric in node["metrics"]}
        found[name] = Load(
            values["CPU", "AVG"], values["Memory", "AVG"], values["CPU", "STD"], values["Memory", "STD"]
        )
    return found


def _use_of(amounts: Mapping[str, str]) -> Use:
    return Use(int(parse(amounts["cpu"]) * _NANO), int(parse(amounts["memory"])))
