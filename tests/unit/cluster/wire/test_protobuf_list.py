"""A LIST in protobuf is split into whole pods, however it arrives; one that broke off is not a list."""

from __future__ import annotations

import msgspec
import pytest

from rebalancer.cluster.dumps.listing import ListingBuilder
from rebalancer.cluster.kinds import PODS
from rebalancer.cluster.pod_classes import ClassIndex
from rebalancer.cluster.pods import PodFields
from rebalancer.cluster.records import Pod
from rebalancer.cluster.wire import messages
from rebalancer.cluster.wire import protobuf as protobuf_list
from rebalancer.cluster.wire.protobuf import PodListSplitter, ProtobufPods, outline_if_any
from tests.builders import a_pod
from tests.churn import digest_of
from tests.protobuf_encoder import encode_items, encode_list
from tests.rows import rows

NAMES = [f"web-{number}" for number in range(7)]


def a_list(token: str = "") -> bytes:
    pods = [msgspec.convert(a_pod(name, node="n1", cpu="100m"), Pod) for name in NAMES]
    return encode_list(pods, "4711", token)


def split(*pieces: bytes) -> list[str]:
    splitter = PodListSplitter()
    names = [pod.metadata.name for piece in pieces for pod in splitter.pods(piece)]  # type: ignore[union-attr]
    splitter.finish()
    assert splitter.head is not None
    assert (splitter.head.kind, splitter.head.resource_version) == ("PodList", "4711")
    return names


def test_the_pods_are_the_same_wherever_the_answer_is_cut_into_pieces() -> None:
    body = a_list()
    for place in range(len(body)):
        assert split(body[:place], body[place:]) == NAMES
    for size in (1, 7, 300):
        assert split(*(body[start : start + size] for start in range(0, len(body), size))) == NAMES


def test_a_list_that_breaks_off_at_any_byte_is_never_taken_for_a_whole_one() -> None:
    body = a_list()
    for end in range(len(body)):
        with pytest.raises(ValueError, match="broke off"):
            split(body[:end])


def test_what_follows_the_list_does_not_count() -> None:
    assert split(a_list() + b"\x1a\x00", b"\x22\x00") == NAMES  # as real servers end an answer


def test_a_pod_that_cannot_be_decoded_is_named_and_the_others_count() -> None:
    whole = [bytes(item.SerializeToString()) for item in PodListSplitter().pods(a_list())]  # type: ignore[union-attr]
    broken = b"\x0a\x0e\x0a\x05web-x\x1a\x05games" + b"\x12\x03\x52\x01\xff"  # spec.nodeName is not UTF-8
    body = encode_items([*whole[:3], broken, *whole[3:]], "4711")

    builder = ListingBuilder(PODS)
    splitter = PodListSplitter()
    builder.add_protobuf(splitter.pods(body))
    splitter.finish()
    listing = builder.listing()

    assert listing.pods is not None
    assert len(listing.pods) == len(NAMES)
    assert [str(item.kind) for item in listing.malformed] == ["Pod"]


def test_the_listing_is_that_of_a_page() -> None:
    page, pieces = ListingBuilder(PODS), ListingBuilder(PODS)
    for name in NAMES:
        page.add(msgspec.json.encode(a_pod(name, node="n1", cpu="100m")))
    splitter, body = PodListSplitter(), a_list()
    for start in range(0, len(body), 100):
        pieces.add_protobuf(splitter.pods(body[start : start + 100]))

    assert digest_of(pieces.listing()) == digest_of(page.listing())


@rows(
    "body",
    [
        b'{"kind": "PodList"}',
        b"k8s\x00" + b"\x12\x00",  # a list of nobody knows what
        b"k8s\x00" + b"\x0a\x02\x0a\x00" + b"\x0a\x00",
        b"k8s\x00" + b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",  # a length without end
        b"k8s\x00" + b"\x0a\x00" + b"\x12\x02" + b"\x0a\x04" + b"\x1a\x02ab",  # metadata longer than the list
        b"k8s\x00" + b"\x0a\x00" + b"\x12\x09" + b"\x0a\x00" + b"\x1a\x05hello",  # neither metadata nor pods
        b"k8s\x00" + b"\x0a\x00" + b"\x12\x04" + b"\x0a\x00" + b"\x12\x05hello",  # a pod longer than the list
    ],
)
def test_what_is_no_list_is_an_error(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"list|protobuf"):
        split(body)


def test_a_pod_larger_than_any_is_refused_before_it_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protobuf_list, "MAX_ITEM_BYTES", 10)
    with pytest.raises(ValueError, match="a pod of"):
        split(a_list()[:100])


def test_a_head_without_end_is_refused() -> None:
    with pytest.raises(ValueError, match="does not begin"):
        split(b"k8s\x00" + b"\x0a\xff\xff\xff\x07", *(b"x" * 1000 for _ in range(100)))


def test_a_pod_in_small_pieces_is_joined_once_and_not_at_each_piece() -> None:
    pod = msgspec.convert(a_pod("web-1", node="n1", annotations={"large": "x" * (1 << 20)}), Pod)
    body = encode_list([pod])
    splitter, found, most = PodListSplitter(), 0, 0
    for start in range(0, len(body), 512):
        found += len(splitter.pods(body[start : start + 512]))
        most = max(most, len(splitter._waiting))

    assert found == 1
    assert most > len(body) // 512 - 5


def test_a_length_ends_after_ten_bytes_or_is_none() -> None:
    with pytest.raises(ValueError, match="does not end"):
        split(b"k8s\x00" + b"\x0a" + b"\xff" * 10 + b"\x01")


def test_a_head_is_waited_for_up_to_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = b"k8s\x00" + b"\x0a\xff\xff\xff\x07" + b"x" * 91
    monkeypatch.setattr(protobuf_list, "_MAX_HEAD_BYTES", len(begun))
    splitter = PodListSplitter()
    assert splitter.pods(begun) == []
    with pytest.raises(ValueError, match="does not begin"):
        splitter.pods(b"x")


def test_pods_of_every_length_are_split() -> None:
    """Among them lengths whose first byte is 128: nothing but that more of it follows."""
    for size in range(140):
        pods = [msgspec.convert(a_pod("web-1", annotations={"a": "x" * size}), Pod)] * 2
        splitter = PodListSplitter()
        assert len(splitter.pods(encode_list(pods))) == 2
        assert splitter.head is not None
        assert splitter.head.is_list


def test_a_list_without_pods_is_a_list() -> None:
    splitter = PodListSplitter()
    assert splitter.pods(encode_list([])) == []
    splitter.finish()


def test_of_pods_that_resemble_no_other_only_so_many_classes_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(protobuf_list, "_MAX_CACHED_CLASSES", 2)
    monkeypatch.setattr(protobuf_list, "_MAX_CACHED_SPECS", 2)
    pods = ProtobufPods(PODS, ClassIndex())
    for number in (0, 1, 2, 3, 4, 0):
        metadata = messages.Metadata(name=f"web-{number}", namespace="shop")
        spec = messages.PodSpec(scheduler_name=f"scheduler-{number}")
        item = messages.Pod(metadata=metadata, spec=spec).SerializeToString()
        assert isinstance(pods.read(outline_if_any(item), number), PodFields)
        assert 0 < len(pods._classes) <= 2
        assert 0 < len(pods._specs) <= 2
    assert len(pods._numbers.classes) == 5
