"""A leader is killed while it evicts: what the standby takes over, and how long that takes.

``python -m tests.integration.serving.handovers 50`` kills at so many moments and prints what it saw; with a
second number it begins at that moment.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rebalancer.cluster import times
from tests.integration.serving.replicas import EVERY_SECOND, Cluster, Replica, a_hot_cluster
from tests.waiting import eventually

LEASE_SECONDS = 12.0
EVENTS = ('"event":"evicting"', '"event":"evicted"', '"event":"outcome"', '"event":"wave-finished"')


@dataclass(frozen=True)
class Moment:
    """When the leader is killed: so long after it has recorded an event for the n-th time."""

    event: str
    times: int
    seconds: float = 0.0


@dataclass(frozen=True)
class Handover:
    """What became of one kill."""

    moment: Moment
    seconds: float  # from the last renewal by the killed leader to the standby's lease, as the Lease says
    by_the_first: frozenset[str]  # workloads that the killed leader evicted, or may have
    by_the_second: frozenset[str]  # workloads that the standby evicted
    gone: frozenset[str]
    known: frozenset[str]  # to the state, at the end

    @property
    def lost(self) -> frozenset[str]:
        """Evicted pods that no state knows of."""
        return self.gone - self.known

    @property
    def doubled(self) -> frozenset[str]:
        """Workloads that both evicted, although those moved by the first were to rest."""
        return self.by_the_first & self.by_the_second


def moments(count: int, first: int = 0) -> Sequence[Moment]:
    """So many moments all over a run of four evictions; always the same from ``first`` on."""
    return [
        Moment(EVENTS[number % 4], 1 + number // 4 % 3, 0.0 if number < 12 else number % 7 / 20)
        for number in range(first, first + count)
    ]


def hand_over(folder: Path, moment: Moment) -> Handover:
    """Kill a leader at a moment, with a standby at hand, and let that one finish its first two runs."""
    with a_hot_cluster(folder) as cluster:
        cluster.policy.write_text(EVERY_SECOND + "safety: {pause: true}\n")  # until both are there
        leader = cluster.start("--act", lease_seconds=LEASE_SECONDS)
        leader.waits_for("leads: took lease")
        standby = cluster.start("--act", lease_seconds=LEASE_SECONDS)
        standby.waits_for("stands by: ")
        recorded = sum(moment.event in line for line in list(leader.log))
        cluster.policy.write_text(EVERY_SECOND)
        leader.waits_for(moment.event, recorded + moment.times)
        time.sleep(moment.seconds)
        leader.process.kill()
        leader.ended()
        known, renewed = _workloads(cluster), _moment_in_lease(cluster, "renewTime")
        standby.waits_for("leads: took lease")
        took = _moment_in_lease(cluster, "acquireTime") - renewed
        standby.waits_for("run-finished", times=2)
        eventually(lambda: cluster.gone <= set(cluster.known), awaited="the state knows of every eviction")
        return Handover(
            moment,
            took,
            known,
            _evicted_by(standby),
            cluster.gone,
            frozenset(cluster.known),
        )


def _moment_in_lease(cluster: Cluster, name: str) -> float:
    lease = cluster.sandbox.store.get("leases", "rebalancer", "rebalancer")
    assert lease is not None
    return times.parse(lease["spec"][name])


def _workloads(cluster: Cluster) -> frozenset[str]:
    kept = cluster.sandbox.store.get("configmaps", "rebalancer", "state")
    moves = json.loads(kept["data"]["state.json"])["moves"] if kept else []
    return frozenset(move["workload"] for move in moves)


def _evicted_by(replica: Replica) -> frozenset[str]:
    lines = [json.loads(line) for line in list(replica.log) if line.startswith("{")]
    return frozenset(line["workload"] for line in lines if line["event"] == "evicting")


def main(count: int, first: int = 0) -> None:
    """Print every handover, and what they came to."""
    found = []
    for moment in moments(count, first):
        with tempfile.TemporaryDirectory() as folder:
            done = hand_over(Path(folder), moment)
        found.append(done)
        sys.stdout.write(
            f"{moment.event[9:-1]:14} x{moment.times} +{moment.seconds:.2f} s: {done.seconds:5.1f} s, "
            f"{len(done.by_the_first)} before and {len(done.by_the_second)} after, "
            f"lost {sorted(done.lost)}, doubled {sorted(done.doubled)}\n"
        )
        sys.stdout.flush()
    seconds = sorted(item.seconds for item in found)
    lost, doubled = sum(bool(item.lost) for item in found), sum(bool(item.doubled) for item in found)
    sys.stdout.write(
        f"{count} leaders killed, lease of {LEASE_SECONDS:.0f} s: {lost} with a lost eviction, "
        f"{doubled} with a doubled one; handover {seconds[0]:.1f} to {seconds[-1]:.1f} s, "
        f"median {statistics.median(seconds):.1f} s\n"
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
