"""Standard streams that were closed before the program began, as ``2>&-`` and some supervisors leave them.

A system gives the lowest free descriptor to whatever is opened next: with stdout closed, that of stdout to
the state's file or to the connection to the API server, and a login plugin that prints would print there. So
what is closed is opened first, to nowhere:

    rebalancer plan >&-    descriptor 1 is free    opened to nowhere; the plan goes there
    rebalancer run 2>&-    descriptor 2 is free    opened to nowhere; ``run`` asks for --journal FILE
"""

from __future__ import annotations

import os
import sys

_READS = (True, False, False)  # stdin, stdout, stderr
_closed: set[int] = set()


def open_closed_streams() -> None:
    """Open those of the three standard streams to nowhere that are closed; to be called first of all."""
    for descriptor, reads in enumerate(_READS):
        if _is_open(descriptor):
            continue
        _closed.add(descriptor)
        found = os.open(os.devnull, os.O_RDONLY if reads else os.O_WRONLY)
        if found != descriptor:
            os.dup2(found, descriptor)
            os.close(found)
        os.set_inheritable(descriptor, True)
    if sys.stdin is None:
        sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)


def stderr_was_closed() -> bool:
    """Whether nobody can ever read what is written to stderr, because there was none."""
    return 2 in _closed


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True
