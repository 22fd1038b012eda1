"""A run that is killed at any moment leaves a cluster that the next run understands."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from rebalancer.errors import ExitCode
from rebalancer.execution.journal import in_flight, read_journal
from tests.conftest import SUMMARY
from tests.e2e.hot_cluster import HotCluster, Round, untruths
from tests.e2e.moments import PLACES, SEED, Tally, course_of, disturbed, moments

pytestmark = pytest.mark.safety

KILLS = 50


def test_after_a_kill_at_any_moment_the_next_run_takes_over_and_nothing_is_evicted_twice(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    record_property("seed", SEED)
    tally = Tally("run, SIGKILL")
    with HotCluster.started(tmp_path) as cluster:
        whole_run = course_of(cluster, "run")
        for moment in moments(signal.SIGKILL, KILLS, whole_run, PLACES):
            if found := disturbed(cluster, moment):
                tally.seconds.append(found[1])
                take_over(cluster, found[0], tally)
        uids = [eviction.uid for eviction in cluster.audit.evictions() if eviction.accepted]
    assert len(uids) == len(set(uids))
    # Moments that nothing came of would show nothing.
    assert tally.counts["in flight and evicted"] >= 5
    assert tally.counts["in flight and not evicted"] >= 3
    assert tally.counts["came early and were refused"] >= 1
    assert tally.counts["pods evicted before"] >= KILLS // 2
    assert tally.counts["by the next run"] >= KILLS // 2
    record_property(
        SUMMARY,
        tally.line(
            (
                "pods evicted before",
                "by the next run",
                "in flight and evicted",
                "in flight and not evicted",
                "leases held",
                "came early and were refused",
            )
        ),
    )


def take_over(cluster: HotCluster, crashed: Round, tally: Tally) -> None:
    """The next run after one that was killed, and what the witnesses say of both."""
    counts = tally.counts
    asked = cluster.evictions()
    before = {eviction.uid for eviction in asked if eviction.accepted}
    lines = read_journal(crashed.journal) if crashed.journal.exists() else ()
    assert untruths(lines, asked) == []
    flying = {line["uid"] for line in in_flight(lines)}
    assert len(flying) <= 1  # evictions go one by one
    assert before <= set(crashed.state())  # the next run knows every pod that was evicted

    if cluster.lease_holder():
        counts["leases held"] += 1
        if counts["leases held"] % 5 == 1:
            early = crashed.run_directly()
            counts["came early and were refused"] += early.exit_code == ExitCode.LEASE_HELD
            assert early.exit_code == ExitCode.LEASE_HELD or not early.document["outcomes"], early.stderr
            assert len(cluster.evictions()) == len(asked)
        cluster.expire_lease()
    finished = crashed.run_directly()
    assert finished.exit_code == ExitCode.DONE, finished.stderr
    assert not (finished.document["outcomes"] and cluster.lease_holder())
    cluster.wait_until_whole()

    run = finished.document["run"]
    told = [line for line in finished.journal if line["run"] == run]
    cluster.wait_until_audited(len(asked) + sum(line.get("attempts", 0) for line in told))
    everything = cluster.evictions()
    taken_over = everything[len(asked) :]
    after = {eviction.uid for eviction in taken_over if eviction.accepted}
    assert untruths(told, taken_over) == []
    # What was moved is left alone by the next run, whether the run that moved it lived to see it or not.
    assert not crashed.workloads(before) & crashed.workloads(after)
    assert before | after <= set(crashed.state())
    assert set(crashed.before) - cluster.uids() == before | after

    counts["pods evicted before"] += len(before)
    counts["by the next run"] += len(after)
    counts["in flight and evicted"] += len(flying & before)
    counts["in flight and not evicted"] += len(flying - before)
