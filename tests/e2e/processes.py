"""Programs in the background: started with a log, waited for, stopped by process id."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.waiting import HANG_SECONDS

_PR_SET_PDEATHSIG = 1
_LOG_TAIL_BYTES = 3000
_LIBC = ctypes.CDLL(None, use_errno=True)


def wait_until(
    met: Callable[[], bool], what: str, *, seconds: float = HANG_SECONDS, every: float = 0.1
) -> None:
    """Wait until the condition is met. Raises TimeoutError that says what was waited for."""
    deadline = time.monotonic() + seconds
    while not met():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:g} s: {what}")
        time.sleep(every)


@dataclass(frozen=True)
class Program:
    """A running program and its log."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    @classmethod
    def start(
        cls, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
    ) -> Program:
        """Start the command; it ends with this process, however this process ends."""
        with log.open("ab") as output:
            process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                preexec_fn=lambda: _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL),  # noqa: PLW1509
            )
        return cls(Path(command[0]).name, process, log)

    def wait_until(self, ready: Callable[[], bool], *, seconds: float = 300.0) -> Program:
        """Wait until it is ready. Raises RuntimeError with the end of its log if it does not."""

        def settled() -> bool:
            return self.process.poll() is not None or ready()

        try:
            wait_until(settled, f"{self.name} ready", seconds=seconds)
        except TimeoutError as error:
            raise RuntimeError(f"{error}\n{self.tail()}") from None
        if self.process.poll() is not None:
            raise RuntimeError(f"{self.name} ended with {self.process.returncode}\n{self.tail()}")
        return self

    def stop(self, *, seconds: float = 60.0) -> None:
        """Ask it to end, and see to it."""
        self.process.terminate()
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()
        self.process.wait()

    def tail(self) -> str:
        """The end of its log."""
        return self.log.read_bytes()[-_LOG_TAIL_BYTES:].decode(errors="replace")
