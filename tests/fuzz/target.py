"""What a target is, and which ends of it are findings."""

from __future__ import annotations

import resource
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random

from rebalancer.errors import RebalancerError

# Instrumented and on a busy machine; input out of proportion takes minutes, not twice as long.
BASE_SECONDS, SECONDS_PER_BYTE = 5.0, 10e-6  # of processor time
BASE_BYTES, BYTES_PER_BYTE = 256 << 20, 1000  # of memory that one input adds to the most there ever was
_KIBIBYTE = 1024

MAX_BYTES = 256 << 10  # beyond the lengths where time that grows with the square shows
Mutate = Callable[[bytes, int, Random], bytes | None]
"""Changes an input within a size, by its structure; None where it has none."""


@dataclass(frozen=True)
class Target:
    """A decoder: ``decode`` takes any bytes; ``seeds`` are sound inputs by name."""

    name: str
    decode: Callable[[bytes], object]
    seeds: Callable[[], Mapping[str, bytes]]
    mutate: Mutate | None = None
    max_bytes: int = MAX_BYTES
    largest: int = 16 << 20  # that its input may be, or is read of it at once; more is refused by its size


@dataclass(frozen=True)
class Finding:
    """An input that ended as none may, and how; ``place`` tells one defect from another."""

    place: str
    what: str


def finding_of(
    target: Target, content: bytes, clock: Callable[[], float] = time.process_time
) -> Finding | None:
    """Decode one input; a finding unless it is read or refused, in proportionate time and memory."""
    started, memory = clock(), _most_memory()
    found: Finding | None = None
    try:
        target.decode(content)
    except RebalancerError as error:
        if not _is_one_line(str(error)):
            found = Finding("message", f"an error that is no printable line: {str(error)[:300]!r}")
    except Exception as error:  # noqa: BLE001 - whatever else is raised is what is looked for
        found = Finding(_place(error), f"{type(error).__name__}: {str(error)[:300]}")
    seconds, more = clock() - started, _most_memory() - memory
    if seconds > BASE_SECONDS + SECONDS_PER_BYTE * len(content):
        found = found or Finding("time", f"{seconds:.1f} s for {len(content)} bytes")
    if more > BASE_BYTES + BYTES_PER_BYTE * len(content):
        found = found or Finding("memory", f"{more >> 20} MiB more for {len(content)} bytes")
    return found


def _is_one_line(message: str) -> bool:
    return "\n" not in message and len(message) < 20_000


def _most_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _KIBIBYTE


def _place(error: BaseException) -> str:
    """The type, and the innermost line of the program itself."""
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if "/rebalancer/" in frame.filename
    ]
    where = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "outside"
    return f"{type(error).__name__} {where}"
