"""A wave is waited for until all its moves are settled, within its timeout, and compared with the plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from msgspec.structs import replace

from rebalancer.cluster.live.watching import SeenPod
from rebalancer.errors import UnreachableError
from rebalancer.execution.clock import RunClock
from rebalancer.execution.observed_pods import ObservedPod
from rebalancer.execution.outcomes import Outcome
from rebalancer.execution.verify import MAX_SECONDS_TO_PLACE, Appraisal, LandingPoller, PodsSeen, appraise
from rebalancer.planning.plan import RESTART, Move
from rebalancer.planning.workloads.rolling_updates import RESTARTED_AT
from rebalancer.state.results import Result
from tests.rows import rows
from tests.unit.execution.builders import NOW, a_granted, a_move, an_observed_pod
from tests.unit.execution.contexts import only_hot
from tests.unit.execution.fake_api import FakeTime

OLD = an_observed_pod("web-1", node="hot", created=NOW - 60, ready=True, terminating=True)


def one(*now: ObservedPod, to: tuple[str, ...] = ("cool",)) -> Appraisal:
    """The appraisal of one move, given the pods now."""
    [appraisal] = appraise([a_granted(a_move(to=to))], {"uid-web-1"}, now, only_hot)
    return appraisal


@rows(
    "replacement, result, settled",
    [
        (None, Result.NOT_REPLACED, False),
        (an_observed_pod("web-9"), Result.PENDING, False),
        (an_observed_pod("web-9", node="cool"), Result.NOT_READY, False),
        (an_observed_pod("web-9", node="cool", ready=True), Result.LANDED, True),
        (an_observed_pod("web-9", node="other", ready=True), Result.LANDED_ELSEWHERE, True),
        (an_observed_pod("web-9", node="other"), Result.NOT_READY, False),
        (an_observed_pod("web-9", node="hot"), Result.UNEXPECTED, True),
        (an_observed_pod("web-9", node="cool", phase="Failed", reason="OutOfcpu"), Result.NOT_READY, False),
        (an_observed_pod("web-9", node="cool", phase="Succeeded"), Result.LANDED, True),
    ],
)
def test_a_move_stands_as_its_replacement_does(
    replacement: ObservedPod | None, result: Result, settled: bool
) -> None:
    outcome, is_settled, placed = one(*([replacement] if replacement else []))
    assert (outcome.result, is_settled) == (result, settled)
    assert placed == (outcome.node != "" and "failed" not in outcome.because)
    assert outcome.because
    assert outcome.evicted_at == NOW


def test_a_landing_is_settled_only_when_the_old_pod_is_gone() -> None:
    landed = an_observed_pod("web-9", node="cool", ready=True)
    outcome, settled, _ = one(landed, OLD)
    assert (outcome.result, settled) == (Result.LANDED, False)
    assert "still terminating" in outcome.because


def test_a_pending_replacement_says_what_the_scheduler_said() -> None:
    outcome, _, _ = one(an_observed_pod("web-9", message="0/3 nodes are available"))
    assert outcome.because.startswith("not bound: 0/3 nodes are available; ")


@pytest.mark.parametrize("replacement", [an_observed_pod("web-9"), an_observed_pod("web-9", node="cool")])
def test_a_node_that_was_relieved_is_told_from_a_replacement_that_serves(replacement: ObservedPod) -> None:
    """The load is gone from the hot node; who reads the outcome must know that nobody serves it yet."""
    assert one(replacement)[0].because.endswith(
        "hot has lost the pod's load, but its replacement still waits"
    )
    assert one(replacement, OLD)[0].because.endswith("the evicted pod is still terminating")


def test_a_pod_whose_eviction_was_only_answered_is_not_called_terminating() -> None:
    """A proxy that answers 200 to anything evicts nothing: nobody is deleting the pod."""
    still_there = an_observed_pod("web-1", node="hot", created=NOW - 60, ready=True)
    outcome, settled, _ = one(still_there)

    assert (outcome.result, settled) == (Result.NOT_REPLACED, False)
    assert "the eviction was accepted, yet the pod is still there" in outcome.because
    assert "terminating" not in outcome.because


def test_times_come_from_the_cluster() -> None:
    outcome, _, _ = one(an_observed_pod("web-9", node="cool", ready=True, created=NOW + 5))
    assert (outcome.bound_at, outcome.ready_at) == (NOW + 5, NOW + 7)


class Film:
    """Shows the pods of one moment after another; the last one stays."""

    def __init__(self, *moments: Sequence[ObservedPod] | UnreachableError) -> None:
        self.moments = list(moments)
        self.looks = 0
        self.allowed: list[float] = []  # seconds for each look

    def __call__(self, _moves: Sequence[Move], seconds: float) -> Sequence[ObservedPod]:
        self.allowed.append(seconds)
        self.looks += 1
        moment = self.moments.pop(0) if len(self.moments) > 1 else self.moments[0]
        if isinstance(moment, UnreachableError):
            raise moment
        return moment


DOWN = UnreachableError("connection refused")
PENDING = [an_observed_pod("web-9")]
READY = [an_observed_pod("web-9", node="cool", ready=True)]


def a_clock(time: FakeTime, stop_requested: Callable[[], bool] = lambda: False) -> RunClock:
    return RunClock(
        now=time.clock,
        monotonic=time.clock,
        sleep=time.sleep,
        began=time.now,
        stop_requested=stop_requested,
    )


def watched(
    film: Film,
    *,
    timeout: float = 60,
    interrupt_at: float = 1e9,
    min_ready: float = 0.0,
    pods_seen: PodsSeen = lambda _: None,
) -> tuple[Outcome, FakeTime]:
    time = FakeTime(NOW)
    clock = a_clock(time, lambda: time.now >= NOW + interrupt_at)
    poller = LandingPoller({"uid-web-1"}, film, only_hot, clock, pods_seen, lambda _: min_ready)
    poller.evicted.append(a_granted(a_move()))
    [outcome] = poller.until_settled(timeout)
    return outcome, time


CRASHED = [an_observed_pod("web-9", node="cool")]
READY_AGAIN = [an_observed_pod("web-9", node="cool", ready=True, created=NOW + 20)]


def test_a_replacement_has_landed_once_it_was_ready_for_its_controllers_min_ready_seconds() -> None:
    outcome, time = watched(Film(READY), min_ready=30)
    assert (outcome.result, outcome.because) == (Result.LANDED, "as planned")
    assert 30 <= time.now - NOW <= 35


def test_a_replacement_that_crashes_before_it_is_available_has_not_landed() -> None:
    outcome, _ = watched(Film(READY, READY, CRASHED), min_ready=30)
    assert outcome.result is Result.NOT_READY


def test_a_replacement_that_was_not_ready_in_between_begins_anew_seen_or_not() -> None:
    for meanwhile in ([CRASHED], []):
        outcome, time = watched(Film(*[READY] * 5, *meanwhile, READY_AGAIN), min_ready=30)
        assert outcome.result is Result.LANDED
        assert time.now - NOW >= 30 + 5  # five looks, half a second and more apart


def test_where_min_ready_seconds_are_longer_than_the_wait_a_ready_replacement_counts_and_it_is_said() -> None:
    outcome, time = watched(Film(READY), min_ready=600, timeout=60)
    assert outcome.result is Result.LANDED
    assert outcome.because == "as planned; ready for 60 s of the 600 s of its controller's minReadySeconds"
    assert time.now == NOW + 60


def test_a_replacement_that_ran_to_its_end_is_not_waited_for() -> None:
    done = [an_observed_pod("web-9", node="cool", phase="Succeeded")]
    outcome, time = watched(Film(done), min_ready=600)
    assert (outcome.result, time.now) == (Result.LANDED, NOW)


def test_a_run_asked_to_stop_does_not_know_whether_a_ready_replacement_becomes_available() -> None:
    outcome, _ = watched(Film(READY), min_ready=600, interrupt_at=10)
    assert outcome.result is Result.UNKNOWN
    assert "minReadySeconds" in outcome.because


def test_a_watch_that_shows_it_ready_lets_nobody_ask_more_often_until_it_is_available() -> None:
    seen = [SeenPod("uid-web-9", "cool", True)]
    film = Film(READY)
    outcome, time = watched(film, min_ready=60, timeout=300, pods_seen=lambda _: seen)
    assert outcome.because == "as planned"
    assert 60 <= time.now - NOW <= 65
    assert film.looks <= 14


def test_waiting_ends_as_soon_as_all_is_settled() -> None:
    film = Film([OLD], PENDING, READY)
    outcome, _ = watched(film)
    assert outcome.result is Result.LANDED
    assert film.looks == 3


def test_waiting_grows_from_half_a_second_to_five_and_ends_with_the_timeout() -> None:
    outcome, time = watched(Film(PENDING), timeout=60)
    assert outcome.result is Result.PENDING
    assert time.slept[0] == 0.5
    assert time.slept == sorted(time.slept[:-1]) + time.slept[-1:]
    assert max(time.slept) == 5
    assert sum(time.slept) == pytest.approx(60)


def test_an_api_server_that_is_down_for_a_while_is_borne() -> None:
    assert watched(Film(DOWN, DOWN, READY))[0].result is Result.LANDED


def test_what_could_not_be_seen_in_time_is_unknown() -> None:
    outcome, _ = watched(Film(PENDING, DOWN))
    assert outcome.result is Result.UNKNOWN
    assert "connection refused" in outcome.because


def test_an_api_server_that_takes_seconds_for_an_answer_leaves_no_wait_without_an_outcome() -> None:
    """A big or busy one is slow at the last look too: what was seen all along is not Unknown for that."""
    simulated = FakeTime(NOW)

    def read(_moves: Sequence[Move], seconds: float) -> Sequence[ObservedPod]:
        simulated.sleep(min(seconds, 4))
        if seconds < 4:
            raise UnreachableError("no whole answer in time")
        return PENDING

    poller = LandingPoller({"uid-web-1"}, read, only_hot, a_clock(simulated))
    poller.evicted.append(a_granted(a_move()))
    for timeout in (3, 30):
        [outcome] = poller.until_settled(timeout)
        assert outcome.result is Result.PENDING


def test_an_interrupted_wait_returns_what_it_last_saw() -> None:
    outcome, time = watched(Film(PENDING), interrupt_at=2)
    assert outcome.result is Result.UNKNOWN
    assert "interrupted" in outcome.because
    assert "not bound" in outcome.because
    assert time.now < NOW + 5


def test_what_was_settled_before_an_interruption_stays_so() -> None:
    assert watched(Film(READY), interrupt_at=0)[0].result is Result.LANDED


def test_a_judge_is_asked_once_for_a_node() -> None:
    asked: list[str] = []
    time = FakeTime(NOW)

    def judge(_move: Move, node: str) -> str | None:
        asked.append(node)
        return None

    film = Film([an_observed_pod("web-9", node="other")])
    poller = LandingPoller(set(), film, judge, a_clock(time))
    poller.evicted.append(a_granted(a_move()))
    poller.until_placed(lambda: False)
    poller.until_settled(30)
    assert asked == ["other"]


def test_a_look_takes_no_longer_than_is_left_and_the_last_ten_seconds() -> None:
    film, brief = Film(PENDING), Film(PENDING)
    watched(film, timeout=60)
    poller = LandingPoller(set(), brief, only_hot, a_clock(FakeTime(NOW)))
    poller.evicted.append(a_granted(a_move()))
    poller.until_placed(lambda: False)

    assert (film.allowed[0], film.allowed[-1]) == (60, 10)
    assert film.allowed == sorted(film.allowed, reverse=True)
    assert brief.allowed[0] == pytest.approx(MAX_SECONDS_TO_PLACE, abs=0.1)
    assert brief.allowed == sorted(brief.allowed, reverse=True)


def test_a_restart_is_judged_by_its_new_pod_and_called_one() -> None:
    move = replace(a_move(to=("hot",)), action=RESTART)
    made = an_observed_pod("web-9", node="hot", ready=True, controller="new-rs")
    made = replace(made, metadata=replace(made.metadata, annotations={RESTARTED_AT: "now"}))
    item = replace(a_granted(move), restarted_at="now")
    [landed], [missing] = (appraise([item], set(), now, only_hot) for now in ([made], []))
    poller = LandingPoller(set(), Film([]), only_hot, a_clock(FakeTime(NOW), lambda: True))
    poller.evicted.append(item)
    [outcome] = poller.until_settled(30)

    assert (landed.outcome.result, landed.settled) == (Result.RESTARTED, True)
    assert missing.outcome.result is Result.ROLLOUT_STALLED
    assert outcome.because.startswith("restarted; the run was interrupted")


def test_nothing_evicted_is_nothing_to_wait_for() -> None:
    time = FakeTime(NOW)
    assert LandingPoller(set(), Film([]), only_hot, a_clock(time)).until_settled(30) == ()
    assert not time.slept


@rows(
    "film, result",
    [
        (Film([OLD], PENDING, [an_observed_pod("web-9", node="cool")]), Result.NOT_READY),
        (Film([an_observed_pod("web-9", node="hot")]), Result.UNEXPECTED),
        (Film(PENDING), None),
        (Film([OLD]), None),
        (Film([an_observed_pod("web-9", node="cool", phase="Failed")]), None),
        (Film(DOWN, READY), None),  # whatever follows: the wave is verified first
    ],
)
def test_within_a_wave_only_a_replacement_on_a_node_is_placed(film: Film, result: Result | None) -> None:
    time = FakeTime(NOW)
    poller = LandingPoller({"uid-web-1"}, film, only_hot, a_clock(time))
    poller.evicted.append(a_granted(a_move()))
    placed = poller.until_placed(lambda: False)
    assert (placed.outcome.result if placed else None) is result
    assert [item.node for item in poller.landed] == ([placed.outcome.node] if placed else [])
    assert time.now - NOW <= MAX_SECONDS_TO_PLACE
