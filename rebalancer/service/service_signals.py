"""The signals of a service: SIGTERM and SIGINT stop it as they stop a run, SIGHUP reads the policy again."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rebalancer.run.stop import StopSignals, stop_on_signal

_HANGUP = getattr(signal, "SIGHUP", None)  # Windows has none


@contextmanager
def heard_signals(read_again: Callable[[], None]) -> Iterator[StopSignals]:
    """Within this block signals only ask; ``read_again`` is called by the handler of SIGHUP."""
    with stop_on_signal() as signals:
        if _HANGUP is None or threading.current_thread() is not threading.main_thread():
            yield signals
            return
        before = signal.signal(_HANGUP, lambda _number, _frame: read_again())
        try:
            yield signals
        finally:
            signal.signal(_HANGUP, before)
