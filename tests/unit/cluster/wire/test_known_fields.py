"""A field of a pod's spec that nobody has thought of is noticed, in JSON and in protobuf alike."""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rebalancer.cluster import records
from rebalancer.cluster.dumps.listing import ListingBuilder, Recording
from rebalancer.cluster.dumps.reader import DumpReader
from rebalancer.cluster.dumps.writer import save
from rebalancer.cluster.kinds import NODES, PODS, REPLICA_SETS
from rebalancer.cluster.records import Pod, PodSpec, Record, Workload
from rebalancer.cluster.wire import messages
from rebalancer.cluster.wire.known_fields import NOT_READ, unknown_in_spec
from rebalancer.cluster.wire.protobuf import decode_answer, to_record
from tests.builders import a_node, a_pod, a_replica_set
from tests.kubernetes_api.fields import Field, fields_of
from tests.protobuf_encoder import encode_items, encode_list
from tests.rows import rows

# Where JSON and protobuf write the fields of another message into this one.
INLINED = {
    "core/v1.Volume": "core/v1.VolumeSource",
    "core/v1.ConfigMapVolumeSource": "core/v1.LocalObjectReference",
}
INLINED_NAMES = frozenset(
    {"inlinevolumeSource", "volumeSource", "inlinelocalObjectReference", "localObjectReference"}
)
OF_OUR_OWN = frozenset({"unknownField"})


def record_in(annotation: Any) -> type[Record] | None:
    """The record that a field holds one of, or a list of."""
    for part in (annotation, *typing.get_args(annotation)):
        if isinstance(part, type) and issubclass(part, Record):
            return part
        if typing.get_origin(part) is list and (found := record_in(typing.get_args(part)[0])):
            return found
    return None


def api_fields(message: str) -> dict[str, Field]:
    own = {name: field for name, field in fields_of(message).items() if name not in INLINED_NAMES}
    return own | (api_fields(INLINED[message]) if message in INLINED else {})


def records_of_a_spec() -> Iterator[tuple[type[Record], str]]:
    """Each record that a spec is made of, with the message of the API that it is read from."""
    seen: set[tuple[type[Record], str]] = set()
    ahead: list[tuple[type[Record], str]] = [(PodSpec, "core/v1.PodSpec")]
    while ahead:
        record, message = pair = ahead.pop()
        if pair in seen or record is records.Present:
            continue
        seen.add(pair)
        yield pair
        for field in msgspec.structs.fields(record):
            inner = record_in(field.type)
            if inner is not None and field.encode_name in api_fields(message):
                ahead.append((inner, api_fields(message)[field.encode_name][1]))


def not_read(record: type[Record]) -> dict[str, int]:
    return {
        name: number for _, fields in NOT_READ.get(record.__name__, ()) for name, number in fields.items()
    }


@rows("record, message", [*records_of_a_spec()])
def test_each_field_that_the_api_has_is_read_or_says_why_not(record: type[Record], message: str) -> None:
    read_fields = {field.encode_name for field in msgspec.structs.fields(record)} - OF_OUR_OWN
    numbers = {name: number for name, (number, _) in api_fields(message).items()}

    assert set(numbers) - read_fields == set(not_read(record))
    assert not_read(record).items() <= numbers.items()
    assert read_fields <= set(numbers)


@rows("record, message", [*records_of_a_spec()])
def test_each_field_that_is_read_has_its_number_of_the_api(record: type[Record], message: str) -> None:
    names = {field.name: field.encode_name for field in msgspec.structs.fields(record)}
    read = {field.name: field for field in getattr(messages, record.__name__).DESCRIPTOR.fields}
    if "source" in read:
        read |= {field.name: field for field in read.pop("source").message_type.fields}

    assert {names[name]: field.number for name, field in read.items()} == {
        name: number for name, (number, _) in api_fields(message).items() if name in names.values()
    }


def test_there_is_no_verdict_for_what_is_no_part_of_a_spec() -> None:
    assert set(NOT_READ) <= {record.__name__ for record, _ in records_of_a_spec()}


def test_a_spec_with_every_field_that_is_not_read_is_known() -> None:
    every: dict[str, Any] = dict.fromkeys(not_read(PodSpec), 7)
    container = {"name": "main", **dict.fromkeys(not_read(records.Container), "x")}

    assert unknown_in_spec(msgspec.json.encode({**every, "containers": [container]})) == ""


UNKNOWN: list[tuple[dict[str, Any], str]] = [
    ({"gpuShare": 0}, "gpuShare"),
    ({"containers": [{"name": "main", "pinned": {}}]}, "containers[0].pinned"),
    ({"\x1b[2J`": 1}, "a field that no API has"),
    ({"tolerations": [{"key": "a", "until": 3}]}, "tolerations[0].until"),
    (
        {"affinity": {"nodeAffinity": {"avoided": []}}},
        "affinity.nodeAffinity.avoided",
    ),
]


@pytest.mark.parametrize(("spec", "name"), UNKNOWN)
def test_an_unknown_field_of_a_pod_in_json_is_noticed_and_kept_by_recordings(
    spec: Mapping[str, Any], name: str, tmp_path: Path
) -> None:
    pods, nodes = ListingBuilder(PODS), ListingBuilder(NODES)
    plain = a_pod("plain", node="n1", cpu="1")
    for item in (plain, plain | {"metadata": {"name": "new", "namespace": "default"}}):
        unknown = spec if item is not plain else {}
        pods.add(msgspec.json.encode(item | {"spec": {**item["spec"], **unknown}}))
    nodes.add(msgspec.json.encode(a_node("n1")))
    recording = Recording("test", {"pods": pods.listing(0.0), "nodes": nodes.listing(0.0)})
    save(recording, tmp_path / "saved", 0.0)

    for found in (recording, DumpReader(tmp_path / "saved").read([PODS, NODES])):
        listed = found.listings["pods"].pods
        assert listed is not None
        assert {pod.metadata.name: pod.spec.unknown_field for pod in listed.as_records()} == {
            "plain": "",
            "new": name,
        }


@rows("spec, name", UNKNOWN)
@rows("whole", [True, False])
def test_an_unknown_field_of_a_template_is_noticed(spec: Mapping[str, Any], name: str, whole: bool) -> None:
    plain = a_replica_set("web", replicas=1)
    template = plain["spec"].setdefault("template", {"spec": {}})
    changed = {"spec": {**template.get("spec", {}), **spec}}
    items = [plain, plain | {"metadata": {"name": "new"}, "spec": {**plain["spec"], "template": changed}}]
    builder = ListingBuilder(REPLICA_SETS)
    if whole:
        builder.add_list(msgspec.json.encode({"kind": "ReplicaSetList", "metadata": {}, "items": items}))
    else:
        for item in items:
            builder.add(msgspec.json.encode(item))

    found = {
        item.metadata.name: item.spec.template.spec.unknown_field
        for item in builder.listing().records
        if isinstance(item, Workload) and item.spec.template
    }
    assert found == {"web": "", "new": name}


# A field with the number 200 and a text, or a field 201 that says false, after all others.
@pytest.mark.parametrize(("more", "number"), [(b"\xc2\x0c\x01x", 200), (b"\xc8\x0c\x00", 201)])
def test_an_unknown_field_of_a_pod_in_protobuf_is_noticed(more: bytes, number: int) -> None:
    pod = msgspec.convert(a_pod("web", node="n1", cpu="1", labels={"zone": "a"}), Pod)
    body = encode_list([pod])
    message, pods = decode_answer(body)
    assert message.is_list
    outline = pods[0]
    assert not isinstance(outline, bytes)
    outline.spec.MergeFromString(more)
    whole = outline.SerializeToString()
    outline.metadata.name = "of-another-zone"  # the same spec in a class of its own
    outline.metadata.labels[:] = []
    builder = ListingBuilder(PODS)
    builder.add_protobuf(decode_answer(encode_items([whole, outline.SerializeToString()]))[1])

    listed = builder.listing().pods
    assert listed is not None
    assert len(listed.classes) == 2
    unknown = [item.spec.unknown_field for item in listed.as_records()]
    assert unknown == [f"field {number} of PodSpec"] * 2


@rows(
    "where, said",
    [
        (lambda spec: spec.containers[0], "field 200 of Container"),
        (lambda spec: spec.affinity.node_affinity, "field 200 of NodeAffinity"),
        (lambda spec: spec.volumes.add().source, "field 200 of Volume"),
        (lambda spec: spec.volumes.add().source.host_path, ""),  # of which only that it is there is read
        (lambda spec: spec.node_selector, ""),
    ],
)
def test_an_unknown_field_within_a_spec_in_protobuf_is_noticed(
    where: Callable[[Any], Any], said: str
) -> None:
    message = messages.PodSpec(containers=[{"name": "main"}, {"name": "side"}], node_selector={"a": "b"})
    found = where(message)
    if said or not hasattr(found, "items"):
        found.MergeFromString(b"\xc2\x0c\x01x")

    unknown: list[str] = []
    to_record(message, unknown)
    assert unknown == ([said] if said else [])


def test_a_pod_in_protobuf_with_fields_that_need_not_be_read_is_known() -> None:
    pod = msgspec.convert(a_pod("web", node="n1", cpu="1"), Pod)
    outline = decode_answer(encode_list([pod]))[1][0]
    assert not isinstance(outline, bytes)
    for number in not_read(PodSpec).values():
        tag = number << 3 | 2
        written = bytes([tag]) if tag < 0x80 else bytes([tag & 0x7F | 0x80, tag >> 7])
        outline.spec.MergeFromString(written + b"\x01x")
    builder = ListingBuilder(PODS)
    builder.add_protobuf(decode_answer(encode_items([outline.SerializeToString()]))[1])

    listed = builder.listing().pods
    assert listed is not None
    assert [item.spec.unknown_field for item in listed.as_records()] == [""]
