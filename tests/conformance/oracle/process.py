"""The oracle as a running program: cases in, answers out, as many as one likes."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

Case = Mapping[str, Any]


class Oracle:
    """One process of the real scheduler; close it, or use it in a ``with``."""

    def __init__(self, program: Path, *arguments: str) -> None:
        self._process = subprocess.Popen([program, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self) -> Oracle:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def answer(self, case: Case) -> dict[str, Any]:
        """The answer to one case. Raises EOFError when the program has ended."""
        return next(self.answers([case]))

    def answers(self, cases: Iterable[Case]) -> Iterator[dict[str, Any]]:
        """The answers to these cases, in their order. Raises EOFError when the program has ended."""
        lines = [msgspec.json.encode(case) + b"\n" for case in cases]
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        # Written beside the reading: both pipes are shorter than what goes through them.
        writer = threading.Thread(target=self._write, args=(lines,))
        writer.start()
        for _ in lines:
            if not (line := self._process.stdout.readline()):
                writer.join()
                raise EOFError("the oracle ended without an answer")
            yield msgspec.json.decode(line)
        writer.join()

    def _write(self, lines: list[bytes]) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # whoever reads the answers notices that it has ended
            for line in lines:
                self._process.stdin.write(line)
            self._process.stdin.flush()
