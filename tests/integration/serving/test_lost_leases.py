"""A leader whose lease is taken away by force stops at once, says so, and leads again once it may."""

from __future__ import annotations

from pathlib import Path

import pytest

from rebalancer.cluster import times
from rebalancer_demo import Misbehaviour
from tests.integration.serving.handovers import EVENTS
from tests.integration.serving.replicas import Cluster, a_hot_cluster
from tests.waiting import eventually, present

pytestmark = pytest.mark.safety

THIEF = "somebody-else"


def give_lease_to(cluster: Cluster, holder: str) -> None:
    """Write the lease over, as kubectl edit would."""
    lease = cluster.sandbox.store.get("leases", "rebalancer", "rebalancer")
    assert lease is not None
    spec = {**lease["spec"], "holderIdentity": holder, "renewTime": times.render_micro(present())}
    metadata = {key: value for key, value in lease["metadata"].items() if key != "resourceVersion"}
    cluster.sandbox.store.update("leases", {**lease, "metadata": metadata, "spec": spec})


def test_a_lease_taken_away_in_the_middle_of_a_wave_ends_the_evictions(tmp_path: Path) -> None:
    with a_hot_cluster(tmp_path) as cluster:
        cluster.sandbox.misbehave(Misbehaviour("drop"))  # the first wave waits for us
        replica = cluster.start("--act")
        replica.waits_for(EVENTS[1])
        give_lease_to(cluster, THIEF)
        cluster.sandbox.behave()
        replica.waits_for("the lease was lost: stands by")
        replica.waits_for(f"is held by '{THIEF}'")
        assert len(cluster.gone) == 1, "the wave after it evicts nothing"
        assert cluster.holder == THIEF
        assert cluster.gone <= set(cluster.known)
        metrics = replica.get("/metrics")[1]
        assert "rebalancer_leader 0.0" in metrics
        assert 'rebalancer_stops_total{stop="LeaseLost"} 1.0' in metrics
        assert "rebalancer_run_exit_code" not in metrics, "an alert would fire for as long as it stands by"

        give_lease_to(cluster, "")
        replica.waits_for("leads: took", times=2)
        eventually(lambda: cluster.hottest() < 80, awaited="the nodes cooled")
        assert cluster.gone <= set(cluster.known)
        assert not replica.says("Traceback")
