"""Which signals ask this program to stop, where the system has them and nobody ignores them on purpose."""

from __future__ import annotations

import signal

_HANGUP = "SIGHUP"  # a terminal was closed; Windows has none, and ``nohup`` ignores it


def stop_signals() -> tuple[signal.Signals, ...]:
    """SIGTERM, SIGINT and, unless it is ignored, SIGHUP."""
    found = [signal.SIGTERM, signal.SIGINT]
    hangup = getattr(signal, _HANGUP, None)
    if hangup is not None and signal.getsignal(hangup) != signal.SIG_IGN:
        found.append(hangup)
    return tuple(found)


def is_hangup(number: int) -> bool:
    """Whether a signal says that the terminal was closed."""
    return number == getattr(signal, _HANGUP, None)
