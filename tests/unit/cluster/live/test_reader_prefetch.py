from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from queue import Full, Queue
from typing import Any

import pytest

from rebalancer.cluster.live import reader
from rebalancer.cluster.live.reader import prefetch
from tests.rows import rows
from tests.waiting import HANG_SECONDS, ended, eventually, happened


def at_work() -> int:
    """How many threads make values."""
    return sum(thread.name == "prefetch" and thread.is_alive() for thread in threading.enumerate())


@rows("count", [0, 1, 7])
@rows("depth", [1, 3])
def test_values_come_in_order_and_none_is_lost(count: int, depth: int) -> None:
    with prefetch([lambda: iter(range(count))], buffer=depth) as values:
        assert list(values) == list(range(count))


def test_the_next_value_is_made_while_one_is_looked_at() -> None:
    made = [threading.Event() for _ in range(3)]

    def make() -> Iterator[int]:
        for number, event in enumerate(made):
            event.set()
            yield number

    with prefetch([make]) as values:
        assert next(values) == 0
        happened(made[1], awaited="the second value is made")
        happened(made[2], awaited="one waits, one more is made")


def test_no_more_values_are_made_than_may_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    third, no_room = threading.Event(), threading.Event()

    class Watched(Queue[Any]):
        def put(self, *arguments: Any, **options: Any) -> None:
            try:
                super().put(*arguments, **options)
            except Full:
                no_room.set()
                raise

    monkeypatch.setattr(reader, "Queue", Watched)

    def make() -> Iterator[int]:
        for number in range(100):
            made.append(number)
            if number == 2:
                third.set()
            yield number

    with prefetch([make]) as values:
        next(values)
        happened(third, awaited="one waits, one more is made")
        no_room.clear()
        happened(no_room, awaited="there is no room for the third")
        assert len(made) == 3


def test_what_is_raised_is_raised_in_its_place() -> None:
    def make() -> Iterator[int]:
        yield 1
        raise LookupError("here")

    with prefetch([make]) as values:
        assert next(values) == 1
        with pytest.raises(LookupError, match="here"):
            next(values)


def test_nothing_is_asked_for_after_the_consumer_has_left() -> None:
    made: list[int] = []

    def make() -> Iterator[int]:
        for number in range(1000):
            made.append(number)
            yield number

    with prefetch([make]) as values:
        next(values)
    eventually(lambda: not at_work(), awaited="the thread that makes values ends")

    assert len(made) <= 4


def test_the_first_begins_alone_and_never_more_than_asked_are_made_at_once() -> None:
    lock, making, most, begun = threading.Lock(), [0], [0], []
    first_is_out, two_at_once = threading.Event(), threading.Barrier(2)

    def make(number: int) -> Iterator[int]:
        with lock:
            begun.append(number)
            making[0] += 1
            most[0] = max(most[0], making[0])
        if number == 0:
            assert at_work() == 1, "others began before it has brought anything"
            first_is_out.set()
        assert first_is_out.is_set()
        if number in (1, 2):
            two_at_once.wait(HANG_SECONDS)  # each is made while the other is
        yield number
        with lock:
            making[0] -= 1

    makes = [functools.partial(make, number) for number in range(20)]
    with prefetch(makes, workers=3) as values:
        assert sorted(values) == list(range(20))
    assert 2 <= most[0] <= 3


def test_where_the_first_fails_the_others_do_not_begin() -> None:
    begun: list[int] = []

    def failing() -> Iterator[int]:
        yield 0  # proves nothing
        raise LookupError("here")

    def other() -> Iterator[int]:
        begun.append(1)
        yield 1

    with (
        prefetch([failing, other, other], lambda value: value > 0, workers=3) as values,
        pytest.raises(LookupError, match="here"),
    ):
        list(values)
    assert begun == []


def test_values_of_one_iterator_keep_their_order_among_those_of_others() -> None:
    makes = [functools.partial(zip, [number] * 50, range(50)) for number in range(6)]
    with prefetch(makes, workers=4) as values:
        found = list(values)
    assert len(found) == 300
    for number in range(6):
        assert [value for which, value in found if which == number] == list(range(50))


def test_what_one_raises_ends_the_others() -> None:
    def endless() -> Iterator[int]:
        yield from range(10**9)

    def failing() -> Iterator[int]:
        yield 1
        raise LookupError("here")

    with (
        pytest.raises(LookupError, match="here"),
        prefetch([endless, failing], workers=2) as values,
    ):
        for _ in values:
            pass
    eventually(lambda: not at_work(), awaited="the threads that make values end")


def test_without_iterators_there_are_no_values() -> None:
    none: list[Callable[[], Iterator[int]]] = []
    with prefetch(none, workers=4) as values:
        assert list(values) == []


class _Interrupted(BaseException):
    """As a signal raises it."""


def test_a_consumer_that_a_signal_throws_out_of_any_line_leaves_nothing_locked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Python's own ``Queue`` stays locked where a signal comes just after it was locked."""
    enter = threading.Condition.__enter__
    thrown_into: list[int] = []

    def locked_and_thrown_out(condition: threading.Condition) -> bool:
        entered = enter(condition)
        if threading.get_ident() in thrown_into:
            thrown_into.clear()
            raise _Interrupted
        return entered

    def consume() -> None:
        with contextlib.suppress(_Interrupted), prefetch([lambda: iter(range(9))]) as values:
            next(values)
            thrown_into.append(threading.get_ident())
            next(values)

    monkeypatch.setattr(threading.Condition, "__enter__", locked_and_thrown_out)
    consumer = threading.Thread(target=consume, daemon=True)
    consumer.start()
    ended(consumer, awaited="the consumer ends, and waits for no lock that it holds itself")


def test_a_consumer_may_leave_while_another_thread_is_being_started(monkeypatch: pytest.MonkeyPatch) -> None:
    start, leave = threading.Thread.start, reader._Prefetcher.leave
    second, leaving = threading.Event(), threading.Event()

    def started_late(thread: threading.Thread) -> None:
        if threading.current_thread().name == "prefetch":
            second.set()
            happened(leaving, awaited="the consumer leaves")
        start(thread)

    def left(prefetcher: reader._Prefetcher[int]) -> None:
        leaving.set()
        leave(prefetcher)

    monkeypatch.setattr(threading.Thread, "start", started_late)
    monkeypatch.setattr(reader._Prefetcher, "leave", left)
    with prefetch([lambda: iter(range(9))] * 2, workers=2) as values:
        next(values)
        happened(second, awaited="the second thread is being started")
