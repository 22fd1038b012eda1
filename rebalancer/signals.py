"""Signals ask what acts to stop; nothing is thrown into the line that is at work.

A command that only reads ends at once (``__main__``): it writes files by renaming them alone, and holds
nothing. What holds a lease or a cluster ends in order instead. There a handler sets a ``StopRequest`` and
does nothing else, and work that may last looks for it: each wait, request, page of a list and placement.

    first signal while planning               the plan is given up, the lease released
    first signal while an eviction is sent    its answer is awaited, the state saved, the lease released
    second SIGTERM or SIGINT                  the same, and all of it takes a second at most
    second SIGHUP                             nothing: a terminal that is closed may send two
    SIGHUP to a service                       reads the policy again
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from rebalancer.deadlines import StopRequest

_HANGUP = getattr(signal, "SIGHUP", None)  # Windows hangs up no terminal


@contextmanager
def stop_on_signal(stop: StopRequest, read_again: Callable[[], None] | None = None) -> Iterator[None]:
    """Within this block SIGTERM, SIGINT and SIGHUP set the request, and end nothing by themselves.

    A service has SIGHUP call ``read_again`` instead; elsewhere it stays ignored where ``nohup`` ignores it.
    """
    if threading.current_thread() is not threading.main_thread():  # which alone may handle signals
        yield
        return

    def receive(number: int, _frame: FrameType | None) -> None:
        if number == _HANGUP and read_again is not None:
            read_again()
        elif stop.is_set() and number != _HANGUP:
            stop.hurry()
        else:
            stop.set()

    numbers = [signal.SIGTERM, signal.SIGINT]
    if _HANGUP is not None and (read_again is not None or signal.getsignal(_HANGUP) != signal.SIG_IGN):
        numbers.append(_HANGUP)
    before = {number: signal.signal(number, receive) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
