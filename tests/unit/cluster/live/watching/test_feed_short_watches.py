"""A server, or a proxy, that ends every WATCH at once is not asked hundreds of times a second."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest

from rebalancer.cluster.kinds import PODS
from rebalancer.cluster.live.client import RawApi
from rebalancer.cluster.live.watching.feed import Feed
from rebalancer.cluster.live.watching.latest_objects import latest_objects
from tests.churn import Churn, a_bookmark, json_line
from tests.waiting import HANG_SECONDS

TWO_HOURS = 7200.0


class Hasty:
    """A server, and the body of each WATCH, which brings one piece at most and ends."""

    host = "a server"
    content_type = "application/json"

    def __init__(self, brings: str) -> None:
        self._brings = brings
        self.opened = 0

    def watch(self, *_: object, **_options: Any) -> Hasty:
        self.opened += 1
        return self

    def pieces(self) -> Iterator[bytes]:
        version = 10**6 + self.opened
        if self._brings == "an event":
            metadata = {"name": "web", "namespace": "shop", "resourceVersion": str(version)}
            yield json_line("ADDED", {"metadata": metadata})
        elif self._brings == "a bookmark":
            yield a_bookmark(version)

    def close(self) -> None:
        pass


@pytest.mark.parametrize("brings", ["nothing", "a bookmark", "an event"])
def test_watches_that_end_at_once_for_ever_cost_a_few_requests_a_minute(
    brings: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]

    def waited(feed: Feed, seconds: float) -> None:
        now[0] += seconds
        if now[0] > TWO_HOURS:
            feed.close()

    monkeypatch.setattr(Feed, "_waited", waited)
    objects = latest_objects(*Churn(5, PODS, names=8).listed())
    assert objects is not None
    server = Hasty(brings)
    changed = threading.Condition(threading.RLock())
    feed = Feed(cast("RawApi", server), objects, changed, lambda: now[0])
    feed.start()
    feed.join(HANG_SECONDS)
    assert not feed.alive
    assert feed.over == ""
    assert 100 < server.opened < TWO_HOURS / 4
    assert feed.cuts == server.opened
