"""Long lists are split into items as they are unpacked; the same objects come out as when read whole."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from rebalancer.cluster.dumps import streams as item_stream
from rebalancer.cluster.dumps.reader import DumpReader
from rebalancer.cluster.dumps.writer import digest, list_pieces, save
from rebalancer.errors import InputError
from tests.builders import a_node, a_pod, a_recording

PODS = [
    a_pod(f"pod-{number:04}", node="node", cpu="100m", labels={"text": "}x{ ],"}) for number in range(300)
]
NODES = [a_node("node")]


def _as_kubectl(items: list[dict[str, Any]], api_version: str, kind: str) -> str:
    """What ``kubectl get KIND -o json`` prints: keys sorted, four spaces, the kind last."""
    content = {
        "apiVersion": "v1",
        "items": [{"apiVersion": api_version, "kind": kind, **item} for item in items],
        "kind": "List",
        "metadata": {"resourceVersion": ""},
    }
    return json.dumps(content, indent=4, sort_keys=True) + "\n"


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks that end anywhere."""
    monkeypatch.setattr(item_stream, "_BLOCK", 1013)
    monkeypatch.setattr("rebalancer.cluster.dumps.reader._FIRST_BLOCK", 4096)


def _folder(path: Path, pods: str | bytes) -> Path:
    path.mkdir()
    (path / "nodes.json").write_text(json.dumps({"kind": "NodeList", "apiVersion": "v1", "items": NODES}))
    content = pods if isinstance(pods, bytes) else pods.encode()
    (path / "pods.json.gz").write_bytes(gzip.compress(content))
    return path


def _whole(path: Path) -> Path:
    return _folder(path, json.dumps({"apiVersion": "v1", "kind": "PodList", "items": PODS}))


def test_what_kubectl_prints_reads_as_the_same_cluster(tmp_path: Path) -> None:
    split = DumpReader(_folder(tmp_path / "split", _as_kubectl(PODS, "v1", "Pod"))).read()
    assert digest(split) == digest(DumpReader(_whole(tmp_path / "whole")).read())


def test_what_snapshot_save_writes_reads_as_the_same_cluster(tmp_path: Path) -> None:
    recording = a_recording(None, nodes=NODES, pods=PODS)
    save(recording, tmp_path / "saved", 0.0)
    assert digest(DumpReader(tmp_path / "saved").read()) == digest(recording)


def test_both_layouts_are_known_by_their_first_bytes() -> None:
    saved = b"".join(list_pieces(a_recording(None, nodes=NODES, pods=PODS).listings["pods"]))
    assert item_stream.layout_of(saved[:4096]) is not None
    assert item_stream.layout_of(_as_kubectl(PODS, "v1", "Pod")[:4096].encode()) is not None
    assert item_stream.layout_of(json.dumps({"items": PODS})[:4096].encode()) is None


@pytest.mark.parametrize("share", [0.3, 0.7, 0.99, 0.9999])
@pytest.mark.parametrize("layout", ["kubectl", "saved"])
def test_a_list_that_breaks_off_is_one_line_that_says_so(tmp_path: Path, layout: str, share: float) -> None:
    if layout == "kubectl":
        content = _as_kubectl(PODS, "v1", "Pod").rstrip().encode()
    else:
        content = b"".join(list_pieces(a_recording(None, nodes=NODES, pods=PODS).listings["pods"])).rstrip()
    broken = content[: min(int(len(content) * share), len(content) - 1)]
    with pytest.raises(InputError, match="not JSON as kubectl writes it"):
        DumpReader(_folder(tmp_path / "broken", broken)).read()


def test_something_after_the_list_is_refused(tmp_path: Path) -> None:
    content = (
        b"".join(list_pieces(a_recording(None, nodes=NODES, pods=PODS).listings["pods"])) + b'{"more": 1}'
    )
    with pytest.raises(InputError, match="follows the list"):
        DumpReader(_folder(tmp_path / "more", content)).read()


def test_one_damaged_item_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    content = _as_kubectl(PODS, "v1", "Pod").replace('"name": "pod-0150"', '"name": 150')
    recording = DumpReader(_folder(tmp_path / "damaged", content)).read()
    assert len(recording.listings["pods"]) == len(PODS) - 1
    assert len(recording.listings["pods"].malformed) == 1
