from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalancer.cluster.dumps.listing import Recording
from rebalancer.cluster.dumps.reader import DumpReader
from rebalancer.cluster.dumps.writer import digest, save
from rebalancer.cluster.pod_classes import PodClass
from rebalancer.cluster.snapshot import Snapshot, build_snapshot
from rebalancer.errors import InputError
from tests.builders import a_budget, a_node, a_pod, a_recording, a_replica_set, owned_by
from tests.conftest import examples
from tests.pod_statuses import statuses

NODE_NAMES = ("n1", "n2", "n3")


def damaged(item: dict[str, Any], how: str) -> dict[str, Any]:
    """An object that cannot be read, or only in part."""
    name = item["metadata"]["name"]
    return {
        "sound": item,
        "labels": {**item, "metadata": {"name": name, "labels": 5}},
        "nameless": {"spec": {"nodeName": "n1"}},
        "quantity": {**item, "spec": {**item["spec"], "overhead": {"cpu": "1 Gi"}}},
        "time": {**item, "metadata": {**item["metadata"], "creationTimestamp": "yesterday"}},
        "huge": {**item, "spec": {**item["spec"], "overhead": {"cpu": "1e30"}}},
    }[how]


@st.composite
def clusters(draw: st.DrawFn) -> dict[str, list[dict[str, Any]]]:
    nodes = [
        a_node(name, cpu=draw(st.sampled_from(("4", "500m", "-1", "x", "1e30", "0.1"))))
        for name in draw(st.permutations(NODE_NAMES))
    ]
    pods = []
    for number in draw(st.permutations(range(draw(st.integers(0, 6))))):
        pod = a_pod(
            f"web-{number}",
            node=draw(st.sampled_from((*NODE_NAMES, "gone", ""))),
            cpu=draw(st.none() | st.sampled_from(("100m", "2"))),
            owner=draw(st.none() | st.just(owned_by("ReplicaSet", "web"))),
            labels=draw(st.dictionaries(st.sampled_from(("app", "b")), st.text(max_size=3))),
            annotations=draw(
                st.dictionaries(st.sampled_from(("karpenter.sh/do-not-disrupt", "a/b")), st.text(max_size=3))
            ),
        )
        pod["status"] |= draw(st.just({}) | statuses())
        pods.append(
            damaged(pod, draw(st.sampled_from(("sound",) * 4 + ("labels", "quantity", "time", "huge"))))
        )
    budgets = [a_budget("web", labels={"app": "a"}, allowed=draw(st.integers(-3, 10)))]
    return {
        "nodes": nodes,
        "pods": pods,
        "poddisruptionbudgets": budgets,
        "replicasets": [a_replica_set("web")],
    }


def class_fields(pod_class: PodClass) -> tuple[Any, ...]:
    return tuple(getattr(pod_class, field) for field in pod_class.__struct_fields__)


def columns(snapshot: Snapshot) -> dict[str, Any]:
    nodes, pods = snapshot.nodes, snapshot.pods
    arrays = {
        **{
            f"nodes.{name}": getattr(nodes, name)
            for name in ("allocatable", "capacity", "ready", "incomplete")
        },
        "nodes.ready_since": nodes.ready_since,
        **{f"pods.{name}": getattr(pods, name) for name in ("node", "node_unknown", "phase", "created")},
        **{f"pods.{name}": getattr(pods, name) for name in ("started", "terminating", "ready")},
    }
    return {
        **{name: array.tolist() for name, array in arrays.items() if array.dtype != np.float64},
        **{name: repr(array.tolist()) for name, array in arrays.items() if array.dtype == np.float64},
        "nodes": nodes.records,
        "resources": nodes.resources,
        "pods": [
            (namespace, name, uid, class_fields(pods.class_of(row)), pods.annotations[row])
            for row, (namespace, name, uid) in enumerate(
                zip(pods.namespaces, pods.names, pods.uids, strict=True)
            )
        ],
        "nominated": dict(pods.nominated),
        "finished": () if pods.finished is None else tuple(pods.finished.columns.digest_parts()),
        "fields": tuple(pods.columns.digest_parts()),
        "budgets": snapshot.budgets,
        "workloads": dict(snapshot.workloads),
        "namespaces": snapshot.namespaces,
        "malformed": snapshot.malformed,
    }


@given(clusters())
@settings(max_examples=examples(60))
def test_what_is_saved_reads_back_as_the_same_cluster(kinds: dict[str, list[dict[str, Any]]]) -> None:
    recording = a_recording({"watcher.json": b"{}"}, **kinds)
    with tempfile.TemporaryDirectory() as folder:
        save(recording, Path(folder) / "saved", 1.0)
        again = DumpReader(Path(folder) / "saved").read()

    assert digest(again) == digest(recording)
    assert columns(build_snapshot(again)) == columns(build_snapshot(recording))
    assert digest(build_snapshot(again).recording) == digest(build_snapshot(recording).recording)


@given(clusters(), st.randoms(use_true_random=False))
@settings(max_examples=examples(60))
def test_a_snapshot_does_not_depend_on_the_order_of_its_objects(
    kinds: dict[str, list[dict[str, Any]]], random: Any
) -> None:
    shuffled = {plural: random.sample(items, len(items)) for plural, items in reversed(kinds.items())}
    first, second = a_recording(None, **kinds), a_recording(None, **shuffled)

    assert digest(first) == digest(second)
    assert columns(build_snapshot(first)) == columns(build_snapshot(second))


@given(st.permutations(range(4)))
def test_objects_listed_twice_do_not_depend_on_order_either(order: list[int]) -> None:
    versions = [a_pod("web-1", node=node) for node in ("n1", "n2", "n3", "n1")]
    for version, pod in enumerate(versions):
        pod["metadata"]["resourceVersion"] = str(version % 3)
    nodes = [a_node(name) for name in NODE_NAMES]
    snapshots = [
        build_snapshot(a_recording(None, nodes=nodes, pods=pods))
        for pods in (versions, [versions[place] for place in order])
    ]

    assert columns(snapshots[0]) == columns(snapshots[1])
    assert snapshots[0].nodes.incomplete.tolist() == [True, True, False]


@pytest.mark.parametrize("how", ["labels", "nameless"])
def test_a_malformed_object_keeps_its_name_and_reason_and_not_its_content(tmp_path: Path, how: str) -> None:
    pod = damaged(a_pod("web-1", node="n1"), how) | {"status": {"token": "SECRET"}}
    recording = a_recording(None, pods=[a_pod("web-2"), pod])
    save(recording, tmp_path / "saved", 1.0)

    assert DumpReader(tmp_path / "saved").read().listings["pods"].malformed == (
        recording.listings["pods"].malformed
    )
    assert "SECRET" not in everything_in(tmp_path / "saved")


def everything_in(folder: Path) -> str:
    contents = (
        zstandard.ZstdDecompressor().decompress(path.read_bytes(), max_output_size=1 << 20)
        if path.suffix == ".zst"
        else path.read_bytes()
        for path in folder.iterdir()
    )
    return b"\n".join(contents).decode()


def test_secrets_of_containers_never_reach_the_saved_folder(tmp_path: Path) -> None:
    container = {
        "name": "main",
        "image": "app:v1",
        "env": [{"name": "PASSWORD", "value": "SECRET"}],
        "args": ["--password=SECRET"],
        "command": ["sh", "-c", "echo SECRET"],
        "lifecycle": {"preStop": {"exec": {"command": ["SECRET"]}}},
    }
    applied = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(container), "a/b": "SECRET"}
    pod = a_pod("web-1", annotations=applied, containers=[container], initContainers=[container])
    pod["metadata"]["managedFields"] = [{"fieldsV1": "SECRET"}]
    pod["spec"]["volumes"] = [{"name": "v", "csi": {"volumeAttributes": {"key": "SECRET"}}}]
    owner = a_replica_set("web", template=pod["spec"])
    owner["spec"]["template"]["metadata"]["annotations"] = applied
    owner["metadata"]["annotations"] = applied
    recording = a_recording(None, nodes=[a_node("n1")], pods=[pod], replicasets=[owner])
    save(recording, tmp_path / "saved", 1.0)
    written = everything_in(tmp_path / "saved")

    assert "app:v1" in written
    assert "SECRET" not in written


def test_the_digest_differs_by_cluster_and_not_by_who_recorded_it() -> None:
    base = a_recording({"recording.json": b"1"}, pods=[a_pod("web-1")])
    others: list[Recording] = [
        a_recording(None, pods=[a_pod("web-2")]),
        a_recording(None, pods=[a_pod("web-1", labels={"a": "b"})]),
        a_recording(None, pods=[a_pod("web-1")], namespaces=[]),
        a_recording({"watcher.json": b"{}"}, pods=[a_pod("web-1")]),
    ]

    assert digest(base) == digest(a_recording({"recording.json": b"2"}, pods=[a_pod("web-1")]))
    assert len({digest(base), *map(digest, others)}) == 5


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(InputError, match="cannot write: Not a directory"):
        save(a_recording(), tmp_path / "file" / "saved", 1.0)


def test_a_saved_file_of_which_one_bit_is_another_is_refused_and_not_read_otherwise(tmp_path: Path) -> None:
    save(a_recording(None, pods=[a_pod("web-1", cpu="137m")]), tmp_path, 1.0)
    path = tmp_path / "pods.json.zst"
    content = path.read_bytes()

    for at in range(6, len(content)):  # behind what says how it is packed
        path.write_bytes(content[:at] + bytes([content[at] ^ 1 << at % 8]) + content[at + 1 :])
        with pytest.raises(InputError, match="truncated or damaged"):
            DumpReader(tmp_path).read()
