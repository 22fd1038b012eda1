"""Where timelines are: a folder, or the URL of one in an object store, as workers elsewhere are given it.

    days/                      read where it is
    s3://recordings/eu/days    copied once by each process, and read there

Whatever fsspec knows can be read: ``s3://`` with s3fs installed, ``gs://`` with gcsfs, ``abfs://`` with
adlfs, each with its own variables for the login.
"""

from __future__ import annotations

import atexit
import hashlib
import re
import shutil
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

from rebalancer import files
from rebalancer.errors import InputError, UnreachableError
from rebalancer.observe.timeline import MAX_MOMENTS

MAX_BYTES = 16 << 30  # of one timeline
_MOMENTS = (".full.zst", ".diff.zst")
_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.ASCII)
_LOGIN = re.compile(r"(?<=://)[^/@]*@")


def is_url(place: str) -> bool:
    """Whether a place is the URL of a folder, and not a path."""
    return _URL.match(place) is not None


def plainly(place: str) -> str:
    """A place in messages: without a login, and not endless."""
    return _LOGIN.sub("", place)[:200]


def is_there(place: str) -> bool:
    """Whether something is at a place; False where nobody knows."""
    if not is_url(place):
        return files.is_there(Path(place))
    try:
        store, path = _opened(place)
        return bool(store.exists(path))
    except UnreachableError:
        return False


def folder_of(place: str) -> Path:
    """The folder with a place's timeline: of a URL a copy, that is removed when this process ends.

    InputError for what holds too much for a timeline, UnreachableError where the store does not answer.
    """
    return _copy(place) if is_url(place) else Path(place)


@lru_cache(maxsize=64)
def _copy(place: str) -> Path:
    store, path = _opened(place)
    folder = _copies() / hashlib.sha256(place.encode()).hexdigest()[:32]
    folder.mkdir(exist_ok=True)
    try:
        entries = {str(entry["name"]).rpartition("/")[2]: entry for entry in store.ls(path, detail=True)}
        moments = {name: entry for name, entry in entries.items() if name.endswith(_MOMENTS)}
        sizes = [int(entry.get("size") or 0) for entry in moments.values()]
        if len(sizes) > MAX_MOMENTS or sum(sizes) > MAX_BYTES:
            raise InputError("holds more than a timeline may", where=plainly(place))
        for (name, entry), size in zip(moments.items(), sizes, strict=True):
            (folder / name).write_bytes(store.cat_file(entry["name"], start=0, end=size))
    except InputError:
        raise
    except Exception as error:  # each store fails in ways of its own
        raise _unreachable(place, error) from error
    return folder


@lru_cache(maxsize=1)
def _copies() -> Path:
    folder = tempfile.mkdtemp(prefix="rebalancer-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _opened(place: str) -> tuple[Any, str]:
    """The store of a URL, and the path in it."""
    try:
        from fsspec.core import url_to_fs  # noqa: PLC0415 - comes with Dask
    except ImportError:
        raise InputError(
            "URLs need fsspec", where=plainly(place), hint="pipx inject rebalancer fsspec"
        ) from None
    try:
        store_and_path: tuple[Any, str] = url_to_fs(place)
    except Exception as error:  # a package that is missing, a URL that is none
        raise _unreachable(place, error) from error
    return store_and_path


def _unreachable(place: str, error: Exception) -> UnreachableError:
    words = _LOGIN.sub("", f"{type(error).__name__}: {error}".splitlines()[0])
    return UnreachableError(f"cannot be read: {words:.200}", where=plainly(place))
