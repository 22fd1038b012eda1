"""Each strategy on a real control plane: one run sets right what it is for, later runs evict nothing."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from rebalancer.planning.strategies.lifetime import MAX_LIFETIME
from tests.conftest import SUMMARY
from tests.e2e import assets, clusters
from tests.e2e.api import Api
from tests.e2e.command import Finished, Rebalancer
from tests.e2e.controlplane import ControlPlane
from tests.e2e.loads import Load, LoadServer
from tests.e2e.processes import wait_until

pytestmark = pytest.mark.safety

ZONE = "topology.kubernetes.io/zone"
PODS = "/api/v1/namespaces/default/pods"
LATER_CYCLES = 5
RecordProperty = Callable[[str, object], None]
Pod = dict[str, Any]


_EVENLY = {
    "maxSkew": 1,
    "topologyKey": ZONE,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "web"}},
}
_DEFAULT_SCHEDULER = "{apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration}"
_PACKS = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}, {name: memory, weight: 1}]}
"""


@dataclass
class Cluster:
    """The control plane and what a scene does with it."""

    api: Api
    nodes: list[str] = field(default_factory=list)

    def add_node(self, name: str, *, cpu: str = "8", **options: Any) -> None:
        """Register a node, and wait until the scheduler may use it."""
        self.api.create(clusters.node(name, cpu=cpu, **options))
        self.nodes.append(name)
        wait_until(
            lambda: (
                not self.api.get(f"/api/v1/nodes/{name}")["spec"].get("taints")
                and any(
                    item["type"] == "Ready" and item["status"] == "True"
                    for item in self.api.get(f"/api/v1/nodes/{name}").get("status", {}).get("conditions", ())
                )
            ),
            f"{name} ready",
        )

    def cordon(self, node: str, cordoned: bool) -> None:
        """Close a node for pods that come, or open it again."""
        self.api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": cordoned or None}})
        wait_until(
            lambda: bool(self.api.get(f"/api/v1/nodes/{node}")["spec"].get("taints")) == cordoned,
            f"{node} cordoned: {cordoned}",
        )

    def pods(self, app: str = "") -> list[Pod]:
        """The pods that are not being deleted."""
        selector = {"labelSelector": f"app={app}"} if app else {}
        return [pod for pod in self.api.list(PODS, **selector) if "deletionTimestamp" not in pod["metadata"]]

    def per_node(self, app: str = "") -> Counter[str]:
        """How many pods each node has; under an empty name those that wait."""
        return Counter(pod["spec"].get("nodeName", "") for pod in self.pods(app))

    def deploy(self, name: str, replicas: int, **options: Any) -> None:
        """Create a Deployment and wait until its pods are bound and ready."""
        self.api.create(clusters.deployment(name, replicas, **options))
        self.wait_for(name, replicas)

    def wait_for(self, app: str, replicas: int) -> None:
        """Wait until so many pods of an app are bound and ready."""

        def ready() -> bool:
            pods = self.pods(app)
            conditions = [
                {item["type"]: item["status"] for item in pod["status"].get("conditions", ())} for pod in pods
            ]
            return len(pods) == replicas and all(item.get("Ready") == "True" for item in conditions)

        wait_until(ready, f"{replicas} pods of {app} ready")

    def patch_status(self, pod: Pod, status: Mapping[str, Any]) -> None:
        """Change the status of a pod as its kubelet would."""
        self.api.patch(f"{PODS}/{pod['metadata']['name']}/status", {"status": status})


@dataclass(frozen=True)
class Scene:
    """What a strategy is for: a cluster with something wrong, and how much of it is wrong."""

    strategy: str  # its name, or "all" for several
    settings: object  # of several: by name
    set_up: Callable[[Cluster], None]
    wrong: Callable[[Cluster], int]
    evictions: int  # so many are needed
    scheduler: str = _DEFAULT_SCHEDULER

    @property
    def strategies(self) -> Mapping[str, object]:
        """The settings by strategy."""
        one = {self.strategy: self.settings}
        return self.settings if self.strategy == "all" and isinstance(self.settings, Mapping) else one


def _pods_fail(cluster: Cluster) -> None:
    cluster.add_node("n-0")
    cluster.add_node("n-1")
    cluster.deploy("web", 4)
    for pod in cluster.pods("web")[:2]:
        cluster.patch_status(pod, {"phase": "Failed", "reason": "Evicted"})
    wait_until(lambda: len(cluster.pods("web")) == 6, "replacements of failed pods made")


def _failed(cluster: Cluster) -> int:
    return sum(pod["status"].get("phase") == "Failed" for pod in cluster.pods())


def _taint_comes(cluster: Cluster) -> None:
    cluster.add_node("n-0")
    cluster.deploy("web", 3)
    cluster.add_node("n-1")
    cluster.add_node("n-2")
    taints = [{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}]
    cluster.api.patch("/api/v1/nodes/n-0", {"spec": {"taints": taints}})


def _on_tainted(cluster: Cluster) -> int:
    return cluster.per_node("web")["n-0"]


def _some_live_too_long(cluster: Cluster) -> None:
    for node in ("n-0", "n-1"):
        cluster.add_node(node)
    for number in range(3):
        cluster.deploy(f"web-{number}", 2)
        name = cluster.pods(f"web-{number}")[0]["metadata"]["name"]
        cluster.api.patch(f"{PODS}/{name}", {"metadata": {"annotations": {MAX_LIFETIME: "1s"}}})


def _too_old(cluster: Cluster) -> int:
    return sum(MAX_LIFETIME in pod["metadata"].get("annotations", {}) for pod in cluster.pods())


def _restarts(cluster: Cluster, pod: Pod, count: int) -> None:
    state = {"waiting": {"reason": "CrashLoopBackOff"}}
    container = {"name": "app", "image": "registry.example/app:1", "imageID": "", "ready": False}
    statuses = [{**container, "restartCount": count, "state": state}]
    conditions = [
        item | {"status": "False"} for item in pod["status"]["conditions"] if "Ready" in item["type"]
    ]
    kept = [item for item in pod["status"]["conditions"] if "Ready" not in item["type"]]
    cluster.patch_status(pod, {"containerStatuses": statuses, "conditions": kept + conditions})


def _some_restart(cluster: Cluster) -> None:
    cluster.add_node("n-0")
    for number in range(3):
        cluster.deploy(f"web-{number}", 2)
        _restarts(cluster, cluster.pods(f"web-{number}")[0], 100 + number)
    cluster.add_node("n-1")
    cluster.add_node("n-2")


def _restarted(cluster: Cluster) -> int:
    return sum(
        item["restartCount"] >= 100
        for pod in cluster.pods()
        for item in pod["status"].get("containerStatuses", ())
    )


def _nodes_are_half_empty(cluster: Cluster) -> None:
    for number in range(4):
        cluster.add_node(f"n-{number}")
        cluster.deploy(f"web-{number}", 4 - number, cpu="1")
        cluster.cordon(f"n-{number}", True)
    for node in cluster.nodes:
        cluster.cordon(node, False)


def _superfluous_nodes(cluster: Cluster) -> int:
    return len(cluster.per_node()) - 2  # ten pods of one core on nodes of eight


def _a_node_comes(cluster: Cluster) -> None:
    cluster.add_node("n-0")
    cluster.deploy("web", 5)
    cluster.add_node("n-1")


def _more_than_an_even_share(cluster: Cluster) -> int:
    return max(cluster.per_node("web").values()) - 3


def _much_is_wrong(cluster: Cluster) -> None:
    cluster.add_node("n-0")
    cluster.deploy("web", 6)
    cluster.deploy("api", 2)
    cluster.patch_status(cluster.pods("web")[0], {"phase": "Failed", "reason": "Evicted"})
    wait_until(lambda: len(cluster.pods("web")) == 7, "the failed pod is replaced")
    _restarts(cluster, cluster.pods("api")[0], 100)
    for name in ("n-1", "n-2"):
        cluster.add_node(name)


def _all_wrong(cluster: Cluster) -> int:
    crowded = [max(cluster.per_node(app).values()) - share for app, share in (("web", 2), ("api", 1))]
    return sum(max(item, 0) for item in crowded) + _failed(cluster) + _restarted(cluster)


def _a_zone_comes(cluster: Cluster) -> None:
    cluster.add_node("n-0", labels={ZONE: "a"})
    cluster.deploy("web", 6, pod={"topologySpreadConstraints": [_EVENLY]})
    cluster.add_node("n-1", labels={ZONE: "b"})
    cluster.add_node("n-2", labels={ZONE: "b"})


def _skew_beyond_one(cluster: Cluster) -> int:
    counts = cluster.per_node("web")
    return max(0, abs(counts["n-0"] - counts["n-1"] - counts["n-2"]) - 1)


def _a_better_node_comes(cluster: Cluster) -> None:
    cluster.add_node("n-0")
    prefers = {"key": "disk", "operator": "In", "values": ["ssd"]}
    preferred = [{"weight": 100, "preference": {"matchExpressions": [prefers]}}]
    soft = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    cluster.deploy("web", 3, pod={"affinity": soft})
    cluster.add_node("n-1", labels={"disk": "ssd"})


def _on_less_preferred(cluster: Cluster) -> int:
    return cluster.per_node("web")["n-0"]


def _room_is_in_pieces(cluster: Cluster) -> None:
    for number in range(3):
        cluster.add_node(f"n-{number}", cpu="4")
        cluster.deploy(f"web-{number}", 2, cpu="1")
        cluster.cordon(f"n-{number}", True)
    for node in cluster.nodes:
        cluster.cordon(node, False)
    cluster.api.create(clusters.deployment("large", 1, cpu="3"))
    wait_until(lambda: _waiting(cluster) == 1, "the large pod is unschedulable")


def _waiting(cluster: Cluster) -> int:
    conditions = [item for pod in cluster.pods("large") for item in pod["status"].get("conditions", ())]
    return sum(item.get("reason") == "Unschedulable" for item in conditions)


_ALL = {
    "misplaced": {"preferredNodeAffinity": True, "preferredPodAffinity": True, "preferNoSchedule": True},
    "duplicates": True,
    "topologySpread": {"constraints": ["DoNotSchedule", "ScheduleAnyway"], "defaultConstraints": True},
    "fragmentation": True,
    "failed": True,
    "lifetime": {"maxAge": "1h"},
    "restarts": True,
    "consolidation": True,
}
SCENES = (
    Scene("failed", True, _pods_fail, _failed, 2),
    Scene("misplaced", True, _taint_comes, _on_tainted, 3),
    Scene("lifetime", True, _some_live_too_long, _too_old, 3),
    Scene("restarts", True, _some_restart, _restarted, 3),
    Scene("consolidation", {"minNodeAge": "0s"}, _nodes_are_half_empty, _superfluous_nodes, 3, _PACKS),
    Scene("duplicates", True, _a_node_comes, _more_than_an_even_share, 2),
    Scene("topologySpread", True, _a_zone_comes, _skew_beyond_one, 3),
    Scene("misplaced", {"preferredNodeAffinity": True}, _a_better_node_comes, _on_less_preferred, 3),
    Scene("fragmentation", {"pendingFor": "0s"}, _room_is_in_pieces, _waiting, 1),
    Scene("all", _ALL, _much_is_wrong, _all_wrong, 6),
)


def _policy(scene: Scene, address: str) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "rebalancer/v1alpha1",
            "kind": "RebalancePolicy",
            "metadata": {"name": "strategies"},
            "scheduler": {"version": assets.MINOR},
            "load": {"sources": [{"loadWatcher": {"address": address}}]},
            "hotNodes": {"forRuns": 1, "any": [{"utilization": {"cpu": 95}}]},
            "evictable": {"minAge": "0s", "protect": []},
            "limits": {"perRun": 50, "perNode": 50, "perNamespace": 50, "perWorkload": "100%"},
            "execution": {"waveSize": 5, "waveTimeout": "120s"},
            "safety": {"maxPendingPods": 5},
            "strategies": dict(scene.strategies),
        }
    )


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.strategy)
def test_one_run_sets_right_what_a_strategy_is_for_and_later_runs_evict_nothing(
    scene: Scene, control_plane: ControlPlane, tmp_path: Path, record_property: RecordProperty
) -> None:
    control_plane.start(scheduler=scene.scheduler)
    configuration = tmp_path / "scheduler.yaml"
    configuration.write_text(scene.scheduler)
    cluster = Cluster(control_plane.api)
    scene.set_up(cluster)
    before = scene.wrong(cluster)
    assert before > 0
    with LoadServer(lambda: dict.fromkeys(cluster.nodes, Load(10.0, 10.0))) as server:
        rebalancer = Rebalancer(tmp_path / "run", control_plane.kubeconfig(), _policy(scene, server.address))
        state = (f"--state={tmp_path / 'state.json'}", f"--scheduler-config={configuration}")
        options = (*state, "--lease=default/rebalancer")
        planned: list[dict[str, Any]] = []

        def has_all_moves() -> bool:
            plan = rebalancer.plan(*state).document
            planned[:] = [*plan["cleanups"], *plan["moves"]]
            return len(planned) == scene.evictions

        # Fewer as long as what was just made may still change: pods grow old enough one after the other.
        wait_until(has_all_moves, f"a plan has {scene.evictions} moves")
        began = time.monotonic()
        first = rebalancer.run(*options)
        seconds = time.monotonic() - began
        wait_until(lambda: not cluster.per_node()[""], "nothing waits")
        after = scene.wrong(cluster)
        later = [rebalancer.run(*options) for _ in range(LATER_CYCLES)]

    made = _evicted(first)
    record_property(
        SUMMARY,
        f"e2e {scene.strategy}: {before} -> {after} wrong, {len(made)} evictions in {seconds:.0f} s, "
        f"then {[len(_evicted(item)) for item in later]} in {LATER_CYCLES} more runs",
    )
    assert first.exit_code == 0, first.stderr
    assert [item["pod"]["name"] for item in made] == [move["pod"]["name"] for move in planned], (
        first.stderr,
        first.document["outcomes"],
    )
    assert {move["strategy"] for move in planned} <= set(scene.strategies)
    assert after == 0, first.stderr
    for item in made:
        expected = {landing["node"] for landing in item.get("landings", ())}
        assert not expected or item["node"] in expected, item
    assert [_evicted(item) for item in later] == [[]] * LATER_CYCLES
    assert cluster.per_node()[""] == 0  # nothing waits


def _evicted(finished: Finished) -> list[dict[str, Any]]:
    """The cleanups and then the moves that a run made; each move with the node of its replacement."""
    document = finished.document
    removed = [item["cleanup"] for item in document["cleanups"] if item["result"] == "Removed"]
    moved = [item for item in document["outcomes"] if item.get("evictedAt") is not None]
    return [*removed, *({**item["move"], "node": item["node"]} for item in moved)]
