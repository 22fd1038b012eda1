"""Recording a cluster over HTTP, with the rights that k8s/base grants and no others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rebalancer.cluster.dumps.reader import DumpReader
from rebalancer.cluster.kinds import KINDS
from rebalancer_demo import Rule, Sandbox, User
from tests.unit.cli.conftest import Program
from tests.unit.cli.recorded_documents import CONFIGURATION, POLICY, WATCHER, a_node
from tests.unit.manifests.documents import BASE, grants, rules

TOKEN = "planner"
PLACES = """\
scheduler: {configMap: {namespace: scheduler-plugins, name: scheduler-config}}
load: {sources: [{loadWatcher: {address: "http://load-watcher.loadwatcher:2020"}}]}
"""
TRIMARAN = (
    CONFIGURATION
    + """\
profiles:
  - schedulerName: trimaran
    plugins: {score: {enabled: [{name: TargetLoadPacking}]}}
    pluginConfig:
      - name: TargetLoadPacking
        args: {watcherAddress: "http://load-watcher.loadwatcher.svc.cluster.local:2020"}
"""
)


def an_object(kind: str, name: str, namespace: str = "", **more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": namespace}, **more}


def a_reader() -> User:
    """A user with the rights of k8s/base, and the service proxy: recording from outside needs it."""
    granted = [(resource, verb) for _, resource, verb, _ in grants(rules(BASE))]
    found = tuple(
        Rule(verbs=frozenset({verb}), resources=frozenset({resource}))
        for resource, verb in (*granted, ("services/proxy", "get"))
    )
    return User("planner", found)


@pytest.fixture
def cluster() -> Iterator[Sandbox]:
    objects = [
        {**an_object("Node", "node-1"), **{key: a_node("node-1")[key] for key in ("status",)}},
        an_object("Namespace", "shop"),
        an_object("Pod", "web-1", "shop", spec={"nodeName": "node-1", "containers": [{"name": "main"}]}),
        an_object(
            "ConfigMap",
            "scheduler-config",
            "scheduler-plugins",
            data={"scheduler-config.yaml": CONFIGURATION},
        ),
    ]
    with Sandbox(objects, controllers=False, users={TOKEN: a_reader()}) as sandbox:
        sandbox.serve("loadwatcher", "load-watcher", 2020, "watcher", lambda _query: WATCHER)
        yield sandbox


@pytest.fixture
def kubeconfig(cluster: Sandbox, tmp_path: Path) -> Path:
    return cluster.write_kubeconfig(tmp_path / "kubeconfig", token=TOKEN)


def save(rebalancer_program: Program, kubeconfig: Path, tmp_path: Path, policy: str) -> Any:
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY + policy)
    arguments = ("--kubeconfig", str(kubeconfig), "--policy", str(path), "-o", "json")
    return rebalancer_program("snapshot", "save", str(tmp_path / "saved"), *arguments)


def test_the_rights_of_the_base_suffice_to_record_a_whole_cluster(
    rebalancer_program: Program, kubeconfig: Path, tmp_path: Path
) -> None:
    result = save(rebalancer_program, kubeconfig, tmp_path, PLACES)

    assert (result.exit_code, result.stderr) == (0, "")
    info = json.loads(result.stdout)
    assert {kind["plural"] for kind in info["kinds"]} == {kind.plural for kind in KINDS}
    assert info["unread"] == []
    assert info["recordedFrom"].startswith("context sandbox (http://127.0.0.1:")


def test_what_the_policy_names_is_recorded_beside_the_cluster(
    rebalancer_program: Program, kubeconfig: Path, tmp_path: Path
) -> None:
    save(rebalancer_program, kubeconfig, tmp_path, PLACES)
    documents = DumpReader(tmp_path / "saved").read().documents

    assert documents["scheduler-config.yaml"].decode() == CONFIGURATION
    assert json.loads(documents["watcher.json"]) == WATCHER


def test_a_load_watcher_that_does_not_answer_is_a_warning(
    rebalancer_program: Program, kubeconfig: Path, tmp_path: Path
) -> None:
    policy = 'load: {sources: [{loadWatcher: {address: "http://load-watcher.elsewhere:2020"}}]}\n'
    result = save(rebalancer_program, kubeconfig, tmp_path, policy)

    assert result.exit_code == 0
    assert "warning: load-watcher is not recorded: " in result.stderr
    assert not (tmp_path / "saved" / "watcher.json").exists()


def test_the_load_watcher_that_only_the_scheduler_names_is_recorded_too(
    rebalancer_program: Program, kubeconfig: Path, tmp_path: Path
) -> None:
    configuration = tmp_path / "scheduler.yaml"
    configuration.write_text(TRIMARAN)
    save(rebalancer_program, kubeconfig, tmp_path, "scheduler: {file: scheduler.yaml}\n")

    assert json.loads((tmp_path / "saved" / "watcher.json").read_text()) == WATCHER


def test_a_configuration_that_cannot_be_used_is_recorded_with_a_warning(
    rebalancer_program: Program, kubeconfig: Path, tmp_path: Path
) -> None:
    configuration = tmp_path / "scheduler.yaml"
    configuration.write_text(TRIMARAN.replace("TargetLoadPacking", "OurOwnPlugin"))
    result = save(rebalancer_program, kubeconfig, tmp_path, "scheduler: {file: scheduler.yaml}\n")

    assert result.exit_code == 0
    assert "warning: the scheduler's configuration is recorded, but cannot be used: " in result.stderr
    assert (tmp_path / "saved" / "scheduler-config.yaml").read_text() == configuration.read_text()


def test_a_configuration_that_is_not_there_is_bad_input_before_anything_is_written(
    rebalancer_program: Program, kubeconfig: Path, tmp_path: Path
) -> None:
    policy = "scheduler: {configMap: {namespace: nowhere, name: scheduler-config}}\n"
    result = save(rebalancer_program, kubeconfig, tmp_path, policy)

    assert result.exit_code == 2
    assert result.stderr.startswith("error: configmap nowhere/scheduler-config: not found")
    assert not (tmp_path / "saved").exists()


def test_a_key_that_is_not_there_names_those_that_are(
    rebalancer_program: Program, kubeconfig: Path, tmp_path: Path
) -> None:
    policy = "scheduler: {configMap: {namespace: scheduler-plugins, name: scheduler-config, key: other}}\n"
    result = save(rebalancer_program, kubeconfig, tmp_path, policy)

    assert result.exit_code == 2
    assert "has no key other (its keys: scheduler-config.yaml)" in result.stderr


def test_a_user_without_rights_reads_which_are_missing(
    rebalancer_program: Program, cluster: Sandbox, tmp_path: Path
) -> None:
    stranger = cluster.write_kubeconfig(tmp_path / "stranger", token="nobody")
    result = save(rebalancer_program, stranger, tmp_path, "")

    assert result.exit_code == 5
    assert "the credentials are not accepted" in result.stderr
