"""The journal: each decision is one line of JSON, on disk before and after each eviction.

It shows how far a killed run got. An ``evicting`` line is written before the request and another line about
the same pod after the answer, so an ``evicting`` line without a successor is an eviction
whose outcome is unknown:

    {"event": "evicting", "uid": "web-1", …}
    {"event": "evicted", "uid": "web-1", …}
    {"event": "evicting", "uid": "web-2", …}      killed here: was web-2 evicted?
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, Self

import msgspec

from rebalancer.cluster import times
from rebalancer.documents import read_bytes
from rebalancer.errors import InputError, SafetyError
from rebalancer.files import is_file, make_durable, may_exist, refusing
from rebalancer.planning.plan import Cleanup, Move
from rebalancer.redaction import safe_json, without_secrets

LOGGER = logging.getLogger(__name__)

RUN_STARTED = "run-started"
EVICTING = "evicting"  # each before the request, and followed by what it came to
RESTARTING = "restarting"
REMOVING = "removing"
ASKING = "asking"  # in their stead in a dry run
_MAX_TEXT_LENGTH = 1000
MAX_BYTES = (
    16 << 20
)  # some 50,000 lines, of weeks of runs: as many as one reads, and as fit in 256 MiB decoded


class JournalError(SafetyError):
    """A decision could not be recorded; without a record nothing is evicted."""


class Journal(msgspec.Struct, eq=False):
    """Writes decisions to a stream; to a file also durably, line by line.

    A stream that is not ``owned``, such as stderr, stays open: errors are printed there afterwards.
    """

    _stream: IO[str]
    _run: str
    _clock: Callable[[], float]
    where: str = "journal"
    owned: bool = False
    is_dry_run: bool = False  # then every line says so
    _durable: bool = False

    def __post_init__(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # what is written to a pipe cannot be made durable
            self._durable = stat.S_ISREG(os.fstat(self._stream.fileno()).st_mode)

    @classmethod
    def to_file(cls, path: Path, run: str, clock: Callable[[], float]) -> Self:
        """A journal that appends to a file. Raises InputError when it cannot be opened."""
        with refusing("cannot open the journal", path, "name a file; without --journal it goes to stderr"):
            is_new = not may_exist(path)
            with contextlib.ExitStack() as opened:
                stream = opened.enter_context(path.open("a+b"))
                _end_last_line(stream)
                if is_new:
                    make_durable(path.parent)  # else a crash may lose the file's name with all its lines
                opened.pop_all()
        text = io.TextIOWrapper(stream, encoding="utf-8", errors="backslashreplace", newline="\n")
        return cls(text, run, clock, where=str(path), owned=True)

    def write(self, event: str, about: Move | Cleanup | None = None, **fields: Any) -> None:
        """Record one decision, flushed and durable when this returns. Raises JournalError."""
        now = self._clock()
        line: dict[str, Any] = {"time": times.render(now), "run": self._run, "event": event}
        if self.is_dry_run:
            line["dryRun"] = True
        if about is not None:
            line |= {"pod": about.pod.full_name, "uid": about.pod.uid, "workload": about.pod.workload}
            fields = {"strategy": about.strategy, **fields}
        if isinstance(about, Move):
            line |= {"from": about.from_node, "wave": about.wave}
        elif about is not None:
            line["from"] = about.node
        line |= {key: _short(value) for key, value in fields.items() if value not in (None, "")}
        try:
            if self.owned and self._durable and not os.fstat(self._stream.fileno()).st_nlink:
                raise JournalError("the journal was deleted: nobody would find its lines", where=self.where)
            self._stream.write(safe_json(line) + "\n")
            self._stream.flush()
            if self._durable:
                os.fsync(self._stream.fileno())
        except (OSError, ValueError) as error:
            raise JournalError(f"cannot write the journal: {error}", where=self.where) from error

    def close(self) -> None:
        """Close the stream if it is our own."""
        if self.owned:
            with contextlib.suppress(OSError):
                self._stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def rotate(path: Path) -> None:
    """Rename a journal that has grown to ``MAX_BYTES`` to ``.1``, in place of the one before; between runs.

    Raises InputError when it cannot be renamed.
    """
    with refusing("cannot rotate the journal", path, "name a file in a folder that may be written"):
        if is_file(path) and path.stat().st_size >= MAX_BYTES:
            path.replace(path.with_name(f"{path.name}.1"))
            make_durable(path.parent)


_TEXTS = ("time", "run", "event", "uid", "pod", "from")  # by which lines are distinguished


def read_journal(path: Path) -> tuple[Mapping[str, Any], ...]:
    """The lines of a journal, without last lines of runs that a crash cut short; of a long one, its end.

    Raises InputError, with file and line, for any other line that is not a JSON object.
    """
    content, skipped_bytes = _end_of(path)
    texts = [(number, line) for number, line in enumerate(content.split(b"\n"), start=1) if line.strip()]
    place = f"{path}"
    if skipped_bytes:
        LOGGER.warning(
            "%s is longer than %d MiB: only its end is read, without the first %d bytes",
            path,
            MAX_BYTES >> 20,
            skipped_bytes,
        )
        place = f"{path}: behind byte {skipped_bytes}"
    lines: list[Mapping[str, Any]] = []
    broken: InputError | None = None
    for number, text in texts:
        try:
            line = _decode(text, f"{place}:{number}")
        except InputError as error:
            if broken is not None:
                raise broken from None
            broken = error
            continue
        if broken is not None and line.get("event") != RUN_STARTED:
            raise broken
        broken = None
        lines.append(line)
    if broken is not None and not lines and content.endswith(b"\n"):  # a whole line, and so no journal
        raise broken
    return tuple(lines)


def _end_of(path: Path) -> tuple[bytes, int]:
    """The last whole lines of a file, at most ``MAX_BYTES``; and how many bytes stand before them."""
    if not is_file(path):
        return read_bytes(path, largest=MAX_BYTES), 0
    with refusing("cannot be read", path), path.open("rb") as file:
        begin = max(file.seek(0, os.SEEK_END) - MAX_BYTES, 0)
        if begin == 0:
            file.seek(0)
            return file.read(MAX_BYTES), 0
        file.seek(begin - 1)
        cut_line = file.readline(MAX_BYTES)
        if not cut_line.endswith(b"\n"):
            raise InputError("not a journal: a line of it is too long", where=str(path))
        begin += len(cut_line) - 1
        return file.read(MAX_BYTES), begin


def in_flight(lines: tuple[Mapping[str, Any], ...]) -> tuple[Mapping[str, Any], ...]:
    """Lines `evicting` without a later line for that pod: evictions of unknown outcome."""
    last: dict[Any, Mapping[str, Any]] = {}
    for line in lines:
        if line.get("uid"):
            last[line.get("run"), line["uid"]] = line
    return tuple(line for line in last.values() if line.get("event") in (EVICTING, RESTARTING, REMOVING))


def _decode(line: bytes, where: str) -> Mapping[str, Any]:
    try:
        entry: dict[str, Any] = msgspec.json.decode(line, type=dict[str, Any])
    except (ValueError, RecursionError) as error:
        raise InputError(f"not a line of a journal: {str(error)[:200]}", where=where) from error
    for key in _TEXTS:
        if not isinstance(entry.get(key, ""), str):
            raise InputError(f"not a line of a journal: {key} is not text", where=where)
    if "event" not in entry:
        raise InputError("not a line of a journal: it has no event", where=where)
    return entry


def _end_last_line(stream: IO[bytes]) -> None:
    """Begin a new line after one that a crash cut short."""
    if stream.seek(0, os.SEEK_END) == 0:
        return
    stream.seek(-1, os.SEEK_END)
    if stream.read(1) != b"\n":
        stream.write(b"\n")


def _short(value: Any) -> Any:
    return without_secrets(value)[:_MAX_TEXT_LENGTH] if isinstance(value, str) else value
