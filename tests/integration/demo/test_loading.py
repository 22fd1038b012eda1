"""Dumps go in as they are, whatever they are packed in."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
import zstandard

from rebalancer.errors import InputError
from rebalancer_demo import Sandbox
from rebalancer_demo.objects import Object
from tests.integration.demo.builders import a_node, a_pod, a_replica_set


def a_dump() -> Object:
    """A mixed list, as ``kubectl get nodes,pods -A -o json`` prints it."""
    pod = a_pod("web", node="n1")
    pod["metadata"].update(uid="pod-uid", creationTimestamp="2026-01-01T00:00:00Z", resourceVersion="9")
    return {"kind": "List", "apiVersion": "v1", "items": [pod, a_node("n1"), a_replica_set()]}


def zstd(raw: bytes) -> bytes:
    return zstandard.ZstdCompressor(level=3).compress(raw)


@pytest.mark.parametrize(
    ("name", "pack"), [("a.json", bytes), ("a.json.gz", gzip.compress), ("a.json.zst", zstd)]
)
def test_a_dump_keeps_its_uids_times_and_status(
    tmp_path: Path, name: str, pack: Callable[[bytes], bytes]
) -> None:
    (tmp_path / name).write_bytes(pack(json.dumps(a_dump()).encode()))
    sandbox = Sandbox(controllers=False)
    assert sandbox.load_path(tmp_path / name) == 4  # and the namespace shop
    pod = sandbox.pod("shop", "web")
    sandbox.stop()
    assert pod is not None
    assert (pod["metadata"]["uid"], pod["metadata"]["creationTimestamp"]) == (
        "pod-uid",
        "2026-01-01T00:00:00Z",
    )
    assert pod["status"]["phase"] == "Running"


def test_a_folder_is_loaded_file_by_file(tmp_path: Path) -> None:
    lists = {"nodes": [a_node("n1")], "pods": [a_pod("web", node="n1")]}
    for plural, items in lists.items():
        kind = {"nodes": "NodeList", "pods": "PodList"}[plural]
        bare = [{key: value for key, value in item.items() if key != "kind"} for item in items]
        document = {"kind": kind, "apiVersion": "v1", "items": bare}
        (tmp_path / f"{plural}.json").write_text(json.dumps(document))
    (tmp_path / "notes.txt").write_text("not a dump")
    sandbox = Sandbox(controllers=False)
    sandbox.load_path(tmp_path)
    counts = sandbox.store.count("nodes"), sandbox.store.count("pods")
    sandbox.stop()
    assert counts == (1, 1)


@pytest.mark.parametrize("content", [b"{", b"[]", b"\x1f\x8bbroken"])
def test_a_file_that_is_no_dump_is_an_input_error_that_names_it(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    sandbox = Sandbox(controllers=False)
    with pytest.raises(InputError, match=r"bad\.json"):
        sandbox.load_path(path)
    sandbox.stop()


def test_the_kubeconfig_points_at_the_sandbox(tmp_path: Path) -> None:
    with Sandbox(controllers=False) as sandbox:
        path = sandbox.write_kubeconfig(tmp_path / "config", token="secret")
        document = yaml.safe_load(path.read_text())
        assert document["clusters"][0]["cluster"]["server"] == sandbox.url
    assert document["current-context"] == "sandbox"
    assert document["users"][0]["user"]["token"] == "secret"
    assert path.stat().st_mode & 0o077 == 0
