"""On a cluster of which little may move, what may is moved, and nodes that others remove are left to them.

Databases, which the policy protects, hold the memory of the first two nodes. A StatefulSet with claims shares
the third with another one. The pods of the fourth would all land on a node that Karpenter is about to remove,
and the fifth is drained by the cluster autoscaler. Five nodes have room. The real scheduler fills them all,
and one run is made.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rebalancer.errors import ExitCode
from tests.conftest import SUMMARY
from tests.e2e import assets, clusters
from tests.e2e.api import Api, Object
from tests.e2e.command import Finished, Rebalancer
from tests.e2e.controlplane import ControlPlane
from tests.e2e.landing_clusters import ZONE
from tests.e2e.loads import CPU_MILLI, MEMORY_MIB, Load, LoadServer, loads_of
from tests.e2e.processes import wait_until

PODS = "/api/v1/namespaces/default/pods"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
WITH_DATABASES, WITH_CLAIMS = ("held-0", "held-1"), "claims"
TOLERANT, LEAVING, EMPTIED = "tolerant", "leaving", "emptied"
COOL = {"cool-a0": "a", "cool-a1": "a", "cool-a2": "a", "cool-b0": "b", "cool-b1": "b"}
ALL = (*WITH_DATABASES, WITH_CLAIMS, TOLERANT, LEAVING, EMPTIED, *COOL)
BY_AUTOSCALER: Object = {"key": "ToBeDeletedByClusterAutoscaler", "value": "1", "effect": "NoSchedule"}
BY_KARPENTER: Object = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
TOLERATED: Object = {"key": BY_KARPENTER["key"], "operator": "Exists"}
# Where the scheduler would place the tolerant pods, and why nothing may land there: on the empty node, or
# from 1.36 on, whose scores ask how a pod changes a node's balance, on one that uses more memory than cpu.
REFUSED = f"{EMPTIED} is about to be removed"
if int(assets.MINOR.split(".")[1]) >= 36:
    REFUSED = "cool-b1 would be at 108.8 % cpu"
HOT_ABOVE, COOL_TO = 85.0, 75.0
MEASURED_AFTER_SECONDS = 8.0  # more than the window of the figures
POLICY: dict[str, Any] = {
    "apiVersion": "rebalancer/v1alpha1",
    "kind": "RebalancePolicy",
    "metadata": {"name": "protected"},
    "scheduler": {"version": assets.MINOR},
    "hotNodes": {
        "forRuns": 1,
        "any": [
            {
                "utilization": {"cpu": HOT_ABOVE, "memory": 80},
                "coolTo": {"cpu": COOL_TO, "memory": 70},
            }
        ],
    },
    "evictable": {"minAge": "0s", "protect": ["LocalStorage", "SingleReplica"]},
    "limits": {"perRun": 20, "perNode": 10, "perNamespace": 20, "perWorkload": "100%"},
    "execution": {"waveSize": 4, "firstWave": 4, "waveTimeout": "60s"},
    "safety": {"maxPendingPods": 20},
}


def workload(name: str, replicas: int, uses: float, *, memory: int = 64, **pod: Any) -> Object:
    """A Deployment whose pods use so many cores and MiB, and request half of these cores."""
    return clusters.deployment(
        name,
        replicas,
        cpu=f"{round(uses * 500)}m",
        memory=f"{memory}Mi",
        annotations={CPU_MILLI: str(round(uses * 1000)), MEMORY_MIB: str(memory)},
        pod=pod,
    )


def with_claims(manifest: Object) -> Object:
    """The Deployment as a StatefulSet, each pod with a claim of its own."""
    name = manifest["metadata"]["name"]
    container = manifest["spec"]["template"]["spec"]["containers"][0]
    container["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    more = {"serviceName": name, "podManagementPolicy": "Parallel", "volumeClaimTemplates": [claim]}
    return {**manifest, "kind": "StatefulSet", "spec": {**manifest["spec"], **more}}


def volume(name: str, zone: str) -> Object:
    """A volume that only nodes of a zone can mount."""
    where = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "nfs": {"server": "nfs.example", "path": f"/{name}"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [where]}},
        },
    }


# Instead of the scheduler's own constraints, which spread pods over zones as well.
OVER_NODES: Object = {
    "maxSkew": 1,
    "topologyKey": "kubernetes.io/hostname",
    "whenUnsatisfiable": "ScheduleAnyway",
    "labelSelector": {"matchLabels": {"app": "web"}},
}
# What is made while only these nodes take pods, one after the other.
FILLED: tuple[tuple[Sequence[str], Sequence[Object]], ...] = (
    (WITH_DATABASES, [workload(f"db-{number}", 1, 0.5, memory=13 * 1024) for number in range(2)]),
    (WITH_DATABASES, [workload("web", 12, 1.2, topologySpreadConstraints=[OVER_NODES])]),
    ((WITH_CLAIMS,), [workload("db-2", 1, 3.9), with_claims(workload("store", 2, 1.5))]),
    ((TOLERANT,), [workload("tolerant", 2, 3.5, tolerations=[TOLERATED])]),
    ((LEAVING,), [workload("doomed", 6, 1.2)]),
    (tuple(COOL), [workload("calm", 10, 2.0)]),
)


@dataclass(frozen=True)
class Rebalanced:
    """What one run did to the cluster."""

    plan: dict[str, Any]
    finished: Finished
    pods_before: dict[str, Object]  # by uid
    pods_after: dict[str, Object]
    claims: tuple[dict[str, str], dict[str, str]]  # uid of each claim, before and after
    load_before: dict[str, Load]
    load_after: dict[str, Load]

    def evicted_from(self, *nodes: str) -> list[str]:
        """The apps of the pods that are gone from some nodes."""
        gone = self.pods_before.keys() - self.pods_after.keys()
        pods = [self.pods_before[uid] for uid in gone]
        return sorted(pod["metadata"]["labels"]["app"] for pod in pods if pod["spec"]["nodeName"] in nodes)

    def made_on(self) -> dict[str, str]:
        """The node of every pod that is new, by name."""
        new = self.pods_after.keys() - self.pods_before.keys()
        return {
            self.pods_after[uid]["metadata"]["name"]: self.pods_after[uid]["spec"]["nodeName"] for uid in new
        }

    def kept(self, app: str) -> set[tuple[str, str]]:
        """Why the pods of an app stay."""
        return {
            (item["reason"], item["because"])
            for item in self.plan["kept"]
            if item["pod"]["name"].startswith(f"{app}-")
        }


@pytest.fixture(scope="module")
def rebalanced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rebalanced]:
    """The cluster, filled and rebalanced once."""
    folder = tmp_path_factory.mktemp("protected")
    with ControlPlane(folder) as control_plane:
        control_plane.start(controllers=False)
        control_plane.start_controllers("--controllers=persistentvolume-binder-controller")
        fill(control_plane)
        yield run_once(control_plane, folder / "run")


def fill(control_plane: ControlPlane) -> None:
    """Make the nodes and let the scheduler fill them, group by group; then let two of them leave."""
    api = control_plane.api
    for name in ALL:
        labels = {ZONE: COOL.get(name, "a")}
        api.create(clusters.node(name, cpu="8", memory="16Gi", labels=labels))
    for number in range(2):
        api.create(volume(f"volume-{number}", "a"))
    for names, workloads in FILLED:
        only_schedulable(api, names)
        for manifest in workloads:
            api.create(manifest)
        wanted = sum(manifest["spec"]["replicas"] for manifest in workloads)
        made = {manifest["metadata"]["name"] for manifest in workloads}
        wait_until(lambda: len(of(api, made)) == wanted, f"pods of {made} made")  # noqa: B023
        control_plane.wait_for_pods(PODS)
    only_schedulable(api, ALL)
    for name, taint in ((LEAVING, BY_AUTOSCALER), (EMPTIED, BY_KARPENTER)):
        api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": [taint]}})
    filled = time.monotonic()
    wait_until(lambda: time.monotonic() - filled > MEASURED_AFTER_SECONDS, "figures that show every pod")


def of(api: Api, apps: set[str]) -> list[Object]:
    """The pods of some apps."""
    return [pod for pod in api.list(PODS) if pod["metadata"]["labels"]["app"] in apps]


def only_schedulable(api: Api, names: Sequence[str]) -> None:
    """Let these nodes alone take pods."""
    for name in ALL:
        change = {"spec": {"unschedulable": None if name in names else True}}
        api.patch(f"/api/v1/nodes/{name}", change)


def run_once(control_plane: ControlPlane, folder: Path) -> Rebalanced:
    """Plan, run, and look at the cluster before and after."""
    api = control_plane.api

    def pods() -> dict[str, Object]:
        return {pod["metadata"]["uid"]: pod for pod in api.list(PODS)}

    def claims() -> dict[str, str]:
        return {item["metadata"]["name"]: item["metadata"]["uid"] for item in api.list(CLAIMS)}

    # Figures of a moment are taken for averages over a few seconds, so they stay what they were before the
    # run: a figure that knew of a move at once would be corrected for it once more.
    before, claims_before, load_before = pods(), claims(), loads_of(api)
    with LoadServer(lambda: load_before) as server:
        policy = {**POLICY, "load": {"sources": [{"loadWatcher": {"address": server.address}}]}}
        rebalancer = Rebalancer(folder, control_plane.kubeconfig(), json.dumps(policy))
        plan = rebalancer.plan()
        assert plan.exit_code == ExitCode.DONE, plan.stderr
        finished = rebalancer.run("--lease=default/rebalancer")
        assert finished.exit_code == ExitCode.DONE, finished.stdout + finished.stderr
        control_plane.wait_for_pods(PODS)
        both = (claims_before, claims())
        return Rebalanced(plan.document, finished, before, pods(), both, load_before, loads_of(api))


def test_nodes_whose_memory_a_protected_database_holds_are_relieved_of_cpu(
    rebalanced: Rebalanced, record_property: Any
) -> None:
    before, after = rebalanced.load_before, rebalanced.load_after
    stays = {name: load for name, load in before.items() if name != EMPTIED}
    mean = sum(load.cpu for load in stays.values()) / len(stays)
    record_property(
        SUMMARY,
        f"protected: mean {mean:.0f} % cpu; "
        + ", ".join(f"{name} {before[name].cpu:.0f} to {after[name].cpu:.0f} %" for name in WITH_DATABASES),
    )
    assert mean == pytest.approx(70.0, abs=3.0)
    assert set(rebalanced.evicted_from(*WITH_DATABASES)) == {"web"}
    for name in WITH_DATABASES:
        assert before[name].cpu > HOT_ABOVE
        assert before[name].memory > 80.0
        assert after[name].cpu <= COOL_TO
    newly_hot = [name for name in COOL if after[name].cpu > HOT_ABOVE]
    assert not newly_hot
    assert {reason for reason, _ in rebalanced.kept("db")} == {"SingleReplica"}


def test_what_holds_the_nodes_is_named_by_its_setting(rebalanced: Rebalanced) -> None:
    held = {item["setting"]: item for item in rebalanced.plan["obstacles"]}
    assert held["evictable.protect: SingleReplica"]["pods"] >= 2
    assert held["evictable.protect: SingleReplica"]["example"].startswith("default/db-")


def test_pods_of_a_stateful_set_move_with_their_claims_within_the_zone_of_their_volumes(
    rebalanced: Rebalanced,
) -> None:
    moved = {name: node for name, node in rebalanced.made_on().items() if name.startswith("store-")}
    assert moved
    assert {COOL[node] for node in moved.values()} == {"a"}
    before, after = rebalanced.claims
    assert before == after
    assert set(before) == {"data-store-0", "data-store-1"}
    assert rebalanced.load_after[WITH_CLAIMS].cpu <= COOL_TO


def test_a_node_that_an_autoscaler_drains_is_left_to_it(rebalanced: Rebalanced) -> None:
    assert rebalanced.load_before[LEAVING].cpu > HOT_ABOVE
    assert rebalanced.evicted_from(LEAVING) == []
    assert {reason for reason, _ in rebalanced.kept("doomed")} == {"NodeLeaving"}


def test_nothing_is_sent_to_a_node_that_is_about_to_be_removed(rebalanced: Rebalanced) -> None:
    """Its taint is tolerated, and it is empty."""
    assert rebalanced.load_before[TOLERANT].cpu > HOT_ABOVE
    assert rebalanced.evicted_from(TOLERANT) == []
    ((reason, because),) = rebalanced.kept("tolerant")
    assert reason == "NoBetterLanding"
    assert REFUSED in because
    assert EMPTIED not in rebalanced.made_on().values()


def test_every_move_was_carried_out_as_planned(rebalanced: Rebalanced) -> None:
    results = [outcome["result"] for outcome in rebalanced.finished.document["outcomes"]]
    assert results
    assert set(results) == {"Landed"}
    assert len(rebalanced.made_on()) == len(results)
