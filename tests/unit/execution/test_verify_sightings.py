"""What a watch shows decides when the API server is asked; what it answers decides the outcome."""

from __future__ import annotations

from collections.abc import Sequence

from rebalancer.cluster.live.watching import SeenPod
from rebalancer.execution.verify import PodsSeen, WatchedReplacements
from rebalancer.policy.schema import Execution
from rebalancer.state.results import Result
from tests.rows import rows
from tests.unit.execution.builders import NOW, a_granted, a_move
from tests.unit.execution.tiny_cluster import Run

OLD, NEW = SeenPod("uid-web-1", "hot", True), SeenPod("uid-new", "cool", True)


def shows(*pods: SeenPod) -> PodsSeen:
    return lambda _: pods


def watched(pods_seen: PodsSeen) -> WatchedReplacements:
    return WatchedReplacements(pods_seen, [a_granted(a_move())], {"uid-web-1", "uid-web-2"})


@rows(
    "seen, placed, done",
    [
        ((), False, False),
        ((OLD,), False, False),
        ((NEW._replace(uid="uid-web-2"),), False, False),  # it was there before
        ((NEW._replace(node_name="", ready=False),), False, False),
        ((NEW._replace(ready=False),), True, False),
        ((NEW, OLD), True, False),  # the old one has not left yet
        ((NEW,), True, True),
    ],
)
def test_replacements_are_seen_once_they_are_new_and_on_a_node(
    seen: Sequence[SeenPod], placed: bool, done: bool
) -> None:
    found = watched(shows(*seen))
    assert (found.placed(), found.ready()) == (placed, done)


def test_without_a_watch_nothing_can_be_seen() -> None:
    unwatched = watched(lambda _: None)
    assert unwatched.placed() is None
    assert unwatched.ready() is None


def run_of_two(pods_seen: str, bound_after: float = 0.0) -> tuple[int, list[Result], float]:
    """How often pods were listed in a run of one wave, how its moves ended, and how long it took."""
    run = Run("web-1", "web-2", "web-3")
    run.cluster.bound_after = bound_after

    def seen(controller: str) -> Sequence[SeenPod]:
        assert controller == "rs-uid"
        pods = map(run.cluster.now, run.cluster.pods.values())
        return [
            SeenPod(pod["metadata"]["uid"], pod["spec"]["nodeName"], bool(pod["spec"]["nodeName"]))
            for pod in pods
        ]

    views: dict[str, PodsSeen] = {"nothing": lambda _: None, "all": seen, "silence": shows(OLD)}
    outcomes = run(
        a_move("web-1"), a_move("web-2"), execution=Execution(first_wave=2), pods_seen=views[pods_seen]
    )
    return run.cluster.listed, [outcome.result for outcome in outcomes.outcomes], run.time.now - NOW


@rows("bound_after", [0.0, 1.0])
@rows("pods_seen", ["nothing", "all", "silence"])
def test_whatever_a_watch_shows_the_outcome_is_what_the_server_says(
    pods_seen: str, bound_after: float
) -> None:
    assert run_of_two(pods_seen, bound_after)[1] == [Result.LANDED, Result.LANDED]


def test_where_pods_are_watched_the_server_is_asked_before_the_wave_once_a_landing_and_at_its_end() -> None:
    polled, _, _ = run_of_two("nothing", bound_after=2.0)
    asked, _, seconds = run_of_two("all", bound_after=2.0)
    assert asked <= 4 < polled
    assert seconds <= 6.0
