"""Pods read in protobuf are the pods read in JSON; the files are what kube-apiserver 1.34 answered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalancer.cluster.kinds import PODS
from rebalancer.cluster.recordings.listing import Listing, ListingBuilder
from rebalancer.cluster.records import Pod
from rebalancer.cluster.wire.json_items import decode_page
from rebalancer.cluster.wire.protobuf import varint
from rebalancer.cluster.wire.protobuf_pods import decode_head, places
from rebalancer.cluster.wire.protobuf_schema import POD
from tests.builders import LONG_AGO, a_pod, owned_by
from tests.protobuf_encoder import encode_list, written_varint

DATA = Path(__file__).parent / "data"


def read_protobuf(*bodies: bytes) -> Listing:
    builder = ListingBuilder(PODS)
    for body in bodies:
        _, place = decode_head(body)
        builder.add_protobuf(body, *place)
    return builder.listing()


def read_json(*bodies: bytes) -> Listing:
    builder = ListingBuilder(PODS)
    for body in bodies:
        builder.add_list(body)
    return builder.listing()


def everything(listing: Listing) -> tuple[Any, ...]:
    assert listing.pods is not None
    return (*listing.pods.digest_parts(), listing.malformed, len(listing))


@pytest.mark.parametrize("namespace", ["shop", "other"])
def test_every_field_we_read_is_where_a_real_server_writes_it(namespace: str) -> None:
    body = (DATA / f"pods-{namespace}.pb").read_bytes()
    in_json = decode_page((DATA / f"pods-{namespace}.json").read_bytes())
    head, place = decode_head(body)
    pods = [POD.decode(body, *found) for found in places(body, *place)]

    assert (head.kind, head.api_version, head.resource_version) == (
        in_json.kind,
        in_json.api_version,
        in_json.resource_version,
    )
    assert pods == [msgspec.json.decode(item, type=Pod) for item in in_json.items]
    assert pods


def test_what_a_real_server_answers_in_protobuf_and_in_json_is_the_same_cluster() -> None:
    names = ("shop", "other")
    in_protobuf = read_protobuf(*((DATA / f"pods-{name}.pb").read_bytes() for name in names))
    in_json = read_json(*((DATA / f"pods-{name}.json").read_bytes() for name in names))

    assert everything(in_protobuf) == everything(in_json)
    assert [str(item) for item in in_protobuf.malformed] == [
        "Pod shop/broken-quantity: overhead.cpu: -1 is negative"
    ]
    assert in_protobuf.pods is not None
    assert "done" not in in_protobuf.pods.names


def test_pods_that_differ_only_in_the_name_of_their_token_share_a_class() -> None:
    for listing in (
        read_protobuf((DATA / "pods-shop.pb").read_bytes()),
        read_json((DATA / "pods-shop.json").read_bytes()),
    ):
        assert listing.pods is not None
        row = {name: row for row, name in enumerate(listing.pods.names)}
        first, second = (int(listing.pods.pod_class[row[name]]) for name in ("web-1", "web-2"))
        assert first == second
        assert listing.pods.classes[first].spec.volumes is None


def an_owner(name: str, controller: bool | None) -> dict[str, Any]:
    return {**owned_by("ReplicaSet", name), "controller": controller}


# What one pod may have that its siblings have not: by part of the pod, and what may be there.
DIFFERENCES: list[tuple[str, str, list[Any]]] = [
    ("metadata", "namespace", ["default", "shop"]),
    ("metadata", "resourceVersion", ["1", "2", "x"]),
    ("metadata", "labels", [{}, {"app": "a"}, {"app": ""}, {"app": "é"}, {"app": "a", "b": "x" * 63}]),
    ("metadata", "annotations", [{}, {"karpenter.sh/do-not-disrupt": "true"}, {"a/b": "x" * 200}]),
    ("metadata", "deletionTimestamp", [None, LONG_AGO]),
    (
        "metadata",
        "ownerReferences",
        [[], [an_owner("a", True)], [an_owner("a", False), an_owner("b", True)], [an_owner("a", None)]],
    ),
    ("spec", "nodeName", ["", "n1", "a-longer-name", "n" * 130]),
    ("spec", "hostNetwork", [None, True]),
    ("spec", "priority", [None, 0, -(2**31), 2**31 - 1]),
    ("spec", "overhead", [None, {"cpu": "1"}, {"cpu": "-1"}, {"cpu": "x"}]),
    ("spec", "nodeSelector", [None, {"zone": "a"}]),
    ("status", "phase", ["Running", "Pending", "Succeeded", "Unknown", "?"]),
    ("status", "startTime", [None, LONG_AGO]),
    ("status", "nominatedNodeName", ["", "n1"]),
    (
        "status",
        "conditions",
        [
            [],
            [{"type": "Ready", "status": "True"}],
            [{"type": "Ready", "status": "False"}, {"type": "Ready", "status": "True"}],
            [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}],
            [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}],
        ],
    ),
    *(
        (
            "status",
            which,
            [
                None,
                [{"name": "main", "allocatedResources": {"cpu": "2"}}],
                [{"name": "side", "allocatedResources": {"cpu": "2"}}],
                [{"name": "main", "resources": {"requests": {"cpu": "3"}}}],
            ],
        )
        for which in ("containerStatuses", "initContainerStatuses")
    ),
]


@st.composite
def siblings(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Pods that differ in a thing or two, so that one is taken for another if that can happen."""
    found = []
    for number in range(draw(st.integers(0, 6))):
        containers = [
            {"name": name, "image": "app:v1", "resources": {"requests": {"cpu": "1"}}}
            for name in ("main", "side")
        ]
        pod = a_pod(f"web-{number // 2}", node="n1", containers=containers)
        for part, name, values in draw(st.lists(st.sampled_from(DIFFERENCES), max_size=2)):
            pod[part][name] = draw(st.sampled_from(values))
        found.append(pod)
    return found


def test_pods_alike_but_for_one_thing_are_the_same_columns_in_either_encoding() -> None:
    for part, name, values in DIFFERENCES:
        pods = []
        for number, value in enumerate(values * 2):
            pod = a_pod(f"web-{number}", node="n1", cpu="1")
            pod[part][name] = value
            pods.append(pod)
        in_json = read_json(json.dumps({"kind": "PodList", "items": pods}).encode())

        assert everything(in_json) == everything(
            read_protobuf(encode_list(msgspec.convert(pod, Pod) for pod in pods))
        ), name


@given(siblings())
@settings(max_examples=200)
def test_the_same_pods_are_the_same_columns_in_either_encoding(items: list[dict[str, Any]]) -> None:
    records = [msgspec.convert(item, Pod) for item in items]
    in_json = read_json(json.dumps({"kind": "PodList", "items": items}).encode())

    assert everything(read_protobuf(encode_list(records))) == everything(in_json)


@given(st.binary(max_size=60), st.integers(0, 5000))
@settings(max_examples=200)
def test_bytes_that_are_damaged_are_a_fault_of_the_list_or_of_one_pod(damage: bytes, place: int) -> None:
    body = (DATA / "pods-shop.pb").read_bytes()
    broken = body[:place] + damage + body[place + len(damage) :]
    try:
        _, found = decode_head(broken)
        builder = ListingBuilder(PODS)
        builder.add_protobuf(broken, *found)
        builder.listing()
    except ValueError:
        pass


def test_a_list_cut_short_is_no_list() -> None:
    body = (DATA / "pods-shop.pb").read_bytes()
    for length in range(0, len(body), 97):
        with pytest.raises(ValueError, match="not protobuf"):
            decode_head(body[:length])


@given(st.integers(0, (1 << 64) - 1))
def test_integers_read_back(value: int) -> None:
    written = written_varint(value)

    assert varint(written, 0) == (value, len(written))


def test_the_tables_name_fields_that_records_have() -> None:
    def check(message: Any) -> None:
        for entry in message.entries.values():
            if entry.attribute:
                assert entry.attribute in message.record.__struct_fields__
            if entry.message is not None:
                check(entry.message)

    check(POD)
