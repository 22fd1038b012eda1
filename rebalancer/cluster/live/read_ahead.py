"""Runs an iterator on a thread of its own, a little ahead of its consumer."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty, Full, Queue
from typing import Generic, TypeVar

_Value = TypeVar("_Value")
_LOOK_SECONDS = 0.05
_END = object()


class _Raised:
    """What the iterator raised, on its way to the consumer."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


class _Ahead(Generic[_Value]):
    """The thread that makes the values, and the queue they wait in."""

    def __init__(self, make: Callable[[], Iterator[_Value]], depth: int) -> None:
        self._make = make
        self._values: Queue[object] = Queue(depth)
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._work, name="ahead", daemon=True)
        self._thread.start()

    def consume(self) -> Iterator[_Value]:
        """The values, as they come."""
        while (value := self._values.get()) is not _END:
            if isinstance(value, _Raised):
                raise value.error
            yield value  # type: ignore[misc]

    def leave(self) -> None:
        """Ask for no more; what is under way ends by its own deadline."""
        self._left.set()
        with contextlib.suppress(Empty):
            self._values.get_nowait()  # so that a waiting put looks at once
        self._thread.join(_LOOK_SECONDS)

    def _work(self) -> None:
        try:
            for value in self._make():
                if not self._put(value):
                    return
        except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
            self._put(_Raised(error))
        else:
            self._put(_END)

    def _put(self, value: object) -> bool:
        while not self._left.is_set():
            with contextlib.suppress(Full):
                self._values.put(value, timeout=_LOOK_SECONDS)
                return True
        return False


@contextmanager
def running_ahead(make: Callable[[], Iterator[_Value]], depth: int = 1) -> Iterator[Iterator[_Value]]:
    """Values of the iterator that ``make`` returns, at most ``depth`` of them made before they are asked for.

    What it raises is raised in its place. When the consumer leaves early nothing more is asked of it.
    """
    ahead = _Ahead(make, depth)
    try:
        yield ahead.consume()
    finally:
        ahead.leave()
