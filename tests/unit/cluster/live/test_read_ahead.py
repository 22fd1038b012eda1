from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator

import pytest

from rebalancer.cluster.live.reader import running_ahead

LONG = 30.0  # seconds: never waited for unless something is wrong


@pytest.mark.parametrize("count", [0, 1, 7])
@pytest.mark.parametrize("depth", [1, 3])
def test_values_come_in_order_and_none_is_lost(count: int, depth: int) -> None:
    with running_ahead([lambda: iter(range(count))], depth=depth) as values:
        assert list(values) == list(range(count))


def test_the_next_value_is_made_while_one_is_looked_at() -> None:
    made = [threading.Event() for _ in range(3)]

    def make() -> Iterator[int]:
        for number, event in enumerate(made):
            event.set()
            yield number

    with running_ahead([make]) as values:
        assert next(values) == 0
        assert made[1].wait(LONG)
        assert made[2].wait(LONG)  # one waits, one more is made


def test_no_more_values_are_made_than_may_wait() -> None:
    made: list[int] = []
    third = threading.Event()

    def make() -> Iterator[int]:
        for number in range(100):
            made.append(number)
            if number == 2:
                third.set()
            yield number

    with running_ahead([make]) as values:
        next(values)
        assert third.wait(LONG)
        assert not threading.Event().wait(0.1)
        assert len(made) == 3


def test_what_is_raised_is_raised_in_its_place() -> None:
    def make() -> Iterator[int]:
        yield 1
        raise LookupError("here")

    with running_ahead([make]) as values:
        assert next(values) == 1
        with pytest.raises(LookupError, match="here"):
            next(values)


def test_nothing_is_asked_for_after_the_consumer_has_left() -> None:
    made: list[int] = []

    def make() -> Iterator[int]:
        for number in range(1000):
            made.append(number)
            yield number

    with running_ahead([make]) as values:
        next(values)
    count = len(made)
    assert not threading.Event().wait(0.1)

    assert len(made) == count <= 4
    assert "ahead" not in {thread.name for thread in threading.enumerate() if thread.is_alive()}


def test_the_first_begins_alone_and_never_more_than_asked_are_made_at_once() -> None:
    lock, at_work, most, begun = threading.Lock(), [0], [0], []
    first_is_out, two_at_once = threading.Event(), threading.Barrier(2)

    def make(number: int) -> Iterator[int]:
        with lock:
            begun.append(number)
            at_work[0] += 1
            most[0] = max(most[0], at_work[0])
        if number == 0:
            assert not threading.Event().wait(0.1)
            assert begun == [0], "others began before it has brought anything"
            first_is_out.set()
        assert first_is_out.is_set()
        if number in (1, 2):
            two_at_once.wait(60)  # each is made while the other is
        yield number
        with lock:
            at_work[0] -= 1

    makes = [functools.partial(make, number) for number in range(20)]
    with running_ahead(makes, at_once=3) as values:
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
        running_ahead([failing, other, other], lambda value: value > 0, at_once=3) as values,
        pytest.raises(LookupError, match="here"),
    ):
        list(values)
    assert begun == []


def test_values_of_one_iterator_keep_their_order_among_those_of_others() -> None:
    makes = [functools.partial(zip, [number] * 50, range(50)) for number in range(6)]
    with running_ahead(makes, at_once=4) as values:
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
        running_ahead([endless, failing], at_once=2) as values,
    ):
        for _ in values:
            pass
    assert "ahead" not in {thread.name for thread in threading.enumerate() if thread.is_alive()}


def test_without_iterators_there_are_no_values() -> None:
    none: list[Callable[[], Iterator[int]]] = []
    with running_ahead(none, at_once=4) as values:
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
        with contextlib.suppress(_Interrupted), running_ahead([lambda: iter(range(9))]) as values:
            next(values)
            thrown_into.append(threading.get_ident())
            next(values)

    monkeypatch.setattr(threading.Condition, "__enter__", locked_and_thrown_out)
    consumer = threading.Thread(target=consume, daemon=True)
    consumer.start()
    consumer.join(5.0)
    assert not consumer.is_alive(), "waits for a lock that it holds itself"


def test_a_consumer_may_leave_while_another_thread_is_being_started(monkeypatch: pytest.MonkeyPatch) -> None:
    start, second, left = threading.Thread.start, threading.Event(), threading.Event()

    def started_late(thread: threading.Thread) -> None:
        if threading.current_thread().name == "ahead":
            second.set()
            left.wait(0.2)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", started_late)
    with running_ahead([lambda: iter(range(9))] * 2, at_once=2) as values:
        next(values)
        assert second.wait(LONG)
    left.set()
