"""The embedded cluster as a whole: load a dump, start it, point a client at it.

A dump is what ``kubectl get -o json`` prints: lists, also of several kinds. A kubeconfig points kubectl and
other clients at the cluster.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec
import yaml

from rebalancer.cluster.dumps.streams import MAX_DUMP_BYTES, read_bytes
from rebalancer.errors import InputError
from rebalancer_demo.admission import Registry
from rebalancer_demo.api.requests import Served, User
from rebalancer_demo.api.server import Api, ApiServer
from rebalancer_demo.controllers import (
    Controller,
    DeploymentController,
    DisruptionController,
    Driver,
    GarbageCollector,
    JobController,
    ReplicaSetController,
    StatefulSetController,
    remove_old_events,
)
from rebalancer_demo.faults import Faults, Misbehaviour, Misbehaviours
from rebalancer_demo.kubelet import Kubelets
from rebalancer_demo.objects import Clock, Object, name_of, node_of, phase_of
from rebalancer_demo.resources import BY_KIND, INITIAL_STATUS, STORED, Surface
from rebalancer_demo.scheduler import Decider, LeastAllocated, Scheduler
from rebalancer_demo.store import Store
from rebalancer_demo.usage import LoadWatcher, MetricsApi, UsageModel

_SYSTEM_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_NAMES = (".json", ".json.gz", ".json.zst")


def read_documents(path: Path) -> Iterator[Object]:
    """The JSON documents of a file, or of every .json, .json.gz and .json.zst of a folder.

    Raises InputError for a file that cannot be read, holds no JSON object, or is larger than a dump may be.
    """
    files = [path]
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.name.endswith(_NAMES))
        if not files:
            raise InputError("no .json, .json.gz or .json.zst in this folder", where=str(path))
    for file in files:
        try:
            document = msgspec.json.decode(read_bytes(file, MAX_DUMP_BYTES))
        except msgspec.DecodeError as error:
            raise InputError(f"this dump is not JSON: {error}", where=str(file)) from error
        if not isinstance(document, dict):
            raise InputError(
                "a dump is one JSON object: a Kubernetes object or a list of them", where=str(file)
            )
        yield document


class DumpLoader:
    """Puts the objects of dumps into a store, and their metrics into the usage model."""

    def __init__(self, store: Store, usage: UsageModel) -> None:
        self._store = store
        self._usage = usage
        self.watcher_document: Object | None = None  # load-watcher's answer, where a dump holds one

    def load(self, objects: Iterable[Object]) -> int:
        """Store the objects as they are, lists item by item; returns how many were loaded."""
        by_plural: dict[str, list[Object]] = {}
        for plural, manifest in self._flatten(objects):
            by_plural.setdefault(plural, []).append(manifest)
        node_metrics = by_plural.pop("NodeMetrics", [])
        pod_metrics = by_plural.pop("PodMetrics", [])
        for plural, status in INITIAL_STATUS.items():
            for manifest in by_plural.get(plural, ()):
                manifest["status"] = {**status, **(manifest.get("status") or {})}
        _add_namespaces(by_plural, {name_of(manifest) for manifest in self._store.all("namespaces")})
        count = sum(self._store.load(plural, items) for plural, items in by_plural.items())
        self._usage.load(node_metrics, pod_metrics)
        return count + len(node_metrics) + len(pod_metrics)

    def _flatten(self, documents: Iterable[Object]) -> Iterator[tuple[str, Object]]:
        """(plural, object) of every object of a served kind; metrics come under their kind, not a plural."""
        for document in documents:
            kind = str(document.get("kind", ""))
            version = str(document.get("apiVersion", ""))
            if not kind and "NodeMetricsMap" in (document.get("data") or {}):
                self.watcher_document = document
            elif "items" in document:
                item_kind = kind.removesuffix("List")
                for manifest in document["items"] or ():
                    yield from _served(
                        manifest,
                        str(manifest.get("kind") or item_kind),
                        str(manifest.get("apiVersion") or version),
                    )
            else:
                yield from _served(document, kind, version)


def _served(manifest: Object, kind: str, api_version: str) -> Iterator[tuple[str, Object]]:
    group = api_version.rpartition("/")[0]
    resource = BY_KIND.get((group, kind))
    if (
        resource is None
        or not isinstance(manifest.get("metadata"), dict)
        or not manifest["metadata"].get("name")
    ):
        return
    # a copy of what the store completes, so that the caller can load the same objects again
    copied = {**manifest, "metadata": dict(manifest["metadata"])}
    yield (resource.kind if resource.computed else resource.plural), copied


def _add_namespaces(by_plural: dict[str, list[Object]], present: set[str]) -> None:
    """Add the namespaces that a dump uses but does not list, and those every cluster has, unless present."""
    used = set(_SYSTEM_NAMESPACES)
    for plural, items in by_plural.items():
        if STORED[plural].namespaced:
            for manifest in items:
                used.add(manifest["metadata"].setdefault("namespace", "default"))
    listed = present | {name_of(namespace) for namespace in by_plural.get("namespaces", ())}
    for name in sorted(used - listed):
        labels = {"kubernetes.io/metadata.name": name}
        namespace = {"metadata": {"name": name, "labels": labels}, "status": {"phase": "Active"}}
        by_plural.setdefault("namespaces", []).append(namespace)


TOKEN = "sandbox"  # noqa: S105 - everyone may know it: the server listens on loopback only


def write_kubeconfig(path: Path, url: str, token: str) -> Path:
    """Write a kubeconfig, readable by its owner only, with one context; returns its path."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "sandbox", "cluster": {"server": url}}],
        "users": [{"name": "sandbox", "user": {"token": token}}],
        "contexts": [{"name": "sandbox", "context": {"cluster": "sandbox", "user": "sandbox"}}],
        "current-context": "sandbox",
    }
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    path.chmod(0o600)
    return path


_LOOK_SECONDS = 0.001


class Sandbox:
    """A Kubernetes cluster in this process: real HTTP, simulated nodes.

    ``objects`` are those of a dump (each with kind and apiVersion, or lists of them). ``decide`` chooses
    nodes for the pods of ``scheduler_names`` (None: all). ``controllers=False`` serves the API alone: no
    controller, kubelet or scheduler thread. ``users`` by bearer token; without any, everyone may do
    everything. ``ready_after`` (None: never) and ``terminates_after`` are the kubelets' defaults,
    ``heartbeat_seconds`` the period of node heartbeats, ``bookmark_seconds`` that of watch bookmarks,
    ``log_capacity`` how many changes a watch may lag behind; ``surface`` is what the API server serves:
    ``Surface(20)`` serves what Kubernetes 1.20 does. All times are in seconds of ``clock``.
    """

    def __init__(
        self,
        objects: Iterable[Object] = (),
        *,
        seed: int = 0,
        clock: Clock = time.time,
        decide: Decider | None = None,
        scheduler_names: Collection[str] | None = None,
        controllers: bool = True,
        scheduler: bool = True,
        users: Mapping[str, User] | None = None,
        ready_after: float | None = 0.2,
        terminates_after: float = 0.5,
        heartbeat_seconds: float = 60.0,
        bookmark_seconds: float = 60.0,
        continue_seconds: float = 300.0,
        log_capacity: int = 20_000,
        surface: Surface | None = None,
        port: int = 0,
    ) -> None:
        self.clock = clock
        self.store = Store(clock=clock, seed=seed, log_capacity=log_capacity)
        self.registry = Registry(self.store, seed=seed)
        self.usage = UsageModel(self.store)
        self._dumps = DumpLoader(self.store, self.usage)
        self.metrics = MetricsApi(self.store, self.usage)
        self.misbehaviours = Misbehaviours(self.store)
        self.kubelets = Kubelets(self.registry, ready_after=ready_after, terminates_after=terminates_after)
        self.api = Api(
            self.registry,
            computed=self.metrics,
            users=users,
            bookmark_seconds=bookmark_seconds,
            continue_seconds=continue_seconds,
            surface=surface,
        )
        self.faults = Faults(seed)
        self._server = ApiServer(self.api, self.faults, port=port)
        self._decide = decide or LeastAllocated()
        self._scheduler_names = scheduler_names
        self._with_scheduler = controllers and scheduler
        self._scheduler: Scheduler | None = None
        self._watchers: list[LoadWatcher] = []
        self._replica_sets = [
            ReplicaSetController(self.registry, self.misbehaviours, plural)
            for plural in ("replicasets", "replicationcontrollers")
        ]
        self._deployments = DeploymentController(self.registry)
        followers: list[Controller] = [
            self.kubelets,
            *self._replica_sets,
            StatefulSetController(self.registry, self.misbehaviours),
            self._deployments,
            JobController(self.registry, self.misbehaviours),
            DisruptionController(self.registry),
            GarbageCollector(self.registry),
        ]
        routines: list[tuple[float, Callable[[float], object]]] = [
            (heartbeat_seconds, self.kubelets.heartbeat),
            (1.0, self._sample),
            (60.0, lambda now: remove_old_events(self.store, now)),
        ]
        self._driver = Driver(self.store, followers, routines) if controllers else None
        self._started = False
        self.load(objects)

    # Life

    @property
    def url(self) -> str:
        """Where the API answers: http://127.0.0.1:PORT."""
        return self._server.url

    def start(self) -> Sandbox:
        """Start the API server and all other threads."""
        self._started = True
        self._server.start()
        if self._driver is not None:
            self._driver.start()
        if self._with_scheduler:
            self.start_scheduler()
        return self

    def stop(self) -> None:
        """Stop and join all threads, and close all sockets; a stopped sandbox cannot be started again."""
        self.stop_scheduler()
        if self._driver is not None:
            self._driver.stop()
        self._server.stop()

    def __enter__(self) -> Sandbox:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start_scheduler(self) -> None:
        """Let a scheduler run, unless one does."""
        if self._scheduler is None:
            self._scheduler = Scheduler(
                self.registry,
                self.misbehaviours,
                self._decide,
                loads=self.usage.cpu_loads,
                names=self._scheduler_names,
            )
            self._scheduler.start()

    def stop_scheduler(self) -> None:
        """Stop the scheduler; its lease lapses."""
        if self._scheduler is not None:
            self._scheduler.stop()
            self._scheduler = None

    # What is in it

    def load(self, objects: Iterable[Object]) -> int:
        """Store the objects of a dump, or of lists, as they are and metrics as usage; returns how many."""
        count = self._dumps.load(objects)
        for controller in self._replica_sets:
            controller.loaded()
        self._deployments.loaded()
        return count

    def load_path(self, path: Path | str) -> int:
        """Load a file or folder of what ``kubectl get -o json`` prints, plain, gzip or zstandard."""
        return self.load(read_documents(Path(path)))

    def _sample(self, _now: float) -> None:
        for watcher in self._watchers:
            watcher.sample()

    # Pointing clients at it

    def write_kubeconfig(self, path: Path | str, *, token: str = TOKEN) -> Path:
        """Write a kubeconfig for this sandbox and a bearer token; returns its path."""
        return write_kubeconfig(Path(path), self.url, token)

    def serve(self, namespace: str, service: str, port: int | str, path: str, answer: Served) -> None:
        """Answer that path of a service with ``answer(query)``: a JSON-ready document or a Response."""
        self.api.proxy.serve(namespace, service, str(port), path, answer)

    def watcher(self, *, lag_seconds: float = 0.0, averaging_seconds: float = 0.0) -> LoadWatcher:
        """A load-watcher over this sandbox's usage, to be served; it answers as of ``lag_seconds`` ago."""
        watcher = LoadWatcher(
            self.store, self.usage, lag_seconds=lag_seconds, averaging_seconds=averaging_seconds
        )
        if self._dumps.watcher_document is not None:
            watcher.load(self._dumps.watcher_document)
        watcher.sample()
        self._watchers.append(watcher)
        return watcher

    # Making things go wrong

    def misbehave(self, misbehaviour: Misbehaviour) -> None:
        """Put a misbehaviour of the scheduler or a workload controller in force."""
        self.misbehaviours.add(misbehaviour)
        self._look_again()

    def behave(self) -> None:
        """End all misbehaviours that were put in force."""
        self.misbehaviours.clear()
        self._look_again()

    def fail_node(self, name: str) -> None:
        """Let a node die: NotReady, tainted, without metrics; its pods neither start nor end."""
        self._known_node(name)
        self.kubelets.fail(name, self.clock())
        self.usage.hide(name)

    def recover_node(self, name: str) -> None:
        """Let a node come back."""
        self._known_node(name)
        self.kubelets.recover(name, self.clock())
        self.usage.show(name)
        self._look_again()

    def _known_node(self, name: str) -> None:
        if self.store.get("nodes", "", name) is None:
            raise InputError("no such node in the sandbox", where=f"node/{name}")

    def _look_again(self) -> None:
        if self._driver is not None:
            self._driver.resync()

    # Looking at it

    def pods(self, namespace: str = "", *, node: str = "", phase: str = "") -> list[Object]:
        """The pods, of one namespace, node or phase if named; not to be changed."""
        pods = self.store.all("pods", namespace)
        return [
            pod
            for pod in pods
            if (not node or node_of(pod) == node) and (not phase or phase_of(pod) == phase)
        ]

    def pod(self, namespace: str, name: str) -> Object | None:
        """One pod, None when there is none."""
        return self.store.get("pods", namespace, name)

    def node_utilisation(self) -> dict[str, float]:
        """The CPU in use of each measured node, in percent of allocatable."""
        return {name: 100.0 * load for name, load in self.usage.cpu_loads().items()}

    def settle(self) -> None:
        """Wait until controllers, kubelets and scheduler have done all that the clock lets them do now."""
        while True:
            version = self.store.version
            begun = [loop.rounds for loop in self._loops()]
            # The first may have begun before, the second sees all that there is, the third schedules it.
            enough = [rounds + 3 for rounds in begun]
            while any(loop.rounds < least for loop, least in zip(self._loops(), enough, strict=False)):
                self.store.wake()
                time.sleep(_LOOK_SECONDS)
            if self.store.version == version:
                return

    def _loops(self) -> list[Driver | Scheduler]:
        return [loop for loop in (self._driver, self._scheduler) if loop is not None]

    def wait_until(self, holds: Callable[[], Any], *, seconds: float = 180.0) -> bool:
        """Wait until ``holds()``, asked after every change; False after ``seconds`` of wall time."""
        deadline = time.monotonic() + seconds
        while not holds():
            if time.monotonic() >= deadline:
                return False
            self.store.changes(self.store.version, wait_seconds=0.05)
        return True
