"""A cluster kept up to date by watches is what a fresh reading is, whatever happens to the watches."""

from __future__ import annotations

import contextlib
import logging
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from rebalancer.cluster.dumps.listing import Recording
from rebalancer.cluster.dumps.writer import digest
from rebalancer.cluster.kinds import NODES, PODS
from rebalancer.cluster.live.watching import LiveCluster
from rebalancer.cluster.live.watching.feed import Feed
from rebalancer.deadlines import Deadline, StopRequest
from rebalancer.errors import StopRequestedError
from rebalancer_demo import Fault, Sandbox
from rebalancer_demo.api.requests import User, allow
from tests.builders import a_node, a_pod
from tests.integration.demo.builders import START
from tests.integration.reading.servers import a_sandbox, api_of, reading
from tests.waiting import HANG_SECONDS, eventually

TOKEN = "a-user"


@contextlib.contextmanager
def a_cluster(**options: Any) -> Iterator[Sandbox]:
    """A cluster whose watches say soon how far they have come."""
    with a_sandbox(bookmark_seconds=0.02, **options) as sandbox:
        yield sandbox


@contextlib.contextmanager
def watching(url: str, token: str = "", **options: Any) -> Iterator[LiveCluster]:
    """Pods, nodes and no other kinds are watched, and waited for."""
    options = {"watch_above": 2, "large": -1, "max_wait_seconds": HANG_SECONDS, **options}
    with api_of(url, token) as api, LiveCluster(api, lambda: START, **options) as cluster:
        yield cluster


def fresh(sandbox: Sandbox) -> str:
    with reading(sandbox.url, TOKEN) as reader:
        return digest(reader.read())


def change(sandbox: Sandbox, chance: random.Random) -> None:
    """Create, change or delete some pod, now and then a node."""
    name, namespace = f"web-{chance.randrange(30)}", "default"
    if chance.random() < 0.1:
        number = f"n{chance.randrange(3, 6)}"
        if sandbox.store.remove("nodes", "", number) is None:
            sandbox.store.create("nodes", a_node(number))
    elif sandbox.store.get("pods", namespace, name) is None:
        sandbox.store.create("pods", a_pod(name, node=f"n{chance.randrange(3)}", cpu="100m"))
    elif chance.random() < 0.3:
        sandbox.store.remove("pods", namespace, name)
    else:
        phase = chance.choice(["Running", "Running", "Succeeded"])
        sandbox.store.mutate("pods", namespace, name, lambda pod: pod["status"].update(phase=phase))


def churn(sandbox: Sandbox, chance: random.Random, changes: int = 20) -> None:
    for _ in range(changes):
        change(sandbox, chance)


def test_after_any_changes_it_is_what_a_fresh_reading_is_and_no_watched_kind_is_listed_again(
    listed: Counter[str],
) -> None:
    chance = random.Random(7)
    with a_cluster() as sandbox, watching(sandbox.url) as cluster:
        assert digest(cluster.current()) == fresh(sandbox)
        listed.clear()
        for _ in range(8):
            churn(sandbox, chance)
            kept = digest(cluster.current())
            assert not {"pods", "nodes"} & set(listed)
            assert kept == fresh(sandbox)
            listed.clear()


def test_what_is_read_is_never_older_than_the_moment_it_was_asked_for() -> None:
    with a_cluster() as sandbox, watching(sandbox.url) as cluster:
        cluster.current()
        for number in range(10):
            sandbox.store.create("pods", a_pod(f"new-{number}", node="n1"))
            assert f"new-{number}" in pods_of(cluster.current())


def wait_for_events(feed: Feed) -> None:
    """Wait until something more has arrived."""
    events = feed.traffic.events
    eventually(lambda: feed.traffic.events > events, awaited="another event arrives")


def pods_of(recording: Recording) -> tuple[str, ...]:
    pods = recording.listings[PODS.plural].pods
    assert pods is not None
    return pods.names


@pytest.mark.parametrize("moment", range(6))
def test_a_watch_that_is_cut_goes_on_where_it_ended(moment: int, listed: Counter[str]) -> None:
    chance = random.Random(moment)
    with a_cluster() as sandbox, watching(sandbox.url) as cluster:
        sandbox.faults.add(Fault("cut-watch", path="/api/v1/(pods|nodes)", times=4, skip=moment))
        cluster.current()
        listed.clear()
        for _ in range(4):
            churn(sandbox, chance)
            kept = digest(cluster.current())
            assert not {"pods", "nodes"} & set(listed)
            assert kept == fresh(sandbox)
            listed.clear()


def test_a_watch_whose_version_the_server_has_forgotten_begins_with_a_new_list(
    listed: Counter[str],
) -> None:
    chance = random.Random(3)
    with a_cluster(log_capacity=10) as sandbox, watching(sandbox.url) as cluster:
        cluster.current()
        sandbox.faults.add(Fault("status", path="watch=", code=503, times=0))
        for feed in cluster.feeds.values():
            feed.hurry()
        churn(sandbox, chance, 50)
        sandbox.faults.clear()
        listed.clear()
        kept = digest(cluster.current())
        assert listed["pods"]
        assert kept == fresh(sandbox)
        churn(sandbox, chance, 5)
        assert digest(cluster.current()) == fresh(sandbox)


def test_a_watch_that_falls_silent_is_not_believed(listed: Counter[str]) -> None:
    chance = random.Random(4)
    with (
        a_sandbox(bookmark_seconds=3600.0) as sandbox,  # and nothing says that nothing happened
        watching(sandbox.url, large=10**6) as cluster,
    ):
        cluster.current()
        sandbox.store.create("namespaces", {"metadata": {"name": "elsewhere"}})
        listed.clear()
        kept = digest(cluster.current())
        assert listed["pods"]
        assert kept == fresh(sandbox)
        churn(sandbox, chance)
        assert digest(cluster.current()) == fresh(sandbox)


def test_a_watch_that_stays_behind_is_never_planned_with_and_one_line_says_so(
    listed: Counter[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    chance = random.Random(5)
    with a_cluster() as sandbox, watching(sandbox.url, max_wait_seconds=0.05) as cluster:
        cluster.current()
        for feed in cluster.feeds.values():  # events arrive, and none of them in time
            feed.reached = lambda version: False  # type: ignore[method-assign]
        for _ in range(5):
            listed.clear()
            churn(sandbox, chance)
            for feed in cluster.feeds.values():
                wait_for_events(feed)
            assert digest(cluster.current()) == fresh(sandbox)
            assert listed["pods"] == 2  # a fresh one too
    said = [record.getMessage() for record in caplog.records if "not up to date" in record.message]
    assert len(said) == len(set(said)) >= 2  # once for each kind
    assert "each of them listed all" in said[0]


def test_a_server_whose_versions_went_back_is_read_anew(
    listed: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a restore of etcd: what was kept belongs to a past that never was."""
    with a_cluster() as sandbox, watching(sandbox.url) as cluster:
        cluster.current()
        before = dict(cluster.feeds)
        listed.clear()
        monkeypatch.setattr(LiveCluster, "_present_version", lambda *_: 1)
        kept = digest(cluster.current())
        assert (listed["pods"], listed["nodes"]) == (1, 1)
        assert kept == fresh(sandbox)
        assert not set(before.values()) & set(cluster.feeds.values())


def a_user(verbs: str) -> dict[str, User]:
    return {TOKEN: User("rebalancer", (allow(verbs, "*"),))}


def test_without_the_right_to_watch_every_reading_lists_and_one_line_says_so(
    caplog: pytest.LogCaptureFixture, listed: Counter[str]
) -> None:
    caplog.set_level(logging.INFO)
    with a_cluster(users=a_user("get list")) as sandbox, watching(sandbox.url, TOKEN) as cluster:
        for _ in range(3):
            sandbox.store.mutate("nodes", "", "n1", lambda node: node["metadata"].update(labels={"a": "b"}))
            assert digest(cluster.current()) == fresh(sandbox)
            for feed in cluster.feeds.values():
                feed.join(HANG_SECONDS)
        assert listed["pods"] == 6  # three fresh ones too
        said = [record.getMessage() for record in caplog.records if "not watched" in record.message]
    assert len(said) == 1
    assert "cannot watch resource" in said[0]
    assert cluster.watched == ()


def test_a_request_to_stop_ends_the_waiting_for_a_watch() -> None:
    stop = StopRequest()
    with a_sandbox(bookmark_seconds=3600.0) as sandbox, watching(sandbox.url) as cluster:
        cluster.current()
        sandbox.store.create("namespaces", {"metadata": {"name": "elsewhere"}})
        with pytest.raises(StopRequestedError):
            cluster.current(Deadline(stop=stop), progress=lambda _: stop.set())


def test_watches_end_with_the_cluster() -> None:
    with a_cluster() as sandbox, watching(sandbox.url) as cluster:
        cluster.current()
        feeds = list(cluster.feeds.values())
        assert {PODS.plural, NODES.plural} <= set(cluster.watched)
        cluster.close()
        for feed in feeds:
            feed.join(HANG_SECONDS)
            assert not feed.alive
