"""The real kubectl against the sandbox."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rebalancer_demo import Sandbox
from rebalancer_demo.objects import is_ready
from tests.integration.demo.builders import a_budget, a_node, a_replica_set
from tests.waiting import HANG_SECONDS

KUBECTL = shutil.which("kubectl")
pytestmark = pytest.mark.skipif(KUBECTL is None, reason="no kubectl on PATH: install it to run these")


class Kubectl:
    """kubectl with a kubeconfig and a home of its own, since it caches discovery there."""

    def __init__(self, sandbox: Sandbox, home: Path) -> None:
        self._environment = {
            **os.environ,
            "HOME": str(home),
            "KUBECONFIG": str(sandbox.write_kubeconfig(home / "config")),
        }

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        assert KUBECTL is not None
        return subprocess.run(
            [KUBECTL, *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=HANG_SECONDS,
            check=False,
        )

    @contextmanager
    def following(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        assert KUBECTL is not None
        with subprocess.Popen(
            [KUBECTL, *arguments], env=self._environment, stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                yield process
            finally:
                process.terminate()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[Sandbox, Kubectl]]:
    """Three ready pods that a budget wants to keep, on two nodes."""
    objects = [a_node("n1"), a_node("n2"), a_replica_set(replicas=3), a_budget(minAvailable=3)]
    with Sandbox(objects, ready_after=0) as sandbox:
        assert sandbox.wait_until(lambda: sum(map(is_ready, sandbox.pods("shop"))) == 3)
        yield sandbox, Kubectl(sandbox, tmp_path)


def test_get_lists_nodes_pods_and_budgets(cluster: tuple[Sandbox, Kubectl]) -> None:
    sandbox, kubectl = cluster
    table = kubectl("get", "nodes,pods", "-A")
    assert table.returncode == 0, table.stderr
    for pod in sandbox.pods("shop"):
        assert f"pod/{pod['metadata']['name']}" in table.stdout
    assert "node/n1" in table.stdout
    assert "web" in kubectl("get", "pdb", "-A").stdout
    document = json.loads(kubectl("get", "po", "-n", "shop", "-l", "app=web", "-o", "json").stdout)
    assert [item["kind"] for item in document["items"]] == ["Pod"] * 3


def test_get_watch_prints_changes_as_they_come(cluster: tuple[Sandbox, Kubectl]) -> None:
    sandbox, kubectl = cluster
    name = sandbox.pods("shop")[0]["metadata"]["name"]
    with kubectl.following("get", "pods", "-n", "shop", "-w", "-o", "name") as process:
        assert process.stdout is not None
        known = {process.stdout.readline().strip() for _ in range(3)}
        sandbox.registry.delete("pods", "shop", name, {"gracePeriodSeconds": 0})
        seen = {process.stdout.readline().strip() for _ in range(2)}
    assert f"pod/{name}" in known
    assert seen - known, "the replacement was not seen"


def test_raw_metrics_and_top_show_usage(cluster: tuple[Sandbox, Kubectl]) -> None:
    _, kubectl = cluster
    document = json.loads(kubectl("get", "--raw", "/apis/metrics.k8s.io/v1beta1/nodes").stdout)
    assert document["kind"] == "NodeMetricsList"
    assert {item["metadata"]["name"] for item in document["items"]} == {"n1", "n2"}
    top = kubectl("top", "nodes")
    assert "n1" in top.stdout, top.stderr


def test_kubectl_shows_that_a_budget_refuses_an_eviction(
    cluster: tuple[Sandbox, Kubectl], tmp_path: Path
) -> None:
    sandbox, kubectl = cluster
    name = sandbox.pods("shop")[0]["metadata"]["name"]
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "shop"}}
    (tmp_path / "eviction.json").write_text(json.dumps(body))
    path = f"/api/v1/namespaces/shop/pods/{name}/eviction"
    refused = kubectl("create", "--raw", path, "-f", str(tmp_path / "eviction.json"))
    assert refused.returncode == 1
    assert "Cannot evict pod as it would violate the pod's disruption budget." in refused.stderr
    assert sandbox.pod("shop", name) is not None


def test_cordon_label_scale_and_version_work(cluster: tuple[Sandbox, Kubectl]) -> None:
    sandbox, kubectl = cluster
    for arguments in (
        ("cordon", "n1"),
        ("label", "node", "n1", "tier=old"),
        ("scale", "rs", "web", "-n", "shop", "--replicas=4"),
    ):
        done = kubectl(*arguments)
        assert done.returncode == 0, done.stderr
    node = sandbox.store.get("nodes", "", "n1")
    assert node is not None
    assert node["spec"]["unschedulable"] is True
    assert node["metadata"]["labels"]["tier"] == "old"
    assert sandbox.wait_until(lambda: len(sandbox.pods("shop")) == 4)
    assert "v1.35.4" in kubectl("version").stdout


def test_drain_evicts_what_the_budget_allows_and_apply_changes_objects(tmp_path: Path) -> None:
    objects = [a_node("n1"), a_node("n2"), a_replica_set(replicas=2), a_budget(minAvailable=0)]
    with Sandbox(objects, ready_after=0, terminates_after=0) as sandbox:
        assert sandbox.wait_until(lambda: sum(map(is_ready, sandbox.pods("shop"))) == 2)
        kubectl = Kubectl(sandbox, tmp_path)
        drained = kubectl("drain", "n1", "--force", f"--timeout={HANG_SECONDS:.0f}s")
        assert drained.returncode == 0, drained.stderr
        assert sandbox.wait_until(lambda: len(sandbox.pods(node="n2", phase="Running")) == 2)
        assert sandbox.pods(node="n1") == []
        for value in ("first", "second"):
            item = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "shop"}}
            (tmp_path / "map.json").write_text(json.dumps({**item, "data": {"key": value}}))
            applied = kubectl("apply", "--validate=false", "-f", str(tmp_path / "map.json"))
            assert applied.returncode == 0, applied.stderr
        stored = sandbox.store.get("configmaps", "shop", "c")
    assert stored is not None
    assert stored["data"] == {"key": "second"}


def test_lists_have_the_columns_that_kubectl_users_know(cluster: tuple[Sandbox, Kubectl]) -> None:
    _, kubectl = cluster

    def titles(*arguments: str) -> list[str]:
        shown = kubectl("get", *arguments)
        assert shown.returncode == 0, shown.stderr
        return re.split(r"\s{2,}", shown.stdout.splitlines()[0].strip())

    assert titles("pods", "-n", "shop") == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert titles("pods", "-A", "-o", "wide")[-3:] == ["IP", "NODE", "NOMINATED NODE"]
    assert titles("nodes") == ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]
    assert titles("rs", "-n", "shop") == ["NAME", "DESIRED", "CURRENT", "READY", "AGE"]
    assert titles("pdb", "-n", "shop")[:2] == ["NAME", "MIN AVAILABLE"]
    assert titles("node", "n1") == titles("nodes")
    row = kubectl("get", "pods", "-n", "shop", "--no-headers").stdout.split()
    assert row[1:4] == ["1/1", "Running", "0"]


def test_what_a_file_holds_can_be_created_applied_and_changed(
    cluster: tuple[Sandbox, Kubectl], tmp_path: Path
) -> None:
    _, kubectl = cluster
    path = tmp_path / "settings.yaml"
    path.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: shop}\ndata: {k: v}\n")

    for verb, printed in (("create", "configmap/a created"), ("apply", "configmap/a configured")):
        done = kubectl(verb, "-f", str(path))
        assert (done.returncode, done.stdout.strip()) == (0, printed), done.stderr
    assert kubectl("cordon", "n1").returncode == 0
    assert "Ready,SchedulingDisabled" in kubectl("get", "node", "n1").stdout


CREATES = (
    ("create", "namespace", "team"),
    ("create", "deployment", "api", "-n", "shop", "--image=app:v1", "--replicas=2"),
    ("create", "job", "once", "-n", "shop", "--image=app:v1"),
    ("create", "configmap", "settings", "-n", "shop", "--from-literal=a=b"),
    ("create", "service", "clusterip", "api", "-n", "shop", "--tcp=80"),
    ("create", "quota", "few", "-n", "shop", "--hard=pods=30"),
    ("create", "poddisruptionbudget", "half", "-n", "shop", "--selector=app=api", "--min-available=50%"),
    ("create", "priorityclass", "high", "--value=10"),
    ("create", "serviceaccount", "robot", "-n", "shop"),
    ("run", "alone", "-n", "shop", "--image=app:v1"),
)


def test_create_makes_every_kind_that_is_served(cluster: tuple[Sandbox, Kubectl]) -> None:
    _, kubectl = cluster
    for words in CREATES:
        ended = kubectl(*words)
        assert ended.returncode == 0, f"{words}: {ended.stderr}"
        assert ended.stdout.endswith(" created\n")
    budget = json.loads(kubectl("get", "pdb", "half", "-n", "shop", "-o", "json").stdout)
    assert budget["spec"] == {"minAvailable": "50%", "selector": {"matchLabels": {"app": "api"}}}


def test_what_is_not_there_is_refused_by_its_name(cluster: tuple[Sandbox, Kubectl]) -> None:
    sandbox, kubectl = cluster
    pod = sandbox.pods("shop")[0]["metadata"]["name"]

    for words in (("logs", "-n", "shop", pod), ("exec", "-n", "shop", pod, "--", "ls")):
        assert "simulated and run no containers" in kubectl(*words).stderr
    assert "does not serve" in kubectl("create", "secret", "generic", "s", "-n", "shop").stderr
