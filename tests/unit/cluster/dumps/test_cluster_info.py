"""What ``kubectl cluster-info dump`` writes is read, where it is of all namespaces."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from rebalancer.cluster.dumps.cluster_info import MADE_FOR_FEW
from rebalancer.cluster.dumps.reader import DumpReader
from rebalancer.cluster.kinds import DEPLOYMENTS, NODES, PODS
from rebalancer.errors import InputError
from tests.builders import a_node, a_pod, names_of

ALL = ("default", "kube-node-lease", "kube-public", "kube-system", "shop")
PODS_BY_NAMESPACE = {
    "kube-system": [a_pod("dns", namespace="kube-system", node="n1")],
    "shop": [a_pod("web", namespace="shop", node="n1")],
}
LOGS = """==== START logs for container main of pod shop/web ====
{
"kind": "PodList"
}
==== END logs for container main of pod shop/web ====
"""


def a_typed_list(kind: str, items: Sequence[Mapping[str, Any]], group: str = "v1") -> dict[str, Any]:
    return {
        "kind": f"{kind}List",
        "apiVersion": group,
        "metadata": {"resourceVersion": "7"},
        "items": list(items),
    }


def lists_of(namespace: str) -> dict[str, dict[str, Any]]:
    """The lists of a namespace by the names of their files."""
    return {
        "events": a_typed_list("Event", [{"metadata": {"name": "e"}}]),
        "replication-controllers": a_typed_list("ReplicationController", []),
        "services": a_typed_list("Service", []),
        "daemonsets": a_typed_list("DaemonSet", [], "apps/v1"),
        "deployments": a_typed_list("Deployment", [], "apps/v1"),
        "replicasets": a_typed_list("ReplicaSet", [], "apps/v1"),
        "pods": a_typed_list("Pod", PODS_BY_NAMESPACE.get(namespace, [])),
    }


def a_folder(path: Path, namespaces: Sequence[str], ending: str = "json") -> Path:
    def write(place: Path, value: Any) -> None:
        place.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(value, indent=4) if ending == "json" else "---\n" + yaml.safe_dump(value)
        place.write_text(text)

    write(path / f"nodes.{ending}", a_typed_list("Node", [a_node("n1")]))
    for namespace in namespaces:
        for stem, value in lists_of(namespace).items():
            write(path / namespace / f"{stem}.{ending}", value)
        logs = path / namespace / "web" / "logs.txt"
        logs.parent.mkdir(parents=True)
        logs.write_text(LOGS)
    return path


def a_stream(path: Path, namespaces: Sequence[str]) -> Path:
    lists = [a_typed_list("Node", [a_node("n1")])]
    for namespace in namespaces:
        lists += lists_of(namespace).values()
    texts = [json.dumps(value, indent=4) + "\n" for value in lists]
    path.write_text("".join(texts) + LOGS)
    return path


@pytest.mark.parametrize("ending", ["json", "yaml"])
def test_a_folder_of_all_namespaces_is_the_cluster(tmp_path: Path, ending: str) -> None:
    recording = DumpReader(a_folder(tmp_path / "dump", ALL, ending)).read()

    pods = recording.listings[PODS.plural].pods
    assert pods is not None
    assert pods.columns.texts("name") == ("dns", "web")
    assert names_of(recording.listings[NODES.plural]) == ["n1"]
    assert {DEPLOYMENTS.plural, "replicationcontrollers"} <= set(recording.listings)
    assert recording.warnings == ()


def test_a_stream_of_all_namespaces_is_the_cluster_without_its_logs(tmp_path: Path) -> None:
    recording = DumpReader(a_stream(tmp_path / "dump.txt", ALL)).read()

    pods = recording.listings[PODS.plural].pods
    assert pods is not None
    assert pods.columns.texts("name") == ("dns", "web")
    assert recording.warnings == ()


@pytest.mark.parametrize("write", [a_folder, a_stream])
def test_a_dump_of_a_few_namespaces_is_not_taken_for_the_cluster(tmp_path: Path, write: Any) -> None:
    recording = DumpReader(write(tmp_path / "dump.txt", ("default", "kube-system"))).read()

    assert NODES.plural in recording.listings
    for plural in (PODS.plural, DEPLOYMENTS.plural):
        assert plural not in recording.listings
        assert recording.unread[plural] == MADE_FOR_FEW


def test_folders_in_another_dump_are_not_looked_into(tmp_path: Path) -> None:
    a_folder(tmp_path / "dump", ALL)
    (tmp_path / "dump" / "nodes.json").rename(tmp_path / "dump" / "other.json")

    assert set(DumpReader(tmp_path / "dump").read().listings) == {NODES.plural}


@pytest.mark.parametrize("above", ["", "quay-io-image-sha256-abc"])
def test_what_must_gather_wrote_is_not_taken_for_the_cluster_and_named(tmp_path: Path, above: str) -> None:
    folder = tmp_path / above
    nodes = folder / "cluster-scoped-resources" / "core" / "nodes"
    nodes.mkdir(parents=True)
    (nodes / "n1.yaml").write_text(yaml.safe_dump(a_node("n1")))
    (folder / "event-filter.html").write_text("<html>")

    with pytest.raises(InputError, match="is of oc adm must-gather, which keeps some namespaces only"):
        DumpReader(tmp_path).read()
