"""SIGTERM and SIGINT ask a run to stop; it finishes the eviction in flight first."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def stop_on_signal() -> Iterator[threading.Event]:
    """An event that is set once a stop was requested; a second SIGINT interrupts at once."""
    requested = threading.Event()

    def request(number: int, _frame: FrameType | None) -> None:
        if requested.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        requested.set()

    if threading.current_thread() is not threading.main_thread():
        yield requested
        return
    before = {number: signal.signal(number, request) for number in _SIGNALS}
    try:
        yield requested
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
