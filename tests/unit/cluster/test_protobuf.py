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
from rebalancer.cluster.listing import Listing, ListingBuilder
from rebalancer.cluster.protobuf import varint
from rebalancer.cluster.protobuf_pods import decode_head, places
from rebalancer.cluster.protobuf_schema import POD
from rebalancer.cluster.records import Pod
from rebalancer.cluster.wire import decode_page
from tests.builders import a_pod, owned_by
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


def resources(draw: st.DrawFn) -> dict[str, Any]:
    amounts = st.dictionaries(
        st.sampled_from(("cpu", "memory", "example.com/gpu")), st.sampled_from(("1", "2Gi", "-1", "x"))
    )
    return {"requests": draw(amounts) or None, "limits": draw(amounts) or None}


@st.composite
def pods(draw: st.DrawFn) -> dict[str, Any]:
    """Pods that resemble each other, so that one is taken for another if that can happen."""
    owners = [owned_by(kind, "web") for kind in draw(st.permutations(("ReplicaSet", "Thing")))]
    owners[0]["controller"] = draw(st.sampled_from((True, False, None)))
    pod = a_pod(
        f"web-{draw(st.integers(0, 30))}",
        namespace=draw(st.sampled_from(("default", "shop"))),
        node=draw(st.sampled_from(("", "n1", "a-longer-name", "n" * 130))),
        labels=draw(
            st.dictionaries(st.sampled_from(("app", "b")), st.sampled_from(("", "a", "é", "x" * 63)))
        ),
        annotations=draw(
            st.dictionaries(st.sampled_from(("karpenter.sh/do-not-disrupt", "a/b")), st.text(max_size=3))
        ),
    )
    pod["metadata"]["resourceVersion"] = str(draw(st.integers(1, 3)))
    pod["metadata"]["ownerReferences"] = owners[: draw(st.integers(0, 2))]
    pod["spec"]["containers"] = [
        {"name": name, "image": "app:v1", "resources": resources(draw)}
        for name in draw(st.sampled_from((("main",), ("main", "side"))))
    ]
    pod["spec"]["hostNetwork"] = draw(st.sampled_from((True, None)))
    pod["spec"]["priority"] = draw(st.none() | st.integers(-(2**31), 2**31 - 1))
    statuses = [
        {"name": name, "ready": True, "allocatedResources": draw(st.none() | st.just({"cpu": "1"}))}
        for name in draw(st.permutations(("main", "side")))
    ]
    pod["status"] |= {
        "phase": draw(st.sampled_from(("Running", "Succeeded", "Unknown", "?"))),
        "containerStatuses": statuses[: draw(st.integers(0, 2))],
        "initContainerStatuses": statuses[1 : draw(st.integers(1, 2))],
        "conditions": [
            {"type": kind, "status": draw(st.sampled_from(("True", "False"))), "reason": draw(reasons)}
            for kind in draw(st.permutations(("Ready", "PodResizePending", "PodScheduled")))
        ],
        "nominatedNodeName": draw(st.sampled_from(("", "n1"))),
    }
    return pod


reasons = st.sampled_from(("", "Infeasible", "Deferred"))


@given(st.lists(pods(), max_size=6))
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
