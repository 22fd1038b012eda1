"""Runs iterators on threads of their own, a little ahead of their one consumer.

    with running_ahead([nodes, pods, budgets, …], is_page, at_once=3) as values:
        for value in values: …

``nodes`` begins alone; with its first page ``pods`` and ``budgets`` begin as well, and each thread that is
done takes the next iterator. Values of one iterator come in its order, those of several as they are made. So
a server that does not answer is noticed by one request, and not by several at once.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from queue import Empty, Full, Queue
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
        self._values: Queue[object] = Queue(depth)
        self._left = threading.Event()
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
            if isinstance(value, _Raised):
                raise value.error
            yield value  # type: ignore[misc]

    def leave(self) -> None:
        """Ask for no more; what is under way ends by its own deadline."""
        self._left.set()
        with contextlib.suppress(Empty):
            self._values.get_nowait()  # so that a waiting put looks at once
        for thread in self._threads:
            thread.join(_LOOK_SECONDS)

    def _start_up_to(self, count: int) -> None:
        with self._lock:
            count = min(count, len(self._threads) + len(self._waiting))
            while len(self._threads) < count and not self._left.is_set():
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
            return self._waiting.popleft() if self._waiting and not self._left.is_set() else None

    def _put(self, value: object) -> bool:
        while not self._left.is_set():
            with contextlib.suppress(Full):
                self._values.put(value, timeout=_LOOK_SECONDS)
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
