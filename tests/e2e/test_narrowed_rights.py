"""Rights to patch, narrowed by a real API server's admission: a restart or our taints, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from time import time
from typing import Any

import pytest
import yaml

from rebalancer.cluster.live import open_api
from rebalancer.cluster.records import Taint
from rebalancer.execution.own_taints import OwnTaints
from rebalancer.planning.taints import EMPTIED, TAINT_KEY
from rebalancer.planning.taints import HOT as HOT_TAINT
from rebalancer.planning.workloads.rolling_updates import RESTARTED_AT
from rebalancer.scheduling.state.cluster_state import SOFT_TAINT as SOFT
from tests.e2e import clusters
from tests.e2e.api import Api, ApiRefusedError, Object
from tests.e2e.controlplane import ControlPlane
from tests.e2e.processes import wait_until

pytestmark = pytest.mark.safety

COMPONENTS = Path(__file__).parents[2] / "k8s" / "components"
DEPLOYMENT = "/apis/apps/v1/namespaces/default/deployments/shop"
NODE = "/api/v1/nodes/n1"
NOW = "2026-11-22T12:00:00Z"


def of_template(**metadata: Any) -> Object:
    return {"spec": {"template": {"metadata": metadata}}}


def of_pods(**spec: Any) -> Object:
    return {"spec": {"template": {"spec": spec}}}


def of_node(**changes: Any) -> Object:
    """A change of the node: of its metadata, or of its spec."""
    about = {key: value for key, value in changes.items() if key in ("labels", "annotations", "finalizers")}
    return {"kind": "Node", "metadata": about} if about else {"kind": "Node", "spec": changes}


KEPT = {"key": "example.com/kept", "value": "x", "effect": "NoSchedule"}
HOT = {"key": TAINT_KEY, "value": "a.b.1", "effect": SOFT}
CLOSED = {"key": EMPTIED.key, "value": "a.b.1", "effect": EMPTIED.effect}
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
    "a label of a node": of_node(labels={"other": "x"}),
    "an annotation of a node": of_node(annotations={"other": "x"}),
    "a finalizer of a node": of_node(finalizers=["example.com/x"]),
    "a node that is cordoned": of_node(unschedulable=True),
    "the provider of a node": of_node(providerID="x://y"),
    "the network of a node": of_node(podCIDR="10.0.0.0/24", podCIDRs=["10.0.0.0/24"]),
    "no taints": of_node(taints=None),
    "a hard taint": of_node(taints=[KEPT, {**HOT, "effect": "NoSchedule"}]),
    "an emptied node's taint that evicts": of_node(taints=[KEPT, {**CLOSED, "effect": "NoExecute"}]),
    "an emptied node's taint that is soft": of_node(taints=[KEPT, {**CLOSED, "effect": SOFT}]),
    "another taint of the autoscaler": of_node(taints=[KEPT, {**CLOSED, "key": f"{EMPTIED.key}-x"}]),
    "a taint of others": of_node(taints=[KEPT, HOT, {**HOT, "key": "other"}]),
    "a changed taint": of_node(taints=[{**KEPT, "value": "other"}, HOT]),
}


@pytest.fixture(scope="module")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """An API server with one Deployment, the component applied, and a second account with the same right."""
    with ControlPlane(tmp_path_factory.mktemp("surge-policy")) as started:
        started.start(controllers=False, scheduler=False, kwok=False)
        # No kubelet renews the node: its lifecycle controller would taint it after a minute, which no account
        # here may take away.
        started.start_controllers(without=("node-lifecycle-controller",))
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
        api.create(clusters.node("n1", cpu="8"))
        api.patch(NODE, {"spec": {"taints": [KEPT]}})
        for path in sorted([*COMPONENTS.glob("surge/*.yaml"), *COMPONENTS.glob("steer/*.yaml")]):
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
        probes = [REFUSED["no history"], REFUSED["a label of a node"]]
        wait_until(
            lambda: all("Validating" in refusal(ours, change) for change in probes),
            "the policies are in force",
        )
        yield started


def of(control_plane: ControlPlane, namespace: str, name: str) -> Api:
    return control_plane.as_user(control_plane.service_account_token(namespace, name))


def restarts(account: Api) -> bool:
    """Whether the account may restart the Deployment, as a run does."""
    return refusal(account, of_template(annotations={RESTARTED_AT: NOW})) == ""


def refusal(account: Api, change: Object) -> str:
    """Why the API server refuses a change, which it would not keep in any case; empty where it does not."""
    try:
        account.patch(f"{NODE if change.get('kind') == 'Node' else DEPLOYMENT}?dryRun=All", change)
    except ApiRefusedError as error:
        return str(error)
    return ""


def test_our_account_may_restart_a_deployment_again_and_again(control_plane: ControlPlane) -> None:
    ours = of(control_plane, "rebalancer", "rebalancer")
    for moment in (NOW, "2026-11-22T13:00:00Z"):
        made = _restart(ours, moment)
        assert made["spec"]["template"]["metadata"]["annotations"] == {
            "kept": "as it was",
            RESTARTED_AT: moment,
        }


def _restart(ours: Api, moment: str) -> Object:
    """As a run does it: a Deployment that its controller has written meanwhile is read again."""
    while True:
        version = ours.get(DEPLOYMENT)["metadata"]["resourceVersion"]
        change = of_template(annotations={RESTARTED_AT: moment}) | {"metadata": {"resourceVersion": version}}
        try:
            return ours.patch(f"{DEPLOYMENT}?fieldManager=rebalancer", change)
        except ApiRefusedError as error:
            if error.status != 409:
                raise


@pytest.mark.parametrize("own", [[HOT], [CLOSED], [HOT, CLOSED]], ids=["hot", "emptied", "both"])
def test_our_account_may_set_its_taints_and_take_them_away(
    control_plane: ControlPlane, own: list[Object]
) -> None:
    ours = of(control_plane, "rebalancer", "rebalancer")
    later = [{**taint, "value": "c.d.2"} for taint in own]
    for taints in ([KEPT, *own], [KEPT, *later], [KEPT]):
        assert ours.patch(NODE, {"spec": {"taints": taints}})["spec"]["taints"] == taints


@pytest.mark.parametrize("seen", [{}, {"n1": [Taint(key=KEPT["key"])]}], ids=["none seen", "one seen"])
@pytest.mark.parametrize("kind", [HOT_TAINT, EMPTIED], ids=["hot", "emptied"])
def test_a_run_sets_its_taints_and_takes_them_away_with_this_right(
    control_plane: ControlPlane, kind: Taint, seen: dict[str, list[Taint]]
) -> None:
    account = control_plane.service_account_token("rebalancer", "rebalancer")
    api = open_api(control_plane.kubeconfig(account))
    taints = OwnTaints(api, ("rebalancer", "rebalancer"), "run", time() + 600, time, kind)

    def keys() -> list[str]:
        return [taint["key"] for taint in control_plane.api.get(NODE)["spec"]["taints"]]

    taints.begin(("n1",), (), seen)
    assert keys() == [KEPT["key"], kind.key]
    taints.renew(time() + 900)
    assert keys() == [KEPT["key"], kind.key]
    assert taints.end() == ()
    assert keys() == [KEPT["key"]]


@pytest.mark.parametrize("change", REFUSED.values(), ids=REFUSED.keys())
def test_our_account_may_change_nothing_else(control_plane: ControlPlane, change: Object) -> None:
    for namespace in ("rebalancer", "others"):
        said = refusal(of(control_plane, namespace, "rebalancer"), change)
        assert said.startswith("422"), said
        part = "steer" if change.get("kind") == "Node" else "surge"
        assert f"ValidatingAdmissionPolicy 'rebalancer-{part}'" in said
        assert "rebalancer may" in said


@pytest.mark.parametrize("change", REFUSED.values(), ids=REFUSED.keys())
def test_accounts_of_other_names_are_not_concerned(control_plane: ControlPlane, change: Object) -> None:
    assert "ValidatingAdmissionPolicy" not in refusal(of(control_plane, "others", "deployer"), change)
