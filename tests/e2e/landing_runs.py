"""Rebalances a random cluster on a control plane of its own, and tells each landing beside its prediction."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.e2e import assets, metrics
from tests.e2e.api import Api, collection_of, path_of
from tests.e2e.command import Finished, Rebalancer
from tests.e2e.controlplane import ControlPlane, is_ready
from tests.e2e.landing_clusters import RandomCluster, Situation, priority_classes, random_cluster
from tests.e2e.loads import Load, LoadServer, Served, known_at, loads_of
from tests.e2e.processes import wait_until

WINDOW_SECONDS = 900.0
YOUNG_EVERY = 18  # of a large cluster one node of so many comes when the others are filled
RENEWAL_SECONDS = 5.0  # of what the stand-in for load-watcher knows
DEFAULT = "default-scheduler"
PLUGINS = {
    "target-load-packing": "TargetLoadPacking",
    "load-variation": "LoadVariationRiskBalancing",
    "low-risk": "LowRiskOverCommitment",
    "peaks": "Peaks",
}
_POLICY: dict[str, Any] = {
    "apiVersion": "rebalancer/v1alpha1",
    "kind": "RebalancePolicy",
    "metadata": {"name": "landings"},
    "hotNodes": {"forRuns": 1, "any": [{"utilization": {"cpu": 70}, "coolTo": {"cpu": 55}}]},
    "evictable": {"minAge": "1s", "protect": []},
    "limits": {"perNode": 20, "perNamespace": 100, "perWorkload": "100%"},
    "planning": {"minGain": 1},
    "execution": {"waveSize": 12, "firstWave": 12, "waveTimeout": "180s", "onUnexpectedLanding": "continue"},
    "safety": {"maxPendingPods": 100},
}


@dataclass(frozen=True)
class Seen:
    """One eviction: where the plan said its replacement may land, and the node the API server tells."""

    cluster: str
    pod: str
    left: str
    wave: int
    predicted: Mapping[str, float]
    node: str
    result: str
    because: str
    uncertain_before: int = (
        0  # moves before it in its wave with several landings: no scenario may hold them all
    )
    known: str = ""  # of a miss: the figures that the scheduler and rebalancer had then

    @property
    def as_predicted(self) -> bool:
        """Whether the landing is one of the plan's."""
        return self.node in self.predicted


@dataclass(frozen=True)
class Rebalanced:
    """What became of one cluster."""

    situation: Situation
    seen: list[Seen]
    skipped: list[str]
    finished: Finished = field(repr=False)


class SlowLoads:
    """Averages over 15 minutes: what nodes bore before the run, and little by little what was moved since."""

    def __init__(self, api: Api, before: Mapping[str, Load]) -> None:
        self._api = api
        self._loads = dict(before)
        self._lock = threading.Lock()
        self._nodes: list[dict[str, Any]] = []
        self._first: dict[str, Load] = {}
        self._last: dict[str, Load] = {}
        self._at = 0.0

    def begin(self, before: Mapping[str, Load]) -> None:
        """From now on what pods use counts where they are, beside these loads."""
        with self._lock:
            self._loads = dict(before)
            self._nodes = self._api.list("/api/v1/nodes")
            self._first = self._last = loads_of(self._api, self._nodes)
            self._at = time.monotonic()

    def __call__(self) -> Mapping[str, Load]:
        with self._lock:
            now = time.monotonic()
            if self._first and now - self._at >= RENEWAL_SECONDS:  # several clients ask at once
                current = loads_of(self._api, self._nodes)
                share = (now - self._at) / WINDOW_SECONDS
                for name, load in self._loads.items():
                    cpu = load.cpu + share * (self._last[name].cpu - self._first[name].cpu)
                    memory = load.memory + share * (self._last[name].memory - self._first[name].memory)
                    self._loads[name] = replace(load, cpu=cpu, memory=memory)
                self._last, self._at = current, now
            return dict(self._loads)


def configuration(address: str, nodes: list[str]) -> str:
    """A scheduler with a profile for each load-aware plugin beside the default one."""
    arguments: dict[str, dict[str, Any]] = {
        "Peaks": {
            "WatcherAddress": address,
            "NodePowerModel": {
                name: {"k0": 400.0, "k1": -90.0 - 7 * (number % 5), "k2": -0.02 - 0.004 * (number % 7)}
                for number, name in enumerate(nodes)
            },
        }
    }
    profiles: list[dict[str, Any]] = [{"schedulerName": DEFAULT}]
    for scheduler, plugin in PLUGINS.items():
        disabled = [{"name": "NodeResourcesBalancedAllocation"}] if plugin == "TargetLoadPacking" else []
        profiles.append(
            {
                "schedulerName": scheduler,
                "plugins": {"score": {"disabled": disabled, "enabled": [{"name": plugin, "weight": 3}]}},
                "pluginConfig": [
                    {"name": plugin, "args": arguments.get(plugin, {"watcherAddress": address})}
                ],
            }
        )
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": profiles,
    }
    return json.dumps(document)


def rebalance(situation: Situation, folder: Path, **planning: Any) -> Rebalanced:
    """Build the cluster, let the scheduler fill it, and run once."""
    (found,) = rebalance_often(situation, folder, 1, **planning)
    return found


def rebalance_often(situation: Situation, folder: Path, rounds: int, **planning: Any) -> Iterator[Rebalanced]:
    """Build the cluster, let the scheduler fill it, and run: in each round others of its nodes are hot."""
    cluster = random_cluster(situation)
    folder.mkdir(parents=True)
    hot = sorted(cluster.hot)
    with ControlPlane(folder, patient=situation.large) as control_plane:
        control_plane.start(scheduler=False)
        api = control_plane.api
        loads = SlowLoads(api, cluster.loads)
        with LoadServer(loads) as server:
            scheduler = configuration(server.address, sorted(cluster.loads))
            _fill(control_plane, cluster, scheduler, situation)
            (folder / "scheduler.json").write_text(scheduler)
            policy = {
                **_POLICY,
                "limits": {**_POLICY["limits"], "perRun": situation.most_moves},
                "planning": {**_POLICY["planning"], **planning},
                "scheduler": {
                    "version": assets.MINOR,
                    "file": str(folder / "scheduler.json"),
                },
                "load": {"sources": [{"loadWatcher": {"address": server.address}}], "minCoverage": "80%"},
            }
            for number in range(rounds):
                rested = set(hot) - set(hot[number::rounds])
                loads.begin(
                    {
                        name: replace(load, cpu=load.cpu - 60.0) if name in rested else load
                        for name, load in cluster.loads.items()
                    }
                )
                _await_measured(situation)
                path = folder / f"run-{number}"
                rebalancer = Rebalancer(path, control_plane.kubeconfig(), json.dumps(policy))
                finished = rebalancer.run("--lease=default/rebalancer", seconds=1800)
                yield _rebalanced(situation, finished, api, server.served)


def _await_measured(situation: Situation) -> None:
    """Wait until the scheduler's figures show all pods, and the loads of this round."""
    if situation.scheduler == "target-load-packing":
        last = time.monotonic()
        wait_until(
            lambda: time.monotonic() - last > metrics.MEASURED_AFTER_SECONDS,
            "figures of all pods",
            seconds=600,
            every=1,
        )


def _fill(control_plane: ControlPlane, cluster: RandomCluster, scheduler: str, situation: Situation) -> None:
    api = control_plane.api
    for manifest in priority_classes():
        api.create(manifest)
    cool = [item for item in cluster.nodes if item["metadata"]["name"] not in cluster.hot]
    for manifest in cluster.nodes:
        elsewhere = manifest["metadata"]["name"] not in cluster.hot
        if not (elsewhere and situation.large):
            api.create({**manifest, "spec": {**manifest["spec"], "unschedulable": elsewhere}})
    control_plane.start_scheduler(scheduler)
    if situation.large:
        show_scheduler(api, min(cluster.hot))
    for workload in cluster.on_hot:
        api.create(workload)
    _wait_for_pods(api, cluster.on_hot)
    young = cool[::YOUNG_EVERY] if situation.large else []
    for manifest in cool if situation.large else ():
        if manifest not in young:
            api.create(manifest)
    for manifest in () if situation.large else cluster.nodes:
        # All of them are changed, as kubelets change them every few minutes: the scheduler counts the nodes
        # that have an image when a node changes.
        change = {"metadata": {"labels": {"e2e/filled": "yes"}}, "spec": {"unschedulable": None}}
        api.patch(path_of(manifest), change)
    for workload in cluster.on_all:
        api.create(workload)
    _wait_for_pods(api, [*cluster.on_hot, *cluster.on_all])
    _delete_what_is_pending(api, [*cluster.on_hot, *cluster.on_all])
    _create_young(api, young)


def show_scheduler(api: Api, node: str) -> None:
    """The static pod of the scheduler that has just started, which tells when that was."""
    uid = api.get(f"/api/v1/nodes/{node}")["metadata"]["uid"]
    container = {
        "name": "kube-scheduler",
        "image": f"registry.k8s.io/kube-scheduler:v{assets.MINOR}.0",
        "command": ["kube-scheduler"],
    }
    api.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"kube-scheduler-{node}",
                "namespace": "kube-system",
                "labels": {"app": "kube-scheduler"},
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid, "controller": True}
                ],
            },
            "spec": {
                "nodeName": node,
                "hostNetwork": True,
                "containers": [container],
                "tolerations": [{"operator": "Exists"}],
                "automountServiceAccountToken": False,
            },
        }
    )


def _create_young(api: Api, nodes: list[dict[str, Any]]) -> None:
    """Create nodes when all others are filled: the scheduler looks at them last, whatever their names."""
    for manifest in nodes:
        api.create(manifest)

    def ready() -> bool:
        found = api.list("/api/v1/nodes")
        return all(is_ready(node) for node in found)

    wait_until(ready, "young nodes ready", every=0.5)


def _wait_for_pods(api: Api, workloads: list[dict[str, Any]]) -> None:
    wanted = sum(workload["spec"]["replicas"] for workload in workloads)

    def settled() -> bool:
        pods = api.list("/api/v1/namespaces/default/pods")
        return len(pods) == wanted and all(is_ready(pod) or _is_unschedulable(pod) for pod in pods)

    wait_until(settled, f"{wanted} pods ready or unschedulable", seconds=900, every=2)


def _is_unschedulable(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", ())
    return any(
        item["type"] == "PodScheduled" and item.get("reason") == "Unschedulable" for item in conditions
    )


def _delete_what_is_pending(api: Api, workloads: list[dict[str, Any]]) -> None:
    """What fits nowhere takes the room that an eviction makes: its workload goes."""
    pending = {pod["metadata"]["labels"]["app"] for pod in api.list("/api/v1/pods") if not is_ready(pod)}
    for workload in workloads:
        if workload["metadata"]["name"] in pending:
            api.delete(
                f"{collection_of(workload)}/{workload['metadata']['name']}", propagationPolicy="Background"
            )

    def gone() -> bool:
        return not any(pod["metadata"]["labels"]["app"] in pending for pod in api.list("/api/v1/pods"))

    wait_until(gone, "pods of deleted workloads gone", seconds=180, every=0.5)


def _rebalanced(situation: Situation, finished: Finished, api: Api, served: Sequence[Served]) -> Rebalanced:
    """What the run reports, the landings as the API server has them."""
    assert finished.stdout, f"{situation}: exit code {finished.exit_code}\n{finished.stderr}"
    node_of = {pod["metadata"]["uid"]: pod["spec"].get("nodeName", "") for pod in api.list("/api/v1/pods")}
    seen, skipped = [], []
    uncertain: Counter[int] = Counter()  # by wave
    for outcome in finished.document["outcomes"]:
        move = outcome["move"]
        if outcome["result"] in ("Skipped", "Refused", "Gone"):
            skipped.append(f"{move['pod']['name']}: {outcome['result']}: {outcome['because']}")
            continue
        predicted = {landing["node"]: landing["probability"] for landing in move["landings"]}
        node = node_of.get(outcome["replacementUid"], "")
        before = uncertain[move["wave"]]
        uncertain[move["wave"]] += len(predicted) > 1
        bound_at = outcome.get("boundAt") or time.time()
        seen.append(
            Seen(
                cluster=f"{situation.scheduler}-{situation.seed}",
                pod=move["pod"]["name"],
                left=move["from"],
                wave=move["wave"],
                predicted=predicted,
                node=node,
                result=outcome["result"],
                because=outcome["because"],
                uncertain_before=before,
                # A pod's time of binding is cut to whole seconds.
                known="" if node in predicted else known_at(served, bound_at + 1, [*predicted, node]),
            )
        )
    return Rebalanced(situation, seen, skipped, finished)
