"""What kubectl prints as YAML is read as what it prints as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from rebalancer.cluster.dumps.reader import DumpReader
from rebalancer.cluster.dumps.writer import digest
from rebalancer.cluster.kinds import NODES, PODS
from rebalancer.errors import InputError
from tests.builders import a_node, a_pod

NODE = {"apiVersion": "v1", "kind": "Node", **a_node("n1")}
SCRIPTS = {"name": "scripts", "configMap": {"name": "scripts", "defaultMode": 493}}
POD = {"apiVersion": "v1", "kind": "Pod", **a_pod("web", node="n1", cpu="100m", volumes=[SCRIPTS])}


def a_list(*items: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": list(items)}


def digest_of(path: Path) -> str:
    return digest(DumpReader(path).read())


@pytest.fixture
def in_json(tmp_path: Path) -> str:
    """The digest of the cluster as JSON."""
    path = tmp_path / "expected.json"
    path.write_text(json.dumps(a_list(NODE, POD)))
    return digest_of(path)


@pytest.mark.parametrize("name", ["all.yaml", "all.yml", "all.txt"])
def test_a_file_of_yaml_is_the_cluster_that_its_json_is(tmp_path: Path, in_json: str, name: str) -> None:
    path = tmp_path / name
    path.write_text(yaml.safe_dump(a_list(NODE, POD)))

    assert digest_of(path) == in_json


def test_a_folder_of_yaml_is_too(tmp_path: Path, in_json: str) -> None:
    folder = tmp_path / "dump"
    folder.mkdir()
    (folder / "nodes.yaml").write_text(yaml.safe_dump(a_list(NODE)))
    (folder / "pods.yml").write_text("---\n" + yaml.safe_dump(a_list(POD)))

    assert digest_of(folder) == in_json


def test_several_documents_are_lists_or_objects(tmp_path: Path, in_json: str) -> None:
    lists = tmp_path / "lists.yaml"
    objects = tmp_path / "objects.yaml"
    lists.write_text(yaml.safe_dump_all([a_list(NODE), a_list(POD)]))
    objects.write_text(yaml.safe_dump_all([NODE, POD]))

    assert digest_of(lists) == in_json
    assert digest_of(objects) == in_json


def test_one_object_alone_is_no_cluster(tmp_path: Path) -> None:
    path = tmp_path / "node.yaml"
    path.write_text(yaml.safe_dump(NODE))

    with pytest.raises(InputError, match="holds one Node, not a list"):
        DumpReader(path).read()


def test_scalars_and_aliases_are_those_of_kubectl(tmp_path: Path, in_json: str) -> None:
    text = yaml.safe_dump(a_list(NODE, POD)).replace("defaultMode: 493", "defaultMode: 0755")
    text = text.replace("unschedulable: false", "unschedulable: no")
    path = tmp_path / "all.yaml"
    path.write_text(text)

    assert "0755" in text
    assert "unschedulable: no" in text
    assert digest_of(path) == in_json


def test_an_unquoted_time_stays_text(tmp_path: Path, in_json: str) -> None:
    text = yaml.safe_dump(a_list(NODE, POD)).replace("'2026-01-01T00:00:00Z'", "2026-01-01T00:00:00Z")
    path = tmp_path / "all.yaml"
    path.write_text(text)

    assert "'2026-" not in text
    assert digest_of(path) == in_json


def test_aliases_that_stand_for_ever_more_are_refused(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for number in range(1, 12):
        aliases = ", ".join([f"*a{number - 1}"] * 10)
        lines.append(f"a{number}: &a{number} [{aliases}]")
    path = tmp_path / "all.yaml"
    path.write_text("\n".join(lines))

    with pytest.raises(InputError, match="its aliases stand for more than"):
        DumpReader(path).read()


def test_other_yaml_files_of_a_folder_are_named_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text(yaml.safe_dump(a_list(NODE, POD)))
    (tmp_path / "policy.yaml").write_text("apiVersion: rebalancer/v1alpha1\nkind: RebalancePolicy\n")

    recording = DumpReader(tmp_path).read()

    assert set(recording.listings) == {NODES.plural, PODS.plural}
    assert recording.warnings == ("policy.yaml: not read: holds one RebalancePolicy, not a list",)
