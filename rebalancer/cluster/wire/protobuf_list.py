"""Splits a LIST of pods in protobuf while it arrives, so that it is never whole in memory.

A LIST without pages is as large as the cluster, but its layout is simple, and every length is known before
what it measures:

    6b 38 73 00                    the mark of an API server
    0a <length> type               what the list is of
    12 <length>                    the list:
       0a <length> metadata           its version, before all items
       12 <length> pod                a pod, and another one, …
       12 <length> pod
    1a 00 22 00                    after the list: nothing that counts

A list that breaks off is known by its own length, whatever the transport says.
"""

from __future__ import annotations

from rebalancer.cluster.wire.json_items import Page
from rebalancer.cluster.wire.protobuf_pods import MAGIC, Pods, outline_if_any
from rebalancer.cluster.wire.protobuf_records import parse

MAX_ITEM_BYTES = 16 << 20  # ten times what etcd stores of an object
_MAX_HEAD_BYTES = 64 << 10
_FIRST, _SECOND = 0x0A, 0x12  # the tags of fields 1 and 2, both with a length before their bytes
_MAX_VARINT_BYTES = 10


class PodListSplitter:
    """Takes a list piece by piece and gives the pods that are whole; ValueError for what is no such list."""

    def __init__(self) -> None:
        self.head: Page | None = None
        self._left = b""
        self._ahead = 0  # bytes of the list that have not been given out yet

    def pods(self, piece: bytes) -> Pods:
        """The pods that this piece completes."""
        data = self._left + piece
        at = 0
        if self.head is None:
            begun = self._begin(data)
            if begun is None:
                if len(data) > _MAX_HEAD_BYTES:
                    raise ValueError("a list in protobuf that does not begin")
                self._left = data
                return []
            at = begun
        first, end = at, at + self._ahead
        while at < end:
            field = _field(data, at, _SECOND)
            if field is None:
                break
            at_item, length = field
            if length > MAX_ITEM_BYTES or at_item + length > end:
                raise ValueError(f"a pod of {length} bytes in a list in protobuf")
            if at_item + length > len(data):
                break
            at = at_item + length
        self._ahead -= at - first
        self._left = data[at:] if self._ahead else b""
        return _decoded(data[first:at]) if at > first else []

    def finish(self) -> None:
        """ValueError where the list has broken off."""
        if self.head is None or self._ahead:
            raise ValueError("a list in protobuf that broke off")

    def _begin(self, data: bytes) -> int | None:
        """Read what stands before the pods; where they begin, or None where more is needed to know."""
        from rebalancer.cluster.wire import pods_pb2  # noqa: PLC0415 - as in ``parse``

        if not MAGIC.startswith(data[: len(MAGIC)]):
            raise ValueError("not protobuf of an API server")
        about = _field(data, len(MAGIC), _FIRST)
        held = _field(data, sum(about), _SECOND) if about else None
        metadata = _field(data, held[0], _FIRST) if held else None
        if about is None or held is None or metadata is None or len(data) < sum(metadata):
            return None
        kind = parse(pods_pb2.TypeMeta, data[about[0] : sum(about)])
        listed = parse(pods_pb2.ListMeta, data[metadata[0] : sum(metadata)])
        self.head = Page(
            kind.kind, kind.api_version, [], listed.resource_version, listed.continue_token, is_list=True
        )
        self._ahead = sum(held) - sum(metadata)
        if self._ahead < 0:
            raise ValueError("a list in protobuf shorter than its metadata")
        return sum(metadata)


def _field(data: bytes, at: int, tag: int) -> tuple[int, int] | None:
    """Where the bytes of a field begin, and how many there are; None where more is needed to know.

    Raises ValueError for another field.
    """
    if at >= len(data):
        return None
    if data[at] != tag:
        raise ValueError(f"a list in protobuf with the field {data[at]:#x}")
    length = shift = 0
    for place in range(at + 1, at + 1 + _MAX_VARINT_BYTES):
        if place >= len(data):
            return None
        byte = data[place]
        length |= (byte & 0x7F) << shift
        if byte < 0x80:
            return place + 1, length
        shift += 7
    raise ValueError("a list in protobuf with a length that does not end")


def _decoded(items: bytes) -> Pods:
    from rebalancer.cluster.wire import pods_pb2  # noqa: PLC0415 - as in ``parse``

    try:
        return parse(pods_pb2.PodList, items).items
    except ValueError:
        return [outline_if_any(item) for item in parse(pods_pb2.EncodedPodList, items).items]
