"""A timeline: a folder of observations, one file a moment.

A moment is what ``snapshot save`` would write. Now and then a file holds all of it; the others are packed
with the last of those as their dictionary, so that what did not change costs nearly nothing:

    20261120T120000.000Z.full.zst      1,456 kB
    20261120T120500.000Z.diff.zst         11 kB    600 of 60,000 pods changed

A file appears as a whole or not at all, so a writer that is killed loses the moment it was writing, and a
damaged file the moments that are told by it. Whoever opens the folder to write goes on from its newest
moment. Where the folder would grow beyond its bound, the oldest moments go, with the full one they lean on.
"""

from __future__ import annotations

import contextlib
import math
import re
from bisect import bisect_right
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import zstandard
from msgspec.structs import replace

from rebalancer import files
from rebalancer.cluster import times
from rebalancer.cluster.dumps.listing import (
    Listing,
    ListingBuilder,
    PodCollector,
    Recording,
    collector_paused,
)
from rebalancer.cluster.dumps.reader import DOCUMENTS, DumpReader
from rebalancer.cluster.dumps.streams import MAX_DUMP_BYTES, read_bytes
from rebalancer.cluster.dumps.writer import ABOUT, about, document_without_secrets, list_pieces
from rebalancer.cluster.kinds import BY_PLURAL, PODS
from rebalancer.cluster.pod_classes import ClassIndex
from rebalancer.cluster.pods import PodFields
from rebalancer.cluster.snapshot import build_snapshot
from rebalancer.errors import InputError
from rebalancer.observe.recorded import documents_of, observation_of, unread_of
from rebalancer.planning.inputs import Observation
from rebalancer.state.run_state import RunState

MAX_MOMENTS = 100_000
_MAX_DIFFERENCES = 288  # moments that lean on one full moment: what is damaged with it
_MAX_GROWN = 64 << 20  # bytes that a moment may have beyond twice those of the full one it leans on
_MAX_CLASSES = 20_000  # of the pods of all moments read, before they are numbered anew
_LEVEL = 3
_MAX_TABLE_LOG = 22  # of zstd: 16 MiB of memory each, and 128 MiB looked back
_MAX_WINDOW_LOG = 27
_NAME = re.compile(r"(\d{8}T\d{6}\.\d{3}Z)\.(full|diff)\.zst", re.ASCII)
_UNFINISHED = re.compile(rf"\.{_NAME.pattern}\..+", re.ASCII)  # what a writer that is killed leaves
_STAMP = "%Y%m%dT%H%M%S.%f"

Contents = Mapping[str, bytes]
"""The files of one moment, by name."""


_encode = msgspec.msgpack.Encoder(order="deterministic").encode
_decoder = msgspec.msgpack.Decoder(dict[str, bytes])


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
            hint="leave --at out, or name the folder of a timeline",
        )
    return DumpReader(path, max_bytes).read(progress=progress)


class Timeline:
    """A recorded timeline; moments are Unix seconds, in order."""

    def __init__(self, folder: Path, names: Mapping[float, str], max_bytes: int | None = None) -> None:
        self.folder = folder
        self._names = names
        self._fulls = [name for name in names.values() if _is_full(name)]
        self._max_bytes = max_bytes or MAX_DUMP_BYTES
        self._full = "", b""  # the name of a full moment's file, and what it unpacks to
        self._listings: dict[str, tuple[bytes, Listing]] = {}
        self._classes = ClassIndex()
        self._pods: dict[bytes, PodFields] = {}  # of the moment read before, by their lines

    @classmethod
    def open(cls, folder: Path, max_bytes: int | None = None) -> Timeline:
        """The timeline in a folder; InputError when there is none."""
        names = _names_in(folder)
        if not names:
            raise InputError(
                "holds no timeline",
                where=str(folder),
                hint="name the folder into which rebalancer serve --record, or another recorder, writes",
            )
        return cls(folder, names, max_bytes)

    def moments(self) -> tuple[float, ...]:
        """When the cluster was recorded, in order."""
        return tuple(self._names)

    def moment_at(self, at: float | None) -> float:
        """The last moment that is not after ``at``; InputError when the timeline begins later.

        Times are shown without parts of a second, so a whole second is meant with all its moments.
        """
        moments = self.moments()
        until = math.inf if at is None else at + (0.001 if at % 1 else 0.9995)
        before = [moment for moment in moments if moment <= until]
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
        where = self.folder / self._names[moment]
        contents = self.contents(moment)
        listings = {}
        documents = {}
        with collector_paused():
            for name, content in contents.items():
                plural = name.removesuffix(".json")
                if name in DOCUMENTS:
                    documents[name] = content
                elif plural in BY_PLURAL:
                    listings[plural] = self._listing(plural, content, where)
        recording = Recording(files.named(where), listings, {}, documents)
        return replace(recording, unread=unread_of(recording))

    def _listing(self, plural: str, content: bytes, where: Path) -> Listing:
        """A kind's objects; those of the moment read before where nothing but the list's version changed."""
        head, separator, items = content.partition(b'"items":[')
        latest = self._listings.get(plural)
        try:
            version = msgspec.json.decode(head + separator + b"]}")["metadata"]["resourceVersion"]
            if latest is None or latest[0] != items:
                listing = self._pods_of(items) if plural == PODS.plural else None
                if listing is None:
                    builder = ListingBuilder(BY_PLURAL[plural])
                    builder.add_list(content)
                    listing = builder.listing()
                self._listings[plural] = latest = items, listing
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise _damaged(where, f"{plural} are no list: {error!s:.200}") from error
        return replace(latest[1], resource_version=str(version))

    def _pods_of(self, items: bytes) -> Listing | None:
        """The pods of a list; those of the moment before are not read again. None where one is malformed."""
        if len(self._classes.classes) > _MAX_CLASSES:
            self._classes = ClassIndex()
            self._pods = {}
        collector = PodCollector(self._classes)
        end = b"]}\n"
        lines = items.removesuffix(end).split(b",\n") if items.endswith(end) and items != end else ()
        try:
            self._pods = collector.add_lines(lines, self._pods)
        except (ValueError, RecursionError):
            return None
        sealed_records, pods, malformed = collector.seal(PODS)
        return Listing(PODS, sealed_records, tuple(malformed), pods=pods) if lines and not malformed else None

    def contents(self, moment: float) -> dict[str, bytes]:
        """The files of a moment; InputError when it, or the full moment it leans on, is damaged."""
        name = self._names[moment]
        at = bisect_right(self._fulls, name)
        if not at:
            raise _damaged(self.folder / name, "it leans on no full moment")
        content = self.full_moment(self._fulls[at - 1])
        if not _is_full(name):
            max_bytes = min(self._max_bytes, _MAX_GROWN + 2 * len(content))
            content = read_bytes(self.folder / name, max_bytes, base=content)
        try:
            return _decoder.decode(content)
        except (ValueError, RecursionError) as error:
            raise _damaged(self.folder / name, str(error)) from error

    def full_moment(self, name: str) -> bytes:
        """What a full moment's file unpacks to; InputError when it is damaged."""
        if self._full[0] != name:
            content = read_bytes(self.folder / name, self._max_bytes)
            try:  # one that is cut off unpacks without an error, and what leans on it to something else
                _decoder.decode(content)
            except (ValueError, RecursionError) as error:
                hint = "remove the file; its moment and those up to the next full one are lost"
                raise _damaged(self.folder / name, str(error), hint) from error
            self._full = name, content
        return self._full[1]


class TimelineWriter:
    """Writes moments into a folder, one after another."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        """Go on with the timeline of a folder, or begin one. Raises InputError when that cannot be done.

        The folder is its own while it lives. It may hold ``max_bytes``; the oldest moments go beyond them.
        """
        from filelock import FileLock, Timeout  # noqa: PLC0415 - not for commands that only read a timeline

        self._folder = folder
        self._max_bytes = max_bytes
        self._patching: zstandard.ZstdCompressor | None = None  # with the last full moment as dictionary
        self._differences = 0
        self._base_bytes = 0  # of the last full moment
        self._leaning_bytes = 0  # of those that lean on it
        with _writing(folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            file_names = [path.name for path in folder.iterdir()]
        strangers = [name for name in file_names if not (name.startswith(".") or _NAME.fullmatch(name))]
        if strangers:
            raise InputError(
                f"holds {strangers[0]:.100}, which is no moment of a timeline",
                where=str(folder),
                hint="name a new folder, or one that holds a timeline",
            )
        with _writing(folder):
            self._lock = FileLock(folder / ".lock")
            try:
                self._lock.acquire(blocking=False)
            except Timeout as error:
                hint = "stop that one, or name another folder"
                raise InputError("is written by another process", where=str(folder), hint=hint) from error
        for name in filter(_UNFINISHED.fullmatch, file_names):
            with contextlib.suppress(OSError):
                (folder / name).unlink()
        names = _names_in(folder)
        self.last = next(reversed(names), None)
        full = next(filter(_is_full, reversed(names.values())), None)
        if full is not None:
            with contextlib.suppress(InputError):  # a new full moment takes the place of a damaged one
                self._patching = _patching(Timeline(folder, names).full_moment(full))
                self._base_bytes = (folder / full).stat().st_size
                leaning = [(folder / name).stat().st_size for name in names.values() if name > full]
                self._differences = len(leaning)
                self._leaning_bytes = sum(leaning)

    def write(self, observation: Observation, state: RunState | None) -> int:
        """Write a moment, and return the bytes that took; 0 where it is not after the last one.

        Raises InputError when it cannot be written.
        """
        if self.last is not None and _stamp(observation.now) <= _stamp(self.last):
            return 0
        content = _encode(contents_of(observation, state))
        packed = b""
        if self._patching is not None and self._differences < _MAX_DIFFERENCES:
            packed = self._patching.compress(content)
        with _writing(self._folder):
            leaning = self._leaning_bytes + len(packed)
            # What leans on the newest full moment cannot go, so half of the folder is enough of that.
            if (
                packed
                and len(packed) < self._base_bytes
                and self._base_bytes + leaning <= self._max_bytes / 2
            ):
                self._differences = self._differences + 1
                self._leaning_bytes = leaning
                files.replace(self._folder / f"{_stamp(observation.now)}.diff.zst", packed)
            else:
                packed = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).compress(content)
                files.replace(self._folder / f"{_stamp(observation.now)}.full.zst", packed)
                self._patching = _patching(content)
                self._differences = 0
                self._base_bytes = len(packed)
                self._leaning_bytes = 0
            self._forget_oldest()
        self.last = observation.now
        return len(packed)

    @property
    def why_nothing(self) -> str:
        """Why ``write`` has written nothing."""
        newest = "" if self.last is None else f" of {times.render(self.last)}"
        return f"{self._folder} holds one{newest}, which is not before it: is the clock right?"

    def _forget_oldest(self) -> None:
        """Remove the oldest full moment and all that lean on it while the folder holds too much."""
        sizes = {name: (self._folder / name).stat().st_size for name in _names_in(self._folder).values()}
        while sum(sizes.values()) > self._max_bytes or len(sizes) >= MAX_MOMENTS:
            names = list(sizes)
            fulls = [at for at, name in enumerate(names) if _is_full(name) and at]
            oldest = names[: fulls[0]] if fulls else []
            if not oldest:
                return  # what leans on the newest full moment stays, however large
            for name in reversed(oldest):
                (self._folder / name).unlink()
                del sizes[name]


def _is_full(name: str) -> bool:
    return name.endswith(".full.zst")


def _patching(base: bytes) -> zstandard.ZstdCompressor:
    """What packs moments that repeat most of a full one."""
    table = min(_MAX_TABLE_LOG, max(len(base).bit_length(), 10))
    parameters = zstandard.ZstdCompressionParameters.from_level(
        _LEVEL,
        window_log=min(_MAX_WINDOW_LOG, table + 2 if table < _MAX_TABLE_LOG else _MAX_WINDOW_LOG),
        hash_log=table,
        chain_log=table,
        write_checksum=True,
    )
    dictionary = zstandard.ZstdCompressionDict(base, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    dictionary.precompute_compress(compression_params=parameters)
    return zstandard.ZstdCompressor(dict_data=dictionary, compression_params=parameters)


def contents_of(observation: Observation, state: RunState | None) -> dict[str, bytes]:
    """The files of a moment, as ``snapshot save`` writes them."""
    recording = observation.snapshot.recording
    contents = {
        f"{plural}.json": b"".join(list_pieces(listing)) for plural, listing in recording.listings.items()
    }
    for name, content in documents_of(observation, state).items():
        contents[name] = document_without_secrets(name, content)
    contents[ABOUT] = about(recording, observation.now)
    return dict(sorted(contents.items()))


def _names_in(folder: Path) -> dict[float, str]:
    """The files of the moments in a folder, by moment and in order; of two of one moment the full one."""
    try:
        entries = [entry for entry in folder.iterdir() if _NAME.fullmatch(entry.name)]
        names = sorted(entry.name for entry in entries if files.is_file(entry))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot read: {reason}", where=str(folder), hint="is the path right?") from error
    if len(names) > MAX_MOMENTS:
        raise InputError(f"holds more than {MAX_MOMENTS} moments", where=str(folder))
    named: dict[float, str] = {}
    for name in names:
        try:
            named[datetime.strptime(name.partition("Z")[0], _STAMP).replace(tzinfo=UTC).timestamp()] = name
        except ValueError as error:
            raise _damaged(folder / name, "its name is no time") from error
    return named


def _stamp(moment: float) -> str:
    """A moment as the files are named: text that sorts as moments do."""
    millis = round(moment * 1000)
    return f"{datetime.fromtimestamp(millis // 1000, UTC):%Y%m%dT%H%M%S}.{millis % 1000:03d}Z"


def _damaged(path: Path, what: str, hint: str = "remove the file, its moment is lost") -> InputError:
    return InputError(f"not a moment of a timeline: {what}", where=str(path), hint=hint)


def _writing(folder: Path) -> contextlib.AbstractContextManager[None]:
    return files.refusing("cannot write", folder, "name another folder")
