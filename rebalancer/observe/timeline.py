"""A timeline: a folder of observations, one file a moment, of which each writes only what changed.

A moment is what ``snapshot save`` would write, as lines. Now and then a file holds all of them, the others
only what differs from the last of those:

    20261120T120000.000Z.full.zst      pods.json: 9,397 lines, nodes.json: 1,523 lines …
    20261120T120500.000Z.diff.zst      pods.json: lines 0 to 4,711 of it, one new line, lines 4,713 to 9,397
                                       nodes.json: as it was

A file appears as a whole or not at all, so a writer that is killed loses the moment it was writing, and a
damaged file the moments that are told by it. Whoever opens the folder to write goes on from its newest
moment. Where the folder would grow beyond its bound, the oldest moments go, with the full one they lean on.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import zstandard
from msgspec.structs import replace

from rebalancer import files
from rebalancer.cluster import times
from rebalancer.cluster.dumps.listing import Listing, ListingBuilder, Recording, collector_paused
from rebalancer.cluster.dumps.reader import DOCUMENTS, DumpReader
from rebalancer.cluster.dumps.streams import MAX_DUMP_BYTES, ByteAllowance, read_bytes
from rebalancer.cluster.dumps.writer import ABOUT, about, document_without_secrets, list_pieces
from rebalancer.cluster.kinds import BY_PLURAL
from rebalancer.cluster.snapshot import build_snapshot
from rebalancer.errors import InputError
from rebalancer.observe.recorded import documents_of, observation_of, unread_of
from rebalancer.planning.inputs import Observation
from rebalancer.state.run_state import RunState

MAX_MOMENTS = 100_000
_MAX_DIFFERENCES = 288  # moments that lean on one full moment: what is damaged with it
_MAX_REPEATED = 64 << 20  # bytes that lines of a base may grow to, beyond twice the base
_LEVEL = 3
_NAME = re.compile(r"(\d{8}T\d{6}\.\d{3}Z)\.(full|diff)\.zst", re.ASCII)
_STAMP = "%Y%m%dT%H%M%S.%f"

Contents = Mapping[str, bytes]
"""The files of one moment, by name."""


class _Stored(msgspec.Struct, frozen=True, array_like=True):
    """What a file of the folder holds."""

    whole: dict[str, bytes] = {}
    # By file, in order: new lines, or the first and the number of lines that are as in the full moment.
    changed: dict[str, list[bytes | tuple[int, int]]] = {}
    same: list[str] = []  # files that are as in the full moment
    base: str = ""  # the name of the full moment's file
    digest: bytes = b""  # and its digest


_encode = msgspec.msgpack.Encoder(order="deterministic").encode
_decoder = msgspec.msgpack.Decoder(_Stored)


def is_timeline(path: Path) -> bool:
    """Whether a folder holds moments."""
    try:
        return any(_NAME.fullmatch(entry.name) for entry in path.iterdir())
    except (OSError, ValueError):
        return False


def read_recording(
    path: Path,
    at: float | None = None,
    max_bytes: int | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Recording:
    """A recorded cluster; of a timeline the moment at or before ``at``, by default its newest one.

    Raises InputError when there is none, or ``path`` is no timeline and ``at`` is given.
    """
    if is_timeline(path):
        timeline = Timeline.open(path, max_bytes)
        return timeline.recording(timeline.moment_at(at))
    if at is not None:
        raise InputError(
            "holds one moment of a cluster, not a timeline",
            where=str(path),
            hint="leave --at out, or name a folder of: rebalancer snapshot record",
        )
    return DumpReader(path, max_bytes).read(progress=progress)


class Timeline:
    """A recorded timeline; moments are Unix seconds, in order."""

    def __init__(self, folder: Path, names: Mapping[float, str], max_bytes: int | None = None) -> None:
        self.folder = folder
        self._names = names
        self._max_bytes = max_bytes or MAX_DUMP_BYTES
        self._full: tuple[str, bytes, Contents] = "", b"", {}
        self._lines: dict[str, list[bytes]] = {}  # of the full moment
        self._listings: dict[str, tuple[bytes, Listing]] = {}

    @classmethod
    def open(cls, folder: Path, max_bytes: int | None = None) -> Timeline:
        """The timeline in a folder; InputError when there is none."""
        found = _names_in(folder)
        if not found:
            raise InputError(
                "holds no timeline",
                where=str(folder),
                hint="record one with: rebalancer snapshot record --every 5m FOLDER",
            )
        return cls(folder, found, max_bytes)

    def moments(self) -> tuple[float, ...]:
        """When the cluster was recorded, in order."""
        return tuple(self._names)

    def moment_at(self, at: float | None) -> float:
        """The last moment that is not after ``at``; InputError when the timeline begins later."""
        moments = self.moments()
        before = [moment for moment in moments if at is None or moment <= at + 0.001]
        if not before:
            assert at is not None
            raise InputError(
                f"nothing is recorded at {times.render(at)} or before",
                where=str(self.folder),
                hint=f"it begins at {times.render(moments[0])} and ends at {times.render(moments[-1])}",
            )
        return before[-1]

    def observation(self, moment: float, own_pod: str = "") -> Observation:
        """What was observed at one of the moments; InputError when its file is damaged."""
        return observation_of(build_snapshot(self.recording(moment)), own_pod)

    def recording(self, moment: float) -> Recording:
        """The cluster as it was recorded at one of the moments; InputError when its file is damaged."""
        where, contents = self.folder / self._names[moment], self.contents(moment)
        listings, documents = {}, {}
        with collector_paused():
            for name, content in contents.items():
                plural = name.removesuffix(".json")
                if name in DOCUMENTS:
                    documents[name] = content
                elif plural in BY_PLURAL:
                    listings[plural] = self._listing(plural, content, where)
        recording = Recording(str(where), listings, {}, documents)
        return replace(recording, unread=unread_of(recording))

    def _listing(self, plural: str, content: bytes, where: Path) -> Listing:
        """A kind's objects; those of the moment read before where nothing but the list's version changed."""
        head, found, items = content.partition(b'"items":[')
        known = self._listings.get(plural)
        try:
            version = msgspec.json.decode(head + found + b"]}")["metadata"]["resourceVersion"]
            if known is None or known[0] != items:
                builder = ListingBuilder(BY_PLURAL[plural])
                builder.add_list(content)
                self._listings[plural] = known = items, builder.listing()
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise _damaged(where, f"{plural} are no list: {error!s:.200}") from error
        return replace(known[1], resource_version=str(version))

    def contents(self, moment: float) -> dict[str, bytes]:
        """The files of a moment; InputError when it, or the full moment it leans on, is damaged."""
        name = self._names[moment]
        if name.endswith(".full.zst"):
            return dict(self.full_moment(name)[2])
        stored = self._stored(name)[0]
        if not _NAME.fullmatch(stored.base) or "full" not in stored.base:
            raise _damaged(self.folder / name, "it leans on no full moment")
        _, digest, base = self.full_moment(stored.base)
        if digest != stored.digest:
            raise _damaged(self.folder / name, f"{stored.base} is not the one it leans on")
        # A difference may repeat lines of its base; one that would grow far beyond that is no recording.
        own = sum(
            len(piece) for pieces in stored.changed.values() for piece in pieces if isinstance(piece, bytes)
        )
        left = ByteAllowance(min(self._max_bytes, _MAX_REPEATED + 2 * sum(map(len, base.values())) + own))
        found = dict(stored.whole)
        try:
            found |= {file: base[file] for file in stored.same}
            for file, pieces in stored.changed.items():
                found[file] = self._joined(self._lines_of(file, base[file]), pieces, left)
        except (KeyError, ValueError) as error:
            raise _damaged(self.folder / name, f"{stored.base} has not what it leans on") from error
        return dict(sorted(found.items()))

    def _joined(
        self, lines: Sequence[bytes], pieces: Sequence[bytes | tuple[int, int]], left: ByteAllowance
    ) -> bytes:
        def taken() -> Iterator[bytes]:
            for piece in pieces:
                if isinstance(piece, bytes):
                    left.take(len(piece), self.folder)
                    yield piece
                    continue
                first, count = piece
                if first < 0 or count < 1 or first + count > len(lines):
                    raise ValueError("no such lines")
                part = lines[first : first + count]
                left.take(sum(map(len, part)), self.folder)
                yield from part

        return b"".join(taken())

    def _lines_of(self, file: str, content: bytes) -> list[bytes]:
        if file not in self._lines:
            self._lines[file] = content.splitlines(keepends=True)
        return self._lines[file]

    def full_moment(self, name: str) -> tuple[str, bytes, Contents]:
        """The name of a full moment's file, its digest and its contents; InputError when it is damaged."""
        if self._full[0] != name:
            stored, digest = self._stored(name)
            self._full, self._lines = (name, digest, dict(sorted(stored.whole.items()))), {}
        return self._full

    def _stored(self, name: str) -> tuple[_Stored, bytes]:
        """What a file holds, and its digest."""
        content = read_bytes(self.folder / name, self._max_bytes)
        try:
            return _decoder.decode(content), hashlib.sha256(content).digest()
        except (ValueError, RecursionError) as error:
            raise _damaged(self.folder / name, str(error)) from error


class TimelineWriter:
    """Writes moments into a folder, one after another."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        """Go on with the timeline of a folder, or begin one. Raises InputError when that cannot be done.

        The folder is its own while it lives. It may hold ``max_bytes``; the oldest moments go beyond them.
        """
        from filelock import FileLock, Timeout  # noqa: PLC0415 - not for commands that only read a timeline

        self._folder = folder
        self._most = max_bytes
        self._base = ""
        self._digest = b""
        self._contents: Contents = {}
        self._differences = 0
        self._base_bytes = 0
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = FileLock(folder / ".lock")
            self._lock.acquire(blocking=False)
            strangers = [item.name for item in folder.iterdir() if not item.name.startswith(".")]
        except Timeout as error:
            raise InputError(
                "is written by another process",
                where=str(folder),
                hint="stop that one, or name another folder",
            ) from error
        except OSError as error:
            raise _cannot_write(folder, error) from error
        strangers = [name for name in strangers if not _NAME.fullmatch(name)]
        if strangers:
            raise InputError(
                f"holds {strangers[0]:.100}, which is no moment of a timeline",
                where=str(folder),
                hint="name a new folder, or one that holds a timeline",
            )
        names = _names_in(folder)
        self.last = next(reversed(names), None)
        full = next((name for name in reversed(names.values()) if name.endswith(".full.zst")), None)
        if full is not None:
            with contextlib.suppress(InputError):  # a new full moment takes the place of a damaged one
                self._base, self._digest, self._contents = Timeline(folder, names).full_moment(full)
                self._base_bytes = (folder / full).stat().st_size
                self._differences = sum(name > full for name in names.values())

    def write(self, observation: Observation, state: RunState | None) -> int:
        """Write a moment, and return the bytes that took; 0 where it is not after the last one.

        Raises InputError when it cannot be written.
        """
        if self.last is not None and _stamp(observation.now) <= _stamp(self.last):
            return 0
        contents = contents_of(observation, state)
        packed = b""
        if self._base and self._differences < _MAX_DIFFERENCES:
            packed = _packed(_encode(self._difference(contents)))
        try:
            if packed and len(packed) < self._base_bytes:
                self._differences += 1
                self._put(f"{_stamp(observation.now)}.diff.zst", packed)
            else:
                content = _encode(_Stored(whole=contents))
                packed = _packed(content)
                name = f"{_stamp(observation.now)}.full.zst"
                self._put(name, packed)
                self._base, self._digest = name, hashlib.sha256(content).digest()
                self._contents, self._differences, self._base_bytes = contents, 0, len(packed)
            self._forget_oldest()
        except OSError as error:
            raise _cannot_write(self._folder, error) from error
        self.last = observation.now
        return len(packed)

    def _put(self, name: str, packed: bytes) -> None:
        files.replace(self._folder / name, packed)

    def _difference(self, contents: Contents) -> _Stored:
        stored = _Stored(base=self._base, digest=self._digest)
        for name, content in contents.items():
            before = self._contents.get(name)
            if before is None:
                stored.whole[name] = content
            elif before == content:
                stored.same.append(name)
            else:
                stored.changed[name] = list(_pieces(before, content))
        return stored

    def _forget_oldest(self) -> None:
        """Remove the oldest full moment and all that lean on it while the folder holds too much."""
        sizes = {name: (self._folder / name).stat().st_size for name in _names_in(self._folder).values()}
        while sum(sizes.values()) > self._most or len(sizes) >= MAX_MOMENTS:
            names = list(sizes)
            fulls = [at for at, name in enumerate(names) if name.endswith(".full.zst") and at]
            oldest = names[: fulls[0]] if fulls else []
            if not oldest:
                return  # what leans on the newest full moment stays, however large
            for name in reversed(oldest):
                (self._folder / name).unlink()
                del sizes[name]


def _packed(content: bytes) -> bytes:
    return zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).compress(content)


def contents_of(observation: Observation, state: RunState | None) -> dict[str, bytes]:
    """The files of a moment, as ``snapshot save`` writes them."""
    recording = observation.snapshot.recording
    found = {f"{plural}.json": b"".join(list_pieces(item)) for plural, item in recording.listings.items()}
    for name, content in documents_of(observation, state).items():
        found[name] = document_without_secrets(name, content)
    found[ABOUT] = about(recording, observation.now)
    return dict(sorted(found.items()))


def _pieces(before: bytes, after: bytes) -> Iterator[bytes | tuple[int, int]]:
    """The lines of ``after``: those that are among the lines of ``before`` by where they stand there."""
    known: dict[bytes, int] = {}
    for number, line in enumerate(before.splitlines(keepends=True)):
        known.setdefault(line, number)
    first, count, new = 0, 0, list[bytes]()
    for line in after.splitlines(keepends=True):
        at = known.get(line, -1)
        if count and at == first + count:
            count += 1
            continue
        if count:
            yield first, count
            count = 0
        if at < 0:
            new.append(line)
            continue
        if new:
            yield b"".join(new)
        first, count, new = at, 1, []
    if count:
        yield first, count
    if new:
        yield b"".join(new)


def _names_in(folder: Path) -> dict[float, str]:
    """The files of the moments in a folder, by moment and in order; of two of one moment the full one."""
    try:
        entries = [entry for entry in folder.iterdir() if _NAME.fullmatch(entry.name)]
        found = sorted(entry.name for entry in entries if files.is_file(entry))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot read: {reason}", where=str(folder), hint="is the path right?") from error
    if len(found) > MAX_MOMENTS:
        raise InputError(f"holds more than {MAX_MOMENTS} moments", where=str(folder))
    named: dict[float, str] = {}
    for name in found:
        try:
            named[_moment(name)] = name
        except ValueError as error:
            raise _damaged(folder / name, "its name is no time") from error
    return named


def _moment(name: str) -> float:
    return datetime.strptime(name.partition("Z")[0], _STAMP).replace(tzinfo=UTC).timestamp()


def _stamp(moment: float) -> str:
    """A moment as the files are named: text that sorts as moments do."""
    millis = round(moment * 1000)
    return f"{datetime.fromtimestamp(millis // 1000, UTC):%Y%m%dT%H%M%S}.{millis % 1000:03d}Z"


def _damaged(path: Path, what: str) -> InputError:
    return InputError(
        f"not what snapshot record writes: {what}",
        where=str(path),
        hint="remove the file, its moment is lost",
    )


def _cannot_write(folder: Path, error: OSError) -> InputError:
    return InputError(
        f"cannot write: {error.strerror or error}", where=str(folder), hint="name another folder"
    )
