"""The envelope of a list on the wire, and which kind its items are."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from rebalancer.cluster.malformed import Encoded


class _ListMetadata(msgspec.Struct, rename="camel", gc=False):
    resource_version: str = ""
    continue_: str | None = msgspec.field(name="continue", default=None)


class _Envelope(msgspec.Struct, rename="camel", gc=False):
    kind: str = ""
    api_version: str = ""
    metadata: _ListMetadata = msgspec.field(default_factory=_ListMetadata)
    items: msgspec.Raw = msgspec.Raw(b"")


class _AnyObject(msgspec.Struct, gc=False):
    """An object whose fields do not matter."""


class _Header(msgspec.Struct, rename="camel", gc=False):
    kind: str = ""
    api_version: str = ""


class Page(msgspec.Struct, frozen=True):
    """A list, or a page of one: its kind as written, its items still encoded."""

    kind: str
    api_version: str
    items: list[msgspec.Raw]
    resource_version: str
    continue_token: str
    is_list: bool


_envelopes = msgspec.json.Decoder(_Envelope)
_items = msgspec.json.Decoder(list[msgspec.Raw])
_objects = msgspec.json.Decoder(list[_AnyObject])
_headers = msgspec.json.Decoder(_Header)
_NULL = b"null"
_ITEMS, _METADATA = b'"items":[', b'"metadata":'
_MAX_HEAD_BYTES = 64 << 10
_MAX_ITEM_BYTES = 16 << 20  # ten times what etcd stores of an object
_MAX_UNCHECKED_BYTES = 4 << 20
_MIN_OBJECT_BYTES = (
    16  # a list with more objects than one in so many bytes is not a list of Kubernetes objects
)


def decode_page(body: bytes) -> Page:
    """Split a list into its items; raises msgspec.DecodeError or ValueError when it is none.

    ``items: null`` is an empty list: Go writes it so. A list without ``items`` is not a list: what it held is
    unknown.
    """
    envelope = _envelopes.decode(body)
    is_list = envelope.kind.endswith("List")
    written = memoryview(envelope.items)
    if is_list and not written:
        raise msgspec.ValidationError("Object missing required field `items`")
    return Page(
        envelope.kind,
        envelope.api_version,
        _split(written) if is_list and written != _NULL else [],
        envelope.metadata.resource_version,
        envelope.metadata.continue_ or "",
        is_list,
    )


def _split(written: memoryview) -> list[msgspec.Raw]:
    """The items of a list; ValueError when they are too many for their size, or one is too large.

    An item costs some seventy bytes of memory whatever its size: a list of ``{}`` would take twenty times its
    own size.
    """
    if len(written) > _MAX_UNCHECKED_BYTES:
        text = bytes(written)
        if text.count(b"{") > len(text) // _MIN_OBJECT_BYTES:
            raise ValueError("holds more objects than its size allows")
        _objects.decode(text)
    items = _items.decode(written)
    if any(len(memoryview(item)) > _MAX_ITEM_BYTES for item in items):
        raise ValueError(f"an item is larger than {_MAX_ITEM_BYTES >> 20} MiB")
    return items


def decode_head(body: bytes) -> Page:
    """A list as ``decode_page`` reads it, without its items.

    Of built-in kinds a server writes them last: then the rest is not looked at, and may still turn out to be
    no JSON. Of custom resources it writes fields in alphabetical order: kind and metadata after the items.
    """
    place = body.find(_ITEMS, 0, _MAX_HEAD_BYTES)
    if place >= 0 and _METADATA in body[:place]:
        try:
            page = decode_page(body[: place + len(_ITEMS)] + b"]}")
            if page.is_list:
                return page
        except (ValueError, RecursionError):
            pass
    return replace(decode_page(body), items=[])


def header(item: Encoded) -> tuple[str, str]:
    """``(apiVersion, kind)`` of one encoded object."""
    head = _headers.decode(item)
    return head.api_version, head.kind
