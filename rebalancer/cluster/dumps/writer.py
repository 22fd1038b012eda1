"""Writes a recording as a folder that ``--from`` reads: a zstd file a kind, documents beside them.

Only the fields we decode are written: no environment variables, no arguments but the feature gates of a
kube-scheduler, no managed fields. Documents are written without their secrets, and a recording is readable by
its owner only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
import zstandard

from rebalancer import files
from rebalancer.cluster.dumps.listing import CONFIGURATIONS, Listing, PackedPodMetrics, Recording
from rebalancer.cluster.kinds import BY_PLURAL
from rebalancer.cluster.malformed import Malformed
from rebalancer.documents import redacted_text
from rebalancer.errors import InputError
from rebalancer.redaction import each_text, without_secrets

_LEVEL = 3
ABOUT = "recording.json"
_NOT_RECORDED = b"# Not recorded: it is not valid YAML, so its secrets could not be found.\n"
_encoder = msgspec.json.Encoder(order="deterministic")


def _malformed_stub(malformed: Malformed) -> bytes:
    """An object that is malformed again when read, for the same reason: its content is not kept."""
    stub = {
        "metadata": {
            "name": malformed.name,
            "namespace": malformed.namespace,
            "labels": "malformed when recorded",
        },
        "spec": {"nodeName": malformed.node_name},
        "malformed": malformed.reason,
    }
    return _encoder.encode(stub)


def list_pieces(listing: Listing) -> Iterator[bytes]:
    """A typed list in JSON, piece by piece, items and maps sorted: the same records, the same bytes."""
    kind = listing.kind
    head = _encoder.encode(
        {
            "apiVersion": kind.api_version,
            "kind": f"{kind.name}List",
            "metadata": {"resourceVersion": listing.resource_version},
        }
    )
    yield head[:-1] + b',"items":['
    between = b""
    for record in listing.records if listing.pods is None else listing.pods.as_records():
        yield between + _encoder.encode(record)
        between = b",\n"
    for malformed in listing.malformed:
        yield between + _malformed_stub(malformed)
        between = b",\n"
    yield b"]}\n"


def digest(recording: Recording) -> str:
    """A digest of what was read, whatever the reader, the page size and the order of the objects."""
    total = hashlib.sha256()
    for plural in sorted(recording.listings):
        listing = recording.listings[plural]
        if listing.kind.optional and not len(listing) and not listing.malformed:
            continue  # empty in a live cluster without it, absent in its dump
        total.update(plural.encode())
        for part in _parts(listing):
            total.update(part)
        for malformed in sorted(map(str, listing.malformed)):
            total.update(malformed.encode())
    for name in sorted(set(recording.documents) - {ABOUT}):  # who recorded, not what
        total.update(name.encode() + b"\0" + document_without_secrets(name, recording.documents[name]))
    return f"sha256:{total.hexdigest()}"


def document_without_secrets(name: str, content: bytes) -> bytes:
    """A document beside the kinds as it is recorded: JSON, but for a scheduler's configuration."""
    if name in CONFIGURATIONS:
        try:
            return redacted_text(content.decode(), name).encode()
        except (InputError, UnicodeDecodeError):
            return _NOT_RECORDED
    try:
        value = msgspec.json.decode(content)
    except (ValueError, RecursionError):
        return without_secrets(content.decode(errors="replace")).encode()
    safe = each_text(value, without_secrets)
    return content if safe == value else msgspec.json.encode(safe)


def _parts(listing: Listing) -> Iterator[bytes]:
    if listing.pods is not None:
        return listing.pods.digest_parts()
    if isinstance(listing.records, PackedPodMetrics):
        return listing.records.digest_parts()
    return map(_encoder.encode, listing.records)


def about(recording: Recording, now: float) -> bytes:
    """The document that says who was recorded, when, and what could not be read."""
    source = without_secrets(recording.source)
    return _encoder.encode({"source": source, "savedAt": now, "unread": dict(recording.unread)})


def check_folder(folder: Path) -> None:
    """InputError unless a recording can be written there: no such folder is there yet, or an empty one."""
    with files.refusing("cannot be written to", folder, "name a new folder"):
        if folder.exists() and any(folder.iterdir()):
            raise InputError("the folder is not empty", where=str(folder), hint="name a new one")


def save(recording: Recording, folder: Path, now: float) -> None:
    """Write a recording into a new or empty folder; InputError when that cannot be done."""
    check_folder(folder)
    with files.refusing("cannot write", folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for plural in sorted(recording.listings):
            _write_packed(
                folder / f"{BY_PLURAL[plural].plural}.json.zst", list_pieces(recording.listings[plural])
            )
        for name, content in recording.documents.items():
            files.replace(folder / name, document_without_secrets(name, content))
        files.replace(folder / ABOUT, about(recording, now))


def _write_packed(path: Path, pieces: Iterable[bytes]) -> None:
    """Pack a file piece by piece, whole or not at all."""
    compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)
    with files.replacing(path) as raw, compressor.stream_writer(raw, closefd=False) as packed:
        for piece in pieces:
            packed.write(piece)
