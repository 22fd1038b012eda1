"""The cluster and policy of ``rebalancer demo`` on a real control plane: the same two nodes are cooled."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

import yaml

from rebalancer.cluster.quantities import cpu_milli
from rebalancer_demo import hot_cluster
from tests.conftest import SUMMARY
from tests.e2e import assets, clusters, metrics
from tests.e2e.api import Api, Object
from tests.e2e.article_stacks import planned_nodes
from tests.e2e.command import Rebalancer
from tests.e2e.controlplane import ControlPlane
from tests.e2e.loads import CPU_MILLI, LoadServer, loads_of
from tests.e2e.processes import wait_until

HOT = {"node-1", "node-2"}
JOINED_LATE = {"node-5", "node-6"}
_OF_THE_SERVER = ("uid", "creationTimestamp")


def test_the_demo_s_policy_cools_its_hot_nodes_and_pods_land_where_planned(
    control_plane: ControlPlane, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    flags = metrics.front_proxy_flags(tmp_path)
    api = control_plane.start(controllers=False, scheduler=False, api_server_flags=flags).api
    with (
        LoadServer(lambda: loads_of(api)) as watcher,
        metrics.exact_metrics(control_plane),
    ):
        configuration = hot_cluster.CONFIGURATION.replace(hot_cluster.WATCHER_ADDRESS, watcher.address)
        create_cluster(api, configuration)
        control_plane.start_controllers()
        control_plane.start_scheduler(configuration)
        control_plane.wait_for_pods("/api/v1/namespaces/shop/pods")
        control_plane.wait_for_pods("/api/v1/namespaces/kube-system/pods")
        measured_at = time.monotonic() + metrics.MEASURED_AFTER_SECONDS
        wait_until(lambda: time.monotonic() > measured_at, "all pods measured", seconds=180.0, every=1.0)
        rebalancer = Rebalancer(tmp_path / "runs", control_plane.kubeconfig(), policy(watcher.address))

        planned = rebalancer.plan().document
        ran = rebalancer.run("--lease=default/rebalancer")
        after = rebalancer.plan().document

    assert {node["name"] for node in planned["nodes"] if node["hot"]} == HOT
    assert ran.exit_code == 0, ran.stderr
    outcomes = ran.document["outcomes"]
    assert {outcome["result"] for outcome in outcomes} == {"Landed"}, ran.stderr
    assert {outcome["move"]["from"] for outcome in outcomes} == HOT
    assert all(outcome["node"] in planned_nodes(outcome) for outcome in outcomes)
    assert {outcome["node"] for outcome in outcomes} & JOINED_LATE
    assert not [node["name"] for node in after["nodes"] if node["hot"]]
    record_property(
        SUMMARY,
        f"demo's policy on Kubernetes {assets.kubernetes_version()}: {len(outcomes)} pods moved, all landed "
        "where planned, and no node is hot any more",
    )


def policy(address: str) -> str:
    """The demo's policy; its pods are not yet as old as it wants them."""
    document: Object = yaml.safe_load(hot_cluster.POLICY.replace(hot_cluster.WATCHER_ADDRESS, address))
    document["evictable"]["minAge"] = "0s"
    return yaml.safe_dump(document)


def create_cluster(api: Api, configuration: str) -> None:
    """Create the demo's objects while no controllers run, and its DaemonSet with a template."""
    uids: dict[str, str] = {}
    agents: list[Object] = []
    for manifest in hot_cluster.hot_cluster(time.time()):
        kind, metadata = manifest["kind"], manifest["metadata"]
        if kind == "Namespace":
            _create_namespace(api, metadata["name"])
        elif metadata.get("namespace") == "kube-system":
            agents.append(manifest)
        else:
            prepared = as_created(manifest, uids)
            if kind == "ConfigMap":
                prepared["data"] = {"scheduler-config.yaml": configuration}
            uids[metadata["uid"]] = api.create(prepared)["metadata"]["uid"]
    daemon_set, pod, *_ = agents
    api.create(_with_template(daemon_set, pod))


def as_created(manifest: Object, uids: Mapping[str, str]) -> Object:
    """An object of the demo without what the API server decides; ``uids`` are those that it gave others."""
    metadata = {key: value for key, value in manifest["metadata"].items() if key not in _OF_THE_SERVER}
    if "ownerReferences" in metadata:
        metadata["ownerReferences"] = [
            {**owner, "uid": uids[owner["uid"]]} for owner in metadata["ownerReferences"]
        ]
    if manifest["kind"] == "Pod":
        metadata["annotations"] = _use(manifest)
    prepared = {**manifest, "metadata": metadata}
    if "template" in manifest.get("spec", {}):
        template = manifest["spec"]["template"]
        measured = {**template["metadata"], "annotations": _use(template)}
        prepared["spec"] = {**manifest["spec"], "template": {**template, "metadata": measured}}
        metadata["labels"] = template["metadata"]["labels"]  # by which a Deployment knows its ReplicaSet
    return prepared


def _use(pod: Object) -> dict[str, str]:
    """What a pod of the demo uses, as the figures here are computed from."""
    return {CPU_MILLI: str(cpu_milli(pod["metadata"]["annotations"]["sandbox.rebalancer/cpu"]))}


def _create_namespace(api: Api, name: str) -> None:
    """Create a namespace with what pods need before its controllers run."""
    if name != "kube-system":  # which the API server makes
        api.create(clusters.namespace(name))
    account = {"namespace": name, "name": "default"}
    api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})


def _with_template(daemon_set: Object, pod: Object) -> Object:
    """The DaemonSet with a template such as this pod of it, which the demo's needs not have."""
    spec = {
        "containers": pod["spec"]["containers"],
        "tolerations": pod["spec"]["tolerations"],
        "priorityClassName": "system-node-critical",  # whose value the pod has
    }
    metadata = {"labels": pod["metadata"]["labels"], "annotations": _use(pod)}
    return {
        **as_created(daemon_set, {}),
        "spec": {**daemon_set["spec"], "template": {"metadata": metadata, "spec": spec}},
    }
