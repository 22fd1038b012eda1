"""The decisions that a service has compared, kept in a file: a line each, the oldest first.

A file that has grown to ``MAX_BYTES`` becomes ``FILE.1``, in place of the one before. So some ten thousand
decisions are kept at least, each with the scores of its nodes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import IO

import msgspec

from rebalancer import files
from rebalancer.agreement.decisions import Decision
from rebalancer.errors import InputError

MAX_BYTES = 32 << 20
_LONGEST_LINE = 4 << 20  # a decision with the scores of every node of a large cluster
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Decision).decode


def keep_decisions(path: Path, decisions: Iterable[Decision]) -> None:
    """Add decisions to a file. Raises InputError where it cannot be written."""
    lines = b"".join(_encode(decision) + b"\n" for decision in decisions)
    if not lines:
        return
    with files.refusing("cannot keep decisions", path, "name a file in a folder that may be written"):
        if files.may_exist(path) and path.stat().st_size >= MAX_BYTES:
            path.replace(_older(path))
        with path.open("ab+") as stream:
            _drop_cut_line(stream)
            stream.write(lines)


def _drop_cut_line(stream: IO[bytes]) -> None:
    """Remove the last line of a file where a crash cut it short: nobody can read it any more."""
    end = stream.seek(0, os.SEEK_END)
    begin = max(end - _LONGEST_LINE, 0)
    stream.seek(begin)
    tail = stream.read()
    if tail and not tail.endswith(b"\n"):
        stream.truncate(begin + tail.rfind(b"\n") + 1)


def _older(path: Path) -> Path:
    return path.with_name(f"{path.name}.1")


def kept_decisions(path: Path) -> list[Decision]:
    """The decisions of a file and of the one before it, the oldest first.

    A line that a crash cut short is left out. Raises InputError where a file cannot be read.
    """
    decisions: list[Decision] = []
    for each in (_older(path), path):
        if not files.may_exist(each):
            continue
        with files.refusing("cannot read", each):
            content = each.read_bytes()
        for number, line in enumerate(content.split(b"\n"), 1):
            if not line.strip():
                continue
            try:
                decisions.append(_decode(line))
            except (ValueError, RecursionError) as error:
                if content.endswith(line):  # the last one, without the end of its line
                    continue
                raise InputError(
                    f"is no decision that rebalancer serve kept: {str(error)[:200]}", where=f"{each}:{number}"
                ) from error
    return decisions
