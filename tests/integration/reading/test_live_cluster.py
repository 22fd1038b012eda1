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
from rebalancer.cluster.live.watching.live_cluster import COMPARED_SECONDS
from rebalancer.deadlines import Deadline, StopRequest
from rebalancer.errors import StopRequestedError
from rebalancer.telemetry import Span, listening
from rebalancer_demo import Fault, Sandbox
from rebalancer_demo.api.requests import User, allow
from tests.builders import a_node, a_pod
from tests.conftest import some_of
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
    events = feed.events
    eventually(lambda: feed.events > events, awaited="another event arrives")


def pods_of(recording: Recording) -> tuple[str, ...]:
    pods = recording.listings[PODS.plural].pods
    assert pods is not None
    return pods.names


@pytest.mark.many_cases
@pytest.mark.parametrize("moment", some_of(range(6)))
def test_a_watch_that_is_cut_is_compared_with_a_list_and_goes_on_where_it_ended(
    moment: int, listed: Counter[str]
) -> None:
    chance = random.Random(moment)
    most: Counter[str] = Counter()
    with a_cluster() as sandbox, watching(sandbox.url) as cluster:
        sandbox.faults.add(Fault("cut-watch", path="/api/v1/(pods|nodes)", times=4, skip=moment))
        cluster.current()
        before = dict(cluster.feeds)
        for _ in range(4):
            listed.clear()
            churn(sandbox, chance)
            kept = digest(cluster.current())
            most.update(listed)
            assert kept == fresh(sandbox)
        assert max(most["pods"], most["nodes"]) <= 1, "a proxy that cuts every watch costs a list at times"
        assert cluster.feeds == before


class Comparisons:
    """How many objects differed at each comparison of a kind with a LIST."""

    def __init__(self) -> None:
        self.differing: dict[str, list[int]] = {}

    def span_began(self, span: Span) -> None:
        pass

    def span_ended(self, span: Span) -> None:
        if span.name == "compare":
            self.differing.setdefault(str(span.fields["kind"]), []).append(int(span.fields["differing"]))


def cut_all(cluster: LiveCluster) -> None:
    """End every WATCH, as an API server does that is started anew."""

    def all_are_cut() -> bool:
        whole = [feed for feed in cluster.feeds.values() if not feed.cuts]
        for feed in whole:
            feed._interrupt()  # again and again: one that is just being opened is not met
        return not whole

    eventually(all_are_cut, awaited="all watches are cut")


def test_after_a_restore_whose_versions_passed_the_old_one_again_nothing_is_kept_of_what_never_was(
    caplog: pytest.LogCaptureFixture,
) -> None:
    compared = Comparisons()
    with a_cluster() as sandbox, watching(sandbox.url) as cluster, listening(compared):
        cluster.current()
        backup = sandbox.store.backup()
        for number in range(6):
            sandbox.store.create("pods", a_pod(f"lost-{number}", node="n0"))
        assert "lost-5" in pods_of(cluster.current())
        sandbox.store.restore(backup)
        for number in range(10):  # at versions of which the watch has seen the first six already
            sandbox.store.create("pods", a_pod(f"new-{number}", node="n1"))
        cut_all(cluster)
        assert digest(cluster.current()) == fresh(sandbox)
        sandbox.store.create("pods", a_pod("newer", node="n1"))
        assert digest(cluster.current()) == fresh(sandbox)
    (differing,) = compared.differing["pods"]
    # The six that are lost; of the new ones, those that no WATCH had brought when it was cut.
    assert 6 <= differing <= 16
    assert "was etcd restored from a backup?" in caplog.text
    assert f"pods: {differing} of them differed" in caplog.text


def test_now_and_then_what_the_watches_brought_is_compared_with_a_list(listed: Counter[str]) -> None:
    compared, now = Comparisons(), [0.0]
    with (
        a_cluster() as sandbox,
        watching(sandbox.url, monotonic=lambda: now[0]) as cluster,
        listening(compared),
    ):
        cluster.current()
        for passed, comparisons in ((0.0, 0), (COMPARED_SECONDS - 1.0, 0), (1.0, 1), (60.0, 1)):
            now[0] += passed
            churn(sandbox, random.Random(1))
            assert digest(cluster.current()) == fresh(sandbox)
            assert len(compared.differing.get("pods", ())) == comparisons
    assert compared.differing["pods"] == [0]


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


def test_a_small_cluster_of_which_only_other_kinds_change_is_not_said_to_be_overloaded(
    listed: Counter[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with (
        a_sandbox(bookmark_seconds=3600.0) as sandbox,
        watching(sandbox.url, large=10**6) as cluster,
    ):
        cluster.current()
        for number in range(5):
            feed = cluster.feeds[PODS]
            before = feed.events
            sandbox.store.create("pods", a_pod(f"new-{number}", node="n1"))
            eventually(lambda: feed.events > before, awaited="the pod arrives")  # noqa: B023 - at once
            sandbox.store.create("namespaces", {"metadata": {"name": f"elsewhere-{number}"}})
            listed.clear()
            cluster.current()
            assert listed["pods"], "no event says that the watch has come so far"
    assert "not up to date" not in caplog.text


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
    assert not cluster.feeds


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
        assert {PODS, NODES} <= cluster.feeds.keys()
        cluster.close()
        for feed in feeds:
            feed.join(HANG_SECONDS)
            assert not feed.alive
