"""Nothing is lost: each decision is a durable line before the next thing happens."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import IO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.errors import InputError
from rebalancer.execution.journal import MAX_BYTES, Journal, JournalError, in_flight, read_journal, rotate
from tests.unit.execution.builders import NOW, a_move


def write(path: Path, *events: str, run: str = "run-1") -> None:
    with Journal.to_file(path, run, lambda: NOW) as journal:
        for event in events:
            journal.write(event, a_move() if event[0] == "e" else None, because="why", node=None)


def test_a_line_says_when_who_what_and_which_pod() -> None:
    stream = io.StringIO()
    Journal(stream, "run-1", lambda: NOW).write("evicting", a_move(), because="why", node="")
    assert json.loads(stream.getvalue()) == {
        "time": "2023-11-14T22:13:20Z",
        "run": "run-1",
        "event": "evicting",
        "pod": "shop/web-1",
        "uid": "uid-web-1",
        "workload": "Deployment/web",
        "from": "hot",
        "wave": 1,
        "because": "why",
    }


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    write(path, "run-started", "evicting", "evicted")
    write(path, "run-started", run="run-2")
    lines = read_journal(path)
    assert [line["event"] for line in lines] == ["run-started", "evicting", "evicted", "run-started"]


def test_each_line_is_durable_before_the_next_thing_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, durable = tmp_path / "journal", []
    monkeypatch.setattr(os, "fsync", lambda _descriptor: durable.append(path.read_text().count("\n")))
    write(path, "run-started", "evicting", "evicted")
    assert durable == [0, 1, 2, 3]  # the name of the file first


def test_a_journal_that_is_deleted_records_nothing_more_and_one_that_is_renamed_does(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with Journal.to_file(path, "run-1", lambda: NOW) as journal:
        journal.write("run-started")
        path.rename(tmp_path / "journal.1")
        journal.write("evicting", a_move())
        (tmp_path / "journal.1").unlink()
        with pytest.raises(JournalError, match="was deleted"):
            journal.write("evicted", a_move())


def test_a_pipe_is_no_journal_and_the_refusal_says_what_is(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(InputError, match="cannot open the journal") as caught:
        Journal.to_file(path, "run-1", lambda: NOW)
    assert caught.value.hint == "name a file; without --journal it goes to stderr"


@given(cut=st.integers(0, 600))
def test_a_journal_cut_anywhere_is_read_up_to_there(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    path = tmp_path_factory.mktemp("cut") / "journal"
    write(path, "run-started", "evicting", "evicted")
    whole = path.read_bytes()
    path.write_bytes(whole[:cut])
    lines = read_journal(path)
    assert whole[:cut].count(b"\n") <= len(lines) <= whole[:cut].count(b"\n") + 1
    write(path, "run-started", run="run-2")
    assert read_journal(path)[-1]["run"] == "run-2"


def test_a_broken_line_amid_a_run_is_an_error_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    path.write_text('{"event": "run-started"}\nnonsense\n{"event": "evicting"}\n')
    with pytest.raises(InputError, match=r"journal:2: not a line of a journal"):
        read_journal(path)


@pytest.mark.parametrize("key", ["run", "event", "uid", "pod"])
def test_a_line_whose_names_are_no_texts_is_an_error_with_its_place(tmp_path: Path, key: str) -> None:
    path = tmp_path / "journal"
    lines: list[dict[str, object]] = [{"event": "run-started"}, {key: {}}, {"event": "evicting"}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(InputError, match=f"journal:2: not a line of a journal: {key} is not text"):
        read_journal(path)


def test_a_missing_journal_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        read_journal(tmp_path / "none")


def test_a_journal_that_cannot_be_opened_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot open the journal"):
        Journal.to_file(tmp_path, "run-1", lambda: NOW)


def test_a_journal_that_cannot_be_written_is_said_so() -> None:
    stream = io.StringIO()
    journal = Journal(stream, "run-1", lambda: NOW)
    stream.close()
    with pytest.raises(JournalError, match="cannot write the journal"):
        journal.write("evicting", a_move())


def test_errors_can_still_be_printed_where_a_journal_was_written() -> None:
    stream = io.StringIO()
    with Journal(stream, "run-1", lambda: NOW) as journal:
        journal.write("run-started")
    stream.write("the lease is held\n")

    assert stream.getvalue().endswith("\nthe lease is held\n")


def test_an_eviction_without_a_word_after_it_is_in_flight(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    write(path, "run-started", "evicting")
    assert [line["pod"] for line in in_flight(read_journal(path))] == ["shop/web-1"]
    write(path, "evicted")
    assert not in_flight(read_journal(path))


def test_a_pipe_is_written_line_by_line_without_being_made_durable() -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as stream, os.fdopen(reading) as reader:
        Journal(stream, "run-1", lambda: NOW).write("run-started")
        assert json.loads(reader.readline())["event"] == "run-started"


def test_no_control_character_of_a_cluster_reaches_the_journal(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal.to_file(path, "run", lambda: 0.0) as journal:
        journal.write("refused", because="\x9b2J \x7f \u202e \x1b[31m")

    assert path.read_text().rstrip("\n").isprintable()
    assert read_journal(path)[0]["because"] == "\x9b2J \x7f \u202e \x1b[31m"


def test_a_journal_creates_no_folders(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot open the journal: No such file or directory"):
        Journal.to_file(tmp_path / "no" / "journal.jsonl", "run", lambda: 0.0)

    assert not (tmp_path / "no").exists()


def test_a_file_without_any_line_of_a_journal_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text('{"apiVersion": "rebalancer/v1alpha1", "kind": "Plan"}\n')
    with pytest.raises(InputError, match=r"plan.json:1: not a line of a journal: it has no event"):
        read_journal(path)

    path.write_text('{"event": "run-st')  # a run that was killed while it wrote its first line
    assert read_journal(path) == ()


def test_a_journal_that_cannot_be_begun_leaves_no_file_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[IO[bytes]] = []

    def fails(stream: IO[bytes]) -> None:
        opened.append(stream)
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("rebalancer.execution.journal._end_last_line", fails)
    with pytest.raises(InputError, match="cannot open the journal: Input/output error"):
        Journal.to_file(tmp_path / "journal.jsonl", "run", lambda: 0.0)
    assert [stream.closed for stream in opened] == [True]


def a_long_journal(path: Path) -> None:
    """Longer than what is read, of a run whose first eviction and whose last are in flight."""
    padding = "x" * 900
    with path.open("w") as file:
        for number in range(MAX_BYTES // 900 + 1000):
            line = {"event": "outcome", "run": "run-1", "uid": f"uid-{number}", "because": padding}
            file.write(json.dumps(line) + "\n")
    write(path, "evicting", run="run-2")


def test_of_a_long_journal_the_end_is_read_and_it_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "journal"
    a_long_journal(path)

    lines = read_journal(path)

    assert 10_000 < len(lines) < MAX_BYTES // 900 + 1000
    assert lines[0]["uid"].startswith("uid-")
    assert [line["pod"] for line in in_flight(lines)] == ["shop/web-1"]
    assert "only its end is read" in caplog.text


def test_a_long_file_that_is_no_journal_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with path.open("wb") as file:
        file.truncate(MAX_BYTES * 3)
    with pytest.raises(InputError, match="a line of it is too long"):
        read_journal(path)


def test_a_journal_is_rotated_once_it_is_as_long_as_what_is_read_and_one_earlier_is_kept(
    tmp_path: Path,
) -> None:
    path = tmp_path / "journal"
    earlier = tmp_path / "journal.1"
    rotate(path)
    write(path, "run-started", run="run-1")
    rotate(path)
    assert not earlier.exists()

    for run in ("run-2", "run-3"):
        a_long_journal(path)
        rotate(path)
        write(path, "run-started", run=run)

    assert [line["run"] for line in read_journal(path)] == ["run-3"]
    assert [line["run"] for line in in_flight(read_journal(earlier))] == ["run-2"]
    assert sorted(item.name for item in tmp_path.iterdir()) == ["journal", "journal.1"]


def test_a_pipe_is_not_rotated_and_what_cannot_be_rotated_is_an_input_error(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    rotate(pipe)
    assert pipe.is_fifo()

    path = tmp_path / "journal"
    a_long_journal(path)
    (tmp_path / "journal.1").mkdir()
    with pytest.raises(InputError, match="cannot rotate the journal"):
        rotate(path)
