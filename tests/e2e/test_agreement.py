"""A real scheduler's decisions are as computed; where it decides by another configuration, that is found."""

from __future__ import annotations

import json
import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.conftest import SUMMARY
from tests.e2e import assets
from tests.e2e.api import Api, ApiRefusedError, path_of
from tests.e2e.command import Rebalancer
from tests.e2e.controlplane import ControlPlane
from tests.e2e.landing_clusters import DEDICATED, DISK, DISKS, Situation, priority_classes, random_cluster

pytestmark = pytest.mark.safety  # what is agreed with is what is planned with

# For half an hour on more nodes: REBALANCER_AGREEMENT_DECISIONS=5000, _NODES=200.
DECISIONS = int(os.environ.get("REBALANCER_AGREEMENT_DECISIONS", "250"))
NODES = int(os.environ.get("REBALANCER_AGREEMENT_NODES", "24"))
LIMIT = "30m" if "REBALANCER_AGREEMENT_DECISIONS" in os.environ else "90s"
LEAST_SHARE = 0.995
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
Object = dict[str, Any]


def random_pod(chance: random.Random, number: int) -> Object:
    """A pod with features by chance: what it requests, prefers, tolerates and keeps away from."""
    labels = {"app": f"app-{chance.randrange(6)}"}
    selector = {"matchLabels": labels}
    spec: Object = {
        "terminationGracePeriodSeconds": 0,
        "containers": [
            {
                "name": "app",
                "image": f"registry.example/app-{chance.randrange(8)}:1",
                "resources": {
                    "requests": {
                        "cpu": f"{chance.choice((20, 50, 120, 300))}m",
                        "memory": f"{chance.choice((32, 128, 400))}Mi",
                    }
                },
            }
        ],
    }
    affinity: Object = {}
    if chance.random() < 0.3:
        affinity["nodeAffinity"] = {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": chance.randint(1, 100),
                    "preference": {
                        "matchExpressions": [
                            {"key": DISK, "operator": "In", "values": [chance.choice(DISKS)]}
                        ]
                    },
                }
            ]
        }
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
        spec["containers"][0]["ports"] = [{"containerPort": 8000, "hostPort": 8000 + chance.randrange(20)}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"pod-{number}", "namespace": "default", "labels": labels},
        "spec": spec,
    }


class Churn:
    """Creates and deletes pods, rolls workloads out and scales them, until it is stopped."""

    def __init__(self, api: Api, workloads: list[Object], seed: int) -> None:
        self._api = api
        self._chance = random.Random(seed)
        self._workloads = [item for item in workloads if item["kind"] == "Deployment"]
        self._pods: list[str] = []
        self._number = 0

    def change(self) -> None:
        """One change."""
        chance = self._chance
        if self._workloads and chance.random() < 0.05:
            workload = chance.choice(self._workloads)
            change: Object = {"spec": {"replicas": chance.randint(1, 6)}}
            if chance.random() < 0.5:
                annotations = {"e2e/rollout": str(self._number)}
                change = {"spec": {"template": {"metadata": {"annotations": annotations}}}}
            self._api.patch(path_of(workload), change)
        elif len(self._pods) > 4 * NODES and chance.random() < 0.9:
            name = self._pods.pop(chance.randrange(len(self._pods)))
            self._api.delete(f"/api/v1/namespaces/default/pods/{name}")
        else:
            self._number += 1
            pod = random_pod(chance, self._number)
            self._api.create(pod)
            self._pods.append(pod["metadata"]["name"])

    def until(self, stop: threading.Event) -> None:
        """Change something every few hundredths of a second, now and then much at once."""
        while not stop.wait(0.0 if self._chance.random() < 0.3 else self._chance.uniform(0.02, 0.25)):
            try:
                self.change()
            except ApiRefusedError:
                continue  # what it was about is gone by itself


@contextmanager
def churning(control_plane: ControlPlane, configuration: str | None, seed: int) -> Iterator[None]:
    """A random cluster and its scheduler, whose pods come and go within this block."""
    cluster = random_cluster(Situation(seed, NODES, "default-scheduler"))
    control_plane.start(scheduler=False)
    api = control_plane.api
    for manifest in (*priority_classes(), *cluster.nodes):
        api.create(manifest)
    control_plane.start_scheduler(configuration)
    for workload in cluster.on_all:
        api.create(workload)
    stop = threading.Event()
    thread = threading.Thread(target=Churn(api, cluster.on_all, seed).until, args=(stop,))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def agreement(control_plane: ControlPlane, told: Object | None = None) -> Object:
    """What the command finds; ``told`` are settings of the policy about the scheduler."""
    settings = {"version": assets.MINOR, "cores": os.cpu_count(), **(told or {})}
    policy = {
        "apiVersion": "rebalancer/v1alpha1",
        "kind": "RebalancePolicy",
        "metadata": {"name": "agreement"},
        "scheduler": settings,
    }
    rebalancer = Rebalancer(control_plane.folder / "run", control_plane.kubeconfig(), json.dumps(policy))
    process = rebalancer.start("agreement", f"--for={LIMIT}", f"--decisions={DECISIONS}")
    stdout, stderr = process.communicate()
    assert process.returncode == 0, stderr
    found: Object = json.loads(stdout)
    return found


def described(found: Object) -> str:
    misses = [
        f"{item['pod']} on {item['node']} and not {[node['node'] for node in item['nodes'][1:]]}"
        for item in found["misses"][-5:]
    ]
    return (
        f"{found['landed']} of {found['decisions']} decisions as computed, {found['inAnotherOrder']} of them "
        f"in another order; unpredictable {found['unpredictable']}; "
        f"{1000 * found['processorSeconds'] / max(found['decisions'], 1):.1f} ms of a processor each; "
        f"surprise {found['profiles'][0]['surprise']}, expected {found['profiles'][0]['expectedSurprise']}; "
        f"suspects {[item['sentence'] for item in found['suspects'][:2]]}; misses {misses}"
    )


def test_a_real_scheduler_decides_as_computed(
    control_plane: ControlPlane, record_property: Callable[[str, object], None]
) -> None:
    record_property("seed", 21)
    with churning(control_plane, None, 21):
        found = agreement(control_plane)
    record_property(SUMMARY, f"agreement: {described(found)}")
    (control_plane.folder / "agreement.json").write_text(json.dumps(found))
    assert found["decisions"] >= DECISIONS
    assert found["landed"] >= LEAST_SHARE * found["decisions"], described(found)
    assert found["inAnotherOrder"] <= 0.2 * found["decisions"]


@pytest.mark.parametrize(
    ("plugin", "weight"), [("PodTopologySpread", 0), ("NodeResourcesBalancedAllocation", 9)]
)
def test_a_scheduler_with_another_weight_is_found_and_the_plugin_named(
    control_plane: ControlPlane, record_property: Callable[[str, object], None], plugin: str, weight: int
) -> None:
    scores: Object = {"disabled": [{"name": plugin}]}
    if weight:
        scores["enabled"] = [{"name": plugin, "weight": weight}]
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler", "plugins": {"score": scores}}],
    }
    with churning(control_plane, json.dumps(configuration), 22):
        found = agreement(control_plane)
    record_property(SUMMARY, f"agreement: with {plugin} {weight}: {described(found)}")
    assert found["landed"] < LEAST_SHARE * found["decisions"]
    assert found["suspects"][0]["what"] == plugin, described(found)


def test_a_scheduler_of_another_minor_than_told_is_found_and_the_minor_named(
    control_plane: ControlPlane, record_property: Callable[[str, object], None]
) -> None:
    told = "1.36" if assets.MINOR != "1.36" else "1.34"  # NodeResourcesBalancedAllocation differs
    with churning(control_plane, None, 23):
        found = agreement(control_plane, {"version": told})
    record_property(SUMMARY, f"agreement: told {told}: {described(found)}")
    assert found["landed"] < LEAST_SHARE * found["decisions"]
    assert assets.MINOR in found["suspects"][0]["what"], described(found)
