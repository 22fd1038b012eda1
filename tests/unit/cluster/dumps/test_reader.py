from __future__ import annotations

import gzip
import io
import json
import os
import resource
from pathlib import Path
from typing import Any

import pytest
import zstandard

from rebalancer.cluster.dumps.reader import DumpReader
from rebalancer.cluster.dumps.streams import ByteAllowance, read_bytes
from rebalancer.cluster.dumps.writer import digest, save
from rebalancer.cluster.kinds import DISRUPTION_BUDGETS, KINDS, NODES, PODS
from rebalancer.cluster.selectors import matcher
from rebalancer.errors import InputError
from tests.builders import a_node, a_pod, owned_by
from tests.conftest import some_of
from tests.waiting import no_hang

METRICS = "metrics.k8s.io/v1beta1"
VERSIONS = {"Node": "v1", "Pod": "v1", "NodeMetrics": METRICS, "PodMetrics": METRICS}


def a_list(kind: str, *items: dict[str, Any]) -> bytes:
    return json.dumps({"apiVersion": VERSIONS[kind], "kind": f"{kind}List", "items": items}).encode()


def a_mixed_list(*items: dict[str, Any]) -> bytes:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items}).encode()


def kind_of(kind: str, item: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": VERSIONS[kind], "kind": kind, **item}


NODE, POD = a_node("n1"), a_pod("web-1", node="n1")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "nodes.json").write_bytes(a_list("Node", NODE))
    (tmp_path / "pods.json").write_bytes(a_list("Pod", POD))
    return tmp_path


def refusal(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        DumpReader(path).read()
    assert str(path) in str(caught.value)
    return str(caught.value)


def test_the_same_cluster_is_read_however_it_was_packed_and_split(folder: Path, tmp_path: Path) -> None:
    expected = digest(DumpReader(folder).read())
    packed, mixed = tmp_path / "packed", tmp_path / "mixed.json"
    packed.mkdir()
    (packed / "a.json.gz").write_bytes(gzip.compress(a_list("Pod", POD)))
    (packed / "b.json.zst").write_bytes(zstandard.compress(a_list("Node", NODE)))
    mixed.write_bytes(a_mixed_list(kind_of("Pod", POD), kind_of("Node", NODE)))

    assert digest(DumpReader(packed).read()) == expected
    assert digest(DumpReader(mixed).read()) == expected


def test_what_a_dump_does_not_hold_is_unread_and_never_empty(folder: Path) -> None:
    recording = DumpReader(folder).read()

    assert set(recording.listings) == {NODES.plural, PODS.plural}
    certain = {kind.plural for kind in KINDS if not kind.optional}
    assert set(recording.unread) == certain - set(recording.listings)
    assert set(recording.unread.values()) == {"not in the dump"}


def test_an_empty_list_named_after_its_kind_is_read_and_empty(folder: Path) -> None:
    (folder / "poddisruptionbudgets.json").write_bytes(a_mixed_list())
    recording = DumpReader(folder).read()

    assert recording.listings["poddisruptionbudgets"].records == ()
    assert "poddisruptionbudgets" not in recording.unread


def test_items_null_is_an_empty_kind(folder: Path) -> None:
    (folder / "pods.json").write_bytes(b'{"apiVersion": "v1", "kind": "PodList", "items": null}')

    assert DumpReader(folder).read().listings[PODS.plural].records == ()


def test_unused_files_are_reported_and_hidden_files_are_not_read(folder: Path) -> None:
    (folder / "._nodes.json").write_bytes(b"\x00\x05\x16\x07")
    (folder / "config.json").write_bytes(a_mixed_list({"apiVersion": "v1", "kind": "ConfigMap"}))
    (folder / "old.json").write_bytes(b'{"apiVersion": "policy/v1beta1", "kind": "PodList", "items": []}')
    (folder / "values.yaml").write_text("a: 1")
    (folder / "odd.json").write_bytes(b'{"kind": "List", "items": [5]}')
    warnings = DumpReader(folder).read().warnings

    assert sorted(warnings) == [
        "config.json: v1 ConfigMap is not used",
        "odd.json: an item that is not a Kubernetes object",
        "old.json: policy/v1beta1 PodList is not used",
        "values.yaml: not read: what has no kind is not a list of Kubernetes objects",
    ]


def test_a_kind_of_which_a_list_has_objects_of_another_version_too_is_unread(folder: Path) -> None:
    def written(*versions: str) -> dict[str, str]:
        items = [
            {"apiVersion": version, "kind": "PodDisruptionBudget", "metadata": {"name": f"b-{at}"}}
            for at, version in enumerate(versions)
        ]
        (folder / "poddisruptionbudgets.json").write_bytes(a_mixed_list(*items))
        return dict(DumpReader(folder).read().unread)

    def holds(version: str) -> str:
        return f"poddisruptionbudgets.json holds a {version} PodDisruptionBudget as well"

    assert written("policy/v1", "policy/v1beta1")["poddisruptionbudgets"] == holds("policy/v1beta1")
    assert written("policy/v1beta1", "policy/v1")["poddisruptionbudgets"] == holds("policy/v1")
    assert written("policy/v1", "policy/v2")["poddisruptionbudgets"] == holds("policy/v2")
    assert written("policy/v2")["poddisruptionbudgets"] == "not in the dump"
    assert "poddisruptionbudgets" not in written("policy/v1", "example.com/v1")


def test_what_an_older_kubectl_prints_is_read(folder: Path) -> None:
    forms = {
        "poddisruptionbudgets": ("policy/v1beta1", "PodDisruptionBudget"),
        "horizontalpodautoscalers": ("autoscaling/v1", "HorizontalPodAutoscaler"),
        "csistoragecapacities": ("storage.k8s.io/v1beta1", "CSIStorageCapacity"),
        "runtimeclasses": ("node.k8s.io/v1beta1", "RuntimeClass"),
    }
    for plural, (version, kind) in forms.items():
        item = {"apiVersion": version, "kind": kind, "metadata": {"name": "a", "namespace": "default"}}
        typed = {"apiVersion": version, "kind": f"{kind}List", "items": [item]}
        for content in (a_mixed_list(item), json.dumps(typed).encode()):
            (folder / f"{plural}.json").write_bytes(content)
            recording = DumpReader(folder).read()
            assert [record.metadata.name for record in recording.listings[plural].records] == ["a"]
            assert plural not in recording.unread
            assert recording.warnings == ()


@pytest.mark.parametrize(("version", "protects"), [("policy/v1", True), ("policy/v1beta1", False)])
def test_an_empty_selector_of_a_budget_selects_all_pods_since_policy_v1(
    folder: Path, version: str, protects: bool
) -> None:
    budget = {
        "apiVersion": version,
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "all", "namespace": "default"},
        "spec": {"selector": {}, "maxUnavailable": 0},
        "status": {"disruptionsAllowed": 0, "observedGeneration": 0},
    }
    (folder / "poddisruptionbudgets.json").write_bytes(a_mixed_list(budget))
    saved = folder / "saved"
    save(DumpReader(folder).read(), saved, 0.0)

    for path in (folder, saved):
        (read,) = DumpReader(path).read().records(DISRUPTION_BUDGETS)
        assert matcher(read.selector)({"app": "web"}) is protects


def test_documents_beside_the_kinds_are_kept_as_they_are(folder: Path) -> None:
    (folder / "scheduler-config.yaml").write_text("kind: X")
    (folder / "watcher.json.gz").write_bytes(gzip.compress(b"{}"))

    assert DumpReader(folder).read().documents == {"scheduler-config.yaml": b"kind: X", "watcher.json": b"{}"}
    (folder / "watcher.json.gz").write_bytes(gzip.compress(b"\xef\xbb\xbf{}"))
    assert DumpReader(folder).read().documents["watcher.json"] == b"{}"


def test_a_dump_of_one_namespace_is_told_by_figures_of_pods_that_it_lacks(folder: Path) -> None:
    def warnings(*others: str) -> tuple[str, ...]:
        figures = [{"metadata": {"name": name, "namespace": "default"}} for name in ("web-1", *others)]
        (folder / "podmetrics.json").write_bytes(a_list("PodMetrics", *figures))
        return DumpReader(folder).read().warnings

    assert warnings("gone-1") == ()
    assert warnings("other-1", "other-2") == (
        "2 of 3 pods with figures were not read, e.g. default/other-1: nodes look emptier than they are; "
        "write it with: kubectl get KIND -A -o json",
    )
    (folder / "pods.json").unlink()
    assert warnings("other-1", "other-2") == ()


def test_pods_of_one_namespace_are_told_by_any_other_that_has_figures_or_a_controller_with_pods(
    folder: Path,
) -> None:
    (folder / "pods.json").write_bytes(a_mixed_list(*(kind_of("Pod", a_pod(f"web-{at}")) for at in range(3))))
    metadata = {"name": "api", "namespace": "shop"}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "status": {"replicas": 6}}
    (folder / "replicasets.json").write_bytes(a_mixed_list(owner))

    assert DumpReader(folder).read().warnings == (
        "no pod of shop was read, where ReplicaSet/api has 6 pods: nodes look emptier than they are; "
        "write it with: kubectl get KIND -A -o json",
    )
    figures = [{"metadata": {"name": f"web-{at}", "namespace": "default"}} for at in range(3)]
    (folder / "podmetrics.json").write_bytes(a_list("PodMetrics", *figures, {"metadata": metadata}))
    (warning,) = DumpReader(folder).read().warnings
    assert warning.startswith("1 of 4 pods with figures were not read, e.g. shop/api: nodes look emptier")


def test_kinds_that_kubectl_listed_of_one_namespace_are_unread_as_what_others_name_is_not_in_them(
    folder: Path,
) -> None:
    def named(name: str, namespace: str, kind: str = "ReplicaSet", **fields: Any) -> dict[str, Any]:
        return {
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": {"name": name, "namespace": namespace},
        } | fields

    def unread(**lists: list[dict[str, Any]]) -> dict[str, str]:
        for plural, items in lists.items():
            (folder / f"{plural}.json").write_bytes(a_mixed_list(*items))
        return {plural: why for plural, why in DumpReader(folder).read().unread.items() if plural in lists}

    budgets = [named("web", "default", "PodDisruptionBudget", apiVersion="policy/v1")]
    of_shop = owned_by("ReplicaSet", "api", namespace="shop")
    pods = [a_pod("web-1", node="n1"), a_pod("api-1", node="n1", namespace="shop", owner=of_shop)]
    (folder / "pods.json").write_bytes(a_list("Pod", *pods))
    whole = [named("web", "default"), named("api", "shop")]
    why = "made without -A, as the replicasets lack shop/api; write it with: kubectl get KIND -A -o json"

    assert unread(replicasets=whole, poddisruptionbudgets=budgets, resourcequotas=[]) == {}
    alone = unread(replicasets=whole[:1], poddisruptionbudgets=budgets, resourcequotas=[])
    assert alone == dict.fromkeys(("replicasets", "poddisruptionbudgets", "resourcequotas"), why)
    others = [named("api", "shop", "PodDisruptionBudget", apiVersion="policy/v1")]
    assert unread(replicasets=whole[:1], poddisruptionbudgets=others) == {"replicasets": why}
    (folder / "replicasets.json").write_bytes(
        json.dumps({"apiVersion": "apps/v1", "kind": "ReplicaSetList", "items": []}).encode()
    )
    assert unread(poddisruptionbudgets=budgets) == {}, "an API server answers for all namespaces"


def test_deployments_and_claims_that_others_name_show_that_their_namespace_was_not_listed(
    folder: Path,
) -> None:
    reference = owned_by("Deployment", "web", namespace="shop")
    owned = {"name": "web-1", "namespace": "shop", "ownerReferences": [reference]}
    replica_set = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": owned}
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "orders"}}
    for plural, items in {
        "replicasets": [replica_set],
        "deployments": [],
        "persistentvolumeclaims": [],
    }.items():
        (folder / f"{plural}.json").write_bytes(a_mixed_list(*items))

    assert "the deployments lack shop/web;" in DumpReader(folder).read().unread["persistentvolumeclaims"]
    (folder / "deployments.json").unlink()
    (folder / "pods.json").write_bytes(a_list("Pod", a_pod("db", namespace="shop", volumes=[volume])))
    assert "persistentvolumeclaims" not in DumpReader(folder).read().unread, "it waits for its claim"
    (folder / "pods.json").write_bytes(
        a_list("Pod", a_pod("db", namespace="shop", volumes=[volume], node="n1"))
    )
    assert "lack shop/orders;" in DumpReader(folder).read().unread["persistentvolumeclaims"]


def test_a_kind_whose_file_cannot_be_read_is_unread_for_that_reason(folder: Path) -> None:
    (folder / "services.yml").write_text("kind: List")
    (folder / "jobs.yaml").write_text("kind: [")

    unread = DumpReader(folder).read().unread

    assert "services.yml: " in unread["services"]
    assert "missing required field `items`" in unread["services"]
    assert unread["jobs"].startswith("jobs.yaml: is not valid YAML: ")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "is empty"),
        (b"apiVersion: v1", "is not a list of Kubernetes objects"),
        (b"kind: PodList\nitems:\n- [", ":4:1: is not valid YAML"),
        (b"kind: PodList\nitems: &a [*a]", "its aliases stand for more than"),
        (b"--- \n", "is empty"),
        (b'E1128 11:00:01.1 7 memcache.go:265] "down"\n{}', "not JSON as kubectl writes it"),
        (b"[1, 2]", "not JSON as kubectl writes it"),
        (b'{"kind": "PodList"}', "missing required field `items`"),
        (b'{"kind": "PodList", "items": [', "not JSON as kubectl writes it"),
        (b'{"kind": "PodList", "items": ' + b"[" * 10**5, "not JSON as kubectl writes it"),
        (b"\xff\xfe{\x00}\x00", "is UTF-16 text"),
        (b'{"kind": "\xff"}', "not JSON as kubectl writes it"),
        (json.dumps(kind_of("Pod", POD)).encode(), "holds one Pod, not a list"),
        (gzip.compress(a_list("Pod", POD), mtime=0)[:-9], "cannot unpack"),
        (gzip.compress(a_list("Pod", POD), mtime=0)[:20], "cannot unpack"),
        (gzip.compress(b"x" * 99, mtime=0)[:12] + b"\x00" * 40, "cannot unpack"),
        (zstandard.compress(a_list("Pod", POD))[:-20], "unpacks to nothing (the file is truncated"),
        (b"\x28\xb5\x2f\xfd" + b"garbage" * 9, "cannot unpack"),
    ],
)
def test_a_damaged_file_is_named_with_what_is_wrong_and_what_to_do(
    tmp_path: Path, content: bytes, complaint: str
) -> None:
    path = tmp_path / "pods.json"
    path.write_bytes(content)
    message = refusal(path)

    assert complaint in message
    assert message.endswith(")")
    assert message.isprintable()
    assert len(message) < 300 + len(str(path))


def test_what_is_no_file_and_no_folder_is_refused(tmp_path: Path) -> None:
    assert "no such file or folder" in refusal(tmp_path / "missing")
    assert "neither a file nor a folder" in refusal(Path("/dev/null"))
    assert "cannot read" in refusal(Path("/" + "x" * 5000))
    assert "no Kubernetes objects here" in refusal(tmp_path)


def test_a_file_that_unpacks_to_more_than_a_cluster_is_refused_before_memory_is_full(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.json"
    bomb.write_bytes(gzip.compress(bytes(8 << 20)))

    with pytest.raises(InputError, match="larger than 1 MiB unpacked"):
        read_bytes(bomb, 1 << 20)


@pytest.mark.parametrize(("largest", "words"), [(1000, "1,000 bytes"), (2048, "2 KiB"), (4 << 30, "4 GiB")])
def test_the_size_that_a_dump_may_have_is_told_as_it_was_given(largest: int, words: str) -> None:
    with pytest.raises(InputError, match=f"larger than {words} unpacked"):
        ByteAllowance(largest).take(largest + 1, Path("dump"))


def test_frames_one_after_another_are_one_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(gzip.compress(b"ab") + gzip.compress(b"cd"))
    assert read_bytes(path, 100) == b"abcd"
    stream = io.BytesIO(zstandard.compress(b"ab") + zstandard.compress(b"cd"))
    path.write_bytes(stream.getvalue())
    assert read_bytes(path, 100) == b"abcd"


KUBECTL_HEAD = b'{\n    "apiVersion": "v1",\n    "items": [\n        {\n'
LINES_HEAD = b'{"apiVersion":"v1","kind":"PodList","items":[{"metadata":{"name":"a"}},\n{'


def packed(path: Path, head: bytes, filler: bytes, mebibytes: int, tail: bytes = b"") -> Path:
    """A file that unpacks to so many MiB of filler: frames of 4 MiB, which are packed once."""
    frame = zstandard.compress(filler * ((4 << 20) // len(filler)))
    first, last = zstandard.compress(head), zstandard.compress(tail)
    path.write_bytes(first + frame * (mebibytes // 4) + last)
    return path


BOMBS = [
    (b'{"kind":"PodList","items":[', b" ", "unpacks to more than 200 times its size"),
    (b'{"kind":"PodList","items":[{}', b",{}", "unpacks to more than 200 times its size"),
    (KUBECTL_HEAD, b"a", "an item is larger than 16 MiB"),
    (LINES_HEAD, b"a", "an item is larger than 16 MiB"),
    (LINES_HEAD, b"\n", "an item is larger than 16 MiB"),
    (LINES_HEAD, b"},\n{", "more than 10000 objects cannot be read"),
    (KUBECTL_HEAD, b"\n        },\n        {\n", "more than 200 times its size"),
]


@pytest.mark.many_cases
@pytest.mark.parametrize(("head", "filler", "complaint"), some_of(BOMBS))
def test_a_bomb_of_any_layout_ends_soon_and_within_little_memory(
    tmp_path: Path, head: bytes, filler: bytes, complaint: str
) -> None:
    bomb = packed(tmp_path / "pods.json.zst", head, filler, 512)
    assert bomb.stat().st_size < 1 << 20
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with no_hang("the bomb is refused"):
        message = refusal(bomb)

    assert complaint in message
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400 << 10  # KiB


def test_many_small_bombs_are_held_to_what_all_files_together_may_unpack_to(tmp_path: Path) -> None:
    bomb = packed(tmp_path / "a.json.zst", b'{"kind":"PodList","items":[', b" ", 60, b"]}")
    for name in "bcdefgh":
        os.link(bomb, tmp_path / f"{name}.json.zst")
    message = refusal(tmp_path)
    assert "unpacks to more than 200 times its size" in message
    assert "e.json.zst" in message, "four of 60 MiB are below 256 MiB, five are not"


@pytest.mark.parametrize(
    ("filler", "complaint"), [(b",{}", "more objects than its size allows"), (b",1", "Expected `object`")]
)
def test_a_list_of_countless_tiny_items_is_refused_before_each_takes_memory(
    tmp_path: Path, filler: bytes, complaint: str
) -> None:
    path = tmp_path / "pods.json"
    path.write_bytes(b'{"kind":"PodList","items":[{}' + filler * (6 << 20) + b"]}")

    assert complaint in refusal(path)


def test_the_whole_of_a_dump_has_one_cap_that_can_be_raised(folder: Path) -> None:
    total = sum(path.stat().st_size for path in folder.iterdir())

    assert DumpReader(folder, total).read().listings
    with pytest.raises(InputError, match="--max-dump-size"):
        DumpReader(folder, total - 1).read()


def test_a_list_of_unknown_layout_has_a_bound_of_its_own(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rebalancer.cluster.dumps.reader._MAX_WHOLE_BYTES", 100)

    assert "not laid out as kubectl get -o json prints it" in refusal(folder / "nodes.json")
