"""Four pods on a node they no longer belong on, and runs that move them while a test looks on."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e import assets, clusters
from tests.e2e.api import Api, ApiRefusedError
from tests.e2e.command import Finished, Rebalancer
from tests.e2e.controlplane import ControlPlane, is_ready
from tests.e2e.loads import Load, LoadServer
from tests.e2e.processes import wait_until
from tests.waiting import HANG_SECONDS

PODS = "/api/v1/namespaces/default/pods"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/default/leases/rebalancer"
BUDGET = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/web"
SCHEDULER_LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
NODES = tuple(f"new-{number}" for number in range(5))
REPLICAS = 4
_NOTHING_PENDING = re.compile(r"^ShdPnd:\s*0+$", re.MULTILINE)
Record = Callable[[str, object], None]


def policy(address: str, moves: int, wave_size: int, wave_timeout: str, **safety: object) -> str:
    """A policy that moves the pods of a node they no longer belong on."""
    return yaml.safe_dump(
        {
            "apiVersion": "rebalancer/v1alpha1",
            "kind": "RebalancePolicy",
            "metadata": {"name": "brakes"},
            "scheduler": {"version": assets.MINOR},
            "load": {"sources": [{"loadWatcher": {"address": address}}], "minCoverage": "1%"},
            "hotNodes": {"forRuns": 1, "any": [{"utilization": {"cpu": 95}}]},
            "evictable": {"minAge": "0s", "protect": []},
            "limits": {"perRun": moves, "perNode": 20, "perNamespace": 20, "perWorkload": "100%"},
            "planning": {"minGain": 0},
            "strategies": {"misplaced": True},
            "execution": {"waveSize": wave_size, "firstWave": wave_size, "waveTimeout": wave_timeout},
            "safety": {"maxNotReadyNodes": 1, "maxPendingPods": 2, **safety},
        }
    )


@dataclass
class Scene:
    """Four pods on a node they no longer belong on; a pod becomes ready when the test says so.

    So a run that evicted one pod waits until then, and the test has the time it takes to change something.
    """

    control_plane: ControlPlane
    folder: Path
    address: str
    pods: dict[str, str] = field(default_factory=dict)  # uid -> name, of those that are to be moved
    when_load_is_read: list[Callable[[], None]] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)

    @property
    def api(self) -> Api:
        """The API as its administrator."""
        return self.control_plane.api

    def start(
        self,
        *options: str,
        moves: int = 20,
        wave_size: int = 1,
        wave_timeout: str = "120s",
        **safety: object,
    ) -> Run:
        """Start a run of at most so many moves, so many a wave."""
        folder = self.folder / f"run-{len(self.runs)}"
        text = policy(self.address, moves, wave_size, wave_timeout, **safety)
        command = Rebalancer(folder, self.control_plane.kubeconfig(), text)
        journal = folder / "journal.jsonl"
        process = command.start("run", f"--journal={journal}", "--lease=default/rebalancer", *options)
        self.runs.append(Run(process, folder / "policy.yaml", journal))
        return self.runs[-1]

    def let_pods_be_ready(self) -> None:
        """Make every pod that has a node ready, as its kubelet would."""
        now = api_time(time.time())
        for pod in self.api.list(PODS):
            if pod["spec"].get("nodeName") and not is_ready(pod):
                conditions = [
                    {"type": kind, "status": "True", "lastTransitionTime": now[:19] + "Z"}
                    for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
                ]
                status = {"phase": "Running", "conditions": conditions}
                try:
                    self.api.patch(f"{PODS}/{pod['metadata']['name']}/status", {"status": status})
                except ApiRefusedError as error:
                    if error.status != 404:  # evicted since it was listed
                        raise

    def finish(self, run: Run) -> Finished:
        """Let pods be ready until a run has ended."""

        def ended() -> bool:
            self.let_pods_be_ready()
            return run.process.poll() is not None

        wait_until(ended, "the run has ended", every=0.5)
        return run.finished()

    def untouched(self) -> set[str]:
        """The uids of the pods that are still as they were before any run."""
        now = {
            pod["metadata"]["uid"]
            for pod in self.api.list(PODS)
            if "deletionTimestamp" not in pod["metadata"]
        }
        return set(self.pods) & now


@dataclass
class Run:
    """A run in the background."""

    process: subprocess.Popen[str]
    policy: Path
    path: Path

    def journal(self) -> list[dict[str, Any]]:
        """The whole lines of its journal so far."""
        text = self.path.read_text() if self.path.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def events(self, event: str) -> list[dict[str, Any]]:
        """The lines of one event."""
        return [line for line in self.journal() if line["event"] == event]

    def wait_for(self, event: str) -> None:
        """Wait until its journal tells of an event."""
        wait_until(lambda: bool(self.events(event)) or self.process.poll() is not None, f"the run is {event}")
        assert self.events(event), self.finished()

    def ask_to_stop(self) -> None:
        """Send SIGTERM, and wait until the run has heard it: it is pending no longer."""
        self.process.send_signal(signal.SIGTERM)
        status = Path(f"/proc/{self.process.pid}/status")
        wait_until(lambda: _NOTHING_PENDING.search(status.read_text()) is not None, "the run hears SIGTERM")

    def finished(self) -> Finished:
        """How it ended."""
        stdout, stderr = self.process.communicate(timeout=HANG_SECONDS)
        return Finished(self.process.returncode, stdout, stderr, self.journal())


@pytest.fixture(scope="module")
def shared_control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """One control plane for all tests here: each of them sets up its workload anew."""
    with ControlPlane(tmp_path_factory.mktemp("controlplane")) as started:
        started.start()
        for node in ("old", *NODES):
            started.api.create(clusters.node(node))
        yield started


@pytest.fixture
def scene(shared_control_plane: ControlPlane, tmp_path: Path) -> Iterator[Scene]:
    """The cluster, and its load: none to speak of."""
    load = {node: Load(10.0, 10.0) for node in ("old", *NODES)}
    hooks: list[Callable[[], None]] = []

    def loads() -> dict[str, Load]:
        while hooks:
            hooks.pop()()
        return load

    with LoadServer(loads) as server:
        set_up = Scene(shared_control_plane, tmp_path, server.address, when_load_is_read=hooks)
        _mend(set_up)
        _populate(set_up)
        try:
            yield set_up
        finally:
            for run in set_up.runs:
                if run.process.poll() is None:
                    run.process.kill()
                    run.process.communicate()


def _mend(scene: Scene) -> None:
    """Undo what an earlier test did to the cluster."""
    api = scene.api
    for name in ("web", "huge"):
        api.delete(f"/apis/apps/v1/namespaces/default/deployments/{name}")
    api.delete(BUDGET)
    api.delete(LEASE)
    if "kube-scheduler" not in scene.control_plane.programs:
        api.delete(SCHEDULER_LEASE)  # else the next scheduler waits until it expires
        scene.control_plane.start_scheduler()
    for node in ("old", *NODES):
        change = {"metadata": {"annotations": {"e2e/not-ready": None}}, "spec": {"taints": []}}
        api.patch(f"/api/v1/nodes/{node}", change)
    wait_until(lambda: len(ready_nodes(api)) == 1 + len(NODES), "nodes ready")
    wait_until(lambda: not api.list(PODS), "no pods are left")


def _populate(scene: Scene) -> None:
    api = scene.api
    for node in NODES:
        api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})
    api.create(clusters.deployment("web", REPLICAS, annotations={"e2e/ready-after": "never"}))

    def bound() -> bool:
        pods = api.list(PODS)
        for pod in pods:  # a scheduler that had not seen the cordon yet may have placed it
            if pod["spec"].get("nodeName", "old") != "old":
                api.delete(f"{PODS}/{pod['metadata']['name']}")
        return [pod["spec"].get("nodeName") for pod in pods] == ["old"] * REPLICAS

    wait_until(bound, "pods bound")
    scene.let_pods_be_ready()
    for node in NODES:
        api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": None}})
    taint = {"key": "e2e/old", "effect": "NoSchedule"}
    api.patch("/api/v1/nodes/old", {"spec": {"taints": [taint]}})
    wait_until(lambda: len(ready_nodes(api)) == 1 + len(NODES), "no taint of a cordon is left")
    wait_until(lambda: all(map(is_ready, api.list(PODS))), "pods ready")
    scene.pods = {pod["metadata"]["uid"]: pod["metadata"]["name"] for pod in api.list(PODS)}


def ready_nodes(api: Api) -> list[str]:
    return [
        node["metadata"]["name"]
        for node in api.list("/api/v1/nodes")
        for item in node.get("status", {}).get("conditions", ())
        if item["type"] == "Ready" and item["status"] == "True"
        if not any(taint["key"].startswith("node.kubernetes.io/") for taint in node["spec"].get("taints", ()))
    ]


def api_time(unix_seconds: float) -> str:
    return datetime.fromtimestamp(unix_seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
