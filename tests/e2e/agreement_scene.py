"""A random cluster on a real control plane whose pods come and go, and whose nodes' load drifts."""

from __future__ import annotations

import base64
import itertools
import json
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from rebalancer.agreement.decisions import Decision, Result, Tally
from tests import loopback
from tests.e2e import assets
from tests.e2e.api import Api, ApiRefusedError, path_of
from tests.e2e.command import Rebalancer
from tests.e2e.controlplane import ControlPlane
from tests.e2e.landing_clusters import (
    DEDICATED,
    DISK,
    DISKS,
    PRIORITIES,
    ZONES,
    Situation,
    priority_classes,
    random_cluster,
)
from tests.e2e.landing_runs import PLUGINS, configuration
from tests.e2e.loads import CPU_MILLI, MEMORY_MIB, Load, LoadServer, Served, loads_of

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
DEFAULT = "default-scheduler"
WORKLOADS = 24  # Deployments that are scaled and rolled out
# load-watcher asks its source once a minute and answers the same in between (pkg/watcher/watcher.go:150).
RENEWAL_SECONDS = 60.0
Object = dict[str, Any]


@dataclass(frozen=True)
class Scene:
    """What happens on the cluster; ``told`` are settings of the policy about the scheduler."""

    seed: int
    nodes: int = 24
    trimaran: bool = False  # pods of all four load-aware plugins too
    configuration: Object | None = None  # of the real scheduler, the default one if not given
    told: Mapping[str, Any] = field(default_factory=dict)
    pods: int = 0  # created evenly; 0: as many as are taken
    seconds: float = 0.0  # in which they are
    renewal: float = RENEWAL_SECONDS  # of the figures that load-watcher answers
    edited: Object | None = None  # what a webhook sets in the spec of every other pod of the Deployments


def random_pod(chance: random.Random, number: int, scheduler: str = DEFAULT) -> Object:
    """A pod with features by chance: what it requests, prefers, tolerates and keeps away from."""
    labels = {"app": f"app-{chance.randrange(6)}"}
    milli, mebibytes = chance.choice((20, 50, 120, 300)), chance.choice((32, 128, 400))
    metadata: Object = {
        "name": f"pod-{number}",
        "namespace": "default",
        "labels": labels,
        "annotations": {
            CPU_MILLI: str(int(milli * chance.uniform(0.3, 2.0))),
            MEMORY_MIB: str(mebibytes // 2),
        },
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": random_spec(chance, labels, milli, mebibytes) | {"schedulerName": scheduler},
    }


def random_spec(chance: random.Random, labels: Mapping[str, str], milli: int, mebibytes: int) -> Object:
    """What of a pod speaks of where it may run."""
    container: Object = {
        "name": "app",
        "image": f"registry.example/app-{chance.randrange(8)}:1",
        "resources": {"requests": {"cpu": f"{milli}m", "memory": f"{mebibytes}Mi"}},
    }
    spec: Object = {"terminationGracePeriodSeconds": 0, "containers": [container]}
    selector = {"matchLabels": dict(labels)}
    affinity: Object = {}
    if chance.random() < 0.3:
        liked = {"key": DISK, "operator": "In", "values": [chance.choice(DISKS)]}
        preference = {"weight": chance.randint(1, 100), "preference": {"matchExpressions": [liked]}}
        affinity["nodeAffinity"] = {"preferredDuringSchedulingIgnoredDuringExecution": [preference]}
    if chance.random() < 0.1:
        wanted = {"key": ZONE, "operator": "In", "values": chance.sample(ZONES, 2)}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}
        affinity.setdefault("nodeAffinity", {})["requiredDuringSchedulingIgnoredDuringExecution"] = terms
    if chance.random() < 0.3:
        term = {"topologyKey": chance.choice((ZONE, HOST)), "labelSelector": selector}
        affinity[chance.choice(("podAffinity", "podAntiAffinity"))] = {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": chance.randint(1, 100), "podAffinityTerm": term}
            ]
        }
    if affinity:
        spec["affinity"] = affinity
    if chance.random() < 0.4:
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": chance.randint(1, 3),
                "topologyKey": chance.choice((ZONE, HOST)),
                "whenUnsatisfiable": chance.choice(("ScheduleAnyway", "DoNotSchedule")),
                "labelSelector": selector,
            }
        ]
    if chance.random() < 0.2:
        spec["nodeSelector"] = {DISK: chance.choice(DISKS)}
    if chance.random() < 0.3:
        spec["tolerations"] = [{**DEDICATED, "operator": "Equal"}]
    if chance.random() < 0.1:
        container["ports"] = [{"containerPort": 8000, "hostPort": 8000 + chance.randrange(20)}]
    if chance.random() < 0.15:
        container["resources"]["limits"] = {"cpu": f"{2 * milli}m", "memory": f"{mebibytes}Mi"}
    if chance.random() < 0.15:
        first = {"name": "first", "image": "registry.example/app-1:1"}
        spec["initContainers"] = [{**first, "resources": {"requests": {"cpu": "250m", "memory": "64Mi"}}}]
    if chance.random() < 0.2:
        spec["priorityClassName"] = chance.choice(sorted(PRIORITIES))
    return spec


class Churn:
    """Creates and deletes pods, rolls workloads out and scales them, until it is stopped."""

    def __init__(self, api: Api, workloads: list[Object], scene: Scene, schedulers: list[str]) -> None:
        self._api = api
        self._chance = random.Random(scene.seed)
        self._workloads = [item for item in workloads if item["kind"] == "Deployment"][:WORKLOADS]
        self._schedulers = schedulers
        self._scene = scene
        self._pods: list[str] = []
        self.number = 0
        self.coming = 0  # pods that were created here or that a controller was told to create

    def change(self) -> None:
        """One change."""
        chance = self._chance
        if self._workloads and chance.random() < 0.05:
            workload = chance.choice(self._workloads)
            replicas = chance.randint(1, 6)
            change: Object = {"spec": {"replicas": replicas}}
            if chance.random() < 0.5:
                annotations = {"e2e/rollout": str(self.number)}
                change = {"spec": {"template": {"metadata": {"annotations": annotations}}}}
            self._api.patch(path_of(workload), change)
            self.coming += replicas // 2 + 1
        elif len(self._pods) > 4 * self._scene.nodes and chance.random() < 0.9:
            name = self._pods.pop(chance.randrange(len(self._pods)))
            self._api.delete(f"/api/v1/namespaces/default/pods/{name}")
        else:
            self.number += 1
            pod = random_pod(chance, self.number, chance.choice(self._schedulers))
            self._api.create(pod)
            self.coming += 1
            self._pods.append(pod["metadata"]["name"])

    def until(self, stop: threading.Event) -> None:
        """Change something every few hundredths of a second, now and then much at once."""
        began = time.monotonic()
        scene = self._scene
        while not stop.wait(0.0 if self._chance.random() < 0.3 else self._chance.uniform(0.02, 0.25)):
            share = (time.monotonic() - began) / scene.seconds if scene.seconds else 1.0
            if scene.pods and self.coming > scene.pods * share:
                continue
            try:
                self.change()
            except ApiRefusedError:
                continue  # what it was about is gone by itself


class DriftingLoads:
    """What nodes bear: the load of their pods, and a walk by chance; the figures are renewed now and then."""

    def __init__(self, api: Api, before: Mapping[str, Load], scene: Scene) -> None:
        self._api = api
        self._walk = {name: load.cpu for name, load in before.items()}
        self._before = before
        self._chance = random.Random(scene.seed)
        self._renewal = scene.renewal
        self._lock = threading.Lock()
        self._at = -float("inf")
        self.measured_at = 0.0  # Unix seconds
        self._now: Mapping[str, Load] = {}

    def __call__(self) -> Mapping[str, Load]:
        with self._lock:
            if time.monotonic() - self._at >= self._renewal:
                self._at, self.measured_at = time.monotonic(), time.time()
                for name, cpu in self._walk.items():
                    self._walk[name] = min(90.0, max(5.0, cpu + self._chance.gauss(0.0, 3.0)))
                self._now = {
                    name: Load(
                        min(100.0, self._walk[name] + item.cpu),
                        min(100.0, self._before[name].memory + item.memory),
                        self._before[name].cpu_deviation,
                        self._before[name].memory_deviation,
                    )
                    for name, item in loads_of(self._api).items()
                }
            return self._now


@dataclass(frozen=True)
class Running:
    """A scene that is happening: its churn, and what its load-watcher served."""

    churn: Churn
    served: list[Served]
    address: str
    scheduler: str  # the KubeSchedulerConfiguration that the policy names


@contextmanager
def editing(api: Api, folder: Path, added: Object) -> Iterator[None]:
    """Have an admission webhook set fields in the spec of every other pod of a controller."""
    certificate = loopback.a_certificate(folder)
    numbers = itertools.count()

    def answer(request: loopback.Request) -> loopback.Answer:
        asked = json.loads(request.body)["request"]
        response: Object = {"uid": asked["uid"], "allowed": True}
        if asked["object"]["metadata"].get("ownerReferences") and next(numbers) % 2:
            patch = [{"op": "add", "path": f"/spec/{field}", "value": it} for field, it in added.items()]
            encoded = base64.b64encode(json.dumps(patch).encode()).decode()
            response |= {"patchType": "JSONPatch", "patch": encoded}
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        return loopback.Answer(json.dumps(review).encode(), headers={"Content-Type": "application/json"})

    with loopback.answering(answer, certificate) as url:
        ca = base64.b64encode(certificate.file.read_bytes()).decode()
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
        webhook = {
            "name": "edits.example.com",
            "clientConfig": {"url": f"{url}/", "caBundle": ca},
            "rules": [rule],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        manifest = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": "edits"},
            "webhooks": [webhook],
        }
        api.create(manifest)
        yield
        api.delete(path_of(manifest))


@contextmanager
def churning(control_plane: ControlPlane, scene: Scene) -> Iterator[Running]:
    """A random cluster and its scheduler, whose pods come and go within this block."""
    cluster = random_cluster(Situation(scene.seed, scene.nodes, DEFAULT))
    control_plane.start(scheduler=False)
    api = control_plane.api
    for manifest in (*priority_classes(), *cluster.nodes):
        api.create(manifest)
    loads = DriftingLoads(api, cluster.loads, scene)
    with LoadServer(loads, lambda: loads.measured_at) as server, ExitStack() as exits:
        schedulers, written = [DEFAULT], json.dumps(scene.configuration) if scene.configuration else ""
        if scene.trimaran:
            written, schedulers = configuration(server.address, sorted(cluster.loads)), [DEFAULT, *PLUGINS]
        control_plane.start_scheduler(written or None)
        for number, workload in enumerate(cluster.on_all):
            template = workload["spec"]["template"]
            template["spec"]["schedulerName"] = schedulers[number % len(schedulers)]
            api.create(workload)
        if scene.edited is not None:
            exits.enter_context(editing(api, control_plane.folder, scene.edited))
        stop = threading.Event()
        churn = Churn(api, cluster.on_all, scene, schedulers)
        thread = threading.Thread(target=churn.until, args=(stop,))
        thread.start()
        try:
            yield Running(churn, server.served, server.address, written if scene.trimaran else "")
        finally:
            stop.set()
            thread.join()


def agreement(
    control_plane: ControlPlane,
    running: Running,
    scene: Scene,
    decisions: int,
    limit: str,
    begun: Callable[[int], None] = lambda _process: None,
) -> Object:
    """What the command finds; ``begun`` is called with its process once that has started."""
    settings: Object = {"version": assets.MINOR, **scene.told}
    if running.scheduler:
        file = control_plane.folder / "told.json"
        file.write_text(running.scheduler)
        settings["file"] = str(file)
    policy = {
        "apiVersion": "rebalancer/v1alpha1",
        "kind": "RebalancePolicy",
        "metadata": {"name": "agreement"},
        "scheduler": settings,
    }
    rebalancer = Rebalancer(control_plane.folder / "run", control_plane.kubeconfig(), json.dumps(policy))
    process = rebalancer.start("agreement", f"--for={limit}", f"--decisions={decisions}")
    begun(process.pid)
    stdout, stderr = process.communicate()
    assert process.returncode == 0, stderr
    found: Object = json.loads(stdout)
    return found


def named_after(found: Object) -> int | None:
    """After how many of the decisions kept their misses alone name what is named first; None: they never do.

    That another minor or a plugin that is off would explain them is found by steps, and not by misses alone.
    """
    tally, since = Tally("", 0.0), None
    decisions = msgspec.convert(found["latest"], list[Decision])
    compared = [item for item in decisions if item.result is not Result.UNPREDICTABLE]
    for number, item in enumerate(compared, 1):
        tally.add([item])
        first = [suspect.what for suspect in tally.report(0.0).suspects[:1]]
        if first != [suspect["what"] for suspect in found["suspects"][:1]]:
            since = None
        elif first:
            since = since or number
    return since


def described(found: Object) -> str:
    """What was found, in a line."""
    misses = [
        f"{item['pod']} on {item['node']} and not {[node['node'] for node in item['nodes'][1:]]}"
        for item in found["misses"][-5:]
    ]
    first = found["profiles"][0] if found["profiles"] else {"surprise": 0, "expectedSurprise": 0}
    return (
        f"{found['landed']} of {found['decisions']} decisions as computed, {found['inAnotherOrder']} of them "
        f"in another order; unpredictable {found['unpredictable']}; "
        f"{1000 * found['processorSeconds'] / max(found['decisions'], 1):.1f} ms of a processor each; "
        f"surprise {first['surprise']}, expected {first['expectedSurprise']}; "
        f"suspects {[item['sentence'] for item in (*found['suspects'][:2], *found['edits'])]}, "
        f"the first named after {named_after(found)} decisions; "
        f"misses {misses}"
    )
