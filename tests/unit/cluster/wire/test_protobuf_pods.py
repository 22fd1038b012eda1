"""Pods read in protobuf are the pods read in JSON; the files are what kube-apiserver 1.34 answered."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalancer.cluster import records
from rebalancer.cluster.dumps.listing import Listing, ListingBuilder
from rebalancer.cluster.dumps.writer import list_pieces
from rebalancer.cluster.kinds import PODS
from rebalancer.cluster.records import Pod
from rebalancer.cluster.wire import messages
from rebalancer.cluster.wire.json_items import decode_page
from rebalancer.cluster.wire.protobuf import decode_answer, parse, to_record
from tests.builders import LONG_AGO, a_pod, owned_by
from tests.conftest import examples
from tests.protobuf_encoder import encode_items, encode_list
from tests.rows import rows

DATA = Path(__file__).parent / "data"
ROOT = Path(__file__).parents[4]


def read_protobuf(*bodies: bytes) -> Listing:
    builder = ListingBuilder(PODS)
    for body in bodies:
        builder.add_protobuf(decode_answer(body)[1])
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
    head, outlines = decode_answer(body)
    pods = [
        to_record(parse(messages.Pod, outline if isinstance(outline, bytes) else outline.SerializeToString()))
        for outline in outlines
    ]

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
    assert in_protobuf.pods.names.index("done") >= in_protobuf.pods.unfinished


def test_pods_that_differ_only_in_the_name_of_their_token_share_a_class() -> None:
    for listing in (
        read_protobuf((DATA / "pods-shop.pb").read_bytes()),
        read_json((DATA / "pods-shop.json").read_bytes()),
    ):
        assert listing.pods is not None
        row = {name: row for row, name in enumerate(listing.pods.names)}
        first, second = (listing.pods.columns.row(row[name]).pod_class for name in ("web-1", "web-2"))
        assert first == second
        assert listing.pods.classes[first].spec.volumes is None


@rows("selector", ['{"pool": "NAME"}', '{"NAME": "x"}'])
@rows("volumes", ["[]", '[{"name": "NAME"}]'])
def test_a_text_like_the_name_of_a_token_tells_pods_apart(selector: str, volumes: str) -> None:
    spec = f'{{"nodeSelector": {selector}, "volumes": {volumes}}}'
    specs = [json.loads(spec.replace("NAME", f"kube-api-access-{end}")) for end in ("abcde", "fgh12")]
    pods = [a_pod(f"web-{number}", node="n1", **each) for number, each in enumerate(specs)]
    in_json = json.dumps({"kind": "PodList", "items": pods}, separators=(",", ":")).encode()
    encoded = encode_list(msgspec.convert(pod, Pod) for pod in pods)
    for listing in (read_json(in_json), read_protobuf(encoded)):
        assert listing.pods is not None
        found = [item.spec.node_selector for item in listing.pods.classes]
        assert found == [each["nodeSelector"] for each in specs]


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
@settings(max_examples=examples(200))
def test_the_same_pods_are_the_same_columns_in_either_encoding(items: list[dict[str, Any]]) -> None:
    pods = [msgspec.convert(item, Pod) for item in items]
    in_json = read_json(json.dumps({"kind": "PodList", "items": items}).encode())

    assert everything(read_protobuf(encode_list(pods))) == everything(in_json)


_ANSWER = parse(messages.AnswerOfEncodedPods, (DATA / "pods-shop.pb").read_bytes()[4:])


@given(st.data(), st.sampled_from(list(_ANSWER.raw.items)), st.binary(max_size=60))
@settings(max_examples=examples(200))
def test_damaged_bytes_cost_the_pod_they_are_in_and_no_other(
    data: st.DataObject, pod: bytes, damage: bytes
) -> None:
    place = data.draw(st.integers(0, len(pod)))
    damaged = pod[:place] + damage + pod[place + len(damage) :]
    listing = read_protobuf(encode_items([damaged, encoded_pod("sound")]))

    assert_one_pod_is_sound_and_the_other_kept_or_named(listing)


def encoded_pod(name: str) -> bytes:
    metadata = messages.Metadata(name=name, namespace="fuzz")
    pod: Message = messages.Pod(metadata=metadata)
    return pod.SerializeToString()


def assert_one_pod_is_sound_and_the_other_kept_or_named(listing: Listing) -> None:
    assert listing.pods is not None
    names = list(listing.pods.names)
    assert "sound" in names
    assert len(names) - 1 + len(listing.malformed) <= 1
    for malformed in listing.malformed:
        assert malformed.name
        assert malformed.reason
    assert b"".join(list_pieces(listing))  # whatever was kept can be recorded


_NUMBERS = st.one_of(
    st.sampled_from([0, 1, 1 << 31, 1 << 32, 1 << 60, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]),
    st.integers(0, (1 << 64) - 1),
)
_TEXTS = st.sampled_from(
    [b"", b"Ready", b"True", b"Running", b"-1", b"1e999", b"\xff", b"\xed\xa0\x80", b"a" * 300]
)


def varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*found, value))


def field(number: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def messages_like(kind: Any, depth: int = 0) -> st.SearchStrategy[bytes]:
    """Messages with the fields of a kind, each with a value of its type or of another, and some twice."""
    fields = []
    for each in kind.fields:
        fitting: st.SearchStrategy[bytes | int] = _TEXTS if each.type in _LENGTH_DELIMITED else _NUMBERS
        if each.message_type is not None and depth < 6:
            fitting = messages_like(each.message_type, depth + 1)
        values = st.one_of(fitting, fitting, fitting, _NUMBERS, _TEXTS)
        fields.append(st.builds(field, st.just(each.number), values))
    return st.lists(st.one_of(fields), max_size=6).map(b"".join) if fields else st.just(b"")


_LENGTH_DELIMITED = frozenset({9, 11, 12})  # string, message, bytes


@given(messages_like(messages.Pod.DESCRIPTOR))
@settings(max_examples=examples(300))
def test_a_pod_of_any_fields_and_values_is_kept_or_named_as_malformed(pod: bytes) -> None:
    named = messages.Pod(metadata=messages.Metadata(name="odd", namespace="fuzz")).SerializeToString()
    listing = read_protobuf(encode_items([pod + named, encoded_pod("sound")]))

    assert_one_pod_is_sound_and_the_other_kept_or_named(listing)


_TIMES = {
    "metadata.creation_timestamp": lambda pod: pod.metadata.creation_timestamp,
    "metadata.deletion_timestamp": lambda pod: pod.metadata.deletion_timestamp,
    "status.start_time": lambda pod: pod.status.start_time,
}


@rows("seconds", [1 << 60, -(1 << 60), 253_402_300_800, -62_135_596_801])
@rows("where", _TIMES)
def test_a_time_that_no_calendar_has_makes_its_pod_malformed(where: str, seconds: int) -> None:
    pod = messages.Pod(
        metadata=messages.Metadata(name="odd", namespace="fuzz"), spec=messages.PodSpec(node_name="n1")
    )
    _TIMES[where](pod).seconds = seconds
    listing = read_protobuf(encode_items([pod.SerializeToString(), encoded_pod("sound")]))

    assert listing.pods is not None
    assert listing.pods.names == ("sound",)
    assert [(item.name, item.node_name) for item in listing.malformed] == [("odd", "n1")]
    assert "between the years 1 and 9999" in listing.malformed[0].reason


def test_a_condition_with_a_time_that_no_calendar_has_does_not_make_its_pod_malformed() -> None:
    time = field(1, 1 << 60)
    condition = field(1, b"Ready") + field(2, b"True") + field(4, time)
    listing = read_protobuf(encode_items([encoded_pod("web") + field(3, field(2, condition))]))

    assert listing.pods is not None
    assert listing.pods.names == ("web",)
    assert listing.pods.columns.truths("ready").tolist() == [True]


def test_a_pod_with_a_text_that_is_no_text_is_still_known_by_name_and_node() -> None:
    pod = messages.Pod(
        metadata=messages.Metadata(name="odd", namespace="fuzz"), spec=messages.PodSpec(node_name="n1")
    ).SerializeToString()
    status = field(3, field(1, b"\xff"))
    listing = read_protobuf(encode_items([pod + status, encoded_pod("sound")]))

    assert listing.pods is not None
    assert listing.pods.names == ("sound",)
    assert [str(item) for item in listing.malformed] == ["Pod fuzz/odd: not protobuf: no Pod"]
    assert listing.malformed[0].node_name == "n1"


def test_an_annotation_that_is_no_text_does_not_make_its_pod_malformed() -> None:
    metadata = messages.Metadata(name="web", namespace="fuzz", annotations={"a.example/b": b"\xff"})
    listing = read_protobuf(encode_items([messages.Pod(metadata=metadata).SerializeToString()]))

    assert listing.pods is not None
    assert listing.pods.names == ("web",)


def test_a_list_cut_short_is_no_list() -> None:
    body = (DATA / "pods-shop.pb").read_bytes()
    for length in range(0, len(body), 97):
        with pytest.raises(ValueError, match="not protobuf"):
            decode_answer(body[:length])


def test_messages_and_their_fields_are_named_after_records_and_their_attributes() -> None:
    checked = set()

    def check(message: Any, record: type[records.Record]) -> None:
        checked.add(message.name)
        for each in message.fields:
            if each.name == "source":
                check(each.message_type, record)
                continue
            assert each.name in record.__struct_fields__, f"{message.name}.{each.name}"
            kind = each.message_type
            if kind is not None and not kind.GetOptions().map_entry and kind.name != "Time":
                check(kind, getattr(records, kind.name))

    check(messages.Pod.DESCRIPTOR, Pod)
    assert {"Toleration", "VolumeSource", "ContainerStatus"} <= checked


@pytest.mark.parametrize("implementation", ["upb", "python"])
def test_every_implementation_of_protobuf_decodes_maps(implementation: str) -> None:
    made = "messages.Pod(metadata=messages.Metadata(labels={'app': 'web'})).SerializeToString()"
    read = f"dict(messages.Pod.FromString({made}).metadata.labels)"
    found = subprocess.run(
        [sys.executable, "-c", f"from rebalancer.cluster.wire import messages; print({read})"],
        cwd=ROOT,
        env={**os.environ, "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": implementation},
        capture_output=True,
        text=True,
        check=False,
    )

    assert found.stdout == "{'app': 'web'}\n", found.stderr


def test_what_containers_have_been_through_is_read_as_in_json() -> None:
    pod = a_pod("web-1", node="n1", cpu="100m")
    states = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "restartCount": 3}
    ended = {"lastState": {"terminated": {"reason": "Error", "exitCode": 2}}}
    pod["status"]["containerStatuses"] = [
        {"name": "main", **states, **ended},
        {"name": "side", "state": {"waiting": {"reason": "ImagePullBackOff"}}},
    ]
    pod["status"]["initContainerStatuses"] = [{"name": "setup", "restartCount": 2}]
    found = read_protobuf(encode_list([msgspec.convert(pod, Pod)]))

    assert everything(found) == everything(
        read_json(msgspec.json.encode({"kind": "PodList", "items": [pod]}))
    )
    assert found.pods is not None
    reports = {report.name: report for report in found.pods.columns.row(0).containers}
    setup, main = reports["setup"], reports["main"]
    assert reports["side"].waiting == "ImagePullBackOff"
    assert (main.waiting, main.restarts, main.last_exit_code) == ("CrashLoopBackOff", 3, 2)
    assert (setup.name, setup.init, setup.restarts, main.init) == ("setup", True, 2, False)


def test_a_pod_whose_name_no_server_admits_is_malformed() -> None:
    found = read_protobuf(encode_list([msgspec.convert(a_pod("web 1"), Pod)]))
    assert [item.name for item in found.malformed] == ["#0"]
