"""What keeps a run from evicting, or stops it: brakes, leases, signals, budgets and webhooks."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from rebalancer.errors import ExitCode
from tests.conftest import SUMMARY
from tests.e2e import clusters
from tests.e2e.api import Api, ApiRefusedError, Object, path_of
from tests.e2e.command import Finished, Rebalancer
from tests.e2e.controlplane import ControlPlane, is_ready
from tests.e2e.evacuation_webhook import Evacuations, serving
from tests.e2e.loads import Load, LoadServer
from tests.e2e.processes import wait_until

pytestmark = pytest.mark.safety

PODS = "/api/v1/namespaces/default/pods"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/default/leases/rebalancer"
PAUSE = "/api/v1/namespaces/default/configmaps/rebalancer-pause"
BUDGET = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/web"
SCHEDULER_LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
NODES = tuple(f"new-{number}" for number in range(5))
REPLICAS = 4
Record = Callable[[str, object], None]


def policy(address: str, moves: int, wave_size: int, wave_timeout: str, **safety: object) -> str:
    """A policy that moves the pods of a node they no longer belong on."""
    return yaml.safe_dump(
        {
            "apiVersion": "rebalancer/v1alpha1",
            "kind": "RebalancePolicy",
            "metadata": {"name": "brakes"},
            "scheduler": {"version": "1.34", "allowUnverifiedVersion": True},
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
        now = _time(time.time())
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

        wait_until(ended, "the run has ended", seconds=180.0, every=0.5)
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

    def finished(self) -> Finished:
        """How it ended."""
        stdout, stderr = self.process.communicate(timeout=120.0)
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
    api.delete(PAUSE)
    if "kube-scheduler" not in scene.control_plane.programs:
        api.delete(SCHEDULER_LEASE)  # else the next scheduler waits until it expires
        scene.control_plane.start_scheduler()
    for node in ("old", *NODES):
        change = {"metadata": {"annotations": {"e2e/not-ready": None}}, "spec": {"taints": []}}
        api.patch(f"/api/v1/nodes/{node}", change)
    wait_until(lambda: len(_ready_nodes(api)) == 1 + len(NODES), "nodes ready")
    wait_until(lambda: not api.list(PODS), "no pods are left")


def _populate(scene: Scene) -> None:
    api = scene.api
    for node in NODES:
        api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})
    api.create(clusters.deployment("web", REPLICAS, annotations={"e2e/ready-after": "never"}))
    wait_until(
        lambda: [pod["spec"].get("nodeName") for pod in api.list(PODS)] == ["old"] * REPLICAS, "pods bound"
    )
    scene.let_pods_be_ready()
    for node in NODES:
        api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": None}})
    taint = {"key": "e2e/old", "effect": "NoSchedule"}
    api.patch("/api/v1/nodes/old", {"spec": {"taints": [taint]}})
    wait_until(lambda: len(_ready_nodes(api)) == 1 + len(NODES), "no taint of a cordon is left")
    wait_until(lambda: all(map(is_ready, api.list(PODS))), "pods ready")
    scene.pods = {pod["metadata"]["uid"]: pod["metadata"]["name"] for pod in api.list(PODS)}


def _ready_nodes(api: Api) -> list[str]:
    return [
        node["metadata"]["name"]
        for node in api.list("/api/v1/nodes")
        for item in node.get("status", {}).get("conditions", ())
        if item["type"] == "Ready" and item["status"] == "True"
        if not any(taint["key"].startswith("node.kubernetes.io/") for taint in node["spec"].get("taints", ()))
    ]


def _time(unix_seconds: float) -> str:
    return datetime.fromtimestamp(unix_seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


# What goes wrong, each the way it does on a cluster, and what the run must say of it.


def pause(_scene: Scene, run: Run | None) -> None:
    """Somebody pauses the policy while the run has it open."""
    if run is not None:
        changed = yaml.safe_load(run.policy.read_text())
        changed["safety"]["pause"] = True
        run.policy.write_text(yaml.safe_dump(changed))


def switch_off(scene: Scene, _run: Run | None) -> None:
    """Somebody pauses all runs by kubectl, as the documentation says."""
    where = ("--namespace=default", "configmap", "rebalancer-pause")
    scene.control_plane.kubectl("create", *where, "--from-literal=reason=incident 42")


def nodes_fail(scene: Scene, _run: Run | None) -> None:
    """Two nodes stop being ready, one may."""
    for node in NODES[:2]:
        change = {"metadata": {"annotations": {"e2e/not-ready": "true"}}}
        scene.api.patch(f"/api/v1/nodes/{node}", change)
    wait_until(lambda: len(_ready_nodes(scene.api)) == len(NODES) - 1, "two nodes are not ready")


def pods_pend(scene: Scene, _run: Run | None) -> None:
    """Three pods fit nowhere, two may."""
    scene.api.create(clusters.deployment("huge", 3, cpu="900"))

    def tried() -> bool:
        pods = scene.api.list(PODS, labelSelector="app=huge")
        conditions = [item for pod in pods for item in pod["status"].get("conditions", ())]
        return [item.get("reason") for item in conditions] == ["Unschedulable"] * 3

    wait_until(tried, "three pods are Pending")


def scheduler_dies(scene: Scene, _run: Run | None) -> None:
    """The scheduler ended more than a minute ago: its lease says when it was last alive."""
    scene.control_plane.stop_part("kube-scheduler")
    scene.api.patch(SCHEDULER_LEASE, {"spec": {"renewTime": _time(time.time() - 61.0)}})


Trouble = Callable[[Scene, Run | None], None]
BRAKES = {
    "paused": (pause, ("the policy is paused", "safety.pause")),
    "paused by ConfigMap": (
        switch_off,
        ("runs are paused by the configmap default/rebalancer-pause ('incident 42')", "lets them go on"),
    ),
    "nodes not ready": (nodes_fail, ("2 of 6 nodes are not ready (new-0, new-1); the limit is 1",)),
    "pods pending": (pods_pend, ("3 pods are Pending (default/huge-", "the limit is 2")),
    "scheduler dead": (
        scheduler_dies,
        (
            "the scheduler default-scheduler is not alive",
            "nobody holds lease kube-system/kube-scheduler, renewed ",
            "s ago, and not again in the ",
        ),
    ),
}
EACH_BRAKE = pytest.mark.parametrize("trouble", BRAKES)


@EACH_BRAKE
def test_a_brake_that_is_on_lets_nothing_be_evicted_and_says_why(
    scene: Scene, trouble: str, record_property: Record
) -> None:
    happens, sentences = BRAKES[trouble]
    happens(scene, None)
    run = scene.start(pause=trouble == "paused").finished()
    assert run.exit_code == ExitCode.STOPPED, run
    assert [line["event"] for line in run.journal if line["event"] == "evicting"] == []
    assert scene.untouched() == set(scene.pods)
    assert run.document["stop"] == "Brake"
    for sentence in sentences:
        assert sentence in run.document["stopped"]
        assert sentence in run.stderr
    assert {outcome["result"] for outcome in run.document["outcomes"]} == {"Skipped"}
    assert len(run.document["outcomes"]) == REPLICAS
    record_property(SUMMARY, f"brakes, before a run, {trouble}: 0 evictions, exit {run.exit_code}")


@EACH_BRAKE
def test_a_brake_that_comes_on_between_waves_stops_the_run_before_the_next(
    scene: Scene, trouble: str, record_property: Record
) -> None:
    happens, sentences = BRAKES[trouble]
    run = scene.start()
    run.wait_for("evicted")
    if trouble == "scheduler dead":
        # The replacement of the pod that was evicted has been placed before.
        wait_until(lambda: len(_bound(scene)) == REPLICAS, "the replacement is bound")
    happens(scene, run)
    ended = scene.finish(run)
    assert ended.exit_code == ExitCode.STOPPED, ended
    assert ended.document["stop"] == "Brake", ended.document["stopped"]
    for sentence in sentences:
        assert sentence in ended.document["stopped"]
    assert len(run.events("evicting")) == len(run.events("evicted")) == 1
    assert len(scene.untouched()) == REPLICAS - 1
    results = sorted(outcome["result"] for outcome in ended.document["outcomes"])
    assert results == ["Landed", "Skipped", "Skipped", "Skipped"]
    record_property(SUMMARY, f"brakes, between waves, {trouble}: 1 eviction of 4, exit {ended.exit_code}")


@pytest.mark.parametrize("trouble", ["paused", "paused by ConfigMap"])
def test_a_pause_between_two_evictions_of_one_wave_holds_for_the_second(
    scene: Scene, trouble: str, record_property: Record
) -> None:
    happens, sentences = BRAKES[trouble]
    # The first eviction takes as long as the API server waits for the webhook, and is then granted.
    with a_webhook_that_never_answers(scene, failure_policy="Ignore", seconds=5):
        run = scene.start(wave_size=REPLICAS)
        run.wait_for("evicting")
        happens(scene, run)
        assert run.events("evicted") == []
        ended = scene.finish(run)
    assert ended.exit_code == ExitCode.STOPPED, ended
    assert ended.document["stop"] == "Brake"
    for sentence in sentences:
        assert sentence in ended.document["stopped"]
    assert len(run.events("evicted")) == 1
    assert len(scene.untouched()) == REPLICAS - 1
    results = sorted(outcome["result"] for outcome in ended.document["outcomes"])
    assert results == ["Landed", "Skipped", "Skipped", "Skipped"]
    assert len(run.events("wave-started")) == 1
    record_property(SUMMARY, f"brakes, inside a wave, {trouble}: 1 eviction of 4, exit {ended.exit_code}")


def _bound(scene: Scene) -> list[Object]:
    return [
        pod
        for pod in scene.api.list(PODS, labelSelector="app=web")
        if pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]
    ]


def test_without_trouble_all_four_pods_are_moved(scene: Scene) -> None:
    ended = scene.finish(scene.start())
    assert ended.exit_code == ExitCode.DONE, ended
    assert [outcome["result"] for outcome in ended.document["outcomes"]] == ["Landed"] * REPLICAS
    assert scene.untouched() == set()


def test_a_second_run_leaves_and_says_who_holds_the_lease_and_the_first_goes_on(
    scene: Scene, record_property: Record
) -> None:
    # The first is in the middle of its first eviction for as long as the second takes.
    with a_webhook_that_never_answers(scene, failure_policy="Ignore", seconds=30):
        first = scene.start()
        first.wait_for("evicting")
        second = scene.start().finished()
        assert second.exit_code == ExitCode.LEASE_HELD, second
        assert first.events("evicted") == []
    holder = first.journal()[0]["run"]
    assert re.search(rf"lease default/rebalancer: held by '[^']+_\d+_{holder}'", second.stderr)
    assert second.journal == []  # a run that may not act leaves no trace
    ended = scene.finish(first)
    assert ended.exit_code == ExitCode.DONE, ended
    assert scene.api.get(LEASE)["spec"].get("holderIdentity", "") == ""
    record_property(
        SUMMARY, f"two runs at once: the second left with {second.exit_code} and named the holder"
    )


def test_the_lease_of_a_killed_run_expires_and_the_next_run_acts(
    scene: Scene, record_property: Record
) -> None:
    first = scene.start()
    first.wait_for("evicted")
    first.process.kill()
    first.process.communicate()
    # As long a lease as the test wants to wait for.
    scene.api.patch(LEASE, {"spec": {"leaseDurationSeconds": 15}})
    left = scene.untouched()
    wait_until(lambda: len(_bound(scene)) == REPLICAS, "the replacement is bound")
    scene.let_pods_be_ready()
    renewed = scene.api.get(LEASE)["spec"]["renewTime"]
    codes = []
    deadline = time.monotonic() + 120.0
    while time.monotonic() < deadline:
        run = scene.start()
        ended = scene.finish(run)
        codes.append(ended.exit_code)
        if ended.exit_code != ExitCode.LEASE_HELD:
            break
        assert scene.untouched() == left
    assert codes[-1] == ExitCode.DONE, ended
    assert scene.untouched() == set()
    taken = scene.api.get(LEASE)["spec"]["acquireTime"]
    waited = datetime.fromisoformat(taken) - datetime.fromisoformat(renewed)
    assert waited.total_seconds() >= 15.0
    record_property(
        SUMMARY, f"a killed run: {len(codes) - 1} runs found its lease held, the next acted after it expired"
    )


def test_a_run_whose_lease_is_taken_away_evicts_nothing_more(scene: Scene, record_property: Record) -> None:
    run = scene.start()
    run.wait_for("evicted")
    scene.api.patch(LEASE, {"spec": {"holderIdentity": "somebody-else", "renewTime": _time(time.time())}})
    ended = scene.finish(run)
    assert ended.exit_code == ExitCode.STOPPED, ended
    assert ended.document["stop"] == "LeaseLost"
    assert "the lease was lost: it is held by 'somebody-else'" in ended.document["stopped"]
    assert len(run.events("evicted")) == 1
    assert [line["attempts"] for line in run.events("skipped")] in ([], [0])  # an intent, never a request
    assert len(scene.untouched()) == REPLICAS - 1
    assert scene.api.get(LEASE)["spec"]["holderIdentity"] == "somebody-else"
    record_property(SUMMARY, f"a lease taken away: 1 eviction of 4, exit {ended.exit_code}")


def test_a_longest_duration_lets_no_wave_begin_after_it(scene: Scene, record_property: Record) -> None:
    began = time.monotonic()
    run = scene.start("--max-duration=20s")
    run.wait_for("evicted")
    wait_until(lambda: time.monotonic() > began + 21.0, "the longest duration is over")
    ended = scene.finish(run)
    assert ended.exit_code == ExitCode.STOPPED, ended
    assert "the run reached its longest duration of 20 s" in ended.document["stopped"]
    assert len(run.events("evicting")) == 1
    results = sorted(outcome["result"] for outcome in ended.document["outcomes"])
    assert results == ["Landed", "Skipped", "Skipped", "Skipped"]
    record_property(SUMMARY, f"--max-duration: 1 eviction of 4, exit {ended.exit_code}")


@contextmanager
def a_webhook_that_never_answers(scene: Scene, *, failure_policy: str, seconds: int) -> Iterator[None]:
    """Have every eviction asked about at an address that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        webhook = {
            "name": "evictions.example.com",
            "clientConfig": {"url": f"https://127.0.0.1:{listener.getsockname()[1]}/"},
            "rules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE"],
                    "resources": ["pods/eviction"],
                }
            ],
            "failurePolicy": failure_policy,
            "timeoutSeconds": seconds,
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        manifest = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "evictions"},
            "webhooks": [webhook],
        }
        scene.api.create(manifest)
        try:
            _wait_for_webhook(scene)
            yield
        finally:
            scene.api.delete(path_of(manifest))


def _wait_for_webhook(scene: Scene) -> None:
    # A rehearsed eviction that the webhook slows down or fails: then the API server asks it.
    name = next(iter(scene.pods.values()))
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "default"}}

    def asked() -> bool:
        began = time.monotonic()
        try:
            scene.api.request("POST", f"{PODS}/{name}/eviction?dryRun=All", body)
        except Exception as error:  # noqa: BLE001 - any failure it caused will do
            return "webhook" in str(error) or "evacuation" in str(error)
        return time.monotonic() - began >= 1.0

    wait_until(asked, "the API server asks the webhook")


def test_sigterm_finishes_and_journals_the_eviction_in_flight_and_releases_the_lease(
    scene: Scene, record_property: Record
) -> None:
    # The eviction takes as long as the API server waits for the webhook, and is then granted.
    with a_webhook_that_never_answers(scene, failure_policy="Ignore", seconds=5):
        run = scene.start()
        run.wait_for("evicting")
        run.process.send_signal(signal.SIGTERM)
        assert run.events("evicted") == []
        ended = run.finished()
    assert ended.exit_code == ExitCode.INTERRUPTED, ended
    evicting, evicted = run.events("evicting"), run.events("evicted")
    assert [line["uid"] for line in evicted] == [line["uid"] for line in evicting]
    assert len(evicted) == 1
    assert scene.untouched() == set(scene.pods) - {evicted[0]["uid"]}
    assert scene.api.get(LEASE)["spec"].get("holderIdentity", "") == ""
    assert ended.document["stop"] == "Interrupted"
    results = [outcome["result"] for outcome in ended.document["outcomes"]]
    assert sorted(results) == ["Skipped", "Skipped", "Skipped", "Unknown"]
    record_property(
        SUMMARY, f"SIGTERM: the eviction in flight ended and was journaled, exit {ended.exit_code}"
    )


def test_a_webhook_that_fails_is_a_refusal_with_its_cause(scene: Scene, record_property: Record) -> None:
    with a_webhook_that_never_answers(scene, failure_policy="Fail", seconds=1):
        ended = scene.start(moves=2).finished()
    assert ended.exit_code == ExitCode.PARTLY_DONE, ended
    assert scene.untouched() == set(scene.pods)
    for outcome in ended.document["outcomes"]:
        assert outcome["result"] == "Refused"
        assert 'failed calling webhook "evictions.example.com"' in outcome["because"]
    refused = [line for line in ended.journal if line["event"] == "refused"]
    assert len(refused) == len(ended.document["outcomes"]) == 2
    record_property(
        SUMMARY, f"webhook refusals: {len(refused)} Refused with their cause, exit {ended.exit_code}"
    )


@contextmanager
def a_webhook_that_evacuates(scene: Scene, evacuations: Evacuations) -> Iterator[None]:
    """Have every eviction denied and, as KubeVirt does, be carried out in another way."""
    with serving(scene.folder, evacuations) as manifest:
        scene.api.create(manifest)
        try:
            _wait_for_webhook(scene)
            yield
        finally:
            scene.api.delete(path_of(manifest))


def test_a_pod_that_a_webhook_moves_is_asked_for_once_and_waited_for(
    scene: Scene, record_property: Record
) -> None:
    def migrate(pod: str) -> None:
        threading.Timer(3.0, scene.api.delete, (f"{PODS}/{pod}",)).start()

    evacuations = Evacuations(begin=migrate)
    with a_webhook_that_evacuates(scene, evacuations):
        run = scene.start(moves=2)
        ended = scene.finish(run)
    assert ended.exit_code == ExitCode.DONE, ended
    assert [outcome["result"] for outcome in ended.document["outcomes"]] == ["Landed"] * 2
    assert len(run.events("started")) == len(evacuations.asked) == len(set(evacuations.asked)) == 2
    assert len(scene.untouched()) == REPLICAS - 2
    record_property(
        SUMMARY, f"evacuating webhook: 2 pods asked for once each, Landed, exit {ended.exit_code}"
    )


def test_a_pod_that_a_webhook_does_not_move_in_time_is_started_and_not_asked_for_by_the_next_run(
    scene: Scene, tmp_path: Path, record_property: Record
) -> None:
    state = f"--state={tmp_path / 'state.json'}"
    evacuations = Evacuations()
    with a_webhook_that_evacuates(scene, evacuations):
        first = scene.finish(scene.start(state, moves=1, wave_timeout="5s"))
        second = scene.finish(scene.start(state, moves=1, wave_timeout="5s"))
    assert (first.exit_code, second.exit_code) == (ExitCode.DONE, ExitCode.DONE), (first, second)
    (started,) = first.document["outcomes"]
    assert started["result"] == "Started"
    assert second.document["outcomes"] == []  # its workload is in cooldown
    assert len(evacuations.asked) == 1
    assert scene.untouched() == set(scene.pods)
    record_property(
        SUMMARY,
        f"evacuating webhook that is slow: Started, exit {first.exit_code}; the next run asked for none",
    )


def test_what_a_budget_refuses_is_tried_again_then_given_up_counted_and_explained(
    scene: Scene, record_property: Record
) -> None:
    def forbid() -> None:
        # After the cluster was read, before anything is evicted: the plan does not know of it.
        scene.api.create(clusters.budget("web", app="web", minAvailable=REPLICAS))
        wait_until(
            lambda: scene.api.get(BUDGET).get("status", {}).get("currentHealthy") == REPLICAS,
            "budget counted",
        )

    scene.when_load_is_read.append(forbid)
    ended = scene.start().finished()
    assert ended.exit_code == ExitCode.PARTLY_DONE, ended
    assert scene.untouched() == set(scene.pods)
    refused = [line for line in ended.journal if line["event"] == "refused"]
    assert refused
    assert all(line["attempts"] > 1 for line in refused)
    by_result: dict[str, list[Object]] = {"Refused": [], "Skipped": []}
    for outcome in ended.document["outcomes"]:
        by_result[outcome["result"]].append(outcome)
    assert len(by_result["Refused"]) == len(refused)
    for outcome in by_result["Refused"]:
        assert "The disruption budget web needs 4 healthy pods and has 4 currently" in outcome["because"]
    # Later waves read the cluster again, and see the budget before they ask.
    assert len(by_result["Skipped"]) == REPLICAS - len(refused)
    for outcome in by_result["Skipped"]:
        assert "budget default/web" in outcome["because"]
    record_property(
        SUMMARY,
        f"a budget that allows nothing: {len(refused)} Refused after {refused[0]['attempts']} attempts, "
        f"{len(by_result['Skipped'])} Skipped, exit {ended.exit_code}",
    )
