"""Which signals ask this program to stop, and what makes sure that an interruption ends the work at hand.

A handler ends work by raising. Python drops what is raised inside a callback of C or Rust code (a
destructor, a weak reference, a check that a library calls): it hands it to ``sys.unraisablehook`` and goes
on, perhaps with a wrong answer of that callback. ``raised_again`` raises it once more, a moment later,
outside of the callback.

A library may drop it too: an ``except:`` around an import is enough. A command that ends by itself would only
do so a little later, but a service would never, and a run would go on to evict. So a request is remembered,
and whoever begins to listen to signals by other means asks whether there was one.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

from rebalancer.deadlines import StopRequest
from rebalancer.errors import StopRequestedError

_ALARM = getattr(signal, "SIGALRM", None)  # Windows has none: there an interruption that is dropped is lost
_SECONDS_UNTIL_RAISED_AGAIN = 0.001
_HANGUP = "SIGHUP"  # a terminal was closed; Windows has none, and ``nohup`` ignores it


def stop_signals() -> tuple[signal.Signals, ...]:
    """SIGTERM, SIGINT and, unless it is ignored, SIGHUP."""
    found = [signal.SIGTERM, signal.SIGINT]
    hangup = getattr(signal, _HANGUP, None)
    if hangup is not None and signal.getsignal(hangup) != signal.SIG_IGN:
        found.append(hangup)
    return tuple(found)


_requested = False


def remember_request(requested: bool = True) -> None:
    """A signal asked to stop; with False, a new command begins that nobody has asked yet."""
    global _requested  # noqa: PLW0603 - signals are those of the whole process
    _requested = requested


def was_requested() -> bool:
    """Whether a signal has asked this command to stop."""
    return _requested


def is_hangup(number: int) -> bool:
    """Whether a signal says that the terminal was closed."""
    return number == getattr(signal, _HANGUP, None)


@contextmanager
def raised_again(kinds: tuple[type[BaseException], ...], raise_again: Callable[[], None]) -> Iterator[None]:
    """Call ``raise_again`` in the main thread whenever Python drops an exception of these kinds.

    It holds within this block, and the block must be entered in the main thread.
    """
    if _ALARM is None:
        yield
        return
    hook = sys.unraisablehook

    def dropped(unraisable: Any) -> None:
        if issubclass(unraisable.exc_type, kinds):
            signal.setitimer(signal.ITIMER_REAL, _SECONDS_UNTIL_RAISED_AGAIN)
        else:
            hook(unraisable)

    handler = signal.signal(_ALARM, lambda _number, _frame: raise_again())
    sys.unraisablehook = dropped
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.unraisablehook = hook
        signal.signal(_ALARM, handler)


# Signals ask a run to stop: it ends in order, whatever it is doing when they arrive.
#
# SIGTERM, SIGINT and SIGHUP only set a ``StopRequest``, because a run that was thrown out of any line of
# its
# code could not say what became of a pod. Waits look for the request. Reading a cluster, planning and
# asking
# the user can be left at any line: ``interruptibly`` is for those.
#
#     first signal while planning               the plan is given up, the lease released
#     first signal while an eviction is sent    its answer is awaited, the state saved, the lease released
#     second SIGTERM or SIGINT                  KeyboardInterrupt; the lease is released if that is quick
#
# A second SIGHUP is no second request: a terminal that is closed may send two.


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


# The signals of a service: SIGTERM and SIGINT stop it as they stop a run, SIGHUP reads the policy again.


_HANGUP_SIGNAL = getattr(signal, "SIGHUP", None)  # Windows has none


@contextmanager
def heard_signals(read_again: Callable[[], None]) -> Iterator[StopSignals]:
    """Within this block signals only ask; ``read_again`` is called by the handler of SIGHUP."""
    with stop_on_signal() as signals:
        if _HANGUP_SIGNAL is None or threading.current_thread() is not threading.main_thread():
            yield signals
            return
        before = signal.signal(_HANGUP_SIGNAL, lambda _number, _frame: read_again())
        try:
            yield signals
        finally:
            signal.signal(_HANGUP_SIGNAL, before)
