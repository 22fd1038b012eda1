"""Signals ask the program to stop: a command unwinds, a run ends in order.

A command that only reads is thrown out of whatever line it is at, as Ctrl-C does: ``interrupted_by_signals``.
A run that was thrown out of any line could not say what became of a pod, so there SIGTERM, SIGINT and SIGHUP
only set a ``StopRequest``, which its waits look for: ``stop_on_signal``. Reading a cluster, planning and
asking the user can be left at any line in a run too: ``interruptibly`` is for those.

    first signal while planning               the plan is given up, the lease released
    first signal while an eviction is sent    its answer is awaited, the state saved, the lease released
    second SIGTERM or SIGINT                  KeyboardInterrupt; the lease is released if that is quick
    second SIGHUP                             nothing: a terminal that is closed may send two
    SIGHUP to a service                       reads the policy again

What a handler raises may be lost. Python drops it inside a callback of C or Rust code (a destructor, a weak
reference, a check that a library calls) and goes on, perhaps with a wrong answer of that callback: it is
raised once more, a moment later. A library may drop it too, by an ``except:`` around an import. A command
that ends by itself would only do so a little later, but a run would go on to evict. So a request is
remembered, and ``stop_on_signal`` begins with one that came before. Compiled code that does not look whether
what it called has failed ends the process by a fault: such code is not used (``tests/interruptions.py``).

And what a handler raises may leave a lock taken for ever, in ``threading`` and ``logging``: they take locks
in Python code, one line before the block that releases them. Whatever another thread does next, such as the
request that releases the lease, would wait for it without end. There nothing is raised until a moment later.
"""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

from rebalancer.deadlines import StopRequest
from rebalancer.errors import StopRequestedError

# Windows has neither of them: there an interruption that is dropped is lost, and no terminal is hung up.
_ALARM = getattr(signal, "SIGALRM", None)
_HANGUP = getattr(signal, "SIGHUP", None)
_SECONDS_UNTIL_RAISED_AGAIN = 0.001

_Result = TypeVar("_Result")
Handler = Callable[[int, FrameType | None], object]

_OWN = __file__.removesuffix("signals.py")
_TAKE_LOCKS = frozenset(
    function.__code__.co_filename for function in (threading.Condition.wait, logging.Handler.acquire)
)
_MOST_PUT_OFF = 50

_put_off = 0  # times that raising was put off since signals are handled, or since one was raised
_requested = False  # a signal asked this command to stop; signals are those of the whole process


def stop_signals() -> tuple[signal.Signals, ...]:
    """SIGTERM, SIGINT and, unless it is ignored, SIGHUP."""
    found = [signal.SIGTERM, signal.SIGINT]
    if _HANGUP is not None and signal.getsignal(_HANGUP) != signal.SIG_IGN:  # ``nohup`` ignores it
        found.append(_HANGUP)
    return tuple(found)


def was_requested() -> bool:
    """Whether a signal has asked this command to stop."""
    return _requested


class Interruptions:
    """Whether a signal ends the work at hand now; one that comes at another time is only remembered.

    ``raising`` is an attribute, and no method sets it: a signal may come wherever a function begins.
    """

    def __init__(self) -> None:
        self.raising = False


@contextmanager
def interrupted_by_signals() -> Iterator[Interruptions]:
    """Within this block, while it is ``raising``, a signal ends the work at hand as Ctrl-C does.

    So temporary files are removed. Where it is not, because the work is over, a second signal of a kind ends
    the process: what is still to be printed may find no reader.
    """
    global _requested  # noqa: PLW0603 - of the whole process
    interruptions = Interruptions()
    if threading.current_thread() is not threading.main_thread():
        yield interruptions
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        global _requested  # noqa: PLW0603 - of the whole process
        _requested = True
        if interruptions.raising:
            _raise(KeyboardInterrupt, frame)
        else:
            signal.signal(number, signal.SIG_DFL)

    def interrupt_again(frame: FrameType | None) -> None:
        if interruptions.raising:
            _raise(KeyboardInterrupt, frame)

    _requested = False
    with _handled(interrupt, (KeyboardInterrupt,), interrupt_again):
        yield interruptions


@contextmanager
def stop_on_signal(read_again: Callable[[], None] | None = None) -> Iterator[StopSignals]:
    """Within this block signals only ask to stop; a service has SIGHUP call ``read_again`` instead."""
    signals = StopSignals()
    if threading.current_thread() is not threading.main_thread():
        yield signals
        return
    with _handled(signals.receive, (_Interrupted, KeyboardInterrupt), signals.raise_again):
        if _requested:
            signals.stop.set()
        if read_again is None or _HANGUP is None:
            yield signals
            return
        hangup = signal.signal(_HANGUP, lambda _number, _frame: read_again())
        try:
            yield signals
        finally:
            signal.signal(_HANGUP, hangup)


def _raise(kind: type[BaseException], frame: FrameType | None) -> None:
    """Raise what ends the work at hand; a moment later where the main thread may hold a lock of a library.

    A thread that is still there after many moments waits, for another thread or for whoever reads its output.
    """
    global _put_off  # noqa: PLW0603 - of the main thread
    may_wait = _ALARM is not None and callable(signal.getsignal(_ALARM)) and _put_off < _MOST_PUT_OFF
    if may_wait and _may_hold_a_lock(frame):
        _put_off += 1
        signal.setitimer(signal.ITIMER_REAL, _SECONDS_UNTIL_RAISED_AGAIN)
    else:
        _put_off = 0
        raise kind


def _may_hold_a_lock(frame: FrameType | None) -> bool:
    """Whether a signal came in a function of ``threading`` or ``logging``, or in what that called.

    On a busy machine the alarm of a signal that was put off may come while that signal is still handled.
    Then what counts is where the handler was called, so the functions of this module are passed over.
    """
    while frame is not None:
        file = frame.f_code.co_filename
        if file in _TAKE_LOCKS:
            return True
        if file.startswith(_OWN) and file != __file__:
            return False
        frame = frame.f_back
    return False


@contextmanager
def _handled(
    handler: Handler, kinds: tuple[type[BaseException], ...], raise_again: Callable[[FrameType | None], None]
) -> Iterator[None]:
    """Handle the signals that ask to stop; call ``raise_again`` whenever Python drops what was raised."""
    before = {number: signal.signal(number, handler) for number in stop_signals()}
    try:
        with _raised_again(kinds, raise_again):
            yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


@contextmanager
def _raised_again(
    kinds: tuple[type[BaseException], ...], raise_again: Callable[[FrameType | None], None]
) -> Iterator[None]:
    """Call ``raise_again`` in the main thread whenever Python drops an exception of these kinds."""
    global _put_off  # noqa: PLW0603 - of the main thread
    _put_off = 0  # what an earlier block put off until it was over was never raised
    if _ALARM is None:
        yield
        return
    hook = sys.unraisablehook

    def dropped(unraisable: Any) -> None:
        if issubclass(unraisable.exc_type, kinds):
            signal.setitimer(signal.ITIMER_REAL, _SECONDS_UNTIL_RAISED_AGAIN)
        else:
            hook(unraisable)

    handler = signal.signal(_ALARM, lambda _number, frame: raise_again(frame))
    sys.unraisablehook = dropped
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.unraisablehook = hook
        signal.signal(_ALARM, handler)


class _Interrupted(BaseException):
    """Leaves work that can be left at any line; no handler of errors may swallow it."""


class StopSignals:
    """What signals asked for so far."""

    def __init__(self) -> None:
        self.stop = StopRequest()
        self._may_raise = False
        self._interruptible = False

    def receive(self, number: int, frame: FrameType | None = None) -> None:
        """Handle a signal. Raises what ends the work at hand, where that can be ended at any line."""
        global _requested  # noqa: PLW0603 - of the whole process
        if self.stop.is_set() and number != _HANGUP:
            self.stop.hurry()
            _requested = True  # what fails from now on may have failed because of it
            _raise(KeyboardInterrupt, frame)
            return
        self.stop.set()
        if self._may_raise:
            self._may_raise = False
            _raise(_Interrupted, frame)

    def raise_again(self, frame: FrameType | None) -> None:
        """Raise what ends the work at hand once more, if that work goes on."""
        if self.stop.is_hurried():
            _raise(KeyboardInterrupt, frame)
        elif self._interruptible:
            _raise(_Interrupted, frame)

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
