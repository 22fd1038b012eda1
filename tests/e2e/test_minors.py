"""What the API server and controllers of a minor do otherwise than earlier ones, and what we make of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from rebalancer.errors import ExitCode
from rebalancer.scheduling.versions.release import minor_of
from tests.e2e import assets, clusters
from tests.e2e.api import Api, ApiRefusedError, Object
from tests.e2e.command import Rebalancer
from tests.e2e.controlplane import ControlPlane, is_ready
from tests.e2e.loads import Load, LoadServer
from tests.e2e.processes import wait_until
from tests.waiting import HANG_SECONDS

pytestmark = pytest.mark.safety

IS_FROM_138 = (minor_of(assets.MINOR) or 0) >= 38
NODES = ("a", "b")
PODS = "/api/v1/namespaces/default/pods"
STATEFUL_SET = "/apis/apps/v1/namespaces/default/statefulsets/web"
REPLICAS = 3
GOING = {"e2e/terminates-after": "20s"}  # how long old pods take to go


@pytest.fixture
def api(control_plane: ControlPlane) -> Api:
    """A cluster of two nodes."""
    api = control_plane.start().api
    for name in NODES:
        api.create(clusters.node(name))
    return api


def test_an_eviction_is_answered_with_the_version_of_the_deleted_pod_from_138_on(api: Api) -> None:
    api.create(clusters.deployment("web", 1, annotations=GOING, grace_seconds=60))
    (pod,) = ready_pods(api, 1)
    name = pod["metadata"]["name"]
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": "default", "name": name},
        "deleteOptions": {"preconditions": {"uid": pod["metadata"]["uid"]}},
    }

    answer = api.request("POST", f"{PODS}/{name}/eviction", body)

    going = api.get(f"{PODS}/{name}")["metadata"]
    assert "deletionTimestamp" in going
    assert (answer["kind"], answer["status"]) == ("Status", "Success")
    version = going["resourceVersion"] if IS_FROM_138 else None
    assert answer["metadata"].get("resourceVersion") == version


def test_a_stateful_set_with_recreate_rolls_out_as_a_whole_and_its_pods_stay_meanwhile(
    api: Api, control_plane: ControlPlane, tmp_path: Path
) -> None:
    if not IS_FROM_138:
        with pytest.raises(ApiRefusedError, match="updateStrategy"):
            api.create(stateful_set())
        return
    api.create(stateful_set())
    before = {pod["metadata"]["uid"] for pod in ready_pods(api, REPLICAS)}
    with LoadServer(lambda: dict.fromkeys(NODES, Load(20.0, 20.0))) as watcher:
        rebalancer = Rebalancer(tmp_path / "run", control_plane.kubeconfig(), policy(watcher.address))
        assert reasons_to_stay(rebalancer) == set()

        slow = {"metadata": {"annotations": {"e2e/ready-after": "20s"}}}
        api.patch(STATEFUL_SET, {"spec": {"template": slow}})
        wait_until(lambda: all(map(is_going, api.list(PODS))), "all of its pods go at once")
        assert uids(api) == before
        wait_until(lambda: len(uids(api) - before) == REPLICAS, "all of its pods are new")
        rollout = api.get(STATEFUL_SET)["status"]
        assert rollout["currentRevision"] != rollout["updateRevision"]
        assert "Rollout" in reasons_to_stay(rebalancer)

        revisions = [
            pod["metadata"]["labels"]["controller-revision-hash"] for pod in ready_pods(api, REPLICAS)
        ]
        assert revisions == [rollout["updateRevision"]] * REPLICAS
        wait_until(
            lambda: api.get(STATEFUL_SET)["status"]["currentRevision"] == rollout["updateRevision"],
            "the rollout has ended",
        )
        assert reasons_to_stay(rebalancer) == set()


def stateful_set() -> Object:
    """A StatefulSet whose pods are recreated all at once, and go slowly."""
    manifest = clusters.deployment("web", REPLICAS, annotations=GOING, grace_seconds=60)
    spec = {
        **manifest["spec"],
        "serviceName": "web",
        "podManagementPolicy": "Parallel",
        "updateStrategy": {"type": "Recreate"},
    }
    return {**manifest, "kind": "StatefulSet", "spec": spec}


def policy(address: str) -> str:
    """A policy that protects no pod by itself."""
    return yaml.safe_dump(
        {
            "apiVersion": "rebalancer/v1alpha1",
            "kind": "RebalancePolicy",
            "metadata": {"name": "minors"},
            "load": {"sources": [{"loadWatcher": {"address": address}}]},
            "evictable": {"minAge": "0s", "protect": []},
        }
    )


def reasons_to_stay(rebalancer: Rebalancer) -> set[str]:
    """What keeps a pod of the StatefulSet from being evicted."""
    process = rebalancer.start("explain", "pod/default/web-0")
    stdout, stderr = process.communicate(timeout=HANG_SECONDS)
    assert process.returncode == ExitCode.DONE, stderr
    return {refusal["reason"] for refusal in json.loads(stdout)["refusals"]}


def ready_pods(api: Api, count: int) -> list[Object]:
    """The pods, once there are so many and all are ready."""

    def ready() -> bool:
        pods = api.list(PODS)
        return len(pods) == count and all(map(is_ready, pods))

    wait_until(ready, f"{count} pods ready")
    return api.list(PODS)


def uids(api: Api) -> set[str]:
    """The uids of all pods."""
    return {pod["metadata"]["uid"] for pod in api.list(PODS)}


def is_going(pod: Object) -> bool:
    """Whether a pod is being deleted."""
    return "deletionTimestamp" in pod["metadata"]
