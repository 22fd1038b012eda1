"""evictable.singleReplica: surge on the real control plane: the pod moves, and one serves at every moment.

On the hot node run the pods of three Deployments of one replica. The rolling update of the first moves its
pod; the second ends its pod first (Recreate), and the third is scaled by an autoscaler: both are left alone.
The witness is the API server's own history of the pods: a watch that begins before the run.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from rebalancer.errors import ExitCode
from tests.conftest import SUMMARY
from tests.e2e import assets, clusters
from tests.e2e.api import Api, Object
from tests.e2e.command import Finished, Rebalancer
from tests.e2e.controlplane import ControlPlane, is_ready
from tests.e2e.loads import CPU_MILLI, MEMORY_MIB, Load, LoadServer, loads_of
from tests.e2e.processes import wait_until

pytestmark = pytest.mark.safety

ROOT = Path(__file__).parents[2]
PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
HOT, COOL = "hot", ("cool-0", "cool-1")
HOT_ABOVE, COOL_TO = 80.0, 65.0
POLICY: dict[str, Any] = {
    "apiVersion": "rebalancer/v1alpha1",
    "kind": "RebalancePolicy",
    "metadata": {"name": "surge"},
    "scheduler": {"version": assets.MINOR},
    "hotNodes": {
        "forRuns": 1,
        "any": [{"utilization": {"cpu": HOT_ABOVE}, "coolTo": {"cpu": COOL_TO}}],
    },
    "evictable": {"minAge": "0s", "singleReplica": "surge"},
    "limits": {"perRun": 20, "perNode": 10, "perNamespace": 20, "perWorkload": "100%"},
    "execution": {"waveSize": 4, "firstWave": 4, "waveTimeout": "60s"},
    "safety": {"maxPendingPods": 20},
}


def single(name: str, cores: float, **strategy: Any) -> Object:
    """A Deployment of one pod, which takes a while to be ready and to end."""
    annotations = {
        CPU_MILLI: str(round(cores * 1000)),
        MEMORY_MIB: "64",
        "e2e/ready-after": "1s",
        "e2e/terminates-after": "1s",
    }
    manifest = clusters.deployment(name, 1, cpu=f"{round(cores * 500)}m", annotations=annotations)
    if strategy:
        manifest["spec"]["strategy"] = strategy
    return manifest


AUTOSCALER: Object = {
    "apiVersion": "autoscaling/v2",
    "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": "scaled", "namespace": "default"},
    "spec": {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "scaled"},
        "maxReplicas": 3,
    },
}
WORKLOADS = (single("shop", 2.0), single("legacy", 2.5, type="Recreate"), single("scaled", 2.5))


@dataclass(frozen=True)
class Surged:
    """One plan, one dry run, one run without the right and one with it, and what they did."""

    plan: Object
    dry_run: Finished
    refused: Finished
    untouched: bool  # after the dry run and the run without the right
    finished: Finished
    serving: list[int]  # ready pods of the Deployment that moved, after every change
    before: dict[str, Object]
    after: dict[str, Object]
    load: tuple[dict[str, Load], dict[str, Load]]
    deployment: Object


@pytest.fixture(scope="module")
def surged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Surged]:
    """The cluster, filled, and everything that is done to it."""
    folder = tmp_path_factory.mktemp("surge")
    with ControlPlane(folder) as control_plane:
        control_plane.start()
        _fill(control_plane)
        yield _do_everything(control_plane, folder / "run")


def _fill(control_plane: ControlPlane) -> None:
    api = control_plane.api
    api.create(clusters.node(HOT, cpu="8"))
    for manifest in (*WORKLOADS, AUTOSCALER):
        api.create(manifest)
    wait_until(lambda: len(api.list(PODS)) == len(WORKLOADS), "a pod of every Deployment")
    control_plane.wait_for_pods(PODS)
    for name in COOL:
        api.create(clusters.node(name, cpu="8"))
    wait_until(lambda: all(map(_is_settled, api.list(DEPLOYMENTS))), "every Deployment available")


def _is_settled(deployment: Object) -> bool:
    status = deployment.get("status", {})
    generation = deployment["metadata"]["generation"]
    settled = status.get("availableReplicas") == 1 and status.get("observedGeneration") == generation
    return bool(settled)


def _by_name(api: Api) -> dict[str, Object]:
    return {pod["metadata"]["labels"]["app"]: pod for pod in api.list(PODS)}


def _account(control_plane: ControlPlane) -> tuple[str, Object]:
    """The token of an account with the rights of the overlay that acts, and the role for surge."""
    api = control_plane.api
    role = yaml.safe_load((ROOT / "k8s/components/surge/clusterrole.yaml").read_text())
    api.create(clusters.namespace("rebalancer"))
    account = {"apiVersion": "v1", "kind": "ServiceAccount"}
    api.create({**account, "metadata": {"name": "rebalancer", "namespace": "rebalancer"}})
    rendered = control_plane.kubectl("kustomize", str(ROOT / "k8s/overlays/active")).stdout
    for item in yaml.safe_load_all(rendered):
        if item["kind"].startswith(("ClusterRole", "Role")):
            api.create(item)
    return control_plane.service_account_token("rebalancer", "rebalancer"), role


def _do_everything(control_plane: ControlPlane, folder: Path) -> Surged:
    api = control_plane.api
    token, role = _account(control_plane)
    before, load_before = _by_name(api), loads_of(api)
    deployment = api.get(f"{DEPLOYMENTS}/shop")
    with LoadServer(lambda: load_before) as server:
        policy = {**POLICY, "load": {"sources": [{"loadWatcher": {"address": server.address}}]}}
        text = json.dumps(policy)
        rebalancer = Rebalancer(folder, control_plane.kubeconfig(), text)
        plan = rebalancer.plan()
        assert plan.exit_code == ExitCode.DONE, plan.stderr
        dry_run = rebalancer.run("--dry-run")
        lease = "--lease=rebalancer/rebalancer"
        limited = Rebalancer(folder / "limited", control_plane.kubeconfig(token), text)
        refused = limited.run(lease)
        now = api.get(f"{DEPLOYMENTS}/shop")
        untouched = now["metadata"]["generation"] == deployment["metadata"]["generation"]

        api.create(role)
        binding = copy.deepcopy(role) | {"kind": "ClusterRoleBinding"}
        del binding["rules"]
        subject = {"kind": "ServiceAccount", "name": "rebalancer", "namespace": "rebalancer"}
        reference = {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "rebalancer-surge",
        }
        api.create({**binding, "roleRef": reference, "subjects": [subject]})
        wait_until(lambda: _may_patch(control_plane.as_user(token)), "the right to patch deployments")
        version = api.get(PODS)["metadata"]["resourceVersion"]
        finished = Rebalancer(folder / "granted", control_plane.kubeconfig(token), text).run(lease)
    # The last change, which says that all before it was seen.
    last = api.patch(f"{PODS}/{before['legacy']['metadata']['name']}", {"metadata": {"labels": {"last": ""}}})
    serving = _serving(api, version, last["metadata"]["resourceVersion"], pod=before["shop"])
    return Surged(
        plan.document,
        dry_run,
        refused,
        untouched,
        finished,
        serving,
        before,
        _by_name(api),
        (load_before, loads_of(api)),
        api.get(f"{DEPLOYMENTS}/shop"),
    )


def _may_patch(account: Api) -> bool:
    attributes = {"group": "apps", "resource": "deployments", "verb": "patch", "namespace": "default"}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    allowed: bool = account.request("POST", path, review)["status"]["allowed"]
    return allowed


def _serving(api: Api, version: str, last: str, *, pod: Object) -> list[int]:
    """How many pods of an app were ready and not ending, after every change between two versions."""
    app = pod["metadata"]["labels"]["app"]
    serving = {pod["metadata"]["uid"]} if is_ready(pod) else set()
    counts = [len(serving)]
    for event in api.watch(PODS, resource_version=version):
        changed = event["object"]
        if changed["metadata"]["resourceVersion"] == last:
            return counts
        if changed["metadata"]["labels"]["app"] != app:
            continue
        uid, ending = changed["metadata"]["uid"], "deletionTimestamp" in changed["metadata"]
        if event["type"] != "DELETED" and is_ready(changed) and not ending:
            serving.add(uid)
        else:
            serving.discard(uid)
        counts.append(len(serving))
    pytest.fail(f"the watch ended before the last change, after {counts}")


def test_the_plan_says_that_the_pod_is_restarted_and_why_the_others_stay(surged: Surged) -> None:
    (move,) = surged.plan["moves"]
    assert (move["action"], move["pod"]["workload"], move["from"]) == ("Restart", "Deployment/shop", HOT)
    assert {landing["node"] for landing in move["landings"]} <= set(COOL)
    assert "restarted by a rolling update, not evicted" in move["because"]
    kept = {item["pod"]["workload"]: item for item in surged.plan["kept"]}
    assert {item["setting"] for item in kept.values()} == {"evictable.singleReplica"}
    assert "its strategy is Recreate" in kept["Deployment/legacy"]["because"]
    assert "HorizontalPodAutoscaler scaled scales it" in kept["Deployment/scaled"]["because"]


def test_a_dry_run_and_a_run_without_the_right_leave_the_deployment_alone(surged: Surged) -> None:
    (outcome,) = surged.dry_run.document["outcomes"]
    assert outcome["result"] == "WouldRestart"
    assert "would let Deployment/shop be restarted" in outcome["because"]
    assert surged.refused.exit_code == ExitCode.RIGHTS_MISSING
    assert 'cannot get resource "deployments"' in surged.refused.document["stopped"]
    assert "k8s/components/surge" in surged.refused.document["stopped"]
    assert surged.untouched


def test_the_pod_moves_to_where_the_plan_said_and_its_node_is_relieved(
    surged: Surged, record_property: Any
) -> None:
    assert surged.finished.exit_code == ExitCode.DONE, surged.finished.stderr
    (outcome,) = surged.finished.document["outcomes"]
    assert outcome["result"] == "Restarted"
    assert surged.after["shop"]["spec"]["nodeName"] == outcome["node"]
    assert outcome["node"] in COOL
    before, after = surged.load
    assert before[HOT].cpu > HOT_ABOVE
    assert after[HOT].cpu <= COOL_TO
    record_property(
        SUMMARY,
        f"surge: {HOT} {before[HOT].cpu:.0f} to {after[HOT].cpu:.0f} % cpu, "
        f"{min(surged.serving)} to {max(surged.serving)} pods serving",
    )


def test_one_pod_serves_at_every_moment(surged: Surged) -> None:
    assert min(surged.serving) == 1, surged.serving
    assert max(surged.serving) == 2, surged.serving
    assert surged.serving[-1] == 1


def test_nothing_else_changes(surged: Surged) -> None:
    for app in ("legacy", "scaled"):
        assert surged.after[app]["metadata"]["uid"] == surged.before[app]["metadata"]["uid"]
    template = surged.deployment["spec"]["template"]["metadata"]["annotations"]
    written = [line["event"] for line in surged.finished.journal if line.get("pod")]
    assert "kubectl.kubernetes.io/restartedAt" in template
    assert written == ["restarting", "restarted", "outcome"]
