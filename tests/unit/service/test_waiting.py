"""A run begins early when a node has turned hot, never too often, and never for what is not known."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rebalancer.deadlines import Deadline, StopRequest
from rebalancer.errors import SafetyError, StopRequestedError, UnreachableError
from rebalancer.planning.prepared import Sight
from rebalancer.policy.hotness import HotNodes
from rebalancer.service import waiting as standing_by
from rebalancer.service.waiting import MAX_SHARE, EarlyRuns, WarmCluster
from tests.waiting import NEVER_SECONDS, eventually, happened, no_hang

SETTINGS = HotNodes(run_interval=900, check_interval=60, min_run_interval=300)


@dataclass
class Cluster:
    """Hot nodes by the clock, and what looks at them cost and came to."""

    hot: frozenset[str] = frozenset()
    usable: frozenset[str] = frozenset()
    error: Exception | None = None
    told: str = ""  # at the end of what an error says, with the time of the look
    takes: float = 0.0
    now: float = 0.0
    looks: list[float] = field(default_factory=list)

    def sight(self, seconds: float) -> Sight:
        assert seconds > 0
        self.looks.append(self.now)
        self.now += self.takes
        if self.error is not None:
            raise type(self.error)(f"{self.error}{self.told.format(age=self.now)}")
        return Sight(self.hot, self.usable)

    def early_runs(self, *hot: str) -> EarlyRuns:
        found = EarlyRuns(self.sight, lambda: self.now)
        found.planned(frozenset(hot))
        return found


def waited(cluster: Cluster, early: EarlyRuns, settings: HotNodes = SETTINGS) -> float | None:
    """The moment at which the run after the one at 0 s begins early; None when it begins when it is due."""
    due = settings.run_interval
    while cluster.now < due:
        if early.begins(0.0, due, settings):
            return cluster.now
        cluster.now += 2.0
    return None


def test_a_node_that_turned_hot_begins_a_run_as_soon_as_one_may_begin() -> None:
    cluster = Cluster(frozenset({"n1", "n2"}))

    assert waited(cluster, cluster.early_runs("n1")) == 300.0


def test_nodes_that_were_hot_at_the_last_run_begin_none() -> None:
    cluster = Cluster(frozenset({"n1"}))

    assert waited(cluster, cluster.early_runs("n1", "n2")) is None
    assert cluster.looks == [300.0 + 60.0 * number for number in range(10)]


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        (["a"], ["a", "b"], "b can be used now"),
        (["a", "b"], ["a"], "b cannot be used any more"),
        (["a", "b"], ["a", "c"], "c can be used now; b cannot be used any more"),
    ],
)
def test_a_node_that_came_or_went_since_the_look_before_begins_a_run_and_the_log_says_which(
    before: list[str], now: list[str], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = Cluster(usable=frozenset(before))
    early = cluster.early_runs()
    cluster.now = 300.0
    with caplog.at_level("INFO"):
        assert not early.begins(0.0, 900.0, SETTINGS)
        cluster.usable, cluster.now = frozenset(now), 400.0
        assert early.begins(0.0, 900.0, SETTINGS)
    assert caplog.messages == [f"a run begins 500 s early: {said}"]

    early.planned(frozenset())
    cluster.now = 800.0
    assert not early.begins(400.0, 1300.0, SETTINGS)


def test_a_policy_that_begins_or_ceases_to_mind_nodes_begins_no_run() -> None:
    cluster = Cluster()
    early = cluster.early_runs()
    for now, usable in ((300.0, {"a"}), (400.0, {"a"}), (500.0, set()), (600.0, {"a"})):
        cluster.usable, cluster.now = frozenset(usable), now
        assert not early.begins(0.0, 900.0, SETTINGS)


def test_a_node_that_cooled_since_the_last_run_turns_hot_again() -> None:
    cluster = Cluster()
    early = cluster.early_runs("n1")
    cluster.now = 300.0
    assert not early.begins(0.0, 900.0, SETTINGS)
    cluster.hot, cluster.now = frozenset({"n1"}), 400.0

    assert early.begins(0.0, 900.0, SETTINGS)


@pytest.mark.parametrize(
    "error", [SafetyError("only 1 of 6 nodes have a fresh load figure"), UnreachableError("no answer")]
)
def test_a_load_that_is_not_known_begins_no_run_and_is_said_once(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = Cluster(frozenset({"n1"}), error=error)

    assert waited(cluster, cluster.early_runs()) is None
    assert len(cluster.looks) == 10
    (message,) = caplog.messages
    assert message == f"whether a node turned hot is not known, the next run begins when it is due: {error}"


def test_a_load_that_grows_older_with_each_look_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster(
        error=SafetyError("figures"), told=" of n1: the newest was {age:.0f}s old at 12:00:{age:.0f}Z"
    )

    assert waited(cluster, cluster.early_runs()) is None
    assert len(cluster.looks) == 10
    assert len(caplog.messages) == 1
    assert "was 300s old" in caplog.messages[0]


def test_without_a_run_to_compare_with_the_first_look_is_what_later_ones_compare_with() -> None:
    cluster = Cluster(frozenset({"n1"}))
    early = EarlyRuns(cluster.sight, lambda: cluster.now)

    assert waited(cluster, early) is None
    cluster.now, cluster.hot = 1000.0, frozenset({"n1", "n2"})
    assert early.begins(0.0, 2000.0, SETTINGS)


@pytest.mark.parametrize("settings", [{"check_interval": 0.0}, {"min_run_interval": 900.0}])
def test_settings_may_keep_it_from_looking_at_all(settings: dict[str, float]) -> None:
    cluster = Cluster(frozenset({"n1"}))

    assert waited(cluster, cluster.early_runs(), SETTINGS.model_copy(update=settings)) is None
    assert cluster.looks == []


def test_a_request_to_stop_is_passed_on() -> None:
    cluster = Cluster(error=StopRequestedError("asked to stop"))
    early = cluster.early_runs()
    cluster.now = 300.0

    with pytest.raises(StopRequestedError):
        early.begins(0.0, 900.0, SETTINGS)


def test_a_slow_look_is_made_less_often() -> None:
    cluster = Cluster(takes=30.0)
    waited(cluster, cluster.early_runs())

    assert cluster.looks == [300.0, 630.0]  # 30 s, and ten times as long without


names = st.frozensets(st.sampled_from(["n1", "n2", "n3"]))


@example([(frozenset({"n1"}), 0.0, False)], 1e-5, 1.0)
@given(
    st.lists(st.tuples(names, st.floats(0.0, 20.0), st.booleans()), max_size=60),
    st.floats(0.0, 400.0),
    st.floats(1.0, 1000.0),
)
def test_however_nodes_flap_runs_are_apart_and_looks_are_few(
    course: list[tuple[frozenset[str], float, bool]], least: float, interval: float
) -> None:
    settings = HotNodes(run_interval=interval, check_interval=10.0, min_run_interval=least)
    cluster = Cluster()
    early = cluster.early_runs()
    began = 0.0
    ends: list[tuple[float, float]] = []
    for hot, takes, fails in course:
        cluster.hot, cluster.takes = hot, takes
        cluster.error = UnreachableError("no answer") if fails else None
        looked = len(cluster.looks)
        if cluster.now >= began + interval:
            began = cluster.now
            early.planned(hot)
        elif early.begins(began, began + interval, settings):
            assert cluster.now - began >= settings.min_run_interval - 1e-6  # in whole milliseconds
            assert not fails
            began = cluster.now
            early.planned(hot)
        if len(cluster.looks) > looked:
            ends.append((cluster.now, takes))
        cluster.now += 5.0
    for (ended, took), begun in zip(ends, cluster.looks[1:], strict=False):
        assert begun - ended >= max(10.0, took / MAX_SHARE) - 1e-6


# A standby keeps the cluster at hand, and lets go of it whatever the API server does.


class Readings:
    """Readings that last until they are let go, or are given up."""

    def __init__(self, error: Exception | None = None) -> None:
        self.begun = threading.Event()
        self.let_go = threading.Event()
        self.error = error
        self.count = 0
        self.given_up = 0

    def __call__(self, deadline: Deadline) -> None:
        self.count += 1
        self.begun.set()
        while not self.let_go.is_set():
            if deadline.pause(0.01):
                self.given_up += 1
                deadline.bound("read", lambda: None)  # raises as every request does
        if self.error is not None:
            raise self.error


def warm_cluster(readings: Readings, stop: StopRequest | None = None) -> WarmCluster:
    return WarmCluster(readings, stop or StopRequest(), NEVER_SECONDS)


def test_nothing_is_read_before_it_begins_and_once_it_ended() -> None:
    readings = Readings()
    warm = warm_cluster(readings)
    warm.end()

    assert readings.count == 0
    assert not warm.is_read


def test_the_cluster_is_read_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standing_by, "READ_AGAIN_SECONDS", 0.0)
    readings = Readings()
    readings.let_go.set()
    warm = warm_cluster(readings)
    warm.begin()
    warm.begin()
    eventually(lambda: readings.count >= 3, awaited="the cluster is read a third time")
    warm.end()

    assert warm.is_read
    assert warm.trouble == ""


def test_who_takes_over_finishes_what_is_being_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standing_by, "FINISHING_SECONDS", NEVER_SECONDS)
    readings = Readings()

    class LooksForStop(StopRequest):
        """Who finishes looks for a request to stop while it waits; the reading ends then."""

        def is_set(self) -> bool:
            readings.let_go.set()
            return super().is_set()

    warm = warm_cluster(readings, LooksForStop())
    warm.begin()
    happened(readings.begun, awaited="the reading begins")
    with no_hang("the reading is finished"):
        warm.finish()

    assert warm.is_read
    assert readings.given_up == 0


@pytest.mark.parametrize("asked_to_stop", [True, False])
def test_a_reading_that_does_not_end_is_given_up(
    asked_to_stop: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standing_by, "FINISHING_SECONDS", NEVER_SECONDS if asked_to_stop else 0.1)
    readings, stop = Readings(), StopRequest()
    warm = warm_cluster(readings, stop)
    warm.begin()
    happened(readings.begun, awaited="the reading begins")
    if asked_to_stop:
        stop.set()
    with no_hang("the reading is given up"):
        warm.finish()

    assert readings.given_up == 1
    assert not warm.is_read


@pytest.mark.parametrize("error", [UnreachableError("no answer"), RuntimeError("a defect")])
def test_what_went_wrong_is_said_and_does_not_end_the_standby(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    readings = Readings(error)
    readings.let_go.set()
    warm = warm_cluster(readings)
    warm.begin()
    eventually(lambda: warm.trouble, awaited="the standby says what went wrong")
    warm.end()

    assert str(error) in warm.trouble
    assert str(error) in caplog.messages[0]
    assert not warm.is_read


def test_a_program_that_was_asked_to_stop_waits_for_no_reading_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(standing_by, "FINISHING_SECONDS", 0.1)
    begun, never, stop = threading.Event(), threading.Event(), StopRequest()

    def hangs(_: Deadline) -> None:
        begun.set()
        never.wait(NEVER_SECONDS)

    warm = WarmCluster(hangs, stop, NEVER_SECONDS)
    warm.begin()
    happened(begun, awaited="the reading begins")
    stop.set()
    with no_hang("the end does not wait for the reading"):
        warm.end()
    never.set()
