"""The cluster that the targets are embedded in: what one of them does not fuzz is sound."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from rebalancer.cluster.dumps.listing import Recording
from rebalancer.cluster.dumps.reader import DumpReader
from rebalancer.cluster.dumps.writer import digest, save
from rebalancer.cluster.snapshot import Snapshot, build_snapshot
from tests.integration.cli.dumps import VERSIONS, a_rich_cluster, write_dump

MEMORY = Path("/dev/shm")
_PREFIX = "rebalancer-fuzz-"  # somebody else may fuzz here too


@cache
def folder() -> Path:
    """A folder for the files of this process, in memory if there is one."""
    return new_folder(MEMORY if MEMORY.is_dir() else Path(tempfile.gettempdir()))


def new_folder(place: Path) -> Path:
    """A folder for the files of this process; a fuzzer ends without cleaning up, so the next one does it."""
    for left in place.glob(f"{_PREFIX}*-*"):
        owner = left.name.removeprefix(_PREFIX).split("-")[0]
        if owner.isdecimal() and not _runs(int(owner)):
            shutil.rmtree(left, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=place))


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # of somebody else
        pass
    return True


@cache
def sound() -> Recording:
    """The recording of a sound cluster."""
    return DumpReader(write_dump(folder() / "sound", a_rich_cluster())).read()


@cache
def saved() -> Path:
    """The same, as ``snapshot save`` writes it."""
    place = folder() / "saved"
    save(sound(), place, 0.0)
    return place


def mixed_items() -> list[dict[str, Any]]:
    """Every object of the cluster with its own kind, as ``kubectl get a,b -o json`` lists them."""
    return [
        {"apiVersion": VERSIONS[plural][0], "kind": VERSIONS[plural][1], **item}
        for plural, items in a_rich_cluster().items()
        for item in items
    ]


def as_kubectl_prints(items: list[dict[str, Any]]) -> bytes:
    """A ``List`` in kubectl's layout."""
    body = {"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}}
    return json.dumps(body, indent=4).encode() + b"\n"


@cache
def sound_snapshot() -> Snapshot:
    """The sound cluster in columns."""
    return build_snapshot(sound())


def joined(recording: Recording) -> Snapshot:
    """What was read, completed by the sound cluster, in columns; and its digest, which every plan names."""
    whole = replace(recording, listings={**sound().listings, **recording.listings})
    digest(whole)
    return build_snapshot(whole)
