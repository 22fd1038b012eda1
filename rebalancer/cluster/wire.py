"""The envelope of a list on the wire, and which kind its items are."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec


class _ListMetadata(msgspec.Struct, rename="camel", gc=False):
    resource_version: str = ""
    continue_: str | None = msgspec.field(name="continue", default=None)


class _Envelope(msgspec.Struct, rename="camel", gc=False):
    kind: str = ""
    api_version: str = ""
    metadata: _ListMetadata = msgspec.field(default_factory=_ListMetadata)
    items: msgspec.Raw = msgspec.Raw(b"null")


class _Header(msgspec.Struct, rename="camel", gc=False):
    kind: str = ""
    api_version: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """A list, or a page of one: its kind as written, its items still encoded."""

    kind: str
    api_version: str
    items: list[msgspec.Raw]
    resource_version: str
    continue_token: str
    is_list: bool


_envelopes = msgspec.json.Decoder(_Envelope)
_items = msgspec.json.Decoder(list[msgspec.Raw])
_headers = msgspec.json.Decoder(_Header)


def decode_page(body: bytes) -> Page:
    """Split a list into its items; raises msgspec.DecodeError or ValueError when it is none.

    ``items: null`` is an empty list: Go writes it so.
    """
    envelope = _envelopes.decode(body)
    items = (
        [] if len(memoryview(envelope.items)) == 4 else _items.decode(envelope.items)
    )  # only null has four bytes
    return Page(
        envelope.kind,
        envelope.api_version,
        items,
        envelope.metadata.resource_version,
        envelope.metadata.continue_ or "",
        envelope.kind.endswith("List"),
    )


def header(item: msgspec.Raw | bytes) -> tuple[str, str]:
    """``(apiVersion, kind)`` of one encoded object."""
    head = _headers.decode(item)
    return head.api_version, head.kind
