"""A file is replaced as a whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rebalancer import files


def test_the_new_content_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "file"
    files.replace(path, b"old")
    files.replace(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_until_it_is_complete_readers_find_the_old_content(tmp_path: Path) -> None:
    path = tmp_path / "file"
    files.replace(path, b"old")
    with files.replacing(path) as stream:
        stream.write(b"new")
        stream.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"


def _fail_half_way(path: Path, error: BaseException) -> None:
    with files.replacing(path) as stream:
        stream.write(b"half")
        raise error


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_writer_that_fails_leaves_the_old_content_and_nothing_else(
    tmp_path: Path, error: BaseException
) -> None:
    path = tmp_path / "file"
    files.replace(path, b"old")
    with pytest.raises(type(error)):
        _fail_half_way(path, error)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        files.replace(tmp_path / "no" / "file", b"")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["n" * 300, "a\0b", "/".join(["f"] * 3000)])
def test_a_path_that_cannot_be_is_no_failure_of_the_question(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    assert (files.is_there(path), files.is_file(path), files.is_folder(path)) == (False, False, False)
    assert files.may_exist(path)


def test_what_stands_at_a_path_is_told_apart(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    names = ("file", "link", "pipe", "", "dangling", "file/below")
    paths = [tmp_path / name for name in names]

    assert [files.is_file(path) for path in paths] == [True, True, False, False, False, False]
    assert [files.is_folder(path) for path in paths] == [False, False, False, True, False, False]
    assert [files.is_there(path) for path in paths] == [True, True, True, True, False, False]
    assert [files.may_exist(path) for path in paths] == [True, True, True, True, False, False]
