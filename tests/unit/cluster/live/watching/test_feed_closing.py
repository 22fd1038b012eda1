"""A watch is closed whatever a signal broke off before."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest

from rebalancer.cluster.kinds import PODS
from rebalancer.cluster.live.client import RawApi
from rebalancer.cluster.live.watching.feed import Feed
from rebalancer.cluster.live.watching.latest_objects import latest_objects
from tests.churn import Churn
from tests.waiting import HANG_SECONDS


class Quiet:
    """A server, and the body of its only WATCH: nothing happens until that is interrupted."""

    host = "a server"
    content_type = "application/json"

    def __init__(self) -> None:
        self.opened, self.interrupted = threading.Event(), threading.Event()

    def watch(self, *_: object, **_options: Any) -> Quiet:
        return self

    def pieces(self) -> Iterator[bytes]:
        self.opened.set()
        assert self.interrupted.wait(HANG_SECONDS)
        yield from ()

    def close(self) -> None:
        pass


def a_feed(server: Quiet, changed: threading.Condition) -> Feed:
    objects = latest_objects(*Churn(5, PODS, names=8).listed())
    assert objects is not None
    return Feed(cast("RawApi", server), objects, changed)


def test_a_watch_that_a_signal_kept_from_beginning_is_closed_all_the_same() -> None:
    feed = a_feed(Quiet(), threading.Condition(threading.RLock()))

    feed.close()
    feed.join(HANG_SECONDS)
    assert not feed.alive


def test_to_hurry_and_close_a_watch_leaves_nothing_locked_that_closing_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A signal that comes inside of an ``Event`` leaves that locked; closing would wait for it."""
    server, changed = Quiet(), threading.Condition(threading.RLock())
    feed = a_feed(server, changed)
    feed.start()
    assert server.opened.wait(HANG_SECONDS)
    enter, entered = threading.Condition.__enter__, []

    def watched_enter(condition: threading.Condition) -> bool:
        if condition is not changed and threading.current_thread() is threading.main_thread():
            entered.append(condition)
        return enter(condition)

    with monkeypatch.context() as patched:
        patched.setattr(threading.Condition, "__enter__", watched_enter)
        feed.hurry()
        feed.close()
    server.interrupted.set()
    feed.join(HANG_SECONDS)
    assert entered == []
    assert not feed.alive
