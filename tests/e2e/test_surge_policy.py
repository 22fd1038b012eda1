"""The right to patch Deployments, narrowed by a real API server's admission: a restart, and nothing else."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from rebalancer.planning.workloads.rolling_updates import RESTARTED_AT
from tests.e2e import clusters
from tests.e2e.api import Api, ApiRefusedError, Object
from tests.e2e.controlplane import ControlPlane
from tests.e2e.processes import wait_until

pytestmark = pytest.mark.safety

SURGE = Path(__file__).parents[2] / "k8s" / "components" / "surge"
DEPLOYMENT = "/apis/apps/v1/namespaces/default/deployments/shop"
NOW = "2026-11-22T12:00:00Z"


def of_template(**metadata: Any) -> Object:
    return {"spec": {"template": {"metadata": metadata}}}


def of_pods(**spec: Any) -> Object:
    return {"spec": {"template": {"spec": spec}}}


CONTAINER = {"name": "shop", "image": "example.com/shop:1"}
REFUSED: dict[str, Object] = {
    "another image": of_pods(containers=[{**CONTAINER, "image": "example.com/evil"}]),
    "another container": of_pods(containers=[CONTAINER, {"name": "more", "image": "x"}]),
    "an init container": of_pods(initContainers=[{"name": "first", "image": "x"}]),
    "a variable": of_pods(containers=[{**CONTAINER, "env": [{"name": "A", "value": "b"}]}]),
    "another account": of_pods(serviceAccountName="admin"),
    "a volume": of_pods(volumes=[{"name": "v", "hostPath": {"path": "/"}}]),
    "another node": of_pods(nodeName="n1"),
    "the network of the node": of_pods(hostNetwork=True),
    "privileges": of_pods(securityContext={"runAsUser": 0}),
    "a toleration": of_pods(tolerations=[{"operator": "Exists"}]),
    "an annotation of the pods": of_template(annotations={"other": "x"}),
    "a changed annotation of the pods": of_template(annotations={"kept": "changed"}),
    "a removed annotation of the pods": of_template(annotations={"kept": None}),
    "one more beside the restart": of_template(annotations={RESTARTED_AT: NOW, "other": "x"}),
    "a label of the pods": of_template(labels={"other": "x"}),
    "a finalizer of the pods": of_template(finalizers=["example.com/x"]),
    "more replicas": {"spec": {"replicas": 3}},
    "no replicas": {"spec": {"replicas": 0}},
    "another strategy": {"spec": {"strategy": {"type": "Recreate", "rollingUpdate": None}}},
    "a longer rolling update": {"spec": {"minReadySeconds": 60}},
    "no history": {"spec": {"revisionHistoryLimit": 0}},
    "another patience": {"spec": {"progressDeadlineSeconds": 700}},
    "a pause": {"spec": {"paused": True}},
    "a label": {"metadata": {"labels": {"other": "x"}}},
    "an annotation": {"metadata": {"annotations": {"other": "x"}}},
    "a finalizer": {"metadata": {"finalizers": ["example.com/x"]}},
    "an owner": {
        "metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "b"}]}
    },
}


@pytest.fixture(scope="module")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """An API server with one Deployment, the component applied, and a second account with the same right."""
    with ControlPlane(tmp_path_factory.mktemp("surge-policy")) as started:
        started.start(scheduler=False, kwok=False)
        api = started.api
        for namespace in ("rebalancer", "others"):
            api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        accounts = [("rebalancer", "rebalancer"), ("others", "deployer"), ("others", "rebalancer")]
        for namespace, name in accounts:
            metadata = {"namespace": namespace, "name": name}
            api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
        manifest = clusters.deployment("shop", 1, cpu="100m", annotations={"kept": "as it was"})
        manifest["spec"]["template"]["spec"]["containers"] = [CONTAINER]
        api.create(manifest)
        for path in sorted(SURGE.glob("*.yaml")):
            document = yaml.safe_load(path.read_text())
            if document["kind"] == "ClusterRoleBinding":
                document["subjects"] = [
                    {"kind": "ServiceAccount", "namespace": namespace, "name": name}
                    for namespace, name in accounts
                ]
            if document["kind"] != "Component":
                api.create(document)
        ours = of(started, "rebalancer", "rebalancer")
        wait_until(lambda: restarts(ours), "the right to patch Deployments")
        wait_until(lambda: bool(refusal(ours, REFUSED["no history"])), "the policy is in force")
        yield started


def of(control_plane: ControlPlane, namespace: str, name: str) -> Api:
    return control_plane.as_user(control_plane.service_account_token(namespace, name))


def restarts(account: Api) -> bool:
    """Whether the account may restart the Deployment, as a run does."""
    return refusal(account, of_template(annotations={RESTARTED_AT: NOW})) == ""


def refusal(account: Api, change: Object) -> str:
    """Why the API server refuses a change, which it would not keep in any case; empty where it does not."""
    try:
        account.patch(f"{DEPLOYMENT}?dryRun=All", copy.deepcopy(change))
    except ApiRefusedError as error:
        return str(error)
    return ""


def test_our_account_may_restart_a_deployment_again_and_again(control_plane: ControlPlane) -> None:
    ours = of(control_plane, "rebalancer", "rebalancer")
    for moment in (NOW, "2026-11-22T13:00:00Z"):
        version = ours.get(DEPLOYMENT)["metadata"]["resourceVersion"]
        change = of_template(annotations={RESTARTED_AT: moment}) | {"metadata": {"resourceVersion": version}}
        made = ours.patch(f"{DEPLOYMENT}?fieldManager=rebalancer", change)
        assert made["spec"]["template"]["metadata"]["annotations"] == {
            "kept": "as it was",
            RESTARTED_AT: moment,
        }


@pytest.mark.parametrize("change", REFUSED.values(), ids=REFUSED.keys())
def test_our_account_may_change_nothing_else(control_plane: ControlPlane, change: Object) -> None:
    for namespace in ("rebalancer", "others"):
        said = refusal(of(control_plane, namespace, "rebalancer"), change)
        assert said.startswith("422"), said
        assert "ValidatingAdmissionPolicy 'rebalancer-surge'" in said
        assert "denied request: rebalancer may" in said or "denied request: of the annotations" in said


@pytest.mark.parametrize("change", REFUSED.values(), ids=REFUSED.keys())
def test_accounts_of_other_names_are_not_concerned(control_plane: ControlPlane, change: Object) -> None:
    assert "ValidatingAdmissionPolicy" not in refusal(of(control_plane, "others", "deployer"), change)
