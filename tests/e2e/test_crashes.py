"""A run that is killed at any moment leaves a cluster that the next run understands."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen

import pytest

from rebalancer.errors import ExitCode
from rebalancer.execution.journal import in_flight, read_journal
from tests.conftest import SUMMARY
from tests.e2e.faulty_proxy import Answer, FaultyProxy, Request
from tests.e2e.hot_cluster import HotCluster, untruths

pytestmark = pytest.mark.safety

KILLS = 50
SEED = 6
_MAX_RUN_SECONDS = 300.0


class Killer:
    """Kills a run at a moment drawn from a seed: some time after its start, or at one of its requests.

    A request finds the run dead before it is sent on, or its answer does; of those that evict, so that every
    kind of moment comes often, one in three is chosen among them.
    """

    def __init__(self, draw: random.Random, seconds: float, requests: int, evictions: int) -> None:
        self.where = draw.choice(("time", "request", "answer", "eviction", "eviction's answer"))
        self.after_seconds = draw.uniform(0.0, seconds)
        self._nth = draw.randrange(evictions) if "eviction" in self.where else draw.randrange(requests)
        self._met = 0
        self._lock = threading.Lock()
        self.process: Popen[str] | None = None
        self.killed = False

    def tap(self, request: Request, answer: Answer | None) -> bool:
        """As FaultyProxy asks: nothing passes to or from the dead."""
        with self._lock:
            counts = request.evicts or "eviction" not in self.where
            phase = answer is not None if "answer" in self.where else answer is None
            if self.where != "time" and counts and phase and not self.killed:
                self._met += 1
                if self._met > self._nth:
                    self.kill()
                    return False
        return True

    def kill(self) -> None:
        """End the run as a lost machine would."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
            self.killed = True


def test_after_a_kill_at_any_moment_the_next_run_takes_over_and_nothing_is_evicted_twice(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    record_property("seed", SEED)
    draw = random.Random(SEED)
    tally: Counter[str] = Counter()
    with HotCluster.started(tmp_path) as cluster:
        seconds, requests, evictions = whole_run(cluster)
        while tally["kills"] < KILLS:
            assert tally["rounds"] < 2 * KILLS, "most runs ended before they were killed"
            crash_and_take_over(cluster, Killer(draw, seconds, requests, evictions), tally)
        uids = [eviction.uid for eviction in cluster.audit.evictions() if eviction.accepted]
    assert len(uids) == len(set(uids))
    # Moments that nothing came of would show nothing.
    assert tally["in flight and evicted"] >= 5
    assert tally["in flight and not evicted"] >= 3
    assert tally["came early and was refused"] >= 1
    assert tally["evicted before the kill"] >= KILLS // 2
    assert tally["evicted by the next run"] >= KILLS // 2
    record_property(
        SUMMARY,
        f"crash: {tally['kills']} kills; {tally['evicted before the kill']} pods evicted before, "
        f"{tally['evicted by the next run']} by the next run, none twice; of {tally['in flight']} in flight "
        f"{tally['in flight and evicted']} had been evicted; the lease was held {tally['lease held']} times",
    )


def whole_run(cluster: HotCluster) -> tuple[float, int, int]:
    """How long an undisturbed run takes, how many requests it makes, and how many of those evict."""
    seen: list[Request] = []

    def tap(request: Request, answer: Answer | None) -> bool:
        if answer is None:
            seen.append(request)
        return True

    with FaultyProxy(cluster.control_plane.url, cluster.control_plane.certificate, tap=tap) as proxy:
        started = time.monotonic()
        finished = cluster.new_round(proxy.url).run()
        assert finished.exit_code == ExitCode.DONE, finished.stderr
        return time.monotonic() - started, len(seen), sum(request.evicts for request in seen)


def crash_and_take_over(cluster: HotCluster, killer: Killer, tally: Counter[str]) -> None:
    """One round: a run that is killed, the next one, and what the witnesses say of both."""
    api_server = cluster.control_plane
    with FaultyProxy(api_server.url, api_server.certificate, tap=killer.tap) as proxy:
        crashed = cluster.new_round(proxy.url)
        killer.process = crashed.start()
        if killer.where == "time":
            time.sleep(killer.after_seconds)  # the moment itself is what is drawn
            killer.kill()
        _, errors = killer.process.communicate(timeout=_MAX_RUN_SECONDS)
    tally["rounds"] += 1
    if not killer.killed:
        return  # it was done before its moment came
    assert "Traceback" not in errors
    cluster.wait_until_audited(proxy.evictions)
    asked = cluster.evictions()
    before = {eviction.uid for eviction in asked if eviction.accepted}
    lines = read_journal(crashed.journal) if crashed.journal.exists() else ()
    assert untruths(lines, asked) == []
    flying = {line["uid"] for line in in_flight(lines)}
    assert len(flying) <= 1  # evictions go one by one
    assert before <= set(crashed.state())  # the next run is told of every pod that was evicted

    if cluster.lease_holder():
        tally["lease held"] += 1
        if tally["lease held"] % 5 == 1:
            early = crashed.run_directly()
            tally["came early and was refused"] += early.exit_code == ExitCode.LEASE_HELD
            assert early.exit_code == ExitCode.LEASE_HELD or not early.document["outcomes"], early.stderr
            assert len(cluster.evictions()) == len(asked)
        cluster.expire_lease()
    finished = crashed.run_directly()
    assert finished.exit_code == ExitCode.DONE, finished.stderr
    assert not (finished.document["outcomes"] and cluster.lease_holder())
    cluster.wait_until_whole()

    everything = cluster.evictions()
    taken_over = everything[len(asked) :]
    after = {eviction.uid for eviction in taken_over if eviction.accepted}
    run = finished.document["run"]
    assert untruths([line for line in finished.journal if line["run"] == run], taken_over) == []
    # What was moved is left alone by the next run, whether the run that moved it lived to see it or not.
    assert not crashed.workloads(before) & crashed.workloads(after)
    assert before | after <= set(crashed.state())
    replaced = {uid for uid in crashed.before if uid not in cluster.uids()}
    assert replaced == before | after

    tally["kills"] += 1
    tally[killer.where] += 1
    tally["evicted before the kill"] += len(before)
    tally["evicted by the next run"] += len(after)
    tally["in flight"] += len(flying)
    tally["in flight and evicted"] += len(flying & before)
    tally["in flight and not evicted"] += len(flying - before)
