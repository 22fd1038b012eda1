"""extender/k8s: who may do what, and who is reached from where."""

from __future__ import annotations

from pathlib import Path

from tests.unit.manifests.documents import Document, grants, read, resources

FOLDER = Path(__file__).parents[2] / "extender" / "k8s"
OBJECTS = resources(FOLDER)
EXTENDER, SCHEDULER = "scheduler-plugins-extender", "scheduler-plugins-scheduler"


def named(kind: str, name: str) -> Document:
    (found,) = [item for item in OBJECTS if (item["kind"], item["metadata"]["name"]) == (kind, name)]
    return found


def roles_of(account: str) -> set[str]:
    return {
        item["roleRef"]["name"]
        for item in OBJECTS
        for subject in item.get("subjects", ())
        if subject["name"] == account
    }


POD = named("Deployment", SCHEDULER)["spec"]["template"]["spec"]
CONTAINERS = {item["name"]: item for item in POD["containers"]}


def test_the_extender_may_list_and_watch_nodes_and_pods_and_list_their_metrics_and_nothing_else() -> None:
    assert roles_of(EXTENDER) == {EXTENDER}
    assert grants(named("ClusterRole", EXTENDER)["rules"]) == {
        ("", "nodes", "list", ()),
        ("", "nodes", "watch", ()),
        ("", "pods", "list", ()),
        ("", "pods", "watch", ()),
        ("metrics.k8s.io", "nodes", "list", ()),
    }


def test_the_extender_does_not_hold_the_token_of_the_scheduler() -> None:
    """Kubernetes mounts the pod's own token in each container that has no other mount in its place."""
    mounts = {mount["mountPath"]: mount["name"] for mount in CONTAINERS["extender"]["volumeMounts"]}
    volume = next(
        item
        for item in POD["volumes"]
        if item["name"] == mounts["/var/run/secrets/kubernetes.io/serviceaccount"]
    )
    token = named("Secret", volume["secret"]["secretName"])

    assert POD["serviceAccountName"] == SCHEDULER
    assert token["type"] == "kubernetes.io/service-account-token"
    assert token["metadata"]["annotations"] == {"kubernetes.io/service-account.name": EXTENDER}
    assert volume["name"] not in [mount["name"] for mount in CONTAINERS["kube-scheduler"]["volumeMounts"]]


def test_scores_are_asked_for_on_loopback_alone() -> None:
    configuration = read(FOLDER / "scheduler-config.yaml")

    assert "--listen=127.0.0.1:8890" in CONTAINERS["extender"]["args"]
    assert [item["urlPrefix"] for item in configuration["extenders"]] == ["http://127.0.0.1:8890"]
