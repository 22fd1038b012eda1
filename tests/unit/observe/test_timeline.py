"""A timeline holds every moment as it was recorded, and survives what happens to folders."""

from __future__ import annotations

from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rebalancer import files
from rebalancer.cluster import times
from rebalancer.cluster.dumps.writer import ABOUT
from rebalancer.cluster.snapshot import build_snapshot
from rebalancer.errors import InputError
from rebalancer.load.raw_figures import RawFigures
from rebalancer.observe import timeline as timelines
from rebalancer.observe.plan_options import PlanOptions
from rebalancer.observe.read import read_snapshot
from rebalancer.observe.recording import describe_recording
from rebalancer.observe.timeline import Timeline, TimelineWriter, contents_of, read_recording
from rebalancer.planning.inputs import Observation, canonical
from rebalancer.reporting.tables.snapshot import snapshot_table
from rebalancer.state.run_state import RunState
from tests.builders import a_node, a_pod, a_recording
from tests.conftest import examples

NOW = 1_795_176_000.0
LARGE = 1 << 30


def an_observation(moment: float = NOW, *, pods: int = 3, cpu: str = "1", another: str = "") -> Observation:
    """A cluster of two nodes with so many pods that ask for ``cpu``, and one for ``another`` if given."""
    running = [a_pod(f"web-{number}", node="a", cpu=cpu) for number in range(pods)]
    running += [a_pod("another", node="b", cpu=another)] if another else []
    recording = a_recording(None, nodes=[a_node("a"), a_node("b")], pods=running)
    return Observation(snapshot=build_snapshot(recording), figures=RawFigures(), now=moment)


def written(folder: Path, *observations: Observation, max_bytes: int = LARGE) -> Timeline:
    writer = TimelineWriter(folder, max_bytes)
    for observation in observations:
        assert writer.write(observation, None)
    return Timeline.open(folder)


def same(one: Observation, other: Observation) -> bool:
    return canonical(replace(one, starts=None)) == canonical(replace(other, starts=None))


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=examples(25)
)
@given(
    counts=st.lists(
        st.tuples(st.integers(0, 6), st.sampled_from(["1", "500m"]), st.sampled_from(["", "1", "malformed"])),
        min_size=1,
        max_size=8,
    )
)
def test_every_moment_reads_back_byte_by_byte_and_as_the_same_observation(
    tmp_path_factory: pytest.TempPathFactory, counts: list[tuple[int, str, str]]
) -> None:
    observations = [
        an_observation(NOW + 300.0 * number, pods=pods, cpu=cpu, another=another)
        for number, (pods, cpu, another) in enumerate(counts)
    ]
    timeline = written(tmp_path_factory.mktemp("timeline"), *observations)

    assert list(timeline.moments()) == [item.now for item in observations]
    for observation in reversed(observations):  # in any order
        assert timeline.contents(observation.now) == contents_of(observation, None)
        assert same(timeline.observation(observation.now), observation)


def test_a_moment_writes_only_what_changed(tmp_path: Path) -> None:
    writer = TimelineWriter(tmp_path, LARGE)
    first = writer.write(an_observation(pods=400), None)
    unchanged = writer.write(an_observation(NOW + 300, pods=400), None)
    one_more = writer.write(an_observation(NOW + 600, pods=401), None)

    assert unchanged < first / 4
    assert unchanged < one_more < first / 3


def test_the_state_of_runs_is_part_of_a_moment(tmp_path: Path) -> None:
    TimelineWriter(tmp_path, LARGE).write(an_observation(), RunState(hot_streaks={"a": 2}))

    assert b'"hotStreaks":{"a":2}' in Timeline.open(tmp_path).contents(NOW)["state.json"]


def test_a_writer_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    written(tmp_path, an_observation(), an_observation(NOW + 300))
    again = TimelineWriter(tmp_path, LARGE)

    assert again.write(an_observation(NOW + 300), None) == 0  # there already
    assert again.write(an_observation(NOW + 600, pods=4), None)
    assert [path.name.split(".")[2] for path in sorted(tmp_path.glob("*.zst"))] == ["full", "diff", "diff"]
    assert same(Timeline.open(tmp_path).observation(NOW + 600), an_observation(NOW + 600, pods=4))


class Killed(BaseException):
    """The writer was killed."""


def refused(timeline: Timeline, moment: float) -> str:
    """Why a moment cannot be read; empty where it can be."""
    try:
        timeline.observation(moment)
    except InputError as error:
        return str(error)
    return ""


def write_until_killed(path: Path, content: bytes) -> None:
    with files.replacing(path) as stream:
        stream.write(content)
        raise Killed


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=examples(40)
)
@given(data=st.data())
def test_a_writer_that_is_killed_at_any_byte_loses_the_moment_it_was_writing(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("timeline")
    timeline = written(folder, an_observation(), an_observation(NOW + 300, pods=4))
    before = {moment: timeline.contents(moment) for moment in timeline.moments()}
    packed = zstandard.compress(b"what a third moment would be")
    stop = data.draw(st.integers(0, len(packed)))
    with pytest.raises(Killed):
        write_until_killed(folder / "20261120T121000.000Z.diff.zst", packed[:stop])
    (folder / ".20261120T121000.000Z.diff.zst.x1").write_bytes(packed[:stop])  # as kill -9 leaves it
    after = Timeline.open(folder)

    assert {moment: after.contents(moment) for moment in after.moments()} == before
    assert TimelineWriter(folder, LARGE).write(an_observation(NOW + 600), None)
    assert same(Timeline.open(folder).observation(NOW + 600), an_observation(NOW + 600))
    assert [path.name for path in folder.glob(".*")] == [".lock"]  # what was left is no longer there


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=examples(60)
)
@given(data=st.data())
def test_a_damaged_file_is_one_error_and_loses_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("timeline")
    written(folder, an_observation(), an_observation(NOW + 300, pods=4), an_observation(NOW + 600, pods=5))
    damaged = sorted(folder.glob("*.zst"))[1]
    content = bytearray(damaged.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        del content[place:]
    else:
        content[place] ^= 1 << data.draw(st.integers(0, 7))
    damaged.write_bytes(bytes(content))
    timeline = Timeline.open(folder)

    assert refused(timeline, NOW + 300).startswith(str(damaged)) or same(  # zstd ignores a bit of its header
        timeline.observation(NOW + 300), an_observation(NOW + 300, pods=4)
    )
    assert same(timeline.observation(NOW + 600), an_observation(NOW + 600, pods=5))
    assert same(timeline.observation(NOW), an_observation())


@pytest.mark.parametrize("share", [0, 0.5, 0.99])
def test_a_full_moment_that_is_cut_off_is_named_and_nothing_leans_on_it_again(
    tmp_path: Path, share: float
) -> None:
    written(tmp_path, an_observation(), an_observation(NOW + 300, pods=4))
    (full,) = tmp_path.glob("*.full.zst")
    content = full.read_bytes()
    full.write_bytes(content[: int(len(content) * share)])

    assert refused(Timeline.open(tmp_path), NOW + 300).startswith(str(full))
    written(tmp_path, an_observation(NOW + 600, pods=5))
    assert len(list(tmp_path.glob("*.full.zst"))) == 2
    assert same(Timeline.open(tmp_path).observation(NOW + 600), an_observation(NOW + 600, pods=5))


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=examples(60)
)
@given(content=st.binary(max_size=200), packed=st.booleans(), name=st.sampled_from(["full", "diff"]))
def test_a_folder_of_anything_is_refused_in_one_line(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, packed: bool, name: str
) -> None:
    folder = tmp_path_factory.mktemp("timeline")
    (folder / f"20261120T120000.000Z.{name}.zst").write_bytes(
        zstandard.compress(content) if packed else content
    )

    with pytest.raises(InputError) as caught:
        read_snapshot(PlanOptions(source=folder), None, lambda: NOW)
    assert "\n" not in str(caught.value)


def packed(content: bytes, base: bytes = b"") -> bytes:
    """A moment of one file, as a writer packs it: whole, or with the full one as dictionary."""
    encoded = timelines._encode({"pods.json": content})
    if not base:
        return zstandard.ZstdCompressor(write_checksum=True).compress(encoded)
    return timelines._patching(timelines._encode({"pods.json": base})).compress(encoded)


@pytest.mark.parametrize(
    ("full", "complaint"),
    [
        (None, "leans on no full moment"),
        (packed(b"y" * 1000), "cannot unpack"),  # another one than it was packed with
        (b"nothing", "full.zst: not a moment of a timeline"),
    ],
)
def test_a_moment_that_leans_on_what_is_not_there_is_refused(
    tmp_path: Path, full: bytes | None, complaint: str
) -> None:
    if full is not None:
        (tmp_path / "20261120T120000.000Z.full.zst").write_bytes(full)
    base = bytes(range(256)) * 4
    (tmp_path / "20261120T120500.000Z.diff.zst").write_bytes(packed(base + b"more", base))

    with pytest.raises(InputError, match=complaint):
        Timeline.open(tmp_path).contents(NOW + 300)


@pytest.mark.parametrize(
    ("most", "complaint"), [(None, "more than 200 times its size"), (1 << 20, "larger than 1 MiB")]
)
def test_a_small_difference_cannot_fill_the_memory_by_repeating_its_base(
    tmp_path: Path, most: int | None, complaint: str
) -> None:
    """180 MiB of a line of 100 kB are refused although a timeline may hold more."""
    line = b"x" * 100_000
    (tmp_path / "20261120T120000.000Z.full.zst").write_bytes(packed(line))
    (tmp_path / "20261120T120500.000Z.diff.zst").write_bytes(packed(line * 1800, line))

    assert Timeline.open(tmp_path, most).contents(NOW) == {"pods.json": line}
    with pytest.raises(InputError, match=complaint):
        Timeline.open(tmp_path, most).contents(NOW + 300)


def test_the_oldest_moments_go_where_the_folder_would_grow_beyond_its_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timelines, "_MAX_DIFFERENCES", 2)
    observations = [an_observation(NOW + 300.0 * number, pods=number) for number in range(9)]
    timeline = written(tmp_path, *observations, max_bytes=4000)

    assert sum(path.stat().st_size for path in tmp_path.glob("*.zst")) <= 4000
    assert timeline.moments() == tuple(item.now for item in observations[-len(timeline.moments()) :])
    assert same(timeline.observation(timeline.moments()[0]), observations[-len(timeline.moments())])


@pytest.mark.parametrize("again", [False, True])
def test_the_bound_holds_however_many_moments_would_lean_on_one(tmp_path: Path, again: bool) -> None:
    """So many small ones together have more bytes than the folder may hold."""
    writer = TimelineWriter(tmp_path, 4000)
    for number in range(50):
        if again and number % 10 == 0:
            del writer
            writer = TimelineWriter(tmp_path, 4000)
        assert writer.write(an_observation(NOW + 300.0 * number, pods=number % 7), None)
        assert sum(path.stat().st_size for path in tmp_path.glob("*.zst")) <= 4000
    assert len(Timeline.open(tmp_path).moments()) > 5


def test_the_oldest_moments_go_before_there_are_more_than_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timelines, "MAX_MOMENTS", 6)
    monkeypatch.setattr(timelines, "_MAX_DIFFERENCES", 1)
    timeline = written(tmp_path, *(an_observation(NOW + number) for number in range(20)))
    assert timeline.moments()[-1] == NOW + 19
    assert 2 <= len(timeline.moments()) <= 6


def test_a_folder_has_one_writer_at_a_time(tmp_path: Path) -> None:
    writer = TimelineWriter(tmp_path, LARGE)

    with pytest.raises(InputError, match="is written by another process"):
        TimelineWriter(tmp_path, LARGE)
    assert writer.write(an_observation(), None)


def test_a_folder_that_holds_something_else_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")

    with pytest.raises(InputError, match=r"holds notes\.txt, which is no moment"):
        TimelineWriter(tmp_path, LARGE)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_the_moment_at_or_before_a_time_is_read_and_by_default_the_newest(tmp_path: Path) -> None:
    written(tmp_path, an_observation(), an_observation(NOW + 300, pods=4))

    assert len(read_recording(tmp_path).listings["pods"]) == 4
    assert len(read_recording(tmp_path, NOW + 299).listings["pods"]) == 3
    with pytest.raises(InputError, match="nothing is recorded at 2026-11-20T11:59:59Z or before"):
        read_recording(tmp_path, NOW - 1)


def test_a_moment_is_found_by_the_time_that_is_shown_of_it(tmp_path: Path) -> None:
    written(tmp_path, an_observation(NOW + 0.25), an_observation(NOW + 300.999), an_observation(NOW + 301))
    timeline = Timeline.open(tmp_path)

    found = [timeline.moment_at(times.parse(times.render(moment))) for moment in timeline.moments()]
    assert found == list(timeline.moments())
    assert timeline.moment_at(NOW + 300.5) == NOW + 0.25


def test_a_timeline_is_described_by_when_it_begins_and_ends(tmp_path: Path) -> None:
    written(tmp_path, *(an_observation(NOW + 300 * number) for number in range(3)))
    info = describe_recording(tmp_path)
    assert (info.moments, info.first_moment, info.last_moment) == (
        3,
        times.render(NOW),
        times.render(NOW + 600),
    )
    shown = " ".join(snapshot_table(info).plain.split())  # its lines fit a terminal
    assert f"3 moments from {times.render(NOW)} to {times.render(NOW + 600)}; --at chooses one" in shown


def test_a_single_recording_has_no_moments_to_choose(tmp_path: Path) -> None:
    (tmp_path / ABOUT).write_text("{}")

    with pytest.raises(InputError, match="holds one moment of a cluster"):
        read_recording(tmp_path, NOW)
