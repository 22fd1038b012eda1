from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from rebalancer.cluster.live.read_ahead import running_ahead

LONG = 30.0  # seconds: never waited for unless something is wrong


@pytest.mark.parametrize("count", [0, 1, 7])
@pytest.mark.parametrize("depth", [1, 3])
def test_values_come_in_order_and_none_is_lost(count: int, depth: int) -> None:
    with running_ahead(lambda: iter(range(count)), depth) as values:
        assert list(values) == list(range(count))


def test_the_next_value_is_made_while_one_is_looked_at() -> None:
    made = [threading.Event() for _ in range(3)]

    def make() -> Iterator[int]:
        for number, event in enumerate(made):
            event.set()
            yield number

    with running_ahead(make) as values:
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

    with running_ahead(make) as values:
        next(values)
        assert third.wait(LONG)
        assert not threading.Event().wait(0.1)
        assert len(made) == 3


def test_what_is_raised_is_raised_in_its_place() -> None:
    def make() -> Iterator[int]:
        yield 1
        raise LookupError("here")

    with running_ahead(make) as values:
        assert next(values) == 1
        with pytest.raises(LookupError, match="here"):
            next(values)


def test_nothing_is_asked_for_after_the_consumer_has_left() -> None:
    made: list[int] = []

    def make() -> Iterator[int]:
        for number in range(1000):
            made.append(number)
            yield number

    with running_ahead(make) as values:
        next(values)
    count = len(made)
    assert not threading.Event().wait(0.1)

    assert len(made) == count <= 4
    assert "ahead" not in {thread.name for thread in threading.enumerate() if thread.is_alive()}
