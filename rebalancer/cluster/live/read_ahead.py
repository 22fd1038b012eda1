"""Runs iterators on threads of their own, a little ahead of their one consumer.

    with running_ahead([nodes, pods, budgets, …], is_page, at_once=3) as values:
        for value in values: …

``nodes`` begins alone; with its first page ``pods`` and ``budgets`` begin as well, and each thread that is
done takes the next iterator. Values of one iterator come in its order, those of several as they are made. So
a server that does not answer is noticed by one request, and not by several at once.

A signal may throw the consumer out of any line, those of Python's own ``Queue`` and ``Event`` included, which
then stay locked for ever. So what the consumer touches is a ``SimpleQueue``, which is one step of C code.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

_Value = TypeVar("_Value")
_LOOK_SECONDS = 0.05
_END = object()


class _Raised:
    """What an iterator raised, on its way to the consumer."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


class _Ahead(Generic[_Value]):
    """The threads that make the values, and the queue they wait in."""

    def __init__(
        self,
        makes: Iterable[Callable[[], Iterator[_Value]]],
        proves: Callable[[_Value], bool],
        depth: int,
        at_once: int,
    ) -> None:
        self._waiting = deque(makes)
        self._values: SimpleQueue[object] = SimpleQueue()
        self._room: SimpleQueue[None] = SimpleQueue()  # one for each value that may be made
        for _ in range(depth):
            self._room.put(None)
        self._left = False  # nobody asks for more
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._at_work = 0
        self._proves = proves
        self._at_once = at_once
        if self._waiting:
            self._start_up_to(1)
        else:
            self._values.put(_END)

    def consume(self) -> Iterator[_Value]:
        """The values, as they come."""
        while (value := self._values.get()) is not _END:
            self._room.put(None)
            if isinstance(value, _Raised):
                raise value.error
            yield value  # type: ignore[misc]

    def leave(self) -> None:
        """Ask for no more; what is under way ends by its own deadline."""
        with self._lock:  # a thread that is being started has begun, and none is from now on
            self._left = True
        self._room.put(None)  # so that one that waits looks at once
        for thread in self._threads:
            thread.join(_LOOK_SECONDS)

    def _start_up_to(self, count: int) -> None:
        with self._lock:
            count = min(count, len(self._threads) + len(self._waiting))
            while len(self._threads) < count and not self._left:
                thread = threading.Thread(target=self._work, name="ahead", daemon=True)
                self._threads.append(thread)
                self._at_work += 1
                thread.start()

    def _work(self) -> None:
        try:
            while (make := self._next()) is not None:
                for value in make():
                    if not self._put(value):
                        return
                    if self._proves(value):
                        self._start_up_to(self._at_once)
                self._start_up_to(self._at_once)
        except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
            self._put(_Raised(error))
        finally:
            with self._lock:
                self._at_work -= 1
                last = not self._at_work
            if last:
                self._put(_END)

    def _next(self) -> Callable[[], Iterator[_Value]] | None:
        with self._lock:
            return self._waiting.popleft() if self._waiting and not self._left else None

    def _put(self, value: object) -> bool:
        while not self._left:
            with contextlib.suppress(Empty):
                self._room.get(timeout=_LOOK_SECONDS)
                if not self._left:
                    self._values.put(value)
                    return True
        return False


@contextmanager
def running_ahead(
    makes: Iterable[Callable[[], Iterator[_Value]]],
    proves: Callable[[_Value], bool] = lambda _: True,
    depth: int = 1,
    at_once: int = 1,
) -> Iterator[Iterator[_Value]]:
    """Values of the iterators that ``makes`` return, ``at_once`` of which are made at the same time.

    The others begin when the first has ended or has made a value that ``proves`` that it goes well. At most
    ``depth`` values wait, and one more in each thread. What an iterator raises is raised in its place. When
    the consumer leaves early nothing more is asked of any.
    """
    ahead = _Ahead(makes, proves, depth, at_once)
    try:
        yield ahead.consume()
    finally:
        ahead.leave()
