"""How tests wait: for an event, however long it takes on this machine.

What is awaited comes, and the test goes on at once. Only where it never comes is the bound of
``HANG_SECONDS`` reached, and the failure says what was awaited:

    eventually(lambda: warm.trouble, awaited="the standby says why it cannot read")
    happened(server.opened, awaited="the watch is opened")
    with no_hang("a pause ends when somebody asks to stop"):
        assert deadline.pause(NEVER_SECONDS)

This is the only module of the tests that reads the clock of the machine; ``present`` is for what a program
with that clock is shown. tests/unit/architecture/test_real_clock.py sees to it.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TypeVar

import pytest

HANG_SECONDS = 180.0  # nothing that works takes as long, on the slowest machine
NEVER_SECONDS = 7200.0  # what a test makes wait so long must be cut short, or hangs
_LOOK_SECONDS = 0.02
_INTERRUPT_SECONDS = 0.2

_Value = TypeVar("_Value")


def eventually(condition: Callable[[], _Value], *, awaited: str) -> _Value:
    """The first true value of ``condition``, which is asked again and again."""
    end = time.monotonic() + HANG_SECONDS
    while not (value := condition()):
        if time.monotonic() >= end:
            pytest.fail(f"waited {HANG_SECONDS:.0f} s in vain: {awaited}")
        time.sleep(_LOOK_SECONDS)
    return value


def happened(event: threading.Event, *, awaited: str) -> None:
    """Wait for an event."""
    if not event.wait(HANG_SECONDS):
        pytest.fail(f"waited {HANG_SECONDS:.0f} s in vain: {awaited}")


def ended(thread: threading.Thread, *, awaited: str) -> None:
    """Wait for a thread to end."""
    thread.join(HANG_SECONDS)
    if thread.is_alive():
        pytest.fail(f"waited {HANG_SECONDS:.0f} s in vain: {awaited}")


@contextlib.contextmanager
def no_hang(awaited: str) -> Iterator[None]:
    """Fail where the block hangs in the main thread; how long it takes otherwise does not matter.

    Python handles a signal between two lines or when a system call is interrupted. One that comes just before
    a call that waits would be handled after it, so that such calls are interrupted now and then.
    """
    end, over, main = time.monotonic() + HANG_SECONDS, threading.Event(), threading.main_thread().ident or 0

    def interrupted(_signal: int, _frame: FrameType | None) -> None:
        if time.monotonic() >= end and not over.is_set():
            pytest.fail(f"waited {HANG_SECONDS:.0f} s in vain: {awaited}")

    def interrupt() -> None:
        while not over.wait(_INTERRUPT_SECONDS):
            signal.pthread_kill(main, signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, interrupted)
    interrupting = threading.Thread(target=interrupt, daemon=True)
    interrupting.start()
    try:
        yield
    finally:
        over.set()
        interrupting.join()
        signal.signal(signal.SIGUSR1, before)


def present() -> float:
    """The time of this machine, for what is shown to a program that reads its clock."""
    return time.time()
