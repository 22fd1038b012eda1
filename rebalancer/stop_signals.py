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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

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
