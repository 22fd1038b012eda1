"""The log keeps what may count for a scheduler, loses nothing unsaid, and does not grow for ever."""

from __future__ import annotations

from rebalancer.cluster.changes import ChangeLog
from rebalancer.cluster.kinds import NODES, PODS
from tests.builders import a_node
from tests.unit.agreement.watched import FIRST_VERSION, Watched


def bound(pods: int) -> Watched:
    cluster = Watched(a_node("a"))
    for number in range(pods):
        cluster.create(f"web-{number}")
        cluster.bind(f"web-{number}", "a")
    return cluster


def test_what_was_taken_is_forgotten_and_the_rest_stays() -> None:
    cluster = bound(3)
    assert (len(cluster.log), cluster.log.binds) == (6, 3)

    cluster.log.take(FIRST_VERSION + 2)

    assert [change.version for change in cluster.changes] == [FIRST_VERSION + more for more in (3, 4, 5, 6)]
    assert cluster.log.binds == 2


def test_it_knows_how_far_each_watch_has_come() -> None:
    cluster = bound(1)

    assert cluster.log.reached(PODS) == FIRST_VERSION + 2
    assert cluster.log.reached(NODES) == FIRST_VERSION
    assert ChangeLog().reached(PODS) == 0


def test_a_watch_that_is_begun_anew_makes_what_is_kept_worth_nothing() -> None:
    cluster = bound(2)

    cluster.log.begun(PODS, cluster.version)

    assert (cluster.changes, cluster.log.gaps, cluster.log.binds) == ((), 1, 0)


def test_what_nobody_takes_is_lost_at_a_bound_and_that_is_counted() -> None:
    cluster = bound(1)
    log = ChangeLog(max_changes=3)
    created, binding = cluster.changes
    for _ in range(4):
        log.note(PODS, binding.version, binding.key, created.after, binding.after)

    assert (len(log), log.binds, log.gaps) == (1, 1, 1)


def test_only_a_pod_that_gets_a_node_is_bound() -> None:
    cluster = bound(1)
    cluster.change("web-0", metadata={"labels": {"a": "b"}})
    cluster.delete("web-0")
    cluster.create("web-0", node="a", uid="another")

    assert [change.binds for change in cluster.changes] == [False, True, False, False, False]
