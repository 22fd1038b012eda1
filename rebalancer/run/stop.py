"""Signals ask a run to stop: it ends in order, whatever it is doing when they arrive.

SIGTERM, SIGINT and SIGHUP only set a ``StopRequest``, because a run that was thrown out of any line of its
code could not say what became of a pod. Waits look for the request. Reading a cluster, planning and asking
the user can be left at any line: ``interruptibly`` is for those.

    first signal while planning               the plan is given up, the lease released
    first signal while an eviction is sent    its answer is awaited, the state saved, the lease released
    second SIGTERM or SIGINT                  KeyboardInterrupt; the lease is released if that is quick

A second SIGHUP is no second request: a terminal that is closed may send two.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

from rebalancer.deadlines import StopRequest
from rebalancer.errors import StopRequestedError
from rebalancer.stop_signals import is_hangup, raised_again, stop_signals, was_requested

_Result = TypeVar("_Result")


class _Interrupted(BaseException):
    """Leaves work that can be left at any line; no handler of errors may swallow it."""


class StopSignals:
    """What signals asked for so far."""

    def __init__(self) -> None:
        self.stop = StopRequest()
        self._may_raise = False
        self._interruptible = False

    def receive(self, number: int, _frame: FrameType | None = None) -> None:
        """Handle a signal. Raises what ends the work at hand, where that can be ended at any line."""
        if self.stop.is_set() and not is_hangup(number):
            self.stop.hurry()
            raise KeyboardInterrupt
        self.stop.set()
        if self._may_raise:
            self._may_raise = False
            raise _Interrupted

    def raise_again(self) -> None:
        """Raise what ends the work at hand once more, if that work goes on."""
        if self.stop.is_hurried():
            raise KeyboardInterrupt
        if self._interruptible:
            raise _Interrupted

    def interruptibly(self, work: Callable[[], _Result]) -> _Result:
        """The result of work that changes nothing. Raises StopRequestedError as soon as a signal comes."""
        try:
            try:
                self._may_raise = self._interruptible = True
                if self.stop.is_set():
                    raise _Interrupted
                result = work()
                self._may_raise = False
                if self.stop.is_set():  # what was raised went astray, in a callback of a library
                    raise _Interrupted
                return result
            finally:
                self._may_raise = self._interruptible = False
        except _Interrupted:
            raise StopRequestedError("asked to stop by a signal") from None
        except Exception:
            # Work that a signal disturbed may have failed because of it.
            if self.stop.is_set():
                raise StopRequestedError("asked to stop by a signal") from None
            raise


@contextmanager
def stop_on_signal() -> Iterator[StopSignals]:
    """Within this block signals only ask to stop."""
    signals = StopSignals()
    if threading.current_thread() is not threading.main_thread():
        yield signals
        return
    before = {number: signal.signal(number, signals.receive) for number in stop_signals()}
    if was_requested():
        signals.stop.set()
    try:
        with raised_again((_Interrupted, KeyboardInterrupt), signals.raise_again):
            yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
