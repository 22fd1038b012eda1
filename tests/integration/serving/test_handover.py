"""Two replicas: whenever the leader dies, the other goes on where it stopped, and never evicts anew."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from rebalancer.errors import ExitCode
from tests.conftest import SUMMARY, some_of
from tests.e2e.test_manifests import RecordProperty
from tests.integration.serving.handovers import EVENTS, LEASE_SECONDS, Moment, hand_over
from tests.integration.serving.replicas import a_hot_cluster

pytestmark = pytest.mark.safety


@pytest.mark.many_cases
@pytest.mark.parametrize("event", some_of(EVENTS), ids=lambda text: text.split('"')[3])
def test_a_killed_leader_leaves_no_eviction_lost_or_doubled(
    tmp_path: Path, record_property: RecordProperty, event: str
) -> None:
    found = hand_over(tmp_path, Moment(event, 2))

    assert found.lost == set()
    assert found.doubled == set()
    assert found.gone
    assert found.seconds >= LEASE_SECONDS  # never before the killed one's lease has run out
    record_property(
        SUMMARY, f"handover after the last renewal: {found.seconds:.1f} s, lease of {LEASE_SECONDS:.0f} s"
    )


def test_a_leader_that_is_asked_to_stop_finishes_its_eviction_and_hands_over_at_once(tmp_path: Path) -> None:
    with a_hot_cluster(tmp_path) as cluster:
        leader = cluster.start("--act")
        leader.waits_for("leads: took lease")
        standby = cluster.start("--act")
        leader.waits_for(EVENTS[0])
        assert leader.ends_after(signal.SIGTERM) == ExitCode.DONE
        begun, ended = (
            {line.split('"uid":"')[1].split('"')[0] for line in leader.log if f'"event":"{event}"' in line}
            for event in ("evicting", "outcome")
        )
        assert begun <= ended  # what was begun has an outcome, in the journal and in the state
        assert cluster.gone <= set(cluster.known)
        assert not leader.says("Traceback")
        standby.waits_for("leads: took lease")  # long before a lease of a minute would run out
