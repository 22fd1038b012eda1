"""The real scheduler takes any of several free volumes of equal size; what passes then is among ours."""

from __future__ import annotations

from typing import Any

from tests.builders import a_node, a_pod
from tests.conformance.comparison import compare
from tests.conformance.decide import decide
from tests.conformance.oracle import build
from tests.conformance.oracle.process import Oracle
from tests.conftest import ORACLE_MINOR

CONFIGURATION = '{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}'
CLASS = "local"
TRIES = 60  # of two choices a scheduler that takes any makes both in so many


def _volume(name: str, *racks: str) -> dict[str, Any]:
    rack = {"matchExpressions": [{"key": "rack", "operator": "In", "values": list(racks)}]}
    return {
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "5Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": CLASS,
            "csi": {"driver": "csi.example.com", "volumeHandle": name},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [rack]}},
        },
        "status": {"phase": "Available"},
    }


def _claim(name: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": CLASS,
            "resources": {"requests": {"storage": "1Gi"}},
        },
        "status": {"phase": "Pending"},
    }


def _pod(name: str, **spec: Any) -> dict[str, Any]:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
    return a_pod(name, volumes=volumes, schedulerName="default-scheduler", **spec)


CASE = {
    "id": "free-volumes",
    "version": ORACLE_MINOR,
    "config": CONFIGURATION,
    "objects": {
        "nodes": [a_node(f"n-{rack}", labels={"rack": rack}) for rack in "abcd"],
        "pods": [],
        "persistentVolumes": [_volume("v-1", "a", "b"), _volume("v-2", "a", "c")],
        "persistentVolumeClaims": [_claim("first"), _claim("second")],
        "storageClasses": [
            {
                "metadata": {"name": CLASS},
                "provisioner": "kubernetes.io/no-provisioner",
                "volumeBindingMode": "WaitForFirstConsumer",
            }
        ],
    },
    "pending": [_pod("first", nodeSelector={"rack": "a"}), _pod("second")],
}


def test_what_the_scheduler_leaves_of_two_free_volumes_is_by_chance_and_among_what_is_computed() -> None:
    ours = decide(CASE)
    left: set[frozenset[str]] = set()
    with Oracle(build.program(ORACLE_MINOR)) as oracle:
        for answer in oracle.answers([CASE] * TRIES):
            nodes = answer["pods"][1]["nodes"]
            left.add(frozenset(name for name, said in nodes.items() if not said.get("filter")))
            assert compare(answer, ours).differences == ()
    assert left == {frozenset({"n-a", "n-b"}), frozenset({"n-a", "n-c"})}
